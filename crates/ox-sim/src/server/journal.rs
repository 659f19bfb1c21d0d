//! What the observer has seen a server write: the truth that recoveries and final logs are compared with.

use crate::checkers::Finding;
use crate::outcome::Kind;
use ox_history::{Logged, Time};
use ox_proto::Zxid;
use ox_proto::log_frame::{Framed, OVERHEAD_BYTES, read_log_frame};
use ox_proto::txn::Record;
use ox_replica::LogBatch;
use std::collections::{BTreeMap, VecDeque};

/// A transaction that was handed to the disk.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) record: Vec<u8>,
    pub(crate) logged: Logged,
    /// Digest of the tree behind it, as its maker computed it.
    digest: Option<i64>,
}

/// Everything that was handed to the disk and not lost since.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    entries: BTreeMap<Zxid, Entry>,
    /// Everything up to here was synced, as far as the log says.
    pub(crate) synced: Zxid,
    /// Everything up to here may have been seen by somebody.
    pub(crate) shown: Zxid,
}

/// What a recovery lost or kept of what nobody had been told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Recovered {
    pub(crate) lost: usize,
    pub(crate) kept_unacked: bool,
}

impl Journal {
    pub(crate) fn last(&self) -> Zxid {
        self.entries.last_key_value().map_or(Zxid::ZERO, |(zxid, _)| *zxid)
    }

    pub(crate) fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.values()
    }

    pub(crate) fn get(&self, zxid: Zxid) -> Option<&Entry> {
        self.entries.get(&zxid)
    }

    /// Notes a batch on its way to the disk. `proposed` says when its records were made: each moment with the last
    /// of them.
    pub(crate) fn hand_over(&mut self, batch: &LogBatch, proposed: &mut VecDeque<(Zxid, Time)>) {
        let mut rest = &batch.bytes[..];
        while let Framed::Record(bytes) = read_log_frame(rest) {
            let record = Record::decode(bytes).expect("own records decode");
            while proposed.front().is_some_and(|(last, _)| *last < record.header.zxid) {
                proposed.pop_front();
            }
            let at = proposed.front().map(|(_, at)| *at);
            let digest = record.digest.map(|digest| digest.tree_digest);
            let entry = Entry { record: bytes.to_vec(), logged: Logged::of(&record, at), digest };
            rest = &rest[bytes.len() + OVERHEAD_BYTES..];
            self.entries.insert(record.header.zxid, entry);
        }
        assert!(rest.is_empty(), "a batch is nothing but frames");
    }

    /// Notes that the transactions behind `before`, up to `last`, are part of the state.
    pub(crate) fn applied(&mut self, before: Zxid, last: Zxid, now: Time) {
        if before < last {
            self.entries.range_mut(Zxid(before.0 + 1)..=last).for_each(|(_, entry)| entry.logged.applied = Some(now));
            self.shown = self.shown.max(last);
        }
    }

    /// A start came to this state: it must contain all that was shown to anybody (P54, P55), and nothing else than
    /// what was written (P56). What it does not contain is gone for ever.
    pub(crate) fn recover(&mut self, last: Zxid, digest: i64, now: Time) -> Result<Recovered, Finding> {
        self.judge(last, digest)?;
        let kept_unacked = self.shown < last;
        self.applied(self.shown, last, now);
        let lost = self.entries.split_off(&Zxid(last.0 + 1)).len();
        // It is served now, and must never go again.
        (self.synced, self.shown) = (last, last);
        Ok(Recovered { lost, kept_unacked })
    }

    /// Whether a state with this end would be a right one.
    pub(crate) fn judge(&self, last: Zxid, digest: i64) -> Result<(), Finding> {
        if last < self.shown {
            let detail = format!("{} was shown to clients, a start came to {last}", self.shown);
            return Err(Finding::new(Kind::AckedNotDurable, detail));
        }
        if self.last() < last {
            let detail = format!("a start came to {last}, but {} is the last that was written", self.last());
            return Err(Finding::new(Kind::LogDiffers, detail));
        }
        let expected = self.entries.get(&last).and_then(|entry| entry.digest);
        if expected.is_some_and(|expected| expected != digest) {
            return Err(Finding::new(Kind::Digest, format!("a start came to another state at {last}")));
        }
        Ok(())
    }
}
