//! One member, from role to role: its votes and hellos, and what a role leaves behind.

use crate::single_member::{TIMING, member, settings, three};
use bytes::Bytes;
use ox_proto::Zxid;
use ox_zab::{
    DiskDone, DiskJob, Effect, Effects, Eligibility, EncodedTxn, Epoch, Input, LearnerKind, LinkId, Message, PeerState,
    QuorumPeer, Reason, ServerId, Vote, VoteNotification,
};

const LINK: LinkId = LinkId(7);

fn zxid(epoch: u32, counter: u32) -> Zxid {
    Zxid::new(epoch, counter)
}

/// Server 1 of three, with an empty history.
struct Script {
    peer: QuorumPeer,
    now_ms: i64,
}

impl Script {
    fn new(eligibility: Eligibility) -> (Self, Effects) {
        let mut script = Self { peer: member(settings(1, three()), Zxid::ZERO, eligibility), now_ms: 0 };
        let started = script.step(Input::Start);
        (script, started)
    }

    fn step(&mut self, input: Input) -> Effects {
        let mut out = Effects::new();
        self.peer.step(self.now_ms, input, &mut out);
        out
    }

    fn told(&mut self, from: i64, state: PeerState, leader: i64, zxid: Zxid, round: i64) -> Effects {
        let vote = Vote { leader: ServerId(leader), zxid, epoch: i64::from(zxid.epoch()) };
        let note = VoteNotification { state, vote, round, has_version: true };
        self.step(Input::Notification(ServerId(from), note))
    }

    fn receives(&mut self, message: Message) -> Effects {
        self.step(Input::Packet(LINK, message))
    }

    fn done(&mut self, done: DiskDone) -> Effects {
        self.step(Input::Done(done))
    }

    /// Elected by servers 2 and 3, which have not connected.
    fn elected() -> Self {
        let (mut script, _) = Self::new(Eligibility::HasHistory);
        for from in [2, 3] {
            script.told(from, PeerState::Looking, 1, Zxid::new(1, 1), 1);
        }
        assert!(script.peer.role().leader().is_some());
        script
    }

    /// Leads server 2 in epoch 1.
    fn leading() -> Self {
        let mut script = Self::elected();
        let hello =
            Message::Hello { server: ServerId(2), kind: LearnerKind::Follower, accepted: Epoch(0), config_version: 0 };
        script.step(Input::LinkOpened(LINK));
        script.receives(hello);
        script.done(DiskDone::AcceptedEpoch(Epoch(1)));
        script.receives(Message::AckEpoch { last: Zxid::ZERO, current: Some(Epoch(0)) });
        script.done(DiskDone::CurrentEpoch(Epoch(1)));
        assert!(script.receives(Message::Ack(zxid(1, 0))).contains(&Effect::Established(Epoch(1))));
        script
    }

    /// Follows server 3 in epoch 1.
    fn following() -> Self {
        let (mut script, _) = Self::new(Eligibility::HasHistory);
        script.told(2, PeerState::Looking, 3, Zxid::ZERO, 1);
        let elected = script.told(3, PeerState::Looking, 3, Zxid::ZERO, 1);
        assert!(elected.contains(&Effect::Dial(ServerId(3))), "{elected:?}");
        script.step(Input::Dialed(ServerId(3), Some(LINK)));
        script.receives(Message::LeaderInfo(Epoch(1)));
        script.done(DiskDone::AcceptedEpoch(Epoch(1)));
        script.receives(Message::Diff(Zxid::ZERO));
        script.receives(Message::NewLeader { epoch: Epoch(1), config: Bytes::new() });
        script.done(DiskDone::CurrentEpoch(Epoch(1)));
        assert!(script.receives(Message::UpToDate).contains(&Effect::UpToDate(Epoch(1))));
        script
    }
}

/// The vote that was sent to server 2.
fn vote(effects: &Effects) -> Option<Vote> {
    effects.iter().find_map(|effect| match effect {
        Effect::Notify(ServerId(2), note) => Some(note.vote),
        _ => None,
    })
}

/// The vote includes proposals that are logged and not committed: a new leader without them has to truncate them.
#[test]
fn k001_vote_and_hello_match_log() {
    let mut script = Script::following();
    script.receives(Message::Proposal(EncodedTxn { zxid: zxid(1, 1), record: Bytes::new() }));
    script.step(Input::Durable(zxid(1, 1)));
    let left = script.step(Input::LinkClosed(LINK));
    assert_eq!(vote(&left), Some(Vote { leader: ServerId(1), zxid: zxid(1, 1), epoch: 1 }));
    script.told(2, PeerState::Looking, 2, zxid(1, 2), 2);
    script.told(3, PeerState::Looking, 2, zxid(1, 2), 2);
    script.now_ms += 300;
    script.step(Input::Time);
    script.step(Input::Dialed(ServerId(2), Some(LINK)));
    script.receives(Message::LeaderInfo(Epoch(2)));
    let promise = script.done(DiskDone::AcceptedEpoch(Epoch(2)));
    let claim = Message::AckEpoch { last: zxid(1, 1), current: Some(Epoch(1)) };
    assert_eq!(promise, [Effect::Send(LINK, claim)]);
}

/// Between two roles a member waits for its disk and takes part in nothing.
#[test]
fn k008_k030_old_role_does_not_affect_new_one() {
    let mut script = Script::following();
    script.receives(Message::Proposal(EncodedTxn { zxid: zxid(1, 1), record: Bytes::new() }));
    let left = script.step(Input::LinkClosed(LINK));
    assert!(left.contains(&Effect::StepDown(Reason::LinkLost)) && !left.contains(&Effect::Looking), "{left:?}");
    assert_eq!(script.told(3, PeerState::Looking, 3, Zxid::ZERO, 9), [], "what it could say is not certain");
    assert_eq!(script.receives(Message::Commit(zxid(1, 1))), []);
    let looks = script.step(Input::Durable(zxid(1, 1)));
    assert!(looks.contains(&Effect::Looking));
    assert_eq!(vote(&looks).map(|vote| vote.zxid), Some(zxid(1, 1)));
}

/// A failed leadership uses up its epoch, and changes nothing that the member votes with.
#[test]
fn k022_failed_leadership_uses_epoch_and_keeps_vote() {
    let (mut script, _) = Script::new(Eligibility::HasHistory);
    for attempt in 1..4 {
        let round = attempt;
        script.told(2, PeerState::Looking, 1, Zxid::ZERO, round);
        script.told(3, PeerState::Looking, 1, Zxid::ZERO, round);
        assert!(script.peer.role().leader().is_some());
        script.step(Input::LinkOpened(LINK));
        let (server, kind, accepted) = (ServerId(2), LearnerKind::Follower, Epoch(attempt - 1));
        let promised = script.receives(Message::Hello { server, kind, accepted, config_version: 0 });
        assert_eq!(promised, [Effect::Disk(DiskJob::AcceptedEpoch(Epoch(attempt)))]);
        script.done(DiskDone::AcceptedEpoch(Epoch(attempt)));
        script.now_ms += 1_100;
        let left = script.step(Input::Time);
        assert!(left.contains(&Effect::StepDown(Reason::NoQuorum)), "{left:?}");
        assert_eq!(vote(&left), Some(Vote { leader: ServerId(1), zxid: Zxid::ZERO, epoch: 0 }));
    }
}

/// A member with damaged files neither votes nor is elected, whatever others report; it joins the existing leader.
#[test]
fn k041_quarantined_member_does_not_vote() {
    let (mut script, started) = Script::new(Eligibility::Quarantined);
    assert!(vote(&started).is_some_and(|vote| vote.leader == ServerId(1) && vote.zxid == Zxid(-1)), "{started:?}");
    for from in [2, 3] {
        let heard = script.told(from, PeerState::Looking, 1, zxid(1, 9), 1);
        assert!(vote(&heard).is_none_or(|vote| vote.zxid == Zxid(-1)), "{heard:?}");
    }
    script.now_ms += 1_000;
    script.step(Input::Time);
    assert_eq!(script.peer.status().state, PeerState::Looking);
    script.told(2, PeerState::Following, 3, zxid(1, 9), 1);
    let joins = script.told(3, PeerState::Leading, 3, zxid(1, 9), 1);
    assert!(joins.contains(&Effect::Dial(ServerId(3))));
    script.step(Input::Dialed(ServerId(3), Some(LINK)));
    let uncounted = Message::AckEpoch { last: Zxid::ZERO, current: None };
    assert_eq!(script.receives(Message::LeaderInfo(Epoch(4))), [Effect::Send(LINK, uncounted)]);
}

/// Effects after a pause of two `syncLimit`, and half a tick later.
fn judged(mut script: Script, is_noticed: bool) -> [Effects; 2] {
    script.now_ms += 2 * TIMING.tick_ms * TIMING.sync_ticks;
    if is_noticed {
        script.peer.step(script.now_ms, Input::Pause, &mut Effects::new());
    }
    [0, TIMING.tick_ms].map(|later_ms| {
        script.now_ms += later_ms;
        let mut out = script.step(Input::Time);
        out.retain(|effect| matches!(effect, Effect::Close(_) | Effect::StepDown(_)));
        out
    })
}

#[test]
fn paused_follower_reads_before_leader_times_out() {
    let left = [Effect::Close(LINK), Effect::StepDown(Reason::Timeout)];
    assert_eq!(judged(Script::following(), false), [left.to_vec(), Vec::new()]);
    assert_eq!(judged(Script::following(), true), [Vec::new(), left.to_vec()]);
}

#[test]
fn paused_leader_reads_before_followers_time_out() {
    let left = [Effect::Close(LINK), Effect::StepDown(Reason::NoQuorum)];
    assert_eq!(judged(Script::leading(), false), [left.to_vec(), Vec::new()]);
    assert_eq!(judged(Script::leading(), true), [Vec::new(), left.to_vec()]);
}

/// Pauses of two ticks with a quarter of a tick between them. Returns after how many the member ends its role, and why.
fn left_by_pauses(mut script: Script, mut between: impl FnMut(&mut Script)) -> Option<(usize, Reason)> {
    (1..20).find_map(|pauses| {
        between(&mut script);
        script.now_ms += 2 * TIMING.tick_ms;
        script.peer.step(script.now_ms, Input::Pause, &mut Effects::new());
        let out = script.step(Input::Time);
        script.now_ms += TIMING.tick_ms / 4;
        out.into_iter().find_map(|effect| match effect {
            Effect::StepDown(reason) => Some((pauses, reason)),
            _ => None,
        })
    })
}

#[test]
fn repeated_pauses_extend_wait_once() {
    assert_eq!(left_by_pauses(Script::following(), |_| ()), Some((4, Reason::Timeout)));
    assert_eq!(left_by_pauses(Script::leading(), |_| ()), Some((4, Reason::NoQuorum)));
    assert_eq!(left_by_pauses(Script::elected(), |_| ()), Some((6, Reason::NoQuorum)));
}

#[test]
fn repeatedly_paused_leader_steps_down_for_stalled_disk_only() {
    let pong = |script: &mut Script| drop(script.receives(Message::Pong(Zxid::ZERO, Bytes::new())));
    assert_eq!(left_by_pauses(Script::leading(), pong), None);
    let mut script = Script::leading();
    script.step(Input::Propose(vec![EncodedTxn { zxid: zxid(1, 1), record: Bytes::new() }]));
    script.receives(Message::Ack(zxid(1, 1)));
    assert_eq!(left_by_pauses(script, pong), Some((4, Reason::DiskStalled)));
}
