//! What an observer has seen servers write: the truth that recoveries, final logs and other servers are compared with.
//!
//! A record is known by its zxid, and so is the whole history up to it: each record names the one before it, and no
//! server may log it behind another one (P4, P12).

use crate::checkers::Finding;
use crate::outcome::Kind;
use ox_history::{LogEntry, Time};
use ox_proto::Zxid;
use ox_proto::log_frame::{Framed, OVERHEAD_BYTES, read_log_frame};
use ox_proto::txn::Record;
use ox_replica::LogBatch;
use std::collections::{BTreeMap, VecDeque};

/// A transaction that was handed to a disk.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) record: Vec<u8>,
    pub(crate) logged: LogEntry,
    /// The one before it.
    before: Zxid,
    /// Digest of the tree behind it, as its maker computed it.
    digest: Option<i64>,
    /// Somebody may have seen it.
    is_shown: bool,
}

/// What is being done to a member's history. Until that is reported, a crash finds what was there or what will be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Change {
    #[default]
    None,
    Truncate(Zxid),
    Install(Zxid),
}

/// How far one server has come.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Track {
    /// The last record handed to its disk, and not lost since.
    pub(crate) last: Zxid,
    /// Everything up to here was synced, as far as the log says.
    pub(crate) synced: Zxid,
    pub(crate) change: Change,
    /// Of a member: the epochs that its disk has reported.
    pub(crate) epochs: ox_store::Epochs,
    /// Of a member: the epochs that its disk has been given.
    pub(crate) epochs_begun: ox_store::Epochs,
}

/// Everything that was handed to disks.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    entries: BTreeMap<Zxid, Entry>,
    /// Everything up to here may have been seen by somebody.
    pub(crate) shown: Zxid,
}

/// What a recovery lost or kept of what nobody had been told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Recovered {
    pub(crate) lost: bool,
    pub(crate) kept_unacked: bool,
}

impl Journal {
    /// What has been shown, in order.
    pub(crate) fn shown(&self) -> impl Iterator<Item = &Entry> {
        self.entries.values().filter(|entry| entry.is_shown)
    }

    pub(crate) fn get(&self, zxid: Zxid) -> Option<&Entry> {
        self.entries.get(&zxid)
    }

    /// Notes a batch on its way to the disk. `proposed` says when its records were made: each moment with the last
    /// of them.
    pub(crate) fn hand_over(
        &mut self,
        track: &mut Track,
        batch: &LogBatch,
        proposed: &mut VecDeque<(Zxid, Time)>,
    ) -> Result<(), Finding> {
        let mut rest = &batch.bytes[..];
        while let Framed::Record(bytes) = read_log_frame(rest) {
            let record = Record::decode(bytes).expect("own records decode");
            let zxid = record.header.zxid;
            rest = &rest[bytes.len() + OVERHEAD_BYTES..];
            if !zxid.follows(track.last) {
                return Err(Finding::new(Kind::ApplyOrder, format!("{zxid} is logged behind {}", track.last)));
            }
            while proposed.front().is_some_and(|(last, _)| *last < zxid) {
                proposed.pop_front();
            }
            let at = proposed.front().map(|(_, at)| *at);
            let entry = self.entries.entry(zxid).or_insert_with(|| Entry {
                record: bytes.to_vec(),
                logged: LogEntry::of(&record, at),
                before: track.last,
                digest: record.digest.map(|digest| digest.tree_digest),
                is_shown: false,
            });
            if entry.record != bytes || entry.before != track.last {
                let detail = format!("{zxid} is logged twice, behind {} and behind {}", entry.before, track.last);
                return Err(Finding::new(Kind::Forked, detail));
            }
            track.last = zxid;
        }
        assert!(rest.is_empty(), "a batch is nothing but frames");
        Ok(())
    }

    /// The end of the history up to `last` when everything behind `limit` is taken away.
    pub(crate) fn cut(&self, last: Zxid, limit: Zxid) -> Zxid {
        let mut end = last;
        while limit < end {
            end = self.entries.get(&end).map_or(Zxid::ZERO, |entry| entry.before);
        }
        end
    }

    /// Whether the history that ends at `last` contains `zxid`.
    pub(crate) fn contains(&self, last: Zxid, zxid: Zxid) -> bool {
        self.cut(last, zxid) == zxid
    }

    /// The transaction so many before `last`.
    pub(crate) fn before(&self, last: Zxid, count: usize) -> Zxid {
        let step = |zxid: Zxid| self.entries.get(&zxid).map_or(Zxid::ZERO, |entry| entry.before);
        (0..count).fold(last, |zxid, _| step(zxid))
    }

    /// A state that ends at `last` is shown to whoever asks: all that was shown before it must be part of one history
    /// with it (P4, P5, P8, P11).
    pub(crate) fn show(&mut self, last: Zxid, now: Time) -> Result<(), Finding> {
        let mut new = Vec::new();
        let mut end = last;
        while let Some(entry) = self.entries.get(&end).filter(|entry| !entry.is_shown) {
            new.push(end);
            end = entry.before;
        }
        if new.is_empty() {
            let is_known = last <= self.shown && (self.entries.contains_key(&last) || last.counter() == 0);
            let detail = || format!("{last} is shown, which nobody has made; {} was shown", self.shown);
            return if is_known { Ok(()) } else { Err(Finding::new(Kind::Forked, detail())) };
        }
        if end != self.shown {
            let detail = format!("{last} is shown, whose history leaves at {end} what was shown up to {}", self.shown);
            return Err(Finding::new(Kind::Forked, detail));
        }
        for zxid in new {
            if let Some(entry) = self.entries.get_mut(&zxid) {
                (entry.is_shown, entry.logged.applied) = (true, Some(now));
            }
        }
        self.shown = last;
        Ok(())
    }

    /// A standalone server came to this state: it must contain all that was shown to anybody (P54, P55), and nothing
    /// else than what was written (P56). What it does not contain is gone for ever.
    pub(crate) fn recover(
        &mut self,
        track: &mut Track,
        last: Zxid,
        digest: i64,
        now: Time,
    ) -> Result<Recovered, Finding> {
        self.judge(track, last, digest)?;
        let kept_unacked = self.shown < last;
        self.show(last, now)?;
        let lost = !self.entries.split_off(&Zxid(last.0 + 1)).is_empty();
        // It is served now, and must never go again.
        (track.last, track.synced) = (last, last);
        Ok(Recovered { lost, kept_unacked })
    }

    /// Whether a state with this end would be a right one for a standalone server.
    pub(crate) fn judge(&self, track: &Track, last: Zxid, digest: i64) -> Result<(), Finding> {
        if last < self.shown {
            let detail = format!("{} was shown to clients, a start came to {last}", self.shown);
            return Err(Finding::new(Kind::AckedNotDurable, detail));
        }
        if track.last < last {
            let detail = format!("a start came to {last}, but {} is the last that was written", track.last);
            return Err(Finding::new(Kind::LogDiffers, detail));
        }
        self.judge_digest(last, digest)
    }

    /// Whether a copy of a standalone server came to a right state: it may end anywhere from what had been shown when the
    /// copying began to what was written when it ended.
    pub(crate) fn judge_copy(&self, (least, most): (Zxid, Zxid), last: Zxid, digest: i64) -> Result<(), Finding> {
        if last < least || most < last {
            let detail = format!("a copy ends at {last}, and should between {least} and {most}");
            return Err(Finding::new(Kind::AckedNotDurable, detail));
        }
        self.judge_digest(last, digest)
    }

    /// A member came to this state: it must contain all that its disk has reported, unless it was told to cut or replace
    /// it, and nothing else (P11, P13, P55, P56).
    pub(crate) fn recover_member(&self, track: &mut Track, last: Zxid, digest: i64) -> Result<Recovered, Finding> {
        self.judge_member(track, last, digest)?;
        let recovered = Recovered { lost: last < track.last, kept_unacked: track.synced < last };
        (track.last, track.synced, track.change) = (last, last, Change::None);
        Ok(recovered)
    }

    /// Whether a state with this end would be a right one for a member.
    pub(crate) fn judge_member(&self, track: &Track, last: Zxid, digest: i64) -> Result<(), Finding> {
        let least = match track.change {
            Change::Install(zxid) if zxid == last => return self.judge_digest(last, digest),
            Change::Truncate(zxid) => track.synced.min(self.cut(track.last, zxid)),
            _ => track.synced,
        };
        if last < least {
            let detail = format!("the disk has reported {least}, a start came to {last}");
            return Err(Finding::new(Kind::AckedNotDurable, detail));
        }
        if track.last < last || !self.contains(track.last, last) {
            let detail = format!("a start came to {last}, which is not in the history up to {}", track.last);
            return Err(Finding::new(Kind::LogDiffers, detail));
        }
        self.judge_digest(last, digest)
    }

    fn judge_digest(&self, last: Zxid, digest: i64) -> Result<(), Finding> {
        let expected = self.entries.get(&last).and_then(|entry| entry.digest);
        if expected.is_some_and(|expected| expected != digest) {
            return Err(Finding::new(Kind::Digest, format!("a start came to another state at {last}")));
        }
        Ok(())
    }
}
