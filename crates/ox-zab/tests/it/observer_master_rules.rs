//! An observer master and its observers, packet by packet.

use crate::single_member::TIMING;
use bytes::Bytes;
use ox_proto::{SessionId, Zxid};
use ox_zab::{
    Context, Effect, Effects, EncodedTxn, Epoch, LearnerKind, LinkId, LogDiffRange, Message, ObserverMaster,
    PeerOptions, RecentLog, ServerId, ServingState, Traffic,
};

struct Script {
    master: ObserverMaster,
    history: RecentLog,
    now_ms: i64,
}

fn zxid(epoch: u32, counter: u32) -> Zxid {
    Zxid::new(epoch, counter)
}

fn txn(counter: u32) -> EncodedTxn {
    EncodedTxn { zxid: zxid(2, counter), record: Bytes::new() }
}

fn to(link: u64, message: Message) -> Effect {
    Effect::Send(LinkId(link), message)
}

fn hello(server: u64) -> Message {
    let server = ServerId(i64::try_from(server).unwrap());
    Message::Hello { server, kind: LearnerKind::Observer, accepted: Epoch(1), config_version: 0 }
}

fn new_leader() -> Message {
    Message::NewLeader { epoch: Epoch(2), config: Bytes::from_static(b"config") }
}

impl Script {
    /// A follower in epoch 2 that has logged (2,4), knows that (2,3) is committed, and has applied (2,2).
    fn new() -> Self {
        let mut history = RecentLog::new(zxid(2, 0), 500, 1 << 20);
        (1..=4).for_each(|counter| history.push(txn(counter)));
        let options = PeerOptions { max_snap_syncs: 1, max_diff_syncs: 2, ..PeerOptions::default() };
        Self { master: ObserverMaster::new(Self::office(), TIMING, options, 0), history, now_ms: 0 }
    }

    fn office() -> ServingState {
        ServingState {
            epoch: Epoch(2),
            config: Bytes::from_static(b"config"),
            config_version: 0,
            committed: zxid(2, 3),
            applied: zxid(2, 2),
        }
    }

    fn with(&mut self, step: impl FnOnce(&mut ObserverMaster, &mut Context<'_>)) -> Effects {
        let mut out = Effects::new();
        step(&mut self.master, &mut Context { now_ms: self.now_ms, history: &mut self.history, out: &mut out });
        out
    }

    fn receives(&mut self, link: u64, message: Message) -> Effects {
        self.with(|master, cx| master.on_message(cx, LinkId(link), message))
    }

    /// An observer connects, up to the start of its synchronisation after `last`.
    fn connects(&mut self, link: u64, last: Zxid) -> Effects {
        self.with(|master, cx| master.on_link(cx.now_ms, LinkId(link)));
        assert_eq!(
            self.receives(link, hello(link)),
            [to(link, Message::LeaderInfo(Epoch(2)))],
            "there is no discovery"
        );
        self.receives(link, Message::AckEpoch { last, current: Some(Epoch(1)) })
    }

    /// The same, up to UPTODATE.
    fn joins(&mut self, link: u64) {
        self.connects(link, zxid(2, 3));
        assert_eq!(self.receives(link, Message::Ack(zxid(2, 0))), [to(link, Message::UpToDate)]);
    }

    fn commits(&mut self, counter: u32) -> Effects {
        self.with(|master, cx| master.on_commit(cx, zxid(2, counter)))
    }

    fn advance(&mut self, ms: i64) -> Effects {
        self.now_ms += ms;
        self.with(|master, cx| master.on_time(cx))
    }
}

#[test]
fn observers_get_committed_transactions_only() {
    let mut script = Script::new();
    let given = script.connects(9, zxid(2, 2));
    let expected = [Message::Diff(zxid(2, 3)), Message::Proposal(txn(3)), Message::Commit(zxid(2, 3)), new_leader()];
    assert_eq!(given, expected.map(|message| to(9, message)));
    assert_eq!(script.commits(4), [to(9, Message::Inform(txn(4)))], "also before it is ready");
    assert_eq!(script.receives(9, Message::Ack(zxid(2, 0))), [to(9, Message::UpToDate)]);
    assert_eq!(script.receives(9, Message::Ack(zxid(2, 0))), [], "it says so again");
    assert_eq!(script.commits(4), [], "once is enough");
    assert_eq!(script.master.active(), 1);
}

#[test]
fn snapshot_is_followed_by_later_transactions() {
    let mut script = Script::new();
    let given = script.connects(9, Zxid::ZERO);
    let expected = [Message::Proposal(txn(3)), Message::Commit(zxid(2, 3)), new_leader()];
    assert_eq!(given[0], Effect::SendSnapshot(LinkId(9)));
    assert_eq!(given[1..], expected.map(|message| to(9, message)));
}

#[test]
fn only_observers_are_served() {
    let mut script = Script::new();
    let accepted = Epoch(1);
    for (link, hello) in [
        Message::Hello { server: ServerId(2), kind: LearnerKind::Follower, accepted, config_version: 0 },
        Message::Hello { server: ServerId(2), kind: LearnerKind::Observer, accepted, config_version: 1 },
        Message::Ack(zxid(2, 0)),
        Message::Pong(zxid(2, 0), Bytes::new()),
        Message::Revalidate(SessionId(7), 1000),
    ]
    .into_iter()
    .enumerate()
    {
        let link = link as u64 + 1;
        script.with(|master, cx| master.on_link(cx.now_ms, LinkId(link)));
        assert_eq!(script.receives(link, hello), [Effect::Close(LinkId(link))]);
    }
    assert_eq!(script.master.links().count(), 0);
}

/// The observer knows of more commits than this follower. Truncating them would undo what its clients have seen.
#[test]
fn observer_ahead_of_master_is_closed() {
    let mut script = Script::new();
    assert_eq!(script.connects(9, zxid(2, 4)), [Effect::Close(LinkId(9))]);
    assert_eq!(
        script.connects(8, zxid(1, 9)),
        [Effect::ReadLog(LinkId(8), LogDiffRange { after: zxid(1, 9), below: zxid(2, 1), continues: false })]
    );
    let given = script.with(|master, cx| master.on_log_read(cx, LinkId(8), None));
    assert!(given.contains(&Effect::SendSnapshot(LinkId(8))), "{given:?}: of an old epoch it may have too much");
}

#[test]
fn concurrent_syncs_are_limited() {
    let mut script = Script::new();
    assert!(script.connects(1, Zxid::ZERO).contains(&Effect::SendSnapshot(LinkId(1))));
    assert_eq!(script.connects(2, Zxid::ZERO), [Effect::Close(LinkId(2))]);
    for link in [3, 4] {
        assert_ne!(script.connects(link, zxid(2, 2)), [Effect::Close(LinkId(link))]);
    }
    assert_eq!(script.connects(5, zxid(2, 2)), [Effect::Close(LinkId(5))]);
    script.receives(1, Message::Ack(zxid(2, 0)));
    assert!(script.connects(2, Zxid::ZERO).contains(&Effect::SendSnapshot(LinkId(2))));
}

#[test]
fn requests_of_active_observers_are_passed_on() {
    let asked = Message::Revalidate(SessionId(7), 1000);
    let mut script = Script::new();
    script.connects(9, zxid(2, 3));
    assert_eq!(script.receives(9, asked.clone()), [Effect::Close(LinkId(9))]);
    script.joins(8);
    assert_eq!(script.receives(8, asked.clone()), [Effect::FromLearner(LinkId(8), ServerId(8), asked)]);
}

#[test]
fn silent_observer_is_closed() {
    let mut script = Script::new();
    assert_eq!(script.master.deadline(), None, "nothing is to do");
    script.joins(9);
    for _ in 0..10 {
        assert_eq!(script.advance(50), [to(9, Message::Ping(zxid(2, 3)))]);
    }
    script.receives(9, Message::Pong(zxid(2, 3), Bytes::new()));
    for _ in 0..10 {
        assert_eq!(script.advance(50), [to(9, Message::Ping(zxid(2, 3)))]);
    }
    assert_eq!(script.advance(50), [Effect::Close(LinkId(9))]);
    assert_eq!(script.commits(4), []);
}

#[test]
fn second_link_of_observer_replaces_first() {
    let mut script = Script::new();
    script.joins(9);
    script.with(|master, cx| master.on_link(cx.now_ms, LinkId(10)));
    let effects = script.receives(10, hello(9));
    assert_eq!(effects, [Effect::Close(LinkId(9)), to(10, Message::LeaderInfo(Epoch(2)))]);
}

/// A new ensemble has no transaction yet, but an empty observer cannot know that nothing is missing.
#[test]
fn empty_observer_gets_snapshot_even_if_empty() {
    let mut script = Script::new();
    let office = ServingState {
        epoch: Epoch(2),
        config: Bytes::from_static(b"config"),
        config_version: 0,
        committed: Zxid::ZERO,
        applied: Zxid::ZERO,
    };
    script.master = ObserverMaster::new(office, TIMING, PeerOptions::default(), 0);
    script.history = RecentLog::new(Zxid::ZERO, 500, 1 << 20);
    assert_eq!(script.connects(9, Zxid::ZERO), [Effect::SendSnapshot(LinkId(9)), to(9, new_leader())]);
}

/// An observer that is being synchronised may be silent while its backlog shrinks; an active observer may not.
#[test]
fn sent_bytes_are_sign_of_life_only_during_sync() {
    for (is_active, moved) in [(false, Traffic::Sent), (true, Traffic::Sent), (true, Traffic::Received)] {
        let mut script = Script::new();
        if is_active {
            script.joins(9);
        } else {
            script.connects(9, zxid(2, 2));
        }
        let mut all = Effects::new();
        for _ in 0..60 {
            all.extend(script.advance(50));
            script.master.on_traffic(script.now_ms, LinkId(9), moved);
        }
        assert_eq!(all.contains(&Effect::Close(LinkId(9))), is_active && moved == Traffic::Sent, "{moved:?}");
    }
}

/// Transactions from disk are sent as history, which an observer accepts only before NEWLEADER.
#[test]
fn observer_whose_history_was_dropped_is_closed_after_newleader_and_continued_from_disk_before() {
    for (last, is_complete) in [(zxid(2, 1), false), (zxid(2, 3), true)] {
        let mut script = Script::new();
        let options = PeerOptions { learner_window_bytes: 1, ..PeerOptions::default() };
        script.master = ObserverMaster::new(Script::office(), TIMING, options, 0);
        let first = script.connects(9, last);
        assert_eq!(first.contains(&to(9, new_leader())), is_complete, "{first:?}");
        script.history.restart(zxid(2, 6));
        script.history.push(txn(7));
        script.with(|master, cx| master.on_commit(cx, zxid(2, 7)));
        let more = script.with(|master, cx| master.on_sent(cx, LinkId(9), usize::MAX));
        let search = LogDiffRange { after: last, below: zxid(2, 7), continues: true };
        let expected = if is_complete { Effect::Close(LinkId(9)) } else { Effect::ReadLog(LinkId(9), search) };
        assert_eq!(more, [expected]);
    }
}
