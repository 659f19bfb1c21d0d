//! Empty members: when they bootstrap, and when they wait for a leader.

use crate::single_member::{member, settings, three};
use bytes::Bytes;
use ox_proto::Zxid;
use ox_proto::ensemble::Ensemble;
use ox_zab::{
    ConfigPair, DiskDone, DiskJob, Effect, Effects, Eligibility, EncodedTxn, Epoch, Input, LinkId, Message, PeerState,
    QuorumPeer, ServerId, Vote, VoteNotification,
};

/// Longer than `BOOTSTRAP_DELAY_MS` of the core.
const LATER_MS: i64 = 1_000;

/// Server 1 of three, with an empty data directory.
fn empty_member() -> QuorumPeer {
    let mut peer = member(settings(1, three()), Zxid::ZERO, Eligibility::Empty);
    peer.step(0, Input::Start, &mut Effects::new());
    peer
}

fn note(state: PeerState, epoch: u32, counter: u32) -> VoteNotification {
    let vote = Vote { leader: ServerId(3), zxid: Zxid::new(epoch, counter), epoch: i64::from(epoch) };
    VoteNotification { state, vote, round: 1, has_version: true }
}

/// The effects of notifications, one after another, and of the time that passes after them.
fn receives(peer: &mut QuorumPeer, notes: &[(i64, VoteNotification)]) -> Effects {
    let mut out = Effects::new();
    for (from, note) in notes {
        peer.step(1, Input::Notification(ServerId(*from), *note), &mut out);
    }
    peer.step(LATER_MS, Input::Time, &mut out);
    out
}

fn may_bootstrap(out: &Effects) -> bool {
    out.contains(&Effect::Disk(DiskJob::InitializeLog))
}

/// Apache repeats its last notification when a connection opens, then sends the current one.
#[test]
fn stale_votes_prevent_bootstrap() {
    let (before, now) = (note(PeerState::Looking, 0, 0), note(PeerState::Leading, 1, 9));
    assert!(!may_bootstrap(&receives(&mut empty_member(), &[(3, before), (3, now)])));
    assert!(!may_bootstrap(&receives(
        &mut empty_member(),
        &[(2, before), (3, before), (2, note(PeerState::Following, 1, 9))]
    )));
    assert!(!may_bootstrap(&receives(&mut empty_member(), &[(3, before), (2, note(PeerState::Looking, 1, 9))])));
}

/// Otherwise the report of the disk would arrive while a leader's snapshot is being received.
#[test]
fn empty_member_initializes_log_before_it_dials() {
    let mut peer = empty_member();
    let leads = [(2, note(PeerState::Following, 0, 0)), (3, note(PeerState::Leading, 0, 0))];
    let dials = |out: &Effects| out.contains(&Effect::Dial(ServerId(3)));
    let mut out = Effects::new();
    peer.step(1, Input::Notification(ServerId(3), note(PeerState::Looking, 0, 0)), &mut out);
    for (from, note) in leads {
        peer.step(1, Input::Notification(ServerId(from), note), &mut out);
    }
    assert_eq!(peer.status().leader, Some(ServerId(3)));
    peer.step(LATER_MS, Input::Time, &mut out);
    assert!(may_bootstrap(&out) && !dials(&out));
    peer.step(LATER_MS, Input::Done(DiskDone::LogInitialized), &mut out);
    assert!(dials(&out));
}

/// A member that was elected by stale votes is dialled when a voter reports a history.
#[test]
fn contradicted_empty_member_dials_leader() {
    let mut peer = empty_member();
    let before = note(PeerState::Looking, 0, 0);
    let out = receives(&mut peer, &[(2, before), (3, before), (3, note(PeerState::Leading, 1, 9))]);
    assert!(!may_bootstrap(&out));
    let said = receives(&mut peer, &[(2, note(PeerState::Following, 1, 9)), (3, note(PeerState::Leading, 1, 9))]);
    assert!(out.iter().chain(&said).any(|effect| *effect == Effect::Dial(ServerId(3))));
}

#[test]
fn wiped_leader_is_not_elected_by_its_followers() {
    let mut peer = empty_member();
    let vote = Vote { leader: ServerId(1), zxid: Zxid::new(1, 9), epoch: 1 };
    let following = VoteNotification { state: PeerState::Following, vote, round: 1, has_version: true };
    let out = receives(&mut peer, &[(2, following), (3, following)]);
    assert_eq!(peer.status().eligibility, Eligibility::Quarantined);
    assert!(!out.contains(&Effect::Listen), "{out:?}");
}

#[test]
fn late_voter_of_same_round_is_sent_better_vote() {
    // Server 3 has been LOOKING for a while, so it repeats its vote rarely. Server 1 becomes LOOKING in the same round.
    let mut peer = member(settings(3, three()), Zxid::new(1, 9), Eligibility::HasHistory);
    peer.step(0, Input::Start, &mut Effects::new());
    let mut now = 0;
    while now < 30_000 {
        now = peer.deadline().unwrap();
        peer.step(now, Input::Time, &mut Effects::new());
    }
    let vote = Vote { leader: ServerId(1), zxid: Zxid::new(1, 9), epoch: 1 };
    let looking = VoteNotification { state: PeerState::Looking, vote, round: 1, has_version: true };
    let mut out = Effects::new();
    peer.step(now + 1, Input::Notification(ServerId(1), looking), &mut out);
    assert!(
        out.iter().any(|effect| matches!(effect, Effect::Notify(ServerId(1), _))),
        "next word in {} ms",
        peer.deadline().unwrap() - now
    );
}

#[test]
fn empty_learner_refuses_diff() {
    let mut peer = empty_member();
    let mut out = receives(&mut peer, &[(3, note(PeerState::Leading, 0, 0)), (2, note(PeerState::Following, 0, 0))]);
    assert!(out.contains(&Effect::Dial(ServerId(3))), "{out:?}");
    peer.step(2_000, Input::Dialed(ServerId(3), Some(LinkId(7))), &mut out);
    out.clear();
    let zxid = Zxid::new(1, 1);
    for message in [
        Message::LeaderInfo(Epoch(1)),
        Message::Diff(zxid),
        Message::Proposal(EncodedTxn { zxid, record: Bytes::new() }),
        Message::Commit(zxid),
    ] {
        assert!(peer.takes_packets(LinkId(7)));
        peer.step(2_000, Input::Packet(LinkId(7), message), &mut out);
    }
    assert!(!out.iter().any(|effect| matches!(effect, Effect::Append(_))), "{out:?}");
}

#[test]
fn bootstrap_is_cancelled_during_synchronisation() {
    let mut peer = empty_member();
    let mut out = Effects::new();
    peer.step(1, Input::Notification(ServerId(3), note(PeerState::Leading, 0, 0)), &mut out);
    peer.step(1, Input::Notification(ServerId(2), note(PeerState::Following, 0, 0)), &mut out);
    assert!(out.contains(&Effect::Dial(ServerId(3))), "{out:?}");
    // While server 1 dials, server 2 becomes LOOKING again, or an old notification of it arrives late.
    peer.step(2, Input::Notification(ServerId(2), note(PeerState::Looking, 0, 0)), &mut out);
    peer.step(3, Input::Dialed(ServerId(3), Some(LinkId(7))), &mut out);
    out.clear();
    peer.step(LATER_MS, Input::Time, &mut out);
    assert!(!may_bootstrap(&out), "{out:?}");
}

/// An observer is not counted as empty, whatever the voters report. An empty follower has nothing to send to it.
#[test]
fn empty_observer_refuses_empty_diff() {
    let ensemble = Ensemble::of_numbers(0, [1, 2, 3].map(ServerId), [ServerId(4)]).unwrap();
    let mut peer = member(settings(4, ConfigPair::fixed(ensemble)), Zxid::ZERO, Eligibility::Empty);
    let mut out = Effects::new();
    peer.step(0, Input::Start, &mut out);
    out.extend(receives(&mut peer, &[(3, note(PeerState::Leading, 1, 0)), (2, note(PeerState::Following, 1, 0))]));
    assert!(out.contains(&Effect::Dial(ServerId(3))), "{out:?}");
    peer.step(LATER_MS, Input::Dialed(ServerId(3), Some(LinkId(7))), &mut out);
    out.clear();
    let new_leader = Message::NewLeader { epoch: Epoch(1), config: Bytes::new() };
    for message in [Message::LeaderInfo(Epoch(1)), Message::Diff(Zxid::ZERO), new_leader] {
        peer.step(LATER_MS, Input::Packet(LinkId(7), message), &mut out);
    }
    assert!(may_bootstrap(&out), "{out:?}");
}
