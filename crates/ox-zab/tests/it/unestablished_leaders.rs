//! Elected leaders that are not established while a quorum follows another one.

use crate::single_member::{TIMING, member, settings, three};
use crate::zab_cluster::ZabCluster;
use ox_proto::Zxid;
use ox_proto::ensemble::Ensemble;
use ox_zab::{
    ConfigPair, DiskDone, Effect, Effects, Eligibility, Epoch, Input, LearnerKind, LinkId, Message, PeerState,
    QuorumPeer, Reason, ServerId, Vote, VoteNotification,
};

const ME: ServerId = ServerId(3);

fn note(state: PeerState, leader: i64, epoch: i64, round: i64) -> VoteNotification {
    let vote = Vote { leader: ServerId(leader), zxid: Zxid::ZERO, epoch };
    VoteNotification { state, vote, round, has_version: true }
}

/// Server 3 of three, elected by the votes of the others.
fn elected() -> (QuorumPeer, i64) {
    let mut peer = member(settings(ME.0, three()), Zxid::ZERO, Eligibility::HasHistory);
    let mut out = Effects::new();
    peer.step(0, Input::Start, &mut out);
    for from in [1, 2] {
        peer.step(0, Input::Notification(ServerId(from), note(PeerState::Looking, ME.0, 0, 1)), &mut out);
    }
    assert!(out.contains(&Effect::Listen), "{out:?}");
    let since_ms =
        peer.role().leader().and_then(|leader| leader.discovery_since_ms()).expect("it waits for FOLLOWERINFO");
    (peer, since_ms)
}

fn receives(peer: &mut QuorumPeer, now_ms: i64, from: i64, note: VoteNotification) -> Effects {
    let mut out = Effects::new();
    peer.step(now_ms, Input::Notification(ServerId(from), note), &mut out);
    out
}

#[test]
fn unestablished_leader_asks_missing_voters_who_leads() {
    let (mut peer, since_ms) = elected();
    let mut out = Effects::new();
    let hello =
        Message::Hello { server: ServerId(1), kind: LearnerKind::Follower, accepted: Epoch(0), config_version: 0 };
    peer.step(since_ms + TIMING.tick_ms / 2, Input::Time, &mut out);
    let probe = note(PeerState::Looking, ME.0, 0, 1);
    assert_eq!(out, [1, 2].map(|to| Effect::Notify(ServerId(to), probe)));
    peer.step(since_ms + 60, Input::LinkOpened(LinkId(1)), &mut out);
    peer.step(since_ms + 60, Input::Packet(LinkId(1), hello), &mut out);
    out.clear();
    peer.step(since_ms + TIMING.tick_ms + 10, Input::Time, &mut out);
    assert!(!out.iter().any(|effect| matches!(effect, Effect::Notify(..))), "its epoch is about to change: {out:?}");
    peer.step(since_ms + TIMING.tick_ms + 20, Input::Done(DiskDone::AcceptedEpoch(Epoch(1))), &mut out);
    peer.step(since_ms + 2 * TIMING.tick_ms, Input::Time, &mut out);
    let asked: Vec<&Effect> = out.iter().filter(|effect| matches!(effect, Effect::Notify(..))).collect();
    assert_eq!(asked, [&Effect::Notify(ServerId(2), probe)]);
}

#[test]
fn unestablished_leader_ignores_old_reply_of_its_follower() {
    let (mut peer, now_ms) = elected();
    receives(&mut peer, now_ms, 1, note(PeerState::Following, 2, 1, 2));
    let mut out = Effects::new();
    let hello =
        Message::Hello { server: ServerId(1), kind: LearnerKind::Follower, accepted: Epoch(0), config_version: 0 };
    peer.step(now_ms, Input::LinkOpened(LinkId(1)), &mut out);
    peer.step(now_ms, Input::Packet(LinkId(1), hello), &mut out);
    assert_eq!(receives(&mut peer, now_ms, 2, note(PeerState::Leading, 2, 1, 2)), []);
    assert_eq!(peer.status().state, PeerState::Leading);
}

/// Of voters 1 to 5, server 1 has connected without having elected server 3; server 2 has accepted a higher epoch.
#[test]
fn unestablished_leader_below_accepted_epoch_steps_down_when_needed_follower_disconnects() {
    let five = ConfigPair::fixed(Ensemble::of_numbers(0, [1, 2, 3, 4, 5].map(ServerId), []).unwrap());
    let mut peer = member(settings(ME.0, five), Zxid::ZERO, Eligibility::HasHistory);
    let mut out = Effects::new();
    peer.step(0, Input::Start, &mut out);
    for from in [4, 5] {
        peer.step(0, Input::Notification(ServerId(from), note(PeerState::Looking, ME.0, 0, 1)), &mut out);
    }
    peer.step(1_000, Input::Time, &mut out);
    let mut comes = |peer: &mut QuorumPeer, server: u64, accepted| {
        let (id, kind) = (ServerId(server.cast_signed()), LearnerKind::Follower);
        peer.step(1_000, Input::LinkOpened(LinkId(server)), &mut out);
        let hello = Message::Hello { server: id, kind, accepted: Epoch(accepted), config_version: 0 };
        peer.step(1_000, Input::Packet(LinkId(server), hello), &mut out);
    };
    comes(&mut peer, 1, 0);
    comes(&mut peer, 4, 0);
    comes(&mut peer, 2, 9);
    assert_eq!(peer.status().state, PeerState::Leading);
    receives(&mut peer, 1_000, 5, note(PeerState::Looking, 2, 0, 2));
    assert_eq!(peer.status().state, PeerState::Leading, "servers 1 and 4 may still accept its epoch");
    let mut out = Effects::new();
    peer.step(1_000, Input::LinkClosed(LinkId(1)), &mut out);
    assert!(out.contains(&Effect::StepDown(Reason::HigherAcceptedEpoch)), "{out:?}");
}

/// `initLimit` of the cluster's members is 2 s.
#[test]
fn restarted_server_elected_by_old_votes_joins_the_leader_soon() {
    for seed in 0..40 {
        let mut cluster = ZabCluster::new(seed, 3, 0);
        cluster.run(3_000);
        let leader = cluster.leader().expect("nothing is wrong yet");
        let other = if leader == 1 { 2 } else { 1 };
        cluster.kill(other);
        cluster.run(200);
        cluster.start(other);
        // The replies of the others to its first vote are lost.
        let others: Vec<i64> = (1..=3).filter(|id| *id != other).collect();
        others.iter().for_each(|from| cluster.set_direction(*from, other, false));
        cluster.forge_votes(other);
        cluster.run(500);
        assert!(cluster.states().contains(&(other, Some(PeerState::Leading))), "seed {seed}: {:?}", cluster.states());
        others.iter().for_each(|from| cluster.set_direction(*from, other, true));
        cluster.run(500);
        let states = cluster.states();
        assert!(states.contains(&(other, Some(PeerState::Following))), "seed {seed}: {states:?}");
        assert_eq!(cluster.leader(), Some(leader), "seed {seed}");
    }
}
