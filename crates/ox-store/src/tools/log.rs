//! One log, record by record.
//!
//! A log is cut into [`Piece`]s: runs of good records, and what is wrong between them. A check goes on behind damage, to
//! tell how much there is; what a start would make of the file is told by the first of it.

use super::BATCH_MAX;
use crate::damage::{Damaged, Stop, Verdict, inspect};
use crate::disk::{Disk, read_full};
use crate::error::{Damage, Error, IoContext};
use crate::log_reader::{Frame, LogHeader, LogReader};
use crate::marker::Marker;
use crate::names::{LogFile, Name, parse_name};
use crate::recovery::replay::{Chain, Lookback, is_empty};
use crate::store::StoreOptions;
use ox_proto::Zxid;
use ox_proto::log_frame::{END_BYTE, HEAD_BYTES, OVERHEAD_BYTES};
use ox_proto::txn::Record;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Pieces that are told one by one; in a file with more nothing else is worth looking for.
const PIECES_MAX: usize = 64;

/// What a log holds.
#[derive(Clone, Debug)]
pub struct LogCheck {
    /// The file.
    pub path: PathBuf,
    /// Its length.
    pub length: u64,
    /// Its header.
    pub header: LogHeader,
    /// The zxid in its name, if it is named like a log.
    pub named: Option<Zxid>,
    /// What follows the header, in order, without the zeros at the end.
    pub pieces: Vec<Piece>,
    /// Times of the first and the last good record, in milliseconds.
    pub times_ms: Option<(i64, i64)>,
    /// Bytes of zeros at the end.
    pub padding: u64,
    /// Up to where `oxk.synced` beside it says that it was synced.
    pub synced: Option<u64>,
    /// It was created and never got a record.
    pub is_empty: bool,
    /// There is more that is wrong than was looked at.
    pub gave_up: bool,
}

/// A part of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Records that follow each other.
    Records {
        /// Where.
        bytes: Range<u64>,
        /// How many.
        count: u64,
        /// First and last zxid.
        zxids: (Zxid, Zxid),
    },
    /// Something else.
    Fault(Fault),
}

/// What is wrong at some place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Where; empty where nothing is there that is wrong, but something is missing.
    pub bytes: Range<u64>,
    /// The last good zxid before it.
    pub after: Option<Zxid>,
    /// The next good zxid behind it.
    pub before: Option<Zxid>,
    /// What.
    pub kind: FaultKind,
}

/// Kinds of faults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// No record where one must be.
    Bytes {
        /// In the words of a start.
        damage: Damage,
        /// What a start does if this is the newest log.
        verdict: Verdict,
        /// Apache takes this place for the end of the log, and goes on without what follows.
        ends_for_apache: bool,
        /// A whole record but for its checksum: where it ends, and its zxid.
        loose: Option<(u64, Zxid)>,
    },
    /// A record with a good checksum that cannot be used.
    Record(Damage),
    /// Transactions are missing.
    Gap,
}

/// What is to be said of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogVerdict {
    /// All is well.
    Clean,
    /// Created, and nothing written into it; a start removes it if it is the newest.
    Empty,
    /// The end was never acknowledged; a start cuts it if it is the newest.
    Torn,
    /// The end was most likely never acknowledged; a standalone server cuts it, an ensemble member does not use the log.
    InDoubt,
    /// No server starts with it, unless a snapshot covers the damage.
    Damaged,
}

impl LogVerdict {
    /// One word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Clean => "clean",
            Self::Empty => "empty",
            Self::Torn => "torn",
            Self::InDoubt => "in-doubt",
            Self::Damaged => "damaged",
        }
    }

    /// Nothing is wrong.
    pub fn is_good(self) -> bool {
        matches!(self, Self::Clean | Self::Empty)
    }
}

impl LogCheck {
    /// Everything that is wrong.
    pub fn faults(&self) -> impl Iterator<Item = &Fault> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Fault(fault) => Some(fault),
            Piece::Records { .. } => None,
        })
    }

    /// Good records.
    pub fn records(&self) -> u64 {
        let counts = self.pieces.iter().map(|piece| match piece {
            Piece::Records { count, .. } => *count,
            Piece::Fault(_) => 0,
        });
        counts.sum()
    }

    /// First and last good zxid.
    pub fn zxids(&self) -> Option<(Zxid, Zxid)> {
        let mut runs = self.pieces.iter().filter_map(|piece| match piece {
            Piece::Records { zxids, .. } => Some(*zxids),
            Piece::Fault(_) => None,
        });
        let first = runs.next()?;
        Some((first.0, runs.next_back().unwrap_or(first).1))
    }

    /// What a start would make of the file, as the newest log.
    pub fn verdict(&self) -> LogVerdict {
        if self.is_empty {
            return LogVerdict::Empty;
        }
        match (self.header, self.faults().next().map(|fault| &fault.kind)) {
            (LogHeader::Missing | LogHeader::BadMagic(_), _) => LogVerdict::Damaged,
            (LogHeader::Log { .. }, None) => LogVerdict::Clean,
            (LogHeader::Log { .. }, Some(FaultKind::Bytes { verdict: Verdict::Torn, .. })) => LogVerdict::Torn,
            (LogHeader::Log { .. }, Some(FaultKind::Bytes { verdict: Verdict::InDoubt, .. })) => LogVerdict::InDoubt,
            (LogHeader::Log { .. }, Some(_)) => LogVerdict::Damaged,
        }
    }
}

/// Looks at every record of a log.
pub fn check_log(disk: &dyn Disk, path: &Path) -> Result<LogCheck, Error> {
    let mut reader = LogReader::open(disk, path)?;
    let named = match path.file_name().and_then(|name| name.to_str()).map(parse_name) {
        Some(Name::Log(first)) => Some(first),
        _ => None,
    };
    let log = LogFile { first: named.unwrap_or(Zxid::ZERO), path: path.to_owned() };
    let chain = Chain::of_one(disk, StoreOptions::new("").rules(), log.clone());
    // That of a copy made while the server ran proves nothing.
    let found = path.parent().map_or(Ok(None), |dir| Marker::load(disk, dir))?;
    let found = found.filter(|found| !found.is_copied || found.marker.closed.is_some());
    let marker = found.map(|found| found.marker).filter(|marker| Some(marker.log) == named);
    let mut scan = Scan { last: None, run: None, pieces: Vec::new(), times_ms: None, lookback: Lookback::new(&chain) };
    let (mut synced, mut padding, mut gave_up) = (None, 0, false);
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
            gave_up = true;
            break;
        }
        let offset = reader.offset();
        let seen = scan.last.unwrap_or(Zxid(named.map_or(i64::MIN, |first| first.0.saturating_sub(1))));
        match inspect(reader.file(), path, offset, seen, BATCH_MAX)? {
            Stop::Clean => {
                padding = reader.length().saturating_sub(offset);
                break;
            }
            Stop::Damaged(damaged) => {
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
    let is_empty = is_empty(disk, &log)?;
    Ok(LogCheck { path, length, header, named, pieces, times_ms, padding, synced, is_empty, gave_up })
}

struct Scan<'a> {
    last: Option<Zxid>,
    /// Good records that follow each other.
    run: Option<(Range<u64>, u64, (Zxid, Zxid))>,
    pieces: Vec<Piece>,
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

    fn record(&mut self, frame: &Frame<'_>) -> Result<(), Error> {
        let bytes = frame.offset..frame.offset + (frame.record.len() + OVERHEAD_BYTES) as u64;
        let record = match Record::decode(frame.record) {
            Ok(record) => record,
            Err(error) => {
                self.fault(bytes, FaultKind::Record(Damage::BadRecord(error)));
                return Ok(());
            }
        };
        let zxid = record.header.zxid;
        // Behind damage it is not known what is missing; the damage tells both sides.
        let after = self.last.filter(|_| self.run.is_some());
        match (self.last, after) {
            (Some(last), _) if zxid <= last => {
                if !self.lookback.forgives(&record, frame.record)? {
                    self.fault(bytes, FaultKind::Record(Damage::Repeated(zxid)));
                    return Ok(());
                }
                self.extend(bytes, last);
            }
            (_, Some(last)) if !zxid.follows(last) => {
                let place = bytes.start..bytes.start;
                self.fault(place, FaultKind::Gap);
                self.extend(bytes, zxid);
            }
            _ => self.extend(bytes, zxid),
        }
        let time_ms = record.header.time_ms;
        self.times_ms = Some((self.times_ms.map_or(time_ms, |(first, _)| first), time_ms));
        Ok(())
    }

    /// One good record more; `zxid` is where the history is behind it.
    fn extend(&mut self, bytes: Range<u64>, zxid: Zxid) {
        self.last = Some(zxid);
        match &mut self.run {
            Some((run, count, (_, last))) => (run.end, *count, *last) = (bytes.end, *count + 1, zxid),
            None => {
                if let Some(Piece::Fault(fault)) = self.pieces.last_mut() {
                    fault.before = Some(zxid);
                }
                self.run = Some((bytes, 1, (zxid, zxid)));
            }
        }
    }

    fn damage(&mut self, damaged: &Damaged, synced: Option<u64>, loose: Option<(u64, Zxid)>) {
        let end = damaged.next.map_or(damaged.used_end, |(next, _)| next);
        let (damage, verdict) = (damaged.damage(synced), damaged.verdict(synced, BATCH_MAX));
        let ends_for_apache = damaged.ends_for_apache;
        self.fault(damaged.offset..end, FaultKind::Bytes { damage, verdict, ends_for_apache, loose });
    }

    fn fault(&mut self, bytes: Range<u64>, kind: FaultKind) {
        self.end_run();
        self.pieces.push(Piece::Fault(Fault { bytes, after: self.last, before: None, kind }));
    }

    fn end_run(&mut self) {
        if let Some((bytes, count, zxids)) = self.run.take() {
            self.pieces.push(Piece::Records { bytes, count, zxids });
        }
    }
}

/// The record at a damaged place, if it is one but for its checksum: whole, decodable, and newer than what is before it.
fn loose_record(reader: &LogReader, damaged: &Damaged, last: Option<Zxid>) -> Result<Option<(u64, Zxid)>, Error> {
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
