//! Log records for a learner that is behind the recent transactions in memory (DIFF from the on-disk log).
//!
//! The logs of a directory need not be one history: Apache keeps old logs beside a snapshot received from a leader, and
//! their records may never have been committed. So a range is served only if
//!
//! - it starts at or above the snapshot from which recovery found an unbroken chain;
//! - the learner's zxid is a position in that chain: a record, that snapshot, or the start of an epoch that has
//!   records;
//! - it has no gap, including the step to the transactions in memory;
//! - it is durable here, and small enough compared to a snapshot.
//!
//! All of this is checked before the first record is returned. Otherwise the learner receives a snapshot.

use crate::disk::Disk;
use crate::error::{IoContext, StoreError};
use crate::log_reader::{LogHeader, LogReader};
use crate::log_tail::{TailState, examine};
use crate::names::{self, LogFile, SnapshotFile};
use crate::recent_txns::LoggedRecord;
use crate::store::{Shared, Store};
use crate::valid_range::{MemberRange, ValidRange};
use ox_proto::txn::TxnHeader;
use ox_proto::{Reader, Zxid};
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

impl Store {
    /// The log records after `peer` and before `below`, the first record that the caller has in memory. `None` if the
    /// logs cannot provide them. `size_factor` is `snapshotSizeFactor`, the maximum size relative to the newest
    /// snapshot; a negative value disables log diffs. Takes no lock that other threads hold for long.
    pub fn log_diff(&self, peer: Zxid, below: Zxid, size_factor: f64) -> Result<Option<LogDiff>, StoreError> {
        // A learner at zxid zero needs a snapshot: it has none, or must not use it.
        if size_factor < 0.0 || peer <= Zxid::ZERO || below <= peer {
            return Ok(None);
        }
        match self.check(peer, below, size_factor) {
            // The log was purged meanwhile.
            Err(StoreError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(None),
            checked => checked,
        }
    }

    fn check(&self, peer: Zxid, below: Zxid, size_factor: f64) -> Result<Option<LogDiff>, StoreError> {
        let shared = &self.0;
        let Some(before) = shared.member_history() else { return Ok(None) };
        let listing = names::list(&*shared.disk, &shared.dirs)?;
        // If a purge removed files before they were listed, it has raised the floor by now.
        let is_listed = |history: &MemberRange| history.number == before.number && history.floor <= peer;
        let Some(history) = shared.member_history().filter(is_listed) else { return Ok(None) };
        let bytes_max = bytes_max(&*shared.disk, listing.snapshots.first(), size_factor)?;
        let start = listing.logs.iter().rposition(|log| log.first <= peer).unwrap_or(0);
        let logs = &listing.logs[start.min(listing.logs.len())..];
        let mut chain = Chain::new(shared, (history.floor, peer), logs);
        let (mut last, mut bytes) = (None, 0);
        while let Step::Record(zxid) = chain.step()? {
            if below <= zxid || history.synced < zxid {
                break;
            }
            if peer < zxid {
                if last <= Some(peer) && !is_shared(last, zxid, peer, history.floor) {
                    return Ok(None);
                }
                bytes += chain.record.len() as u64;
                if bytes_max < bytes {
                    return Ok(None);
                }
            }
            last = Some(zxid);
        }
        let is_whole = match last {
            Some(last) if peer < last => below.follows(last),
            last => is_shared(last, below, peer, history.floor),
        };
        if !is_whole || chain.is_broken {
            return Ok(None);
        }
        let number = history.number;
        let chain = Chain::new(shared, (history.floor, peer), logs);
        Ok(Some(LogDiff { chain, number, below, last: peer, is_first: true }))
    }
}

impl Shared {
    fn member_history(&self) -> Option<MemberRange> {
        if let ValidRange::Member(history) = *self.valid_range.lock() { Some(history) } else { None }
    }
}

/// Whether `peer` is a position between the records `before` and `next`.
fn is_shared(before: Option<Zxid>, next: Zxid, peer: Zxid, floor: Zxid) -> bool {
    let is_position = before == Some(peer) || (before.is_none() && peer == floor);
    let starts_epoch = peer.counter() == 0 && next.epoch() == peer.epoch();
    let follows = before.map_or_else(|| next.follows(floor), |before| next.follows(before));
    follows && (is_position || starts_epoch)
}

/// The maximum size of the records; unlimited without a snapshot to compare with.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a rough limit"
)]
fn bytes_max(disk: &dyn Disk, newest: Option<&SnapshotFile>, size_factor: f64) -> Result<u64, StoreError> {
    let Some(SnapshotFile { path, .. }) = newest else { return Ok(u64::MAX) };
    let file = disk.open(path, crate::disk::OpenMode::Read).context("open", path)?;
    let bytes = (file.len().context("stat", path)? as f64 * size_factor) as u64;
    // Compat: Apache treats a limit of 0 as none.
    Ok(if bytes == 0 { u64::MAX } else { bytes })
}

fn ends_cleanly(reader: &LogReader) -> Result<bool, StoreError> {
    Ok(examine(reader.file(), reader.path(), reader.offset(), Zxid(i64::MIN), 0)? == TailState::Clean)
}

/// The log records of a checked range, oldest first.
pub struct LogDiff {
    chain: Chain,
    /// Identifies the history that was checked.
    number: u64,
    below: Zxid,
    last: Zxid,
    is_first: bool,
}

impl LogDiff {
    fn next_record(&mut self) -> Result<Option<LoggedRecord>, StoreError> {
        let is_same =
            |valid_range: &ValidRange| matches!(valid_range, ValidRange::Member(now) if now.number == self.number);
        if !is_same(&self.chain.shared.valid_range.lock()) {
            return Err(StoreError::HistoryChanged(self.last));
        }
        loop {
            match self.chain.step()? {
                Step::Record(zxid) if zxid <= self.chain.peer => (),
                Step::Record(zxid) if zxid < self.below => {
                    if !self.is_first && !zxid.follows(self.last) {
                        return Err(StoreError::HistoryChanged(self.last));
                    }
                    (self.last, self.is_first) = (zxid, false);
                    return Ok(Some(LoggedRecord { zxid, record: self.chain.record.clone() }));
                }
                Step::Record(_) | Step::End if !self.chain.is_broken && self.below.follows(self.last) => {
                    return Ok(None);
                }
                Step::Record(_) | Step::End => return Err(StoreError::HistoryChanged(self.last)),
            }
        }
    }
}

impl Iterator for LogDiff {
    type Item = Result<LoggedRecord, StoreError>;

    /// After an error the range is invalid, and the caller must close the link.
    fn next(&mut self) -> Option<Self::Item> {
        self.next_record().transpose()
    }
}

/// The consecutive records of some logs above a floor.
struct Chain {
    shared: Arc<Shared>,
    floor: Zxid,
    /// The last zxid of the learner.
    peer: Zxid,
    logs: VecDeque<LogFile>,
    reader: Option<LogReader>,
    last: Option<Zxid>,
    /// The record of the current step.
    record: Vec<u8>,
    is_broken: bool,
}

enum Step {
    Record(Zxid),
    /// There are no more records, or the next one does not follow.
    End,
}

impl Chain {
    fn new(shared: &Arc<Shared>, (floor, peer): (Zxid, Zxid), logs: &[LogFile]) -> Self {
        let (shared, logs) = (Arc::clone(shared), logs.iter().cloned().collect());
        Self { shared, floor, peer, logs, reader: None, last: None, record: Vec::new(), is_broken: false }
    }

    fn step(&mut self) -> Result<Step, StoreError> {
        while !self.is_broken {
            let Some(reader) = &mut self.reader else {
                let Some(log) = self.logs.pop_front() else { break };
                let reader = LogReader::open(&*self.shared.disk, &log.path)?;
                let lacks = |before| self.last.unwrap_or(self.peer) < before;
                self.is_broken =
                    !matches!(reader.header(), LogHeader::Log { .. }) || reader.predecessor().is_some_and(lacks);
                self.reader = Some(reader);
                continue;
            };
            let Some(frame) = reader.next_frame()? else {
                // An unreadable part may contain records, and the first record of an epoch appears to follow any
                // record.
                self.is_broken = !self.logs.is_empty() && !ends_cleanly(reader)?;
                self.reader = None;
                continue;
            };
            let Ok(TxnHeader { zxid, .. }) = Reader::from_disk(frame.record).get() else {
                self.is_broken = true;
                break;
            };
            // A repeated record counts once.
            if zxid <= self.floor || self.last.is_some_and(|last| zxid <= last) {
                continue;
            }
            if self.last.is_some_and(|last| !zxid.follows(last)) {
                self.is_broken = true;
                break;
            }
            self.record.clear();
            self.record.extend_from_slice(frame.record);
            self.last = Some(zxid);
            return Ok(Step::Record(zxid));
        }
        Ok(Step::End)
    }
}
