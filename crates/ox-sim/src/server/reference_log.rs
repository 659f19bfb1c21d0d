//! The reference log: every transaction that any server has given to its disk. Recoveries, final logs and the logs of
//! other servers are compared with it.
//!
//! A zxid identifies a record and with it the whole history before: each record names its predecessor, and no server
//! may log the record after a different one (P4, P12).

use crate::checkers::Finding;
use crate::outcome::FailureKind;
use ox_history::{LogEntry, Time};
use ox_proto::Zxid;
use ox_proto::log_frame::{Framed, OVERHEAD_BYTES, read_log_frame};
use ox_proto::txn::Record;
use ox_replica::LogBatch;
use std::collections::{BTreeMap, VecDeque};

/// A transaction that a server has given to its disk.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) record: Vec<u8>,
    pub(crate) logged: LogEntry,
    /// The zxid of the preceding record.
    before: Zxid,
    /// Digest of the tree after this transaction, as its proposer computed it.
    digest: Option<i64>,
    /// A client may have seen its effects.
    is_shown: bool,
}

/// A change of a member's log that is in progress. A crash leaves either the old log or the new one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Change {
    #[default]
    None,
    Truncate(Zxid),
    Install(Zxid),
}

/// What a server's disk must contain, as known from the server's writes and fsyncs.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ExpectedDisk {
    /// The last record given to the disk and not lost since.
    pub(crate) last: Zxid,
    /// The last record whose fsync has completed.
    pub(crate) synced: Zxid,
    pub(crate) change: Change,
    /// Members only: the epochs whose storage has completed.
    pub(crate) epochs: ox_store::StoredEpochs,
    /// Members only: the epochs given to the disk, which may not be stored yet.
    pub(crate) epochs_begun: ox_store::StoredEpochs,
}

/// All transactions of all servers.
#[derive(Debug, Default)]
pub(crate) struct ReferenceLog {
    entries: BTreeMap<Zxid, Entry>,
    /// Clients may have seen everything up to this zxid.
    pub(crate) shown: Zxid,
}

/// How a recovery treated transactions that no client could have seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Recovered {
    pub(crate) lost: bool,
    pub(crate) kept_unacked: bool,
}

impl ReferenceLog {
    /// All transactions that clients may have seen, in order.
    pub(crate) fn shown(&self) -> impl Iterator<Item = &Entry> {
        self.entries.values().filter(|entry| entry.is_shown)
    }

    pub(crate) fn get(&self, zxid: Zxid) -> Option<&Entry> {
        self.entries.get(&zxid)
    }

    /// Records a batch that a server gives to its disk. `proposed` holds proposal times, each with the last zxid
    /// proposed by then.
    pub(crate) fn record_batch(
        &mut self,
        expected: &mut ExpectedDisk,
        batch: &LogBatch,
        proposed: &mut VecDeque<(Zxid, Time)>,
    ) -> Result<(), Finding> {
        let mut rest = &batch.bytes[..];
        while let Framed::Record(bytes) = read_log_frame(rest) {
            let record = Record::decode(bytes).expect("records of our servers decode");
            let zxid = record.header.zxid;
            rest = &rest[bytes.len() + OVERHEAD_BYTES..];
            if !zxid.follows(expected.last) {
                return Err(Finding::new(FailureKind::ApplyOrder, format!("{zxid} is logged after {}", expected.last)));
            }
            while proposed.front().is_some_and(|(last, _)| *last < zxid) {
                proposed.pop_front();
            }
            let at = proposed.front().map(|(_, at)| *at);
            let entry = self.entries.entry(zxid).or_insert_with(|| Entry {
                record: bytes.to_vec(),
                logged: LogEntry::of(&record, at),
                before: expected.last,
                digest: record.digest.map(|digest| digest.tree_digest),
                is_shown: false,
            });
            if entry.record != bytes || entry.before != expected.last {
                let detail = format!("{zxid} is logged twice, after {} and after {}", entry.before, expected.last);
                return Err(Finding::new(FailureKind::Forked, detail));
            }
            expected.last = zxid;
        }
        assert!(rest.is_empty(), "a batch consists of frames");
        Ok(())
    }

    /// The end of the history up to `last` after a truncation to `limit`.
    pub(crate) fn truncated_end(&self, last: Zxid, limit: Zxid) -> Zxid {
        let mut end = last;
        while limit < end {
            end = self.entries.get(&end).map_or(Zxid::ZERO, |entry| entry.before);
        }
        end
    }

    /// Whether the history that ends at `last` contains `zxid`.
    pub(crate) fn contains(&self, last: Zxid, zxid: Zxid) -> bool {
        self.truncated_end(last, zxid) == zxid
    }

    /// The transaction `count` places before `last`.
    pub(crate) fn before(&self, last: Zxid, count: usize) -> Zxid {
        let step = |zxid: Zxid| self.entries.get(&zxid).map_or(Zxid::ZERO, |entry| entry.before);
        (0..count).fold(last, |zxid, _| step(zxid))
    }

    /// Clients may see the state at `last` from now on. It must extend the history that they could see before (P4, P5,
    /// P8, P11).
    pub(crate) fn show(&mut self, last: Zxid, now: Time) -> Result<(), Finding> {
        let mut new = Vec::new();
        let mut end = last;
        while let Some(entry) = self.entries.get(&end).filter(|entry| !entry.is_shown) {
            new.push(end);
            end = entry.before;
        }
        if new.is_empty() {
            let is_known = last <= self.shown && (self.entries.contains_key(&last) || last.counter() == 0);
            let detail =
                || format!("{last} is visible but no server has proposed it; {} was visible before", self.shown);
            return if is_known { Ok(()) } else { Err(Finding::new(FailureKind::Forked, detail())) };
        }
        if end != self.shown {
            let detail = format!(
                "{last} is visible, but its history diverges at {end} from what was visible up to {}",
                self.shown
            );
            return Err(Finding::new(FailureKind::Forked, detail));
        }
        for zxid in new {
            if let Some(entry) = self.entries.get_mut(&zxid) {
                (entry.is_shown, entry.logged.applied) = (true, Some(now));
            }
        }
        self.shown = last;
        Ok(())
    }

    /// Checks the recovered state of a standalone server: it contains everything that clients could see (P54, P55) and
    /// nothing that was not written (P56). Records after `last` are removed from the reference log.
    pub(crate) fn recover(
        &mut self,
        expected: &mut ExpectedDisk,
        last: Zxid,
        digest: i64,
        now: Time,
    ) -> Result<Recovered, Finding> {
        self.judge(expected, last, digest)?;
        let kept_unacked = self.shown < last;
        self.show(last, now)?;
        let lost = !self.entries.split_off(&Zxid(last.0 + 1)).is_empty();
        // Clients see the recovered state now, so all of it counts as durable.
        (expected.last, expected.synced) = (last, last);
        Ok(Recovered { lost, kept_unacked })
    }

    /// Checks whether a standalone server may recover to this state.
    pub(crate) fn judge(&self, expected: &ExpectedDisk, last: Zxid, digest: i64) -> Result<(), Finding> {
        if last < self.shown {
            let detail = format!("{} was visible to clients, a start recovered {last}", self.shown);
            return Err(Finding::new(FailureKind::AckedNotDurable, detail));
        }
        if expected.last < last {
            let detail = format!("a start recovered {last}, but the last written record is {}", expected.last);
            return Err(Finding::new(FailureKind::LogDiffers, detail));
        }
        self.judge_digest(last, digest)
    }

    /// Checks the state of a standalone server's copy. It may end anywhere between what clients could see when copying
    /// began and what had been written when it ended.
    pub(crate) fn judge_copy(&self, (least, most): (Zxid, Zxid), last: Zxid, digest: i64) -> Result<(), Finding> {
        if last < least || most < last {
            let detail = format!("a copy ends at {last}, not between {least} and {most}");
            return Err(Finding::new(FailureKind::AckedNotDurable, detail));
        }
        self.judge_digest(last, digest)
    }

    /// Checks the recovered state of a member: it contains everything that its disk has reported, unless a truncation
    /// or installation was in progress, and nothing that was not written (P11, P13, P55, P56).
    pub(crate) fn recover_member(
        &self,
        expected: &mut ExpectedDisk,
        last: Zxid,
        digest: i64,
    ) -> Result<Recovered, Finding> {
        self.judge_member(expected, last, digest)?;
        let recovered = Recovered { lost: last < expected.last, kept_unacked: expected.synced < last };
        (expected.last, expected.synced, expected.change) = (last, last, Change::None);
        Ok(recovered)
    }

    /// Checks whether a member may recover to this state.
    pub(crate) fn judge_member(&self, expected: &ExpectedDisk, last: Zxid, digest: i64) -> Result<(), Finding> {
        let least = match expected.change {
            Change::Install(zxid) if zxid == last => return self.judge_digest(last, digest),
            Change::Truncate(zxid) => expected.synced.min(self.truncated_end(expected.last, zxid)),
            _ => expected.synced,
        };
        if last < least {
            let detail = format!("the disk has reported {least}, a start recovered {last}");
            return Err(Finding::new(FailureKind::AckedNotDurable, detail));
        }
        if expected.last < last || !self.contains(expected.last, last) {
            let detail = format!("a start recovered {last}, which is not in the history up to {}", expected.last);
            return Err(Finding::new(FailureKind::LogDiffers, detail));
        }
        self.judge_digest(last, digest)
    }

    fn judge_digest(&self, last: Zxid, digest: i64) -> Result<(), Finding> {
        let expected = self.entries.get(&last).and_then(|entry| entry.digest);
        if expected.is_some_and(|expected| expected != digest) {
            return Err(Finding::new(FailureKind::Digest, format!("a start recovered a different state at {last}")));
        }
        Ok(())
    }
}
