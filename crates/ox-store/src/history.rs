//! Stored records for a learner that is behind the window in memory (DIFF from the logs).
//!
//! The logs of a directory need not be one history: Apache leaves old ones beside a snapshot that it got from a leader,
//! with records that were never committed. So a range is served only if
//!
//! - it lies above the snapshot from which recovery found an unbroken chain, or begins there;
//! - the learner's zxid is a position in that chain: a record, that snapshot, or the start of an epoch that has records;
//! - it has no hole, the step to the window included;
//! - it is durable here, and small enough beside a snapshot to be worth it.
//!
//! All of that is checked before the first record is handed out. Otherwise the learner gets a snapshot.

use crate::damage::{Stop, inspect};
use crate::disk::Disk;
use crate::error::{Error, IoContext};
use crate::lineage::{History, Lineage};
use crate::log_reader::{LogHeader, LogReader};
use crate::names::{self, LogFile, SnapshotFile};
use crate::store::{Shared, Store};
use crate::window::Logged;
use ox_proto::txn::TxnHeader;
use ox_proto::{Reader, Zxid};
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

impl Store {
    /// The records behind `peer` and before `below`, the first record that the caller has in memory. None if they cannot
    /// be had from the logs. `size_factor` is `snapshotSizeFactor`: they may be as large as this part of the newest
    /// snapshot; negative forbids it. Takes no lock that anybody holds for long.
    pub fn history(&self, peer: Zxid, below: Zxid, size_factor: f64) -> Result<Option<StoredHistory>, Error> {
        // Whoever asks from zero wants a snapshot: it has none, or must not use it.
        if size_factor < 0.0 || peer <= Zxid::ZERO || below <= peer {
            return Ok(None);
        }
        match self.check(peer, below, size_factor) {
            // Purged meanwhile.
            Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(None),
            checked => checked,
        }
    }

    fn check(&self, peer: Zxid, below: Zxid, size_factor: f64) -> Result<Option<StoredHistory>, Error> {
        let shared = &self.0;
        let Some(before) = shared.member_history() else { return Ok(None) };
        let listing = names::list(&*shared.disk, &shared.dirs)?;
        // Whatever is missing in the list, the floor is above it by now.
        let is_listed = |history: &History| history.number == before.number && history.floor <= peer;
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
        Ok(Some(StoredHistory { chain, number, below, last: peer, is_first: true }))
    }
}

impl Shared {
    fn member_history(&self) -> Option<History> {
        if let Lineage::Member(history) = *self.lineage.lock() { Some(history) } else { None }
    }
}

/// Whether `peer` is a position between the records `before` and `next`.
fn is_shared(before: Option<Zxid>, next: Zxid, peer: Zxid, floor: Zxid) -> bool {
    let is_position = before == Some(peer) || (before.is_none() && peer == floor);
    let starts_epoch = peer.counter() == 0 && next.epoch() == peer.epoch();
    let follows = before.map_or_else(|| next.follows(floor), |before| next.follows(before));
    follows && (is_position || starts_epoch)
}

/// What the records may take; everything if there is nothing to compare with.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a rough limit"
)]
fn bytes_max(disk: &dyn Disk, newest: Option<&SnapshotFile>, size_factor: f64) -> Result<u64, Error> {
    let Some(SnapshotFile { path, .. }) = newest else { return Ok(u64::MAX) };
    let file = disk.open(path, crate::disk::Open::Read).context("open", path)?;
    let bytes = (file.len().context("measure", path)? as f64 * size_factor) as u64;
    // Compat: Apache takes a limit of 0 for none.
    Ok(if bytes == 0 { u64::MAX } else { bytes })
}

fn ends_cleanly(reader: &LogReader) -> Result<bool, Error> {
    Ok(inspect(reader.file(), reader.path(), reader.offset(), Zxid(i64::MIN), 0)? == Stop::Clean)
}

/// Records from the logs, oldest first.
pub struct StoredHistory {
    chain: Chain,
    /// Of the history that was checked.
    number: u64,
    below: Zxid,
    last: Zxid,
    is_first: bool,
}

impl StoredHistory {
    fn next_record(&mut self) -> Result<Option<Logged>, Error> {
        let is_same = |lineage: &Lineage| matches!(lineage, Lineage::Member(now) if now.number == self.number);
        if !is_same(&self.chain.shared.lineage.lock()) {
            return Err(Error::HistoryChanged(self.last));
        }
        loop {
            match self.chain.step()? {
                Step::Record(zxid) if zxid <= self.chain.peer => (),
                Step::Record(zxid) if zxid < self.below => {
                    if !self.is_first && !zxid.follows(self.last) {
                        return Err(Error::HistoryChanged(self.last));
                    }
                    (self.last, self.is_first) = (zxid, false);
                    return Ok(Some(Logged { zxid, record: self.chain.record.clone() }));
                }
                Step::Record(_) | Step::End if !self.chain.is_broken && self.below.follows(self.last) => {
                    return Ok(None);
                }
                Step::Record(_) | Step::End => return Err(Error::HistoryChanged(self.last)),
            }
        }
    }
}

impl Iterator for StoredHistory {
    type Item = Result<Logged, Error>;

    /// An error means that the range is not what it was: the learner has to be given up.
    fn next(&mut self) -> Option<Self::Item> {
        self.next_record().transpose()
    }
}

/// The records of some logs above a floor, each following the one before.
struct Chain {
    shared: Arc<Shared>,
    floor: Zxid,
    /// What the learner has.
    peer: Zxid,
    logs: VecDeque<LogFile>,
    reader: Option<LogReader>,
    last: Option<Zxid>,
    /// The record met last.
    record: Vec<u8>,
    is_broken: bool,
}

enum Step {
    Record(Zxid),
    /// There is no more, or it does not follow.
    End,
}

impl Chain {
    fn new(shared: &Arc<Shared>, (floor, peer): (Zxid, Zxid), logs: &[LogFile]) -> Self {
        let (shared, logs) = (Arc::clone(shared), logs.iter().cloned().collect());
        Self { shared, floor, peer, logs, reader: None, last: None, record: Vec::new(), is_broken: false }
    }

    fn step(&mut self) -> Result<Step, Error> {
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
                // What cannot be read may hide records, and the first one of an epoch would seem to follow all the same.
                self.is_broken = !self.logs.is_empty() && !ends_cleanly(reader)?;
                self.reader = None;
                continue;
            };
            let Ok(TxnHeader { zxid, .. }) = Reader::from_disk(frame.record).get() else {
                self.is_broken = true;
                break;
            };
            // What stands there twice counts once.
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
