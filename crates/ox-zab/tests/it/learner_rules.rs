//! One learner, packet by packet: what it says, when, and what it never says.

use crate::single_member::TIMING;
use bytes::Bytes;
use ox_proto::Zxid;
use ox_zab::{
    Claim, Context, DiskDone, DiskJob, Effect, Effects, Epoch, Epochs, History, Learner, LearnerKind, LinkId, Message,
    Moved, Reason, Run, ServerId, Standing, Txn,
};

const LINK: LinkId = LinkId(7);

struct Script {
    learner: Learner,
    history: History,
    out: Effects,
}

fn zxid(epoch: u32, counter: u32) -> Zxid {
    Zxid::new(epoch, counter)
}

fn txn(epoch: u32, counter: u32) -> Txn {
    Txn { zxid: zxid(epoch, counter), record: Bytes::new() }
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

/// A follower whose history ends at (1,3), of epoch 1; it has promised epoch 2.
fn claim() -> Claim {
    Claim {
        server: ServerId(3),
        kind: LearnerKind::Follower,
        epochs: Epochs { accepted: Epoch(2), current: Epoch(1) },
        last: zxid(1, 3),
        config_version: 0,
        is_dynamic: false,
        wants_snapshot: false,
        standing: Standing::History,
    }
}

impl Script {
    fn new(claim: Claim) -> Self {
        let (mut history, mut out) = (History::new(claim.last, 500, 1 << 20), Effects::new());
        let mut cx = Context { now_ms: 0, history: &mut history, out: &mut out };
        let learner = Learner::new(claim, TIMING, LINK, 1 << 20, &mut cx);
        out.clear();
        Self { learner, history, out }
    }

    /// A learner that has promised epoch 3 and gets the history next.
    fn promised(claim: Claim) -> Self {
        let mut script = Self::new(claim);
        script.hears(Message::LeaderInfo(Epoch(3)));
        script.done(3);
        script
    }

    fn hears(&mut self, message: Message) -> Effects {
        let mut cx = Context { now_ms: 10, history: &mut self.history, out: &mut self.out };
        self.learner.on_message(message, &mut cx);
        std::mem::take(&mut self.out)
    }

    /// The disk has finished the promise of an epoch.
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
        self.hears(new_leader(3));
        self.finished(DiskDone::CurrentEpoch(Epoch(3)));
        self.hears(Message::UpToDate);
    }
}

fn is_violation(effects: &Effects) -> bool {
    matches!(effects[..], [Effect::Leave(Reason::Violation(_))])
}

#[test]
fn an_epoch_is_promised_once_and_never_a_lower_one() {
    let mut script = Script::new(claim());
    assert_eq!(script.hears(Message::LeaderInfo(Epoch(1))), [Effect::Leave(Reason::OldEpoch(Epoch(1)))]);
    let mut script = Script::new(claim());
    let uncounted = Message::AckEpoch { last: zxid(1, 3), current: None };
    assert_eq!(script.hears(Message::LeaderInfo(Epoch(2))), [send(uncounted)]);
    let mut script = Script::new(claim());
    assert_eq!(script.hears(Message::LeaderInfo(Epoch(3))), [Effect::Disk(DiskJob::AcceptedEpoch(Epoch(3)))]);
    assert!(!script.learner.takes_packets());
    let counted = Message::AckEpoch { last: zxid(1, 3), current: Some(Epoch(1)) };
    assert_eq!(script.done(3), [send(counted)]);
}

/// History on disk, then the epoch, then the acknowledgement: in that order, each after the report of the one before.
#[test]
fn k002_the_history_is_acknowledged_when_it_is_durable() {
    let mut script = Script::promised(claim());
    assert_eq!(script.hears(Message::Diff(zxid(1, 5))), [Effect::Commit(zxid(1, 3))]);
    script.hears(proposal(1, 4));
    assert_eq!(script.hears(Message::Commit(zxid(1, 4))), append_and_commit(1, 4));
    assert_eq!(script.hears(new_leader(3)), [Effect::Disk(DiskJob::CurrentEpoch(Epoch(3)))]);
    assert!(!script.learner.takes_packets());
    assert_eq!(script.durable(zxid(1, 4)), [], "what was received as history is not acknowledged by itself");
    assert_eq!(script.finished(DiskDone::CurrentEpoch(Epoch(3))), [send(Message::Ack(zxid(3, 0)))]);
    let served = script.hears(Message::UpToDate);
    assert_eq!(served, [send(Message::Ack(zxid(3, 0))), Effect::UpToDate(Epoch(3))]);
}

/// One writer, one order: the history, its epoch, and only then what the new leader proposes; acknowledgements follow the
/// reports, however late they come.
#[test]
fn k003_k004_k005_the_disk_gets_everything_in_one_order() {
    let mut script = Script::promised(claim());
    let mut all = script.hears(Message::Diff(zxid(1, 4)));
    for message in [proposal(1, 4), Message::Commit(zxid(1, 4)), proposal(3, 1), new_leader(3)] {
        all.extend(script.hears(message));
    }
    assert_eq!(all[1..3], append_and_commit(1, 4));
    assert_eq!(all[3..], [Effect::Disk(DiskJob::CurrentEpoch(Epoch(3)))]);
    assert!(!script.learner.takes_packets(), "what follows depends on the disk");
    assert_eq!(script.durable(zxid(1, 4)), [], "the epoch is not durable yet");
    assert_eq!(script.finished(DiskDone::CurrentEpoch(Epoch(3))), [send(Message::Ack(zxid(3, 0)))]);
    let served = script.hears(Message::UpToDate);
    assert_eq!(served.last(), Some(&Effect::Append(txn(3, 1))));
    assert_eq!(script.durable(zxid(1, 4)), []);
    assert_eq!(script.durable(zxid(3, 1)), [send(Message::Ack(zxid(3, 1)))]);
}

/// A proposal before NEWLEADER, its commit behind the acknowledgement: before UPTODATE, and after it.
#[test]
fn k006_a_commit_may_come_behind_the_acknowledgement() {
    for commit_first in [true, false] {
        let mut script = Script::promised(claim());
        script.hears(Message::Diff(zxid(1, 3)));
        assert_eq!(script.hears(proposal(3, 1)), []);
        script.hears(new_leader(3));
        script.finished(DiskDone::CurrentEpoch(Epoch(3)));
        let mut all = Effects::new();
        if commit_first {
            all.extend(script.hears(Message::Commit(zxid(3, 1))));
            all.extend(script.hears(Message::UpToDate));
        } else {
            all.extend(script.hears(Message::UpToDate));
            all.extend(script.hears(Message::Commit(zxid(3, 1))));
        }
        let expected = [send(Message::Ack(zxid(3, 0))), Effect::UpToDate(Epoch(3))].into_iter();
        assert_eq!(all, expected.chain(append_and_commit(3, 1)).collect::<Vec<_>>());
        assert_eq!(script.durable(zxid(3, 1)), [send(Message::Ack(zxid(3, 1)))]);
    }
}

/// A follower acknowledges nothing before the history.
#[test]
fn k007_no_proposal_is_acknowledged_before_the_history() {
    let mut script = Script::promised(claim());
    script.hears(Message::Diff(zxid(1, 3)));
    script.hears(proposal(3, 1));
    script.hears(new_leader(3));
    assert_eq!(script.durable(zxid(3, 1)), []);
}

/// A hole in what a leader offers is not taken; the whole state is asked for.
#[test]
fn k009_a_hole_in_the_history_is_refused() {
    for first in [proposal(1, 5), proposal(3, 2), proposal(1, 3)] {
        let mut script = Script::promised(claim());
        script.hears(Message::Diff(zxid(3, 9)));
        assert_eq!(script.hears(first), [Effect::Leave(Reason::NeedsSnapshot)]);
    }
    let mut script = Script::promised(claim());
    script.hears(Message::Diff(zxid(3, 9)));
    script.hears(proposal(2, 1));
    assert_eq!(script.hears(proposal(2, 3)), [Effect::Leave(Reason::NeedsSnapshot)]);
}

#[test]
fn broadcast_has_no_holes_no_repetitions_and_commits_in_order() {
    let broken: [&[Message]; 7] = [
        &[proposal(3, 2)],
        &[proposal(3, 1), proposal(3, 1)],
        &[proposal(3, 1), proposal(3, 2), Message::Commit(zxid(3, 2))],
        &[Message::Commit(zxid(3, 1))],
        &[proposal(3, 1), proposal(3, 2), Message::Commits(Run { first: zxid(3, 2), last: zxid(3, 3) })],
        &[proposal(3, 1), Message::Commits(Run { first: zxid(3, 1), last: zxid(3, 2) })],
        &[proposal(2, 9)],
    ];
    for messages in broken {
        let mut script = Script::promised(claim());
        script.hears(Message::Diff(zxid(1, 3)));
        script.settles();
        let mut last = Effects::new();
        for message in messages {
            last = script.hears(message.clone());
        }
        assert!(is_violation(&last), "{messages:?}: {last:?}");
    }
}

#[test]
fn acknowledgements_are_in_order_and_complete() {
    let mut script = Script::promised(claim());
    script.hears(Message::Diff(zxid(1, 3)));
    script.settles();
    (1..=3).for_each(|counter| drop(script.hears(proposal(3, counter))));
    assert_eq!(script.durable(zxid(3, 2)), [send(Message::Acks(Run { first: zxid(3, 1), last: zxid(3, 2) }))]);
    assert_eq!(script.durable(zxid(3, 2)), []);
    assert_eq!(script.durable(zxid(3, 3)), [send(Message::Ack(zxid(3, 3)))]);
}

/// What follows a truncation is logged, so that an interruption leaves memory and disk equal.
#[test]
fn k011_what_follows_a_truncation_is_logged() {
    let mut script = Script::promised(claim());
    assert_eq!(script.hears(Message::Trunc(zxid(1, 2))), [Effect::Disk(DiskJob::Truncate(zxid(1, 2)))]);
    assert!(!script.learner.takes_packets());
    script.history.truncate(zxid(1, 2));
    assert_eq!(script.finished(DiskDone::Truncated(Some(zxid(1, 2)))), [Effect::Commit(zxid(1, 2))]);
    script.hears(proposal(2, 1));
    assert_eq!(script.hears(Message::Commit(zxid(2, 1))), append_and_commit(2, 1));
}

/// A history that cannot be cut there is not pretended to be.
#[test]
fn k019_a_truncation_that_fails_is_not_done() {
    let mut script = Script::promised(claim());
    script.hears(Message::Trunc(zxid(1, 2)));
    assert_eq!(script.finished(DiskDone::Truncated(None)), [Effect::Leave(Reason::NeedsSnapshot)]);
    let mut script = Script::promised(claim());
    script.hears(Message::Trunc(zxid(1, 2)));
    assert_eq!(script.finished(DiskDone::Truncated(Some(zxid(1, 1)))), [Effect::Leave(Reason::LinkLost)]);
}

/// What comes between the state and NEWLEADER belongs to the state; what is not committed by then is logged later.
#[test]
fn k014_a_received_state_is_complete_when_it_is_installed() {
    let mut script = Script::promised(claim());
    assert_eq!(script.hears(Message::Snap(zxid(2, 5))), []);
    assert!(script.learner.is_loading());
    script.learner.on_loaded(15);
    for message in [proposal(2, 5), proposal(2, 6), proposal(3, 1)] {
        assert_eq!(script.hears(message), []);
    }
    assert_eq!(script.hears(Message::Commit(zxid(2, 5))), [Effect::Stage(txn(2, 5))]);
    assert_eq!(script.hears(Message::Commit(zxid(2, 6))), [Effect::Stage(txn(2, 6))]);
    let settling = [DiskJob::Install(zxid(2, 6)), DiskJob::CurrentEpoch(Epoch(3))].map(Effect::Disk);
    assert_eq!(script.hears(new_leader(3)), settling);
    assert_eq!(script.history.last(), zxid(2, 6));
    script.finished(DiskDone::CurrentEpoch(Epoch(3)));
    let served = script.hears(Message::UpToDate);
    assert_eq!(served.last(), Some(&Effect::Append(txn(3, 1))));
    let mut script = Script::promised(claim());
    script.hears(Message::Snap(zxid(2, 5)));
    script.learner.on_loaded(15);
    assert_eq!(script.hears(proposal(2, 7)), [Effect::Leave(Reason::NeedsSnapshot)]);
}

/// A state that overlaps with what follows it must not leave half of the overlap for later.
#[test]
fn what_a_state_contains_is_committed_before_it_is_installed() {
    let overlaps: [&[Message]; 2] = [&[proposal(2, 4), Message::Commit(zxid(2, 4))], &[proposal(2, 5), proposal(2, 6)]];
    for messages in overlaps {
        let mut script = Script::promised(claim());
        script.hears(Message::Snap(zxid(2, 5)));
        script.learner.on_loaded(15);
        messages.iter().for_each(|message| drop(script.hears(message.clone())));
        assert!(is_violation(&script.hears(new_leader(3))), "{messages:?}");
    }
}

/// Asking for a state by pretending to have nothing is for those who are not counted.
#[test]
fn who_wants_a_snapshot_is_never_counted_with_a_lie() {
    let wants = Claim { wants_snapshot: true, ..claim() };
    let mut script = Script::new(wants);
    script.hears(Message::LeaderInfo(Epoch(3)));
    let truth = Message::AckEpoch { last: zxid(1, 3), current: Some(Epoch(1)) };
    assert_eq!(script.done(3), [send(truth)]);
    let mut script = Script::new(wants);
    let plea = Message::AckEpoch { last: Zxid::ZERO, current: None };
    assert_eq!(script.hears(Message::LeaderInfo(Epoch(2))), [send(plea.clone())]);
    assert_eq!(script.hears(Message::Diff(zxid(1, 3))), [Effect::Leave(Reason::NeedsSnapshot)]);
    let mut script = Script::new(Claim { standing: Standing::Quarantined, ..claim() });
    assert_eq!(script.hears(Message::LeaderInfo(Epoch(3))), [send(plea)]);
    assert_eq!(script.hears(Message::Trunc(zxid(1, 1))), [Effect::Leave(Reason::NeedsSnapshot)]);
}

/// A server that has nothing promises when it has the leader's history, not before.
#[test]
fn who_has_nothing_promises_with_the_history() {
    let epochs = Epochs { accepted: Epoch(0), current: Epoch(0) };
    let mut script = Script::new(Claim { standing: Standing::Empty, last: Zxid::ZERO, epochs, ..claim() });
    script.hears(Message::LeaderInfo(Epoch(1)));
    script.hears(Message::Diff(Zxid::ZERO));
    let jobs = [DiskJob::Found, DiskJob::AcceptedEpoch(Epoch(1)), DiskJob::CurrentEpoch(Epoch(1))];
    assert_eq!(script.hears(new_leader(1)), jobs.map(Effect::Disk));
}

#[test]
fn k026_observers_log_what_they_are_told_and_acknowledge_nothing() {
    let mut script = Script::promised(Claim { kind: LearnerKind::Observer, ..claim() });
    script.hears(Message::Diff(zxid(1, 3)));
    assert_eq!(script.hears(Message::Inform(txn(1, 4))), append_and_commit(1, 4));
    script.hears(new_leader(3));
    script.finished(DiskDone::CurrentEpoch(Epoch(3)));
    script.hears(Message::Inform(txn(3, 1)));
    let served = script.hears(Message::UpToDate);
    assert_eq!(served[2..], append_and_commit(3, 1));
    assert_eq!(script.hears(Message::Inform(txn(3, 2))), append_and_commit(3, 2));
    assert_eq!(script.hears(proposal(3, 9)), []);
    assert_eq!(script.durable(zxid(3, 2)), []);
    assert!(is_violation(&script.hears(Message::Inform(txn(3, 4)))));
}

#[test]
fn a_silent_leader_is_given_up() {
    let mut script = Script::promised(claim());
    script.hears(Message::Diff(zxid(1, 3)));
    assert_eq!(script.learner.deadline(), Some(10 + 1000));
    script.settles();
    assert_eq!(script.learner.deadline(), Some(10 + 500));
    let mut cx = Context { now_ms: 510, history: &mut script.history, out: &mut script.out };
    script.learner.on_time(&mut cx);
    assert_eq!(script.out, [Effect::Leave(Reason::Silence)]);
}

/// Apache's followers tell their observers again what they have just given them.
#[test]
fn what_an_observer_has_it_does_not_take_again() {
    let mut script = Script::promised(Claim { kind: LearnerKind::Observer, ..claim() });
    script.hears(Message::Diff(zxid(1, 4)));
    script.hears(proposal(1, 4));
    script.hears(Message::Commit(zxid(1, 4)));
    let inform = |epoch, counter| Message::Inform(txn(epoch, counter));
    assert_eq!(script.hears(inform(1, 4)), []);
    script.settles();
    assert_eq!(script.hears(inform(1, 4)), []);
    assert_eq!(script.hears(inform(3, 1)), append_and_commit(3, 1));
    assert_eq!(script.hears(inform(3, 1)), []);
    let left = script.hears(inform(3, 3));
    assert!(left.iter().any(|effect| matches!(effect, Effect::Leave(_))), "{left:?}: a hole is a hole");
}

/// What a state may contain already comes before NEWLEADER, or it cannot be logged.
#[test]
fn after_a_state_nothing_old_is_logged() {
    let mut script = Script::promised(claim());
    script.hears(Message::Snap(zxid(2, 5)));
    script.learner.on_loaded(10);
    script.hears(new_leader(3));
    script.finished(DiskDone::Installed(zxid(2, 5)));
    script.finished(DiskDone::CurrentEpoch(Epoch(3)));
    let left = script.hears(proposal(2, 5));
    assert!(left.iter().any(|effect| matches!(effect, Effect::Leave(_))), "{left:?}");
}

/// Requests that are forwarded to a frozen leader say nothing about it.
#[test]
fn p65_what_is_sent_to_a_leader_does_not_keep_it() {
    for (moved, stays) in [(Moved::Went, false), (Moved::Came, true)] {
        let mut script = Script::promised(claim());
        script.hears(Message::Diff(zxid(1, 3)));
        script.settles();
        for now_ms in (0..3000).step_by(50) {
            script.learner.on_progress(now_ms, moved);
            let mut cx = Context { now_ms, history: &mut script.history, out: &mut script.out };
            script.learner.on_time(&mut cx);
        }
        assert_eq!(script.out.is_empty(), stays, "{moved:?}");
    }
}
