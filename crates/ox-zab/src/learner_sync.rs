//! Learner synchronisation: choosing DIFF, TRUNC or SNAP, and sending the first packet.
//!
//! [`RecentLog::catch_up`] decides by the transactions in memory. If the learner's log ends before these, the on-disk
//! log is searched ([`Effect::ReadLog`]); if that does not suffice either, the learner is sent a snapshot. A
//! [`LearnerStream`] sends what follows. Leaders use this for their learners, and observer masters for their observers.
//!
//! The driver searches the log (`ox-driver/src/replica_loop/execute.rs`) and sends log diffs and snapshots, with the
//! SNAP packet before a snapshot (`ox-driver/src/links.rs`).

use crate::context::Context;
use crate::effect::{Effect, LinkId};
use crate::learner_stream::LearnerStream;
use crate::message::Message;
use crate::options::PeerOptions;
use crate::recent_log::{RecentLog, SyncMode};
use ox_proto::Zxid;

/// How far the sender has committed and applied.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Progress {
    /// The last committed transaction that was announced, or the start of an epoch without transactions.
    pub(crate) processed: Zxid,
    /// The last transaction that is committed, or will be once the leader is established.
    pub(crate) committed: Zxid,
    /// Last transaction applied to the state.
    pub(crate) applied: Zxid,
}

/// The first packets to a learner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SyncPlan {
    /// DIFF with the first zxid; the stream continues after the second.
    Diff(Zxid, Zxid),
    /// DIFF from the on-disk log up to this zxid; the stream continues after it.
    LogDiff(Zxid),
    /// Truncate the learner's log after this zxid; the stream continues there.
    Trunc(Zxid),
    Snap,
}

/// Whether a learner can be synchronised from memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SyncChoice {
    /// Yes, or only by a snapshot.
    Plan(SyncPlan),
    /// Perhaps with a DIFF from the on-disk log, which has to contain everything before this zxid.
    ReadLog(Zxid),
}

impl SyncChoice {
    /// Chooses for a learner whose log ends at `last`.
    pub(crate) fn of(last: Zxid, history: &RecentLog, progress: Progress, options: &PeerOptions) -> Self {
        if options.force_snapshot_sync {
            return Self::Plan(SyncPlan::Snap);
        }
        match history.catch_up(last, progress.processed, progress.committed) {
            SyncMode::Diff { announced, after } => Self::Plan(SyncPlan::Diff(announced, after)),
            SyncMode::Trunc(zxid) => Self::Plan(SyncPlan::Trunc(zxid)),
            SyncMode::Snap => match history.first().filter(|first| Zxid::ZERO < last && last < *first) {
                Some(first) => Self::ReadLog(first),
                None => Self::Plan(SyncPlan::Snap),
            },
        }
    }
}

impl SyncPlan {
    /// `below` is the result of [`Effect::ReadLog`]: none means that the on-disk log does not suffice.
    pub(crate) fn from_log_read(below: Option<Zxid>) -> Self {
        below.map_or(Self::Snap, |below| Self::LogDiff(Zxid(below.0 - 1)))
    }

    pub(crate) fn is_snap(self) -> bool {
        self == Self::Snap
    }

    /// Whether an observer has to wait, because enough others are being synchronised in the same way. `states` tells
    /// for each observer that is being synchronised whether it receives a snapshot.
    pub(crate) fn is_over_limit(self, states: impl Iterator<Item = bool>, options: &PeerOptions) -> bool {
        let max = if self.is_snap() { options.max_snap_syncs } else { options.max_diff_syncs };
        max <= states.filter(|is_snap| *is_snap == self.is_snap()).count()
    }

    /// Sends the first packets, and lets the stream continue after them.
    pub(crate) fn send(
        self,
        cx: &mut Context<'_>,
        id: LinkId,
        progress: Progress,
        to_follower: bool,
        to: &mut LearnerStream,
    ) {
        let Progress { committed, applied, .. } = progress;
        let after = match self {
            Self::Diff(announced, after) => {
                to.send_now(cx.out, id, Message::Diff(announced));
                after
            }
            Self::LogDiff(after) => {
                to.send_now(cx.out, id, Message::Diff(committed));
                cx.out.push(Effect::SendLogDiff(id));
                after
            }
            Self::Trunc(zxid) => {
                to.send_now(cx.out, id, Message::Trunc(zxid));
                zxid
            }
            Self::Snap => {
                cx.out.push(Effect::SendSnapshot(id));
                applied
            }
        };
        to.begin(after, to_follower);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::EncodedTxn;
    use bytes::Bytes;

    /// The first packet in Apache's choice.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum First {
        Diff,
        Trunc(Zxid),
        Snap,
    }

    fn is_start(zxid: Zxid) -> bool {
        zxid.counter() == 0
    }

    /// Finds the learner's last transaction in a log, one by one.
    fn walk(peer: Zxid, history: &[Zxid]) -> First {
        let Some(at) = history.iter().position(|zxid| peer <= *zxid) else {
            return if is_start(peer) { First::Diff } else { First::Snap };
        };
        match history[at] {
            zxid if zxid == peer || is_start(peer) => First::Diff,
            zxid if zxid.epoch() != peer.epoch() => First::Snap,
            _ => First::Trunc(if at == 0 { Zxid(-1) } else { history[at - 1] }),
        }
    }

    /// Apache's rules, row by row: transactions from index `first` on are in memory.
    fn table(peer: Zxid, stored: &[Zxid], first: usize, processed: Zxid) -> First {
        let (min, max) = (stored[first], stored[stored.len() - 1]);
        if peer == processed {
            First::Diff
        } else if max < peer && !is_start(peer) {
            First::Trunc(max)
        } else if min <= peer && peer <= max {
            walk(peer, &stored[first..])
        } else if peer < min && stored[0] <= peer {
            walk(peer, stored)
        } else {
            First::Snap
        }
    }

    /// Our choice, with a complete on-disk log.
    fn decided(peer: Zxid, stored: &[Zxid], first: usize, processed: Zxid) -> First {
        let committed = stored[stored.len() - 1];
        let before = if first == 0 { Zxid::ZERO } else { stored[first - 1] };
        let mut history = RecentLog::new(before, 500, 1 << 20);
        stored[first..].iter().for_each(|zxid| history.push(EncodedTxn { zxid: *zxid, record: Bytes::new() }));
        let progress = Progress { processed, committed, applied: committed };
        let plan = match SyncChoice::of(peer, &history, progress, &PeerOptions::default()) {
            SyncChoice::Plan(plan) => plan,
            SyncChoice::ReadLog(below) => SyncPlan::from_log_read(stored.contains(&peer).then_some(below)),
        };
        match plan {
            SyncPlan::Diff(..) | SyncPlan::LogDiff(_) => First::Diff,
            SyncPlan::Trunc(zxid) => First::Trunc(zxid),
            SyncPlan::Snap => First::Snap,
        }
    }

    /// In a log without gaps, a zxid between two transactions belongs to another epoch than the second one. So the
    /// on-disk log never leads to a TRUNC, and a learner that is ahead of everything is truncated by the rule for
    /// memory.
    #[test]
    fn sync_plan_matches_apache_rules() {
        let zxids = |epoch, count| (1..=count).map(move |counter| Zxid::new(epoch, counter));
        for counts in [[4, 3, 2], [3, 0, 4], [0, 5, 1], [1, 1, 1], [0, 0, 3]] {
            let stored: Vec<Zxid> = (1..).zip(counts).flat_map(|(epoch, count)| zxids(epoch, count)).collect();
            let last = stored[stored.len() - 1];
            let peers = (0..6).flat_map(|epoch| (0..8).map(move |counter| Zxid::new(epoch, counter)));
            for peer in peers.chain([Zxid(-1)]) {
                for (first, processed) in (0..stored.len()).flat_map(|first| [(first, last), (first, Zxid::new(4, 0))])
                {
                    let is_below = peer < stored[first];
                    if is_below && is_start(peer) {
                        continue; // the on-disk log decides
                    }
                    let expected = table(peer, &stored, first, processed);
                    assert_eq!(decided(peer, &stored, first, processed), expected, "{peer} {stored:?} {first}");
                    assert!(!is_below || !matches!(expected, First::Trunc(_)), "{peer} {stored:?} {first}");
                }
            }
        }
    }
}
