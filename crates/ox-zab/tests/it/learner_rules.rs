//! One learner, packet by packet: what it sends, and when.

use crate::single_member::TIMING;
use bytes::Bytes;
use ox_proto::Zxid;
use ox_zab::{
    Context, DiskDone, DiskJob, Effect, Effects, Eligibility, EncodedTxn, Epoch, Epochs, Learner, LearnerInit,
    LearnerKind, LinkId, Message, Reason, RecentLog, ServerId, Traffic, ZxidRange,
};

const LINK: LinkId = LinkId(7);

struct Script {
    learner: Learner,
    history: RecentLog,
    out: Effects,
}

fn zxid(epoch: u32, counter: u32) -> Zxid {
    Zxid::new(epoch, counter)
}

fn txn(epoch: u32, counter: u32) -> EncodedTxn {
    EncodedTxn { zxid: zxid(epoch, counter), record: Bytes::new() }
}

fn proposal(epoch: u32, counter: u32) -> Message {
    Message::Proposal(txn(epoch, counter))
}

fn new_leader(epoch: i64) -> Message {
    Message::NewLeader { epoch: Epoch(epoch), config: Bytes::new() }
}

fn send(message: Message) -> Effect {
    Effect::Send(LINK, message)
}

fn append_and_commit(epoch: u32, counter: u32) -> [Effect; 2] {
    [Effect::Append(txn(epoch, counter)), Effect::Commit(zxid(epoch, counter))]
}

/// A follower whose history ends at (1,3), of epoch 1; its accepted epoch is 2.
fn claim() -> LearnerInit {
    LearnerInit {
        server: ServerId(3),
        kind: LearnerKind::Follower,
        epochs: Epochs { accepted: Epoch(2), current: Epoch(1) },
        last: zxid(1, 3),
        config_version: 0,
        is_dynamic: false,
        wants_snapshot: false,
        eligibility: Eligibility::HasHistory,
    }
}

impl Script {
    fn new(claim: LearnerInit) -> Self {
        let (mut history, mut out) = (RecentLog::new(claim.last, 500, 1 << 20), Effects::new());
        let mut cx = Context { now_ms: 0, history: &mut history, out: &mut out };
        let learner = Learner::new(claim, TIMING, LINK, 1 << 20, &mut cx);
        out.clear();
        Self { learner, history, out }
    }

    /// A learner that has accepted epoch 3 and waits for its synchronisation.
    fn promised(claim: LearnerInit) -> Self {
        let mut script = Self::new(claim);
        script.receives(Message::LeaderInfo(Epoch(3)));
        script.done(3);
        script
    }

    fn receives(&mut self, message: Message) -> Effects {
        let mut cx = Context { now_ms: 10, history: &mut self.history, out: &mut self.out };
        self.learner.on_message(message, &mut cx);
        std::mem::take(&mut self.out)
    }

    /// The disk has stored the accepted epoch.
    fn done(&mut self, epoch: i64) -> Effects {
        self.finished(DiskDone::AcceptedEpoch(Epoch(epoch)))
    }

    fn finished(&mut self, done: DiskDone) -> Effects {
        let mut cx = Context { now_ms: 20, history: &mut self.history, out: &mut self.out };
        self.learner.on_done(done, &mut cx);
        std::mem::take(&mut self.out)
    }

    fn durable(&mut self, zxid: Zxid) -> Effects {
        let mut cx = Context { now_ms: 30, history: &mut self.history, out: &mut self.out };
        self.learner.on_durable(zxid, &mut cx);
        std::mem::take(&mut self.out)
    }

    /// From the history to the broadcast.
    fn settles(&mut self) {
        self.receives(new_leader(3));
        self.finished(DiskDone::CurrentEpoch(Epoch(3)));
        self.receives(Message::UpToDate);
    }
}

fn is_violation(effects: &Effects) -> bool {
    matches!(effects[..], [Effect::StepDown(Reason::Violation(_))])
}

#[test]
fn epoch_is_accepted_once_and_never_lowered() {
    let mut script = Script::new(claim());
    assert_eq!(script.receives(Message::LeaderInfo(Epoch(1))), [Effect::StepDown(Reason::OldEpoch(Epoch(1)))]);
    let mut script = Script::new(claim());
    let uncounted = Message::AckEpoch { last: zxid(1, 3), current: None };
    assert_eq!(script.receives(Message::LeaderInfo(Epoch(2))), [send(uncounted)]);
    let mut script = Script::new(claim());
    assert_eq!(script.receives(Message::LeaderInfo(Epoch(3))), [Effect::Disk(DiskJob::AcceptedEpoch(Epoch(3)))]);
    assert!(!script.learner.takes_packets());
    let counted = Message::AckEpoch { last: zxid(1, 3), current: Some(Epoch(1)) };
    assert_eq!(script.done(3), [send(counted)]);
}

/// First the history is durable, then the epoch, then the ACK is sent: each after the report of the one before.
#[test]
fn k002_history_is_acknowledged_when_durable() {
    let mut script = Script::promised(claim());
    assert_eq!(script.receives(Message::Diff(zxid(1, 5))), [Effect::Commit(zxid(1, 3))]);
    script.receives(proposal(1, 4));
    assert_eq!(script.receives(Message::Commit(zxid(1, 4))), append_and_commit(1, 4));
    assert_eq!(script.receives(new_leader(3)), [Effect::Disk(DiskJob::CurrentEpoch(Epoch(3)))]);
    assert!(!script.learner.takes_packets());
    assert_eq!(script.durable(zxid(1, 4)), [], "what was received as history is not acknowledged by itself");
    assert_eq!(script.finished(DiskDone::CurrentEpoch(Epoch(3))), [send(Message::Ack(zxid(3, 0)))]);
    let served = script.receives(Message::UpToDate);
    assert_eq!(served, [send(Message::Ack(zxid(3, 0))), Effect::UpToDate(Epoch(3))]);
}

/// The disk gets the history, its epoch, and only then the new leader's proposals. ACKs follow the reports, however
/// late.
#[test]
fn k003_k004_k005_disk_gets_history_epoch_proposals_in_order() {
    let mut script = Script::promised(claim());
    let mut all = script.receives(Message::Diff(zxid(1, 4)));
    for message in [proposal(1, 4), Message::Commit(zxid(1, 4)), proposal(3, 1), new_leader(3)] {
        all.extend(script.receives(message));
    }
    assert_eq!(all[1..3], append_and_commit(1, 4));
    assert_eq!(all[3..], [Effect::Disk(DiskJob::CurrentEpoch(Epoch(3)))]);
    assert!(!script.learner.takes_packets(), "what follows depends on the disk");
    assert_eq!(script.durable(zxid(1, 4)), [], "the epoch is not durable yet");
    assert_eq!(script.finished(DiskDone::CurrentEpoch(Epoch(3))), [send(Message::Ack(zxid(3, 0)))]);
    let served = script.receives(Message::UpToDate);
    assert_eq!(served.last(), Some(&Effect::Append(txn(3, 1))));
    assert_eq!(script.durable(zxid(1, 4)), []);
    assert_eq!(script.durable(zxid(3, 1)), [send(Message::Ack(zxid(3, 1)))]);
}

/// A proposal before NEWLEADER, whose commit follows the ACK: before UPTODATE, and after it.
#[test]
fn k006_commit_may_follow_newleader_ack() {
    for commit_first in [true, false] {
        let mut script = Script::promised(claim());
        script.receives(Message::Diff(zxid(1, 3)));
        assert_eq!(script.receives(proposal(3, 1)), []);
        script.receives(new_leader(3));
        script.finished(DiskDone::CurrentEpoch(Epoch(3)));
        let mut all = Effects::new();
        if commit_first {
            all.extend(script.receives(Message::Commit(zxid(3, 1))));
            all.extend(script.receives(Message::UpToDate));
        } else {
            all.extend(script.receives(Message::UpToDate));
            all.extend(script.receives(Message::Commit(zxid(3, 1))));
        }
        let expected = [send(Message::Ack(zxid(3, 0))), Effect::UpToDate(Epoch(3))].into_iter();
        assert_eq!(all, expected.chain(append_and_commit(3, 1)).collect::<Vec<_>>());
        assert_eq!(script.durable(zxid(3, 1)), [send(Message::Ack(zxid(3, 1)))]);
    }
}

/// A follower acknowledges no proposal before the history.
#[test]
fn k007_proposal_is_not_acknowledged_before_history() {
    let mut script = Script::promised(claim());
    script.receives(Message::Diff(zxid(1, 3)));
    script.receives(proposal(3, 1));
    script.receives(new_leader(3));
    assert_eq!(script.durable(zxid(3, 1)), []);
}

/// A learner refuses a gap, and asks for a snapshot.
#[test]
fn k009_gap_in_history_is_refused() {
    for first in [proposal(1, 5), proposal(3, 2), proposal(1, 3)] {
        let mut script = Script::promised(claim());
        script.receives(Message::Diff(zxid(3, 9)));
        assert_eq!(script.receives(first), [Effect::StepDown(Reason::NeedsSnapshot)]);
    }
    let mut script = Script::promised(claim());
    script.receives(Message::Diff(zxid(3, 9)));
    script.receives(proposal(2, 1));
    assert_eq!(script.receives(proposal(2, 3)), [Effect::StepDown(Reason::NeedsSnapshot)]);
}

#[test]
fn broadcast_with_gap_repetition_or_disorder_is_refused() {
    let broken: [&[Message]; 7] = [
        &[proposal(3, 2)],
        &[proposal(3, 1), proposal(3, 1)],
        &[proposal(3, 1), proposal(3, 2), Message::Commit(zxid(3, 2))],
        &[Message::Commit(zxid(3, 1))],
        &[proposal(3, 1), proposal(3, 2), Message::Commits(ZxidRange { first: zxid(3, 2), last: zxid(3, 3) })],
        &[proposal(3, 1), Message::Commits(ZxidRange { first: zxid(3, 1), last: zxid(3, 2) })],
        &[proposal(2, 9)],
    ];
    for messages in broken {
        let mut script = Script::promised(claim());
        script.receives(Message::Diff(zxid(1, 3)));
        script.settles();
        let mut last = Effects::new();
        for message in messages {
            last = script.receives(message.clone());
        }
        assert!(is_violation(&last), "{messages:?}: {last:?}");
    }
}

#[test]
fn acks_are_in_order_and_complete() {
    let mut script = Script::promised(claim());
    script.receives(Message::Diff(zxid(1, 3)));
    script.settles();
    (1..=3).for_each(|counter| drop(script.receives(proposal(3, counter))));
    assert_eq!(script.durable(zxid(3, 2)), [send(Message::Acks(ZxidRange { first: zxid(3, 1), last: zxid(3, 2) }))]);
    assert_eq!(script.durable(zxid(3, 2)), []);
    assert_eq!(script.durable(zxid(3, 3)), [send(Message::Ack(zxid(3, 3)))]);
}

/// What follows a truncation is logged, so that memory and disk stay equal after an interruption.
#[test]
fn k011_transactions_after_truncation_are_logged() {
    let mut script = Script::promised(claim());
    assert_eq!(script.receives(Message::Trunc(zxid(1, 2))), [Effect::Disk(DiskJob::Truncate(zxid(1, 2)))]);
    assert!(!script.learner.takes_packets());
    script.history.truncate(zxid(1, 2));
    assert_eq!(script.finished(DiskDone::Truncated(Some(zxid(1, 2)))), [Effect::Commit(zxid(1, 2))]);
    script.receives(proposal(2, 1));
    assert_eq!(script.receives(Message::Commit(zxid(2, 1))), append_and_commit(2, 1));
}

/// If the log cannot be truncated there, the learner does not acknowledge that it was.
#[test]
fn k019_failed_truncation_asks_for_snapshot() {
    let mut script = Script::promised(claim());
    script.receives(Message::Trunc(zxid(1, 2)));
    assert_eq!(script.finished(DiskDone::Truncated(None)), [Effect::StepDown(Reason::NeedsSnapshot)]);
    let mut script = Script::promised(claim());
    script.receives(Message::Trunc(zxid(1, 2)));
    assert_eq!(script.finished(DiskDone::Truncated(Some(zxid(1, 1)))), [Effect::StepDown(Reason::LinkLost)]);
}

/// Transactions between the snapshot and NEWLEADER become part of the snapshot; uncommitted ones are logged later.
#[test]
fn k014_snapshot_is_complete_when_installed() {
    let mut script = Script::promised(claim());
    assert_eq!(script.receives(Message::Snap(zxid(2, 5))), []);
    assert!(script.learner.is_receiving_snapshot());
    script.learner.on_snapshot_received(15);
    for message in [proposal(2, 5), proposal(2, 6), proposal(3, 1)] {
        assert_eq!(script.receives(message), []);
    }
    assert_eq!(script.receives(Message::Commit(zxid(2, 5))), [Effect::ApplyToSnapshot(txn(2, 5))]);
    assert_eq!(script.receives(Message::Commit(zxid(2, 6))), [Effect::ApplyToSnapshot(txn(2, 6))]);
    let settling = [DiskJob::Install(zxid(2, 6)), DiskJob::CurrentEpoch(Epoch(3))].map(Effect::Disk);
    assert_eq!(script.receives(new_leader(3)), settling);
    assert_eq!(script.history.last(), zxid(2, 6));
    script.finished(DiskDone::CurrentEpoch(Epoch(3)));
    let served = script.receives(Message::UpToDate);
    assert_eq!(served.last(), Some(&Effect::Append(txn(3, 1))));
    let mut script = Script::promised(claim());
    script.receives(Message::Snap(zxid(2, 5)));
    script.learner.on_snapshot_received(15);
    assert_eq!(script.receives(proposal(2, 7)), [Effect::StepDown(Reason::NeedsSnapshot)]);
}

/// A snapshot that overlaps with the following transactions must contain all of the overlap.
#[test]
fn snapshot_with_uncommitted_overlap_is_refused() {
    let overlaps: [&[Message]; 2] = [&[proposal(2, 4), Message::Commit(zxid(2, 4))], &[proposal(2, 5), proposal(2, 6)]];
    for messages in overlaps {
        let mut script = Script::promised(claim());
        script.receives(Message::Snap(zxid(2, 5)));
        script.learner.on_snapshot_received(15);
        messages.iter().for_each(|message| drop(script.receives(message.clone())));
        assert!(is_violation(&script.receives(new_leader(3))), "{messages:?}");
    }
}

/// Only a learner that is not counted may report an empty log to get a snapshot.
#[test]
fn learner_that_asks_for_snapshot_is_not_counted() {
    let wants = LearnerInit { wants_snapshot: true, ..claim() };
    let mut script = Script::new(wants);
    script.receives(Message::LeaderInfo(Epoch(3)));
    let truth = Message::AckEpoch { last: zxid(1, 3), current: Some(Epoch(1)) };
    assert_eq!(script.done(3), [send(truth)]);
    let mut script = Script::new(wants);
    let plea = Message::AckEpoch { last: Zxid::ZERO, current: None };
    assert_eq!(script.receives(Message::LeaderInfo(Epoch(2))), [send(plea.clone())]);
    assert_eq!(script.receives(Message::Diff(zxid(1, 3))), [Effect::StepDown(Reason::NeedsSnapshot)]);
    let mut script = Script::new(LearnerInit { eligibility: Eligibility::Quarantined, ..claim() });
    assert_eq!(script.receives(Message::LeaderInfo(Epoch(3))), [send(plea)]);
    assert_eq!(script.receives(Message::Trunc(zxid(1, 1))), [Effect::StepDown(Reason::NeedsSnapshot)]);
}

/// An empty server stores its accepted epoch with the leader's history, not before.
#[test]
fn empty_learner_stores_epoch_with_history() {
    let epochs = Epochs { accepted: Epoch(0), current: Epoch(0) };
    let mut script = Script::new(LearnerInit { eligibility: Eligibility::Empty, last: Zxid::ZERO, epochs, ..claim() });
    script.receives(Message::LeaderInfo(Epoch(1)));
    script.receives(Message::Diff(Zxid::ZERO));
    let jobs = [DiskJob::InitializeLog, DiskJob::AcceptedEpoch(Epoch(1)), DiskJob::CurrentEpoch(Epoch(1))];
    assert_eq!(script.receives(new_leader(1)), jobs.map(Effect::Disk));
}

#[test]
fn k026_observer_logs_informs_without_acks() {
    let mut script = Script::promised(LearnerInit { kind: LearnerKind::Observer, ..claim() });
    script.receives(Message::Diff(zxid(1, 3)));
    assert_eq!(script.receives(Message::Inform(txn(1, 4))), append_and_commit(1, 4));
    script.receives(new_leader(3));
    script.finished(DiskDone::CurrentEpoch(Epoch(3)));
    script.receives(Message::Inform(txn(3, 1)));
    let served = script.receives(Message::UpToDate);
    assert_eq!(served[2..], append_and_commit(3, 1));
    assert_eq!(script.receives(Message::Inform(txn(3, 2))), append_and_commit(3, 2));
    assert_eq!(script.receives(proposal(3, 9)), []);
    assert_eq!(script.durable(zxid(3, 2)), []);
    assert!(is_violation(&script.receives(Message::Inform(txn(3, 4)))));
}

#[test]
fn silent_leader_times_out() {
    let mut script = Script::promised(claim());
    script.receives(Message::Diff(zxid(1, 3)));
    assert_eq!(script.learner.deadline(), Some(10 + 1000));
    script.settles();
    assert_eq!(script.learner.deadline(), Some(10 + 500));
    let mut cx = Context { now_ms: 510, history: &mut script.history, out: &mut script.out };
    script.learner.on_time(&mut cx);
    assert_eq!(script.out, [Effect::StepDown(Reason::Timeout)]);
}

/// Apache's observer masters repeat transactions that they have just synchronised.
#[test]
fn observer_ignores_repeated_informs() {
    let mut script = Script::promised(LearnerInit { kind: LearnerKind::Observer, ..claim() });
    script.receives(Message::Diff(zxid(1, 4)));
    script.receives(proposal(1, 4));
    script.receives(Message::Commit(zxid(1, 4)));
    let inform = |epoch, counter| Message::Inform(txn(epoch, counter));
    assert_eq!(script.receives(inform(1, 4)), []);
    script.settles();
    assert_eq!(script.receives(inform(1, 4)), []);
    assert_eq!(script.receives(inform(3, 1)), append_and_commit(3, 1));
    assert_eq!(script.receives(inform(3, 1)), []);
    let left = script.receives(inform(3, 3));
    assert!(left.iter().any(|effect| matches!(effect, Effect::StepDown(_))), "{left:?}: a hole is a hole");
}

/// Transactions that the snapshot may contain precede NEWLEADER; otherwise they cannot be logged.
#[test]
fn transactions_within_snapshot_are_not_logged() {
    let mut script = Script::promised(claim());
    script.receives(Message::Snap(zxid(2, 5)));
    script.learner.on_snapshot_received(10);
    script.receives(new_leader(3));
    script.finished(DiskDone::Installed(zxid(2, 5)));
    script.finished(DiskDone::CurrentEpoch(Epoch(3)));
    let left = script.receives(proposal(2, 5));
    assert!(left.iter().any(|effect| matches!(effect, Effect::StepDown(_))), "{left:?}");
}

/// Requests that are forwarded to a frozen leader prove nothing about it.
#[test]
fn p65_sent_requests_are_no_sign_of_life() {
    for (moved, stays) in [(Traffic::Sent, false), (Traffic::Received, true)] {
        let mut script = Script::promised(claim());
        script.receives(Message::Diff(zxid(1, 3)));
        script.settles();
        for now_ms in (0..3000).step_by(50) {
            script.learner.on_traffic(now_ms, moved);
            let mut cx = Context { now_ms, history: &mut script.history, out: &mut script.out };
            script.learner.on_time(&mut cx);
        }
        assert_eq!(script.out.is_empty(), stays, "{moved:?}");
    }
}
