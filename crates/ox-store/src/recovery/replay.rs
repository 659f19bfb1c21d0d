//! Replaying logs over a snapshot, without gaps.
//!
//! The logs of a directory are one chain: each continues the previous one. Replay starts in the newest log whose name
//! is at most the snapshot's successor, skips records that the snapshot covers, and applies the rest, each of which
//! must follow its predecessor. Damage is treated by its location:
//!
//! | location | treatment |
//! |---|---|
//! | in records that the snapshot covers | skipped |
//! | in an earlier log, and the next one continues with the missing zxid | harmless: the previous run ended here |
//! | in an earlier log, torn, and the next one starts an epoch | the same, unless a digest differs |
//! | in an earlier log otherwise | refused |
//! | a log is missing, and the next one starts an epoch | refused if the next one names its predecessor |
//! | in the last log | torn: truncated; in doubt: truncated, or refused by a member; corrupt: refused ([`crate::log_tail`]) |
//!
//! With `oxkeeper.recovery.allowGaps` a standalone server skips what is damaged or missing and keeps all intact records
//! after it. A member gives up everything after the damage: with a gap before its last zxid it could lead, and members
//! with complete data would follow it.
//!
//! For a truncation, replay stops at a limit; records after it are only checked to be one chain.

use super::digests::Digests;
use super::{Files, Rules, TornTail};
use crate::disk::Disk;
use crate::error::{Damage, StoreError};
use crate::limits::LOOKBACK_STARTS_MAX;
use crate::log_reader::{LOG_HEADER_BYTES, LOG_VERSION, LogHeader, LogReader};
use crate::log_tail::{DamagedTail, TailState, TailVerdict, examine};
use crate::marker::Marker;
use crate::names::LogFile;
use crate::recent_txns::RecentTxns;
use ox_proto::txn::{DIGEST_VERSION, Record, Txn, TxnDigest, TxnHeader};
use ox_proto::{Reader, Zxid};
use ox_tree::State;
use std::path::PathBuf;

/// The base of a replay.
pub(crate) struct Base {
    /// Everything up to here is contained.
    pub(crate) last: Zxid,
    /// Parts of everything up to here may be contained.
    pub(crate) reach: Zxid,
    /// The snapshot contains `reach`; otherwise it was derived from its nodes.
    pub(crate) reach_is_recorded: bool,
    pub(crate) digest: Option<(Zxid, TxnDigest)>,
    /// The built-in tree: the first record must prove that it continues it.
    pub(crate) is_nothing: bool,
    /// Newer snapshots, which replay may pass.
    pub(crate) newer: Vec<Zxid>,
}

/// A torn log and its tail.
#[derive(Clone, Debug)]
pub(crate) struct TornLog {
    pub(crate) log: LogFile,
    /// The end of the last intact record.
    pub(crate) offset: u64,
    /// The end of the bytes to be truncated, without zeros.
    pub(crate) used_end: u64,
    /// The last intact record.
    pub(crate) after: Zxid,
    /// The last intact record of the tail.
    pub(crate) last_dropped: Option<Zxid>,
    pub(crate) verdict: TailVerdict,
}

/// The first record above the limit.
#[derive(Clone, Debug)]
pub(crate) struct AboveLimit {
    pub(crate) log: LogFile,
    /// The offset of the record.
    pub(crate) offset: u64,
    /// The stored checksum of the log's first record.
    pub(crate) identity: i64,
    /// The last record above the limit.
    pub(crate) last: Zxid,
}

/// The newest log with records.
#[derive(Clone, Debug)]
pub(crate) struct LastLog {
    pub(crate) log: LogFile,
    /// The end of its last record.
    pub(crate) end: u64,
    /// The stored checksum of its first record.
    pub(crate) identity: i64,
    /// The synced position, if the marker names this log.
    pub(crate) synced: Option<u64>,
}

/// The result of a replay.
#[derive(Default)]
pub(crate) struct Replay {
    /// The last zxid of the state.
    pub(crate) last: Zxid,
    pub(crate) reach: Zxid,
    /// The last record that the base covers. Skipped logs count as read.
    pub(crate) covered_to: Zxid,
    /// The number of applied records.
    pub(crate) records: u64,
    /// The logs with applied records.
    pub(crate) used: Vec<PathBuf>,
    /// The newest applied records.
    pub(crate) recent_txns: RecentTxns,
    /// Newer snapshots that belong to this history: their zxid is that of a record, or the digest of the first record
    /// after them matches.
    pub(crate) passed: Vec<Zxid>,
    /// The records above the limit.
    pub(crate) beyond: Option<AboveLimit>,
    pub(crate) torn: Option<TornLog>,
    pub(crate) last_log: Option<LastLog>,
    /// Logs with damage in covered records, which Apache would refuse.
    pub(crate) damaged_but_covered: Vec<LogFile>,
    /// Damaged logs whose intact records were applied because gaps are allowed.
    pub(crate) rescued: Vec<LogFile>,
    /// Transactions are missing, and gaps are allowed.
    pub(crate) has_gaps: bool,
    /// Another server has written the log that the marker names.
    pub(crate) marker_is_foreign: bool,
    pub(crate) conflicts: u64,
    pub(crate) digests: Digests,
    pub(crate) warnings: Vec<String>,
}

impl Replay {
    /// The last record that was read, applied or not.
    pub(crate) fn last_read(&self) -> Zxid {
        self.beyond.as_ref().map_or(self.last, |beyond| beyond.last)
    }
}

/// The logs of a directory, as one chain.
pub(crate) struct Chain<'a> {
    disk: &'a dyn Disk,
    marker: Option<Marker>,
    rules: Rules,
    /// Oldest first; the newest has records, or damage.
    pub(crate) logs: Vec<LogFile>,
    /// Newer logs without records.
    pub(crate) empty: Vec<LogFile>,
}

impl<'a> Chain<'a> {
    /// Separates the newest logs that were created but have no records.
    pub(crate) fn open(files: &Files<'a>, rules: Rules) -> Result<Self, StoreError> {
        let mut chain =
            Self { disk: files.disk, marker: files.marker, rules, logs: files.listing.logs.clone(), empty: Vec::new() };
        while let Some(log) = chain.logs.pop() {
            if !is_empty_log(chain.disk, &log)? {
                chain.logs.push(log);
                break;
            }
            chain.empty.push(log);
        }
        Ok(chain)
    }

    /// Applies all records after `base`.
    pub(crate) fn replay(&self, base: &Base, state: &mut State) -> Result<Replay, StoreError> {
        let next = Zxid(base.last.0.saturating_add(1));
        let start = self.logs.iter().rposition(|log| log.first <= next).unwrap_or(0);
        let digests = Digests::new(state, base.last, base.reach, base.digest);
        let recent_txns = RecentTxns::new(self.rules.member.map_or(0, |member| member.recent_max));
        let covered_to = self.logs.get(start).map_or(Zxid::ZERO, |log| Zxid(log.first.0.min(next.0) - 1));
        let found =
            Replay { last: base.last, reach: base.reach, covered_to, digests, recent_txns, ..Replay::default() };
        let mut run = ReplayRun {
            chain: self,
            base,
            state,
            found,
            seen: Zxid(i64::MIN),
            pending: None,
            predecessor: None,
            entered: None,
            lookback: Lookback::new(self.disk, &self.logs),
        };
        for (index, log) in self.logs.iter().enumerate().skip(start) {
            run.log(log, index + 1 == self.logs.len())?;
        }
        if let Some(pending) = run.pending
            && !self.rules.allow_gaps
        {
            return Err(pending.error);
        }
        Ok(run.found)
    }
}

/// Searches for earlier records, for the rare log that repeats some. Repeated series are in order, so the search
/// continues where it stopped; the number of restarts is limited.
pub struct Lookback<'a> {
    disk: &'a dyn Disk,
    logs: &'a [LogFile],
    index: usize,
    reader: Option<LogReader>,
    starts_left: u32,
}

impl<'a> Lookback<'a> {
    /// A search in `logs`, which are ordered oldest first.
    pub fn new(disk: &'a dyn Disk, logs: &'a [LogFile]) -> Self {
        Self { disk, logs, index: 0, reader: None, starts_left: LOOKBACK_STARTS_MAX }
    }

    /// Whether a repeated zxid is harmless: it belongs to a refused request, or to a record that was written twice.
    pub fn is_harmless(&mut self, record: &Record<'_>, bytes: &[u8]) -> Result<bool, StoreError> {
        // Compat: Apache logs a request that it cannot decode under the zxid of the previous one.
        Ok(matches!(record.txn, Txn::Error { .. }) || self.has(record.header.zxid, bytes)?)
    }

    /// Whether the first record of `zxid` in the logs has these bytes.
    fn has(&mut self, zxid: Zxid, bytes: &[u8]) -> Result<bool, StoreError> {
        while 0 < self.starts_left {
            if let Some(found) = self.continue_search(zxid, bytes)? {
                return Ok(found);
            }
            (self.index, self.reader) = (0, None);
            self.starts_left -= 1;
        }
        Ok(false)
    }

    /// Searches up to the end of the logs.
    fn continue_search(&mut self, zxid: Zxid, bytes: &[u8]) -> Result<Option<bool>, StoreError> {
        while let Some(log) = self.logs.get(self.index) {
            let mut reader = match self.reader.take() {
                Some(reader) => reader,
                None => LogReader::open(self.disk, &log.path)?,
            };
            while let Some(frame) = reader.next_frame()? {
                if Reader::from_disk(frame.record).get::<TxnHeader>().is_ok_and(|header| header.zxid == zxid) {
                    let found = frame.record == bytes;
                    self.reader = Some(reader);
                    return Ok(Some(found));
                }
            }
            self.index += 1;
        }
        Ok(None)
    }
}

/// Whether a log was created but has no records: there is no header, or only zeros follow it.
pub fn is_empty_log(disk: &dyn Disk, log: &LogFile) -> Result<bool, StoreError> {
    let mut reader = LogReader::open(disk, &log.path)?;
    match reader.header() {
        LogHeader::Log { .. } if reader.next_frame()?.is_some() => return Ok(false),
        LogHeader::BadMagic(_) => return Ok(false),
        LogHeader::Log { .. } | LogHeader::Missing => (),
    }
    let stop = examine(reader.file(), reader.path(), reader.offset(), Zxid(i64::MIN), 0)?;
    Ok(match (reader.header(), stop) {
        (_, TailState::Clean) => true,
        // Without a header, a torn first record counts as nothing; an intact one means that the header was lost.
        (LogHeader::Missing, TailState::Damaged(damaged)) => damaged.next.is_none(),
        _ => false,
    })
}

/// Damage at the end of a log that is not the last one.
struct Pending {
    error: StoreError,
    /// The damaged part was never acknowledged, so that an epoch may start after it.
    was_torn: bool,
}

/// A replay in progress.
struct ReplayRun<'a> {
    chain: &'a Chain<'a>,
    base: &'a Base,
    state: &'a mut State,
    found: Replay,
    /// The last record that was read, including covered ones.
    seen: Zxid,
    /// Damage at the end of a log, which is harmless if the next record continues the history.
    pending: Option<Pending>,
    /// The predecessor that the current log names.
    predecessor: Option<Zxid>,
    /// The records on both sides of an epoch change, until it is proven that nothing is missing between them.
    entered: Option<(Zxid, Zxid)>,
    lookback: Lookback<'a>,
}

impl ReplayRun<'_> {
    fn log(&mut self, log: &LogFile, is_last: bool) -> Result<(), StoreError> {
        let mut reader = LogReader::open(self.chain.disk, &log.path)?;
        let mut synced = self.chain.marker.filter(|marker| marker.log == log.first);
        match reader.header() {
            LogHeader::Log { version: LOG_VERSION, .. } => (),
            LogHeader::Log { version, .. } => {
                self.found.warnings.push(format!("{} has version {version}, read as 2", log.path.display()));
            }
            LogHeader::BadMagic(_) => return Err(self.corrupt(log, 0, Damage::BadMagic)),
            LogHeader::Missing => {
                let error = self.corrupt(log, 0, Damage::NoHeader);
                if is_last {
                    return Err(error);
                }
                self.pending = Some(Pending { error, was_torn: is_empty_log(self.chain.disk, log)? });
                return Ok(());
            }
        }
        self.seen = self.seen.max(Zxid(log.first.0 - 1));
        self.predecessor = reader.predecessor();
        let mut identity = 0;
        loop {
            while let Some(frame) = reader.next_frame()? {
                if frame.offset == LOG_HEADER_BYTES {
                    identity = frame.checksum;
                    let foreign = synced.take_if(|marker| marker.identity != identity);
                    self.found.marker_is_foreign |= foreign.is_some();
                }
                self.record(log, (frame.offset, identity), frame.record)?;
            }
            let offset = reader.offset();
            let position = synced.map(|marker| marker.position);
            let stop = examine(reader.file(), &log.path, offset, self.seen, self.chain.rules.batch_max)?;
            if is_last {
                self.found.last_log = Some(LastLog { log: log.clone(), end: offset, identity, synced: position });
            }
            let TailState::Damaged(damaged) = stop else { return Ok(()) };
            match self.covered(&damaged) {
                Some(resume) => {
                    if !self.found.damaged_but_covered.contains(log) {
                        self.found.damaged_but_covered.push(log.clone());
                    }
                    reader.seek(resume);
                }
                None => match self.rescue(log, &damaged, position) {
                    Some(resume) => reader.seek(resume),
                    None => return self.damage(log, &damaged, position, is_last),
                },
            }
        }
    }

    /// Where a standalone server continues after a damaged part if gaps are allowed. A torn tail is truncated as ever.
    fn rescue(&mut self, log: &LogFile, damaged: &DamagedTail, synced: Option<u64>) -> Option<u64> {
        let rules = self.chain.rules;
        let (resume, _) = damaged.next.filter(|_| rules.allow_gaps && rules.member.is_none())?;
        if damaged.verdict(synced, rules.batch_max) == TailVerdict::Torn {
            return None;
        }
        if self.found.rescued.last() != Some(log) {
            self.found.rescued.push(log.clone());
        }
        let error = self.corrupt(log, damaged.offset, damaged.damage(synced));
        self.pending = Some(Pending { error, was_torn: false });
        Some(resume)
    }

    /// Where to continue if the snapshot covers everything in the damaged part. The first record of an epoch appears to
    /// follow any record, so it does not prove that.
    fn covered(&self, damaged: &DamagedTail) -> Option<u64> {
        let (offset, zxid) = damaged.next?;
        (zxid <= self.base.last || zxid.0 == self.base.last.0 + 1).then_some(offset)
    }

    fn damage(
        &mut self,
        log: &LogFile,
        damaged: &DamagedTail,
        synced: Option<u64>,
        is_last: bool,
    ) -> Result<(), StoreError> {
        let rules = self.chain.rules;
        let error = self.corrupt(log, damaged.offset, damaged.damage(synced));
        let verdict = damaged.verdict(synced, rules.batch_max);
        let was_torn = match verdict {
            TailVerdict::Torn => true,
            TailVerdict::InDoubt => rules.member.is_none_or(|member| member.accept_doubt),
            TailVerdict::Corrupt => false,
        };
        if !is_last {
            self.pending = Some(Pending { error, was_torn });
            return Ok(());
        }
        if !was_torn || (rules.torn_tail == TornTail::Refuse && !damaged.ends_for_apache) {
            if !rules.allow_gaps {
                return Err(error);
            }
            self.found.warnings.push(format!("continuing because of oxkeeper.recovery.allowGaps: {error}"));
        }
        let (offset, used_end, last_dropped) = (damaged.offset, damaged.used_end, damaged.last_after);
        let after = self.found.last;
        self.found.torn = Some(TornLog { log: log.clone(), offset, used_end, after, last_dropped, verdict });
        Ok(())
    }

    fn corrupt(&self, log: &LogFile, offset: u64, damage: Damage) -> StoreError {
        StoreError::Corrupt { path: log.path.clone(), offset, after: self.found.last, damage }
    }

    fn record(&mut self, log: &LogFile, (offset, identity): (u64, i64), bytes: &[u8]) -> Result<(), StoreError> {
        let header = Reader::from_disk(bytes).get::<TxnHeader>();
        if let Ok(header) = &header
            && header.zxid <= self.base.last
        {
            self.seen = self.seen.max(header.zxid);
            self.found.covered_to = self.seen;
            return Ok(());
        }
        let record = Record::decode(bytes).map_err(|error| self.corrupt(log, offset, Damage::BadRecord(error)))?;
        let zxid = record.header.zxid;
        if self.chain.rules.limit().is_some_and(|limit| limit < zxid) {
            return self.beyond(log, (offset, identity), zxid);
        }
        if zxid <= self.found.last {
            return self.repeated(log, offset, &record, bytes);
        }
        self.check_order(log, zxid)?;
        let before = self.found.last;
        let outcome = self.state.replay(&record);
        let was_trusted = self.found.digests.are_trusted();
        let differs = self.found.digests.after(zxid, record.digest, outcome.digest_differs, self.state);
        if before.epoch() < zxid.epoch() {
            self.entered = Some((before, zxid));
        }
        self.check_epoch(log, was_trusted && differs, &record)?;
        let fits = record.digest.is_some_and(|digest| digest.version == DIGEST_VERSION) && !outcome.digest_differs;
        let starts_epoch = before.epoch() < zxid.epoch() && fits && self.state.options().digest_enabled;
        let passes = |newer: &&Zxid| **newer == zxid || (starts_epoch && **newer == Zxid::new(zxid.epoch(), 0));
        self.found.passed.extend(self.base.newer.iter().filter(passes));
        self.found.recent_txns.push(zxid, bytes);
        if outcome.conflict && self.base.reach_is_recorded && self.base.reach < zxid {
            self.found.conflicts += 1;
        }
        if self.found.used.last() != Some(&log.path) {
            self.found.used.push(log.path.clone());
        }
        self.found.records += 1;
        (self.found.last, self.seen) = (zxid, zxid);
        Ok(())
    }

    fn repeated(&mut self, log: &LogFile, offset: u64, record: &Record<'_>, bytes: &[u8]) -> Result<(), StoreError> {
        if self.lookback.is_harmless(record, bytes)? {
            return Ok(());
        }
        Err(self.corrupt(log, offset, Damage::Repeated(record.header.zxid)))
    }

    /// A record above the limit, which must follow its predecessor as well.
    fn beyond(&mut self, log: &LogFile, (offset, identity): (u64, i64), zxid: Zxid) -> Result<(), StoreError> {
        let last_read = self.found.last_read();
        if zxid <= last_read {
            return Ok(()); // a repeated record; it was checked at its first occurrence
        }
        self.check_order(log, zxid)?;
        match &mut self.found.beyond {
            Some(beyond) => beyond.last = zxid,
            none => *none = Some(AboveLimit { log: log.clone(), offset, identity, last: zxid }),
        }
        self.found.passed.extend(self.base.newer.iter().filter(|newer| **newer == zxid));
        self.seen = zxid;
        Ok(())
    }

    fn check_order(&mut self, log: &LogFile, zxid: Zxid) -> Result<(), StoreError> {
        let after = self.found.last_read();
        let (pending, predecessor) = (self.pending.take(), self.predecessor.take());
        let is_next = zxid.0 == after.0.wrapping_add(1);
        let may_begin_epoch =
            pending.as_ref().is_none_or(|pending| pending.was_torn) && predecessor.is_none_or(|before| before <= after);
        if is_next || (zxid.follows(after) && may_begin_epoch) {
            return Ok(());
        }
        let gap = StoreError::Gap { after, found: zxid, path: log.path.clone() };
        let error = pending.map_or(gap, |pending| pending.error);
        if self.chain.rules.allow_gaps {
            self.found.has_gaps = true;
            let lost = missing(after, zxid);
            let warning = format!("continuing because of oxkeeper.recovery.allowGaps: {error}; {lost} given up");
            self.found.warnings.push(warning);
            return Ok(());
        }
        Err(error)
    }

    /// Any number of records may be missing at the end of the old epoch; the first digest of the new one shows it.
    /// Refused requests have no digest.
    fn check_epoch(&mut self, log: &LogFile, differs: bool, record: &Record<'_>) -> Result<(), StoreError> {
        let Some((after, found)) = self.entered.filter(|_| !self.chain.rules.allow_gaps) else { return Ok(()) };
        if record.digest.is_some() {
            self.entered = None;
        }
        let starts = record.header.zxid == found;
        let is_first = starts && self.base.is_nothing && after == Zxid::ZERO && found != Zxid::new(1, 1);
        let proven = record.digest.is_some_and(|digest| digest.tree_digest == self.state.digest());
        if differs || (is_first && !proven) {
            return Err(StoreError::EpochGap { after, found, path: log.path.clone() });
        }
        Ok(())
    }
}

/// The transactions between two records, as the subject of "given up".
pub(super) fn missing(after: Zxid, found: Zxid) -> String {
    let (first, last) = (Zxid(after.0.saturating_add(1)), Zxid(found.0.saturating_sub(1)));
    if after.epoch() != found.epoch() {
        format!("any transactions between {after} and {found} are")
    } else if first == last {
        format!("transaction {first} is")
    } else {
        format!("transactions {first} to {last} are")
    }
}
