//! One leader, packet by packet: which servers it counts, which it refuses, and when it steps down.

use crate::single_member::TIMING;
use bytes::Bytes;
use ox_proto::ensemble::{Change, ChangeRules, Ensemble};
use ox_proto::txn::{Record, Txn as Body, TxnHeader};
use ox_proto::{ErrorCode, SessionId, Zxid};
use ox_zab::{
    ConfigPair, Context, DiskDone, DiskJob, Effect, Effects, EncodedTxn, Epoch, Epochs, Leader, LeaderInit,
    LearnerKind, LinkId, LogDiffRange, Message, PeerOptions, Reason, RecentLog, ServerId, Traffic,
};
use std::sync::Arc;

struct Script {
    leader: Leader,
    history: RecentLog,
    now_ms: i64,
    out: Effects,
}

fn zxid(epoch: u32, counter: u32) -> Zxid {
    Zxid::new(epoch, counter)
}

fn txn(epoch: u32, counter: u32) -> EncodedTxn {
    EncodedTxn { zxid: zxid(epoch, counter), record: Bytes::new() }
}

fn ensemble() -> Ensemble {
    Ensemble::of_numbers(0, [1, 2, 3].map(ServerId), [ServerId(9)]).unwrap()
}

fn hello(server: i64, accepted: i64) -> Message {
    let kind = if server < 8 { LearnerKind::Follower } else { LearnerKind::Observer };
    Message::Hello { server: ServerId(server), kind, accepted: Epoch(accepted), config_version: 0 }
}

fn to(link: u64, message: Message) -> Effect {
    Effect::Send(LinkId(link), message)
}

impl Script {
    /// Server 1 of three (5 is no voter, 9 is an observer), elected with a history of epoch 1 that ends at (1,3).
    fn new() -> Self {
        Self::of(ConfigPair::fixed(ensemble()))
    }

    fn of(configs: ConfigPair) -> Self {
        let (mut history, mut out) = (RecentLog::new(zxid(1, 1), 500, 1 << 20), Effects::new());
        history.push(txn(1, 2));
        history.push(txn(1, 3));
        let epochs = Epochs { accepted: Epoch(1), current: Epoch(1) };
        let (server, options) = (ServerId(1), PeerOptions::default());
        let candidate = LeaderInit { server, epochs, known_accepted: Epoch::ZERO, options };
        let mut cx = Context { now_ms: 0, history: &mut history, out: &mut out };
        let leader = Leader::new(candidate, TIMING, configs, zxid(1, 3), &mut cx);
        assert_eq!(out, []);
        Self { leader, history, now_ms: 0, out }
    }

    fn with(&mut self, step: impl FnOnce(&mut Leader, &mut Context<'_>)) -> Effects {
        let mut cx = Context { now_ms: self.now_ms, history: &mut self.history, out: &mut self.out };
        step(&mut self.leader, &mut cx);
        std::mem::take(&mut self.out)
    }

    fn receives(&mut self, link: u64, message: Message) -> Effects {
        self.with(|leader, cx| leader.on_message(cx, LinkId(link), message))
    }

    /// A learner connects; links have the numbers of their servers.
    fn connects(&mut self, server: i64, accepted: i64) -> Effects {
        let link = server.unsigned_abs();
        self.with(|leader, cx| leader.on_link(cx, LinkId(link)));
        self.receives(link, hello(server, accepted))
    }

    fn done(&mut self, done: DiskDone) -> Effects {
        self.with(|leader, cx| leader.on_done(cx, done))
    }

    fn durable(&mut self, zxid: Zxid) -> Effects {
        self.with(|leader, cx| leader.on_durable(cx, zxid))
    }

    fn proposes(&mut self, counter: u32) -> Effects {
        self.with(|leader, cx| leader.propose(cx, [txn(2, counter)]))
    }

    fn advance(&mut self, ms: i64) -> Effects {
        self.now_ms += ms;
        self.with(|leader, cx| leader.on_time(cx))
    }

    /// Waits for ACKEPOCH, with server 2 connected.
    fn asking() -> Self {
        let mut script = Self::new();
        assert_eq!(script.connects(2, 1), [Effect::Disk(DiskJob::AcceptedEpoch(Epoch(2)))]);
        assert_eq!(script.done(DiskDone::AcceptedEpoch(Epoch(2))), [to(2, Message::LeaderInfo(Epoch(2)))]);
        script
    }

    /// Waits for ACKs of NEWLEADER; server 2 has been sent its history.
    fn presenting() -> Self {
        let mut script = Self::asking();
        let promise = Message::AckEpoch { last: zxid(1, 3), current: Some(Epoch(1)) };
        assert_eq!(script.receives(2, promise), [Effect::Disk(DiskJob::CurrentEpoch(Epoch(2)))]);
        let new_leader = Message::NewLeader { epoch: Epoch(2), config: Bytes::from(ensemble().to_string()) };
        let expected = [to(2, Message::Diff(zxid(1, 3))), to(2, new_leader)];
        assert_eq!(script.done(DiskDone::CurrentEpoch(Epoch(2))), expected);
        script
    }

    fn established() -> Self {
        let mut script = Self::presenting();
        let expected = [Effect::Commit(zxid(1, 3)), Effect::Established(Epoch(2)), to(2, Message::UpToDate)];
        assert_eq!(script.receives(2, Message::Ack(zxid(2, 0))), expected);
        script
    }
}

#[test]
fn epoch_is_above_all_accepted_epochs_and_durable_before_leader_info() {
    let mut script = Script::new();
    assert_eq!(script.connects(9, 6), [], "observers are asked, and do not count");
    assert_eq!(script.connects(5, 4), [], "nor do unknown servers");
    assert_eq!(script.connects(2, 3), [Effect::Disk(DiskJob::AcceptedEpoch(Epoch(7)))]);
    assert_eq!(script.connects(3, 1), []);
    let told = script.done(DiskDone::AcceptedEpoch(Epoch(7)));
    assert_eq!(told, [2, 3, 5, 9].map(|link| to(link, Message::LeaderInfo(Epoch(7)))));
}

/// Transactions from disk are sent as history, which a learner accepts only before NEWLEADER.
#[test]
fn learner_whose_history_was_dropped_is_closed_after_newleader_and_continued_from_disk_before() {
    let mut script = Script::established();
    let record = Bytes::from(vec![0; PeerOptions::default().learner_window_bytes]);
    script.with(|leader, cx| leader.propose(cx, [EncodedTxn { zxid: zxid(2, 1), record }, txn(2, 2)]));
    script.receives(2, Message::Ack(zxid(2, 2)));
    script.durable(zxid(2, 2));
    script.connects(3, 1);
    let promise = Message::AckEpoch { last: zxid(1, 3), current: Some(Epoch(1)) };
    assert_eq!(script.receives(3, promise).len(), 3, "DIFF, and a transaction that fills the window");
    script.history.restart(zxid(2, 6));
    script.history.push(txn(2, 7));
    let search = LogDiffRange { after: zxid(2, 1), below: zxid(2, 7), continues: true };
    let mut is_sent = |link| script.with(|leader, cx| leader.on_sent(cx, LinkId(link), usize::MAX));
    assert_eq!([is_sent(2), is_sent(3)], [[Effect::Close(LinkId(2))], [Effect::ReadLog(LinkId(3), search)]]);
}

/// Replies may wait for a commit that cannot be sent, or for the socket.
#[test]
fn learner_that_leaves_replies_unread_is_closed() {
    let (reply, window_bytes) = (Message::Revalidated(SessionId(1), true), PeerOptions::default().learner_window_bytes);
    for (waits_for_commit, reads) in [(true, false), (false, false), (false, true)] {
        let mut script = Script::established();
        let record = Bytes::from(vec![0; window_bytes]);
        script.with(|leader, cx| leader.propose(cx, [EncodedTxn { zxid: zxid(2, 1), record }, txn(2, 2)]));
        script.durable(zxid(2, 2));
        if waits_for_commit {
            script.receives(2, Message::Ack(zxid(2, 2)));
        }
        let replies_max = 8 * window_bytes / reply.flow_bytes();
        let closed = (1..=replies_max).find(|number| {
            if reads && number % 1_000 == 0 {
                script.with(|leader, cx| leader.on_sent(cx, LinkId(2), usize::MAX));
            }
            let out = script.with(|leader, cx| leader.send(cx.out, LinkId(2), reply.clone()));
            assert_ne!(out.contains(&to(2, reply.clone())), waits_for_commit);
            out.contains(&Effect::Close(LinkId(2)))
        });
        assert_eq!(closed.is_none(), reads);
        let unread_bytes = closed.unwrap_or(replies_max / 2) * reply.flow_bytes();
        assert!((window_bytes / 2..=4 * window_bytes + 100).contains(&unread_bytes), "{unread_bytes}");
    }
}

/// A voter with a longer history, or one of a later epoch, must not lose it.
#[test]
fn voter_ahead_of_leader_is_refused() {
    for (last, current) in [(zxid(1, 4), 1), (zxid(1, 2), 2)] {
        let mut script = Script::asking();
        let promise = Message::AckEpoch { last, current: Some(Epoch(current)) };
        assert_eq!(script.receives(2, promise), [Effect::Close(LinkId(2))]);
    }
}

#[test]
fn k084_only_voters_count() {
    let mut script = Script::presenting();
    for (server, promised) in [(9, zxid(1, 3)), (5, zxid(1, 3))] {
        script.connects(server, 1);
        script.receives(server.unsigned_abs(), Message::AckEpoch { last: promised, current: Some(Epoch(1)) });
        assert_eq!(script.receives(server.unsigned_abs(), Message::Ack(zxid(2, 0))), []);
    }
    assert!(!script.leader.is_established());
}

/// Some releases acknowledge proposals before NEWLEADER: these ACKs count later.
#[test]
fn k007_ack_before_newleader_counts_later() {
    let mut script = Script::established();
    script.proposes(1);
    script.connects(3, 1);
    let synced = script.receives(3, Message::AckEpoch { last: zxid(1, 3), current: Some(Epoch(1)) });
    assert_eq!(synced[2], to(3, Message::Proposal(txn(2, 1))));
    assert_eq!(script.receives(3, Message::Ack(zxid(2, 1))), []);
    assert_eq!(script.durable(zxid(2, 1)), [], "its epoch is not settled");
    let counted = script.receives(3, Message::Ack(zxid(2, 0)));
    let expected = [
        to(3, Message::UpToDate),
        to(2, Message::Commit(zxid(2, 1))),
        to(3, Message::Commit(zxid(2, 1))),
        Effect::Commit(zxid(2, 1)),
    ];
    assert_eq!(counted, expected);
}

/// The proof of leadership needs replies to pings that were sent after the request.
#[test]
fn k100_sync_needs_fresh_proof_of_leadership() {
    let mut script = Script::established();
    let pong = || Message::Pong(zxid(2, 0), Bytes::new());
    script.advance(50); // a ping is in flight
    script.with(|leader, _| leader.on_sync(1, Zxid::ZERO));
    assert_eq!(script.with(|leader, cx| leader.flush(cx)), [to(2, Message::Ping(zxid(2, 0)))]);
    let answered = |effects: &Effects| effects.contains(&Effect::Synced(1));
    assert!(!answered(&script.receives(2, pong())), "that ping is older than the question");
    assert!(answered(&script.receives(2, pong())));
}

/// A leader with a stalled disk steps down although its followers are connected.
#[test]
fn k095_leader_with_stalled_disk_steps_down() {
    let mut script = Script::established();
    script.proposes(1);
    let mut left = Effects::new();
    for _ in 0..12 {
        left.extend(script.advance(50));
        script.receives(2, Message::Ack(zxid(2, 1)));
    }
    assert!(left.contains(&Effect::StepDown(Reason::DiskStalled)), "{left:?}");
}

#[test]
fn leader_without_quorum_steps_down_in_time() {
    let mut script = Script::established();
    let mut left = Effects::new();
    for _ in 0..11 {
        left.extend(script.advance(50));
    }
    assert!(left.contains(&Effect::Close(LinkId(2))) && left.contains(&Effect::StepDown(Reason::NoQuorum)), "{left:?}");
    let mut script = Script::new();
    let mut left = Effects::new();
    for _ in 0..22 {
        left.extend(script.advance(50));
    }
    assert!(left.contains(&Effect::StepDown(Reason::NoQuorum)), "no learner connected");
}

/// Any host may send a voter's id; with an epoch near the last one it would exhaust the epoch space.
#[test]
fn voter_that_claims_a_far_higher_epoch_is_closed_and_the_leader_stays() {
    let mut script = Script::established();
    let mut left = Effects::new();
    for _ in 0..25 {
        assert_eq!(script.connects(3, 1 << 20), [Effect::Close(LinkId(3))]);
        script.receives(2, Message::Pong(zxid(2, 0), Bytes::new()));
        left.extend(script.advance(50));
    }
    assert!(!left.contains(&Effect::StepDown(Reason::HigherAcceptedEpoch)), "{left:?}");
    let accepted = Effect::Disk(DiskJob::AcceptedEpoch(Epoch((1 << 20) + 1)));
    assert_eq!(Script::new().connects(3, 1 << 20), [accepted], "a leader without a quorum needs it");
}

/// A follower that replies to pings but does not acknowledge is closed.
#[test]
fn k098_follower_without_acks_is_closed() {
    let mut script = Script::established();
    script.connects(3, 1);
    script.receives(3, Message::AckEpoch { last: zxid(1, 3), current: Some(Epoch(1)) });
    script.receives(3, Message::Ack(zxid(2, 0)));
    script.proposes(1);
    script.durable(zxid(2, 1));
    script.receives(3, Message::Ack(zxid(2, 1)));
    let mut closed = Effects::new();
    for _ in 0..12 {
        closed.extend(script.advance(50));
        for link in [2, 3] {
            script.receives(link, Message::Pong(zxid(2, 1), Bytes::new()));
        }
    }
    assert!(closed.contains(&Effect::Close(LinkId(2))) && !closed.contains(&Effect::Close(LinkId(3))));
}

/// The follower acknowledges after a quorum has committed, and there is no further proposal.
#[test]
fn follower_slower_than_quorum_stays() {
    let mut script = Script::established();
    script.connects(3, 1);
    script.receives(3, Message::AckEpoch { last: zxid(1, 3), current: Some(Epoch(1)) });
    script.receives(3, Message::Ack(zxid(2, 0)));
    script.proposes(1);
    script.durable(zxid(2, 1));
    script.receives(2, Message::Ack(zxid(2, 1)));
    script.advance(50);
    script.receives(3, Message::Ack(zxid(2, 1)));
    for _ in 0..20 {
        assert!(!script.advance(100).contains(&Effect::Close(LinkId(3))));
        script.receives(2, Message::Pong(zxid(2, 1), Bytes::new()));
        script.receives(3, Message::Pong(zxid(2, 1), Bytes::new()));
    }
}

/// A quorum always commits before this follower acknowledges: it must not be closed.
#[test]
fn follower_that_always_acks_last_stays() {
    let mut script = Script::established();
    script.connects(3, 1);
    script.receives(3, Message::AckEpoch { last: zxid(1, 3), current: Some(Epoch(1)) });
    assert_eq!(script.receives(3, Message::Ack(zxid(2, 0))), [to(3, Message::UpToDate)]);
    script.proposes(1);
    script.durable(zxid(2, 1));
    script.receives(2, Message::Ack(zxid(2, 1)));
    assert_eq!(script.receives(3, Message::Ack(zxid(2, 1))), []);
    for _ in 0..20 {
        for link in [2, 3] {
            script.receives(link, Message::Pong(zxid(2, 1), Bytes::new()));
        }
        let out = script.advance(50);
        assert!(!out.contains(&Effect::Close(LinkId(3))), "{out:?}");
    }
}

/// Whatever is proposed and committed between the steps of a synchronisation, the learner is sent each transaction
/// once, in order, and each commit after its proposal.
#[test]
fn k023_learner_gets_every_transaction_once() {
    for moments in 0..32_u32 {
        let mut script = Script::established();
        let (mut all, mut counter) = (Effects::new(), 0);
        let mut moment = |script: &mut Script, all: &mut Effects, number: u32| {
            if moments >> number & 1 == 1 {
                counter += 1;
                all.extend(script.proposes(counter));
                all.extend(script.durable(zxid(2, counter)));
                all.extend(script.receives(2, Message::Ack(zxid(2, counter))));
            }
        };
        moment(&mut script, &mut all, 0);
        all.extend(script.connects(3, 1));
        moment(&mut script, &mut all, 1);
        let promise = Message::AckEpoch { last: zxid(1, 3), current: Some(Epoch(1)) };
        all.extend(script.receives(3, promise));
        moment(&mut script, &mut all, 2);
        moment(&mut script, &mut all, 3);
        all.extend(script.receives(3, Message::Ack(zxid(2, 0))));
        moment(&mut script, &mut all, 4);
        let (mut proposed, mut committed) = (Vec::new(), Vec::new());
        for effect in all {
            match effect {
                Effect::Send(LinkId(3), Message::Proposal(txn)) => proposed.push(txn.zxid),
                Effect::Send(LinkId(3), Message::Commit(zxid)) => {
                    assert!(proposed.contains(&zxid), "{moments:b}: {zxid} is committed before it is proposed");
                    committed.push(zxid);
                }
                _ => (),
            }
        }
        let expected: Vec<_> = (1..=counter).map(|counter| zxid(2, counter)).collect();
        assert_eq!((&proposed, &committed), (&expected, &expected), "{moments:b}");
    }
}

/// A long history takes time: only a learner that makes no progress is closed.
#[test]
fn k097_long_synchronisation_may_exceed_init_limit() {
    for moves in [true, false] {
        let mut script = Script::established();
        script.connects(3, 1);
        script.receives(3, Message::AckEpoch { last: zxid(1, 3), current: Some(Epoch(1)) });
        let mut all = Effects::new();
        for _ in 0..60 {
            all.extend(script.advance(50));
            let now_ms = script.now_ms;
            script.receives(2, Message::Pong(zxid(2, 0), Bytes::new()));
            if moves {
                script.leader.on_traffic(now_ms, LinkId(3), Traffic::Sent);
            }
        }
        assert_eq!(all.contains(&Effect::Close(LinkId(3))), !moves);
    }
}

/// The kernel accepts pings for a frozen peer, so sent bytes prove nothing about the receiver.
#[test]
fn p28_sent_bytes_are_no_sign_of_life() {
    for (moved, stays) in [(Traffic::Sent, false), (Traffic::Received, true)] {
        let mut script = Script::established();
        script.receives(2, Message::Ack(zxid(2, 0))); // UPTODATE
        let mut all = Effects::new();
        for _ in 0..60 {
            all.extend(script.advance(50));
            script.leader.on_traffic(script.now_ms, LinkId(2), moved);
        }
        assert_eq!(all.contains(&Effect::StepDown(Reason::NoQuorum)), !stays, "{moved:?}");
    }
}

/// A reconfiguration of the leader's epoch with these voters, and observer 9.
fn brings(counter: u32, voters: &[i64]) -> (EncodedTxn, Arc<Ensemble>) {
    let zxid = zxid(2, counter);
    let voters = voters.iter().copied().map(ServerId);
    let config = Ensemble::of_numbers(zxid.0, voters, [ServerId(9)]).unwrap();
    let text = config.to_string();
    let txn = Body::Reconfig { path: "/zookeeper/config".into(), data: Some(text.as_bytes()), version: -1 };
    let header = TxnHeader { session: SessionId(1), cxid: 1, zxid, time_ms: 1, kind: txn.kind().code() };
    let mut record = Vec::new();
    Record { header, txn, digest: None }.put(&mut record);
    (EncodedTxn { zxid, record: record.into() }, Arc::new(config))
}

/// A leader with a dynamic configuration, the first of which has the epoch's version; 2 and 5 follow it.
fn dynamic() -> Script {
    let mut script = Script::of(ConfigPair::dynamic(ensemble(), None));
    script.connects(2, 1);
    script.connects(5, 1);
    script.done(DiskDone::AcceptedEpoch(Epoch(2)));
    let first = Arc::new(ensemble().with_version(zxid(2, 0).0).unwrap());
    let promise = Message::AckEpoch { last: zxid(1, 3), current: Some(Epoch(1)) };
    let told = script.receives(2, promise.clone());
    assert_eq!(told, [Effect::ConfigProposed(Arc::clone(&first)), Effect::Disk(DiskJob::CurrentEpoch(Epoch(2)))]);
    script.receives(5, promise);
    script.done(DiskDone::CurrentEpoch(Epoch(2)));
    let told = script.receives(2, Message::Ack(zxid(2, 0)));
    assert!(told.contains(&Effect::ActivateConfig(first, Some(ServerId(1)))), "{told:?}");
    assert!(script.receives(5, Message::Ack(zxid(2, 0))).contains(&to(5, Message::UpToDate)));
    script
}

fn change(members: &str) -> Change<'_> {
    Change { members: Some(members), ..Change::default() }
}

#[test]
fn k102_reconfig_needs_quorum_of_synced_followers() {
    let mut script = dynamic();
    let judge = |script: &mut Script, members: &str, from| {
        let rules = ChangeRules::default();
        script.leader.check_reconfig(&change(members), from, zxid(2, 1), rules).map(|changed| changed.version())
    };
    let five = "server.1=a:1:2,server.2=b:1:2,server.5=c:1:2";
    assert_eq!(judge(&mut script, five, zxid(2, 0).0), Ok(zxid(2, 1).0));
    assert_eq!(judge(&mut script, five, 7), Err(ErrorCode::BadVersion));
    let strangers = "server.1=a:1:2,server.6=b:1:2,server.7=c:1:2";
    assert_eq!(judge(&mut script, strangers, -1), Err(ErrorCode::NewConfigNoQuorum));
    let (txn, _) = brings(1, &[1, 2, 5]);
    script.with(|leader, cx| leader.propose(cx, [txn]));
    assert_eq!(judge(&mut script, five, -1), Err(ErrorCode::ReconfigInProgress));
}

#[test]
fn ack_timeout_starts_after_synchronisation() {
    let mut script = Script::established();
    // Server 3 is sent its history for a long time while writes continue.
    let _ = script.connects(3, 1);
    let _ = script.receives(3, Message::AckEpoch { last: zxid(1, 3), current: Some(Epoch(1)) });
    let _ = script.proposes(1);
    let _ = script.durable(zxid(2, 1));
    let _ = script.receives(2, Message::Ack(zxid(2, 1)));
    for _ in 0..200 {
        let now_ms = script.now_ms;
        script.leader.on_traffic(now_ms, LinkId(3), Traffic::Sent);
        script.leader.on_traffic(now_ms, LinkId(2), Traffic::Received);
        let _ = script.advance(TIMING.tick_ms / 2);
    }
    let out = script.receives(3, Message::Ack(zxid(2, 0)));
    assert!(out.contains(&to(3, Message::UpToDate)), "{out:?}");
    let _ = script.receives(3, Message::Ack(zxid(2, 0)));
    let out = script.advance(TIMING.tick_ms / 2);
    assert!(!out.contains(&Effect::Close(LinkId(3))), "it has had half a tick to acknowledge: {out:?}");
}

#[test]
fn ack_runs_merge_in_any_combination() {
    let mut last = Message::Ack(Zxid(i64::MAX));
    assert!(!last.join(&Message::Ack(Zxid(1))));
}
