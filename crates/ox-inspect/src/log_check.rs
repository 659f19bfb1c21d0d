//! Checking one log, record by record.
//!
//! A log is split into [`LogPiece`]s: runs of intact records, and faults between them. A check continues after damage,
//! to show its extent; the first fault determines what a start would do.

use ox_proto::Zxid;
use ox_proto::log_frame::{END_BYTE, HEAD_BYTES, OVERHEAD_BYTES};
use ox_proto::txn::Record;
use ox_store::disk::{Disk, read_full};
use ox_store::log_reader::{LogFrame, LogHeader, LogReader};
use ox_store::log_tail::{DamagedTail, TailState, TailVerdict, examine};
use ox_store::marker::Marker;
use ox_store::names::{Dirs, FileName, LogFile, parse_name};
use ox_store::start_preview::is_copied;
use ox_store::{Damage, IoContext, Lookback, StoreError, is_empty_log};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// The default of `maxBatchSize`: how many records may follow a torn one.
const BATCH_MAX: usize = 1000;
/// The maximum number of reported pieces. A file with more faults is not worth analysing further.
const PIECES_MAX: usize = 64;

/// The result of checking a log.
#[derive(Clone, Debug)]
pub struct LogCheck {
    pub path: PathBuf,
    pub length: u64,
    pub header: LogHeader,
    /// The zxid in the file name, if it is a log's name.
    pub named: Option<Zxid>,
    /// The pieces after the header, in order, without the zeros at the end.
    pub pieces: Vec<LogPiece>,
    /// The times of the first and last intact record, in ms since 1970.
    pub times_ms: Option<(i64, i64)>,
    /// The number of zero bytes at the end.
    pub padding: u64,
    /// The synced position, if `oxk.synced` names this log.
    pub synced: Option<u64>,
    /// The directory is a copy of a running server: the end of the log may be missing.
    pub is_copied: bool,
    /// The log was created but has no records.
    pub is_empty: bool,
    /// There are more faults than were analysed.
    pub is_incomplete: bool,
}

/// A part of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogPiece {
    /// A run of consecutive records.
    Records {
        bytes: Range<u64>,
        count: u64,
        zxids: (Zxid, Zxid),
    },
    Fault(LogFault),
}

/// A fault in a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogFault {
    /// Empty if nothing is damaged but records are missing.
    pub bytes: Range<u64>,
    /// The last intact zxid before the fault.
    pub after: Option<Zxid>,
    /// The next intact zxid after the fault.
    pub before: Option<Zxid>,
    pub kind: LogFaultKind,
}

/// The kind of a fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogFaultKind {
    /// Bytes that are not an intact record.
    Bytes {
        /// As a start reports it.
        damage: Damage,
        /// What a start does if this is the newest log.
        verdict: TailVerdict,
        /// Apache treats this offset as the end of the log, and ignores what follows.
        ends_for_apache: bool,
        /// The end and the zxid of the record, if it is complete except for its checksum.
        loose: Option<(u64, Zxid)>,
    },
    /// A record with a valid checksum that cannot be used.
    Record(Damage),
    Gap,
}

/// The overall state of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogVerdict {
    Clean,
    /// No records; a start removes the log if it is the newest.
    Empty,
    /// The end was never acknowledged; a start truncates it if the log is the newest.
    Torn,
    /// The end was most likely never acknowledged; a standalone server truncates it, an ensemble member does not use
    /// the log.
    InDoubt,
    /// No server starts with the log, unless a snapshot covers the damage.
    Damaged,
}

impl LogVerdict {
    /// The name of the state in the tool's output.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Clean => "clean",
            Self::Empty => "empty",
            Self::Torn => "torn",
            Self::InDoubt => "in-doubt",
            Self::Damaged => "damaged",
        }
    }

    pub fn is_good(self) -> bool {
        matches!(self, Self::Clean | Self::Empty)
    }
}

impl LogCheck {
    pub fn faults(&self) -> impl Iterator<Item = &LogFault> {
        self.pieces.iter().filter_map(|piece| match piece {
            LogPiece::Fault(fault) => Some(fault),
            LogPiece::Records { .. } => None,
        })
    }

    /// The number of intact records.
    pub fn records(&self) -> u64 {
        let counts = self.pieces.iter().map(|piece| match piece {
            LogPiece::Records { count, .. } => *count,
            LogPiece::Fault(_) => 0,
        });
        counts.sum()
    }

    /// The first and last intact zxid.
    pub fn zxids(&self) -> Option<(Zxid, Zxid)> {
        let mut runs = self.pieces.iter().filter_map(|piece| match piece {
            LogPiece::Records { zxids, .. } => Some(*zxids),
            LogPiece::Fault(_) => None,
        });
        let first = runs.next()?;
        Some((first.0, runs.next_back().unwrap_or(first).1))
    }

    /// What a start would do with the log if it is the newest.
    pub fn verdict(&self) -> LogVerdict {
        if self.is_empty {
            return LogVerdict::Empty;
        }
        match (self.header, self.faults().next().map(|fault| &fault.kind)) {
            (LogHeader::Missing | LogHeader::BadMagic(_), _) => LogVerdict::Damaged,
            (LogHeader::Log { .. }, None) => LogVerdict::Clean,
            (LogHeader::Log { .. }, Some(LogFaultKind::Bytes { verdict: TailVerdict::Torn, .. })) => LogVerdict::Torn,
            (LogHeader::Log { .. }, Some(LogFaultKind::Bytes { verdict: TailVerdict::InDoubt, .. })) => {
                LogVerdict::InDoubt
            }
            (LogHeader::Log { .. }, Some(_)) => LogVerdict::Damaged,
        }
    }
}

/// Checks every record of a log, with the snapshots in the same directory.
pub fn check_log(disk: &dyn Disk, path: &Path) -> Result<LogCheck, StoreError> {
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    check_log_of(disk, path, &Dirs { snapshots: dir.to_owned(), logs: dir.to_owned() })
}

/// Checks every record of a log of these directories.
pub fn check_log_of(disk: &dyn Disk, path: &Path, dirs: &Dirs) -> Result<LogCheck, StoreError> {
    let mut reader = LogReader::open(disk, path)?;
    let named = match path.file_name().and_then(|name| name.to_str()).map(parse_name) {
        Some(FileName::Log(first)) => Some(first),
        _ => None,
    };
    let log = LogFile { first: named.unwrap_or(Zxid::ZERO), path: path.to_owned() };
    // The marker in a copy of a running server proves nothing. A start decides in the same way.
    let is_copied = is_copied(disk, dirs)?;
    let found = Marker::load(disk, &dirs.logs)?.filter(|_| !is_copied);
    let marker = found.map(|found| found.marker).filter(|marker| Some(marker.log) == named);
    let lookback = Lookback::new(disk, std::slice::from_ref(&log));
    let mut scan = Scan { last: None, run: None, pieces: Vec::new(), times_ms: None, lookback };
    let (mut synced, mut padding, mut is_incomplete) = (None, 0, false);
    loop {
        while !scan.has_enough()
            && let Some(frame) = reader.next_frame()?
        {
            if let Some(marker) = marker.filter(|marker| scan.is_new() && marker.identity == frame.checksum) {
                synced = Some(marker.position);
            }
            scan.record(&frame)?;
        }
        if scan.has_enough() {
            is_incomplete = true;
            break;
        }
        let offset = reader.offset();
        let seen = scan.last.unwrap_or(Zxid(named.map_or(i64::MIN, |first| first.0.saturating_sub(1))));
        match examine(reader.file(), path, offset, seen, BATCH_MAX)? {
            TailState::Clean => {
                padding = reader.length().saturating_sub(offset);
                break;
            }
            TailState::Damaged(damaged) => {
                let loose = loose_record(&reader, &damaged, scan.last)?;
                padding = reader.length().saturating_sub(damaged.used_end);
                scan.damage(&damaged, synced, loose);
                let Some((next, _)) = damaged.next else { break };
                reader.seek(next);
            }
        }
    }
    scan.end_run();
    let (pieces, times_ms) = (scan.pieces, scan.times_ms);
    let (header, length, path) = (reader.header(), reader.length(), path.to_owned());
    let is_empty = is_empty_log(disk, &log)?;
    Ok(LogCheck { path, length, header, named, pieces, times_ms, padding, synced, is_copied, is_empty, is_incomplete })
}

struct Scan<'a> {
    last: Option<Zxid>,
    /// The current run of intact records.
    run: Option<(Range<u64>, u64, (Zxid, Zxid))>,
    pieces: Vec<LogPiece>,
    times_ms: Option<(i64, i64)>,
    lookback: Lookback<'a>,
}

impl Scan<'_> {
    fn has_enough(&self) -> bool {
        PIECES_MAX <= self.pieces.len()
    }

    fn is_new(&self) -> bool {
        self.run.is_none() && self.pieces.is_empty()
    }

    fn record(&mut self, frame: &LogFrame<'_>) -> Result<(), StoreError> {
        let bytes = frame.offset..frame.offset + (frame.record.len() + OVERHEAD_BYTES) as u64;
        let record = match Record::decode(frame.record) {
            Ok(record) => record,
            Err(error) => {
                self.fault(bytes, LogFaultKind::Record(Damage::BadRecord(error)));
                return Ok(());
            }
        };
        let zxid = record.header.zxid;
        // After damage it is unknown what is missing; the fault names the zxids on both sides.
        let after = self.last.filter(|_| self.run.is_some());
        match (self.last, after) {
            (Some(last), _) if zxid <= last => {
                if !self.lookback.is_harmless(&record, frame.record)? {
                    self.fault(bytes, LogFaultKind::Record(Damage::Repeated(zxid)));
                    return Ok(());
                }
                self.extend(bytes, last);
            }
            (_, Some(last)) if !zxid.follows(last) => {
                let place = bytes.start..bytes.start;
                self.fault(place, LogFaultKind::Gap);
                self.extend(bytes, zxid);
            }
            _ => self.extend(bytes, zxid),
        }
        let time_ms = record.header.time_ms;
        self.times_ms = Some((self.times_ms.map_or(time_ms, |(first, _)| first), time_ms));
        Ok(())
    }

    /// Adds an intact record; `zxid` is the position of the history after it.
    fn extend(&mut self, bytes: Range<u64>, zxid: Zxid) {
        self.last = Some(zxid);
        match &mut self.run {
            Some((run, count, (_, last))) => (run.end, *count, *last) = (bytes.end, *count + 1, zxid),
            None => {
                if let Some(LogPiece::Fault(fault)) = self.pieces.last_mut() {
                    fault.before = Some(zxid);
                }
                self.run = Some((bytes, 1, (zxid, zxid)));
            }
        }
    }

    fn damage(&mut self, damaged: &DamagedTail, synced: Option<u64>, loose: Option<(u64, Zxid)>) {
        let end = damaged.next.map_or(damaged.used_end, |(next, _)| next);
        let (damage, verdict) = (damaged.damage(synced), damaged.verdict(synced, BATCH_MAX));
        let ends_for_apache = damaged.ends_for_apache;
        self.fault(damaged.offset..end, LogFaultKind::Bytes { damage, verdict, ends_for_apache, loose });
    }

    fn fault(&mut self, bytes: Range<u64>, kind: LogFaultKind) {
        self.end_run();
        self.pieces.push(LogPiece::Fault(LogFault { bytes, after: self.last, before: None, kind }));
    }

    fn end_run(&mut self) {
        if let Some((bytes, count, zxids)) = self.run.take() {
            self.pieces.push(LogPiece::Records { bytes, count, zxids });
        }
    }
}

/// The record in a damaged part, if only its checksum is wrong: complete, decodable, and newer than its predecessor.
fn loose_record(
    reader: &LogReader,
    damaged: &DamagedTail,
    last: Option<Zxid>,
) -> Result<Option<(u64, Zxid)>, StoreError> {
    let (file, path, offset) = (reader.file(), reader.path(), damaged.offset);
    let mut head = [0; HEAD_BYTES];
    read_full(file, &mut head, offset).context("read", path)?;
    let size = head.last_chunk().map_or(0, |word| i32::from_be_bytes(*word));
    let Some(size) = usize::try_from(size).ok().filter(|size| 0 < *size) else { return Ok(None) };
    let end = offset + (size + OVERHEAD_BYTES) as u64;
    let limit = damaged.next.map_or(damaged.used_end, |(next, _)| next);
    if limit < end {
        return Ok(None);
    }
    let mut record = vec![0; size + 1];
    read_full(file, &mut record, offset + HEAD_BYTES as u64).context("read", path)?;
    if record.pop() != Some(END_BYTE) {
        return Ok(None);
    }
    let zxid = Record::decode(&record).ok().map(|record| record.header.zxid);
    Ok(zxid.filter(|zxid| last.is_none_or(|last| zxid.follows(last))).map(|zxid| (end, zxid)))
}
