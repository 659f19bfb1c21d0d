//! Options of a member, one after another.

use crate::single_member::{member, settings};
use ox_proto::ensemble::Ensemble;
use ox_proto::{ServerId, Zxid};
use ox_zab::{
    ConfigPair, Effect, Effects, Eligibility, Epoch, Input, LearnerKind, LinkId, Message, PeerOptions, PeerSettings,
    PeerState, QuorumPeer, Reason, Vote, VoteNotification,
};

const ME: ServerId = ServerId(3);

/// Server 3, a voter of three or an observer of two.
fn of_kind(kind: LearnerKind, options: PeerOptions) -> QuorumPeer {
    let (voters, observers) = [1, 2, 3].split_at(if kind == LearnerKind::Follower { 3 } else { 2 });
    let servers = |numbers: &[i64]| numbers.iter().copied().map(ServerId).collect::<Vec<_>>();
    let ensemble = Ensemble::of_numbers(0, servers(voters), servers(observers)).unwrap();
    let settings = PeerSettings { options, ..settings(ME.0, ConfigPair::fixed(ensemble)) };
    let mut peer = member(settings, Zxid::ZERO, Eligibility::HasHistory);
    peer.step(0, Input::Start, &mut Effects::new());
    peer
}

fn vote_for(leader: ServerId, state: PeerState) -> VoteNotification {
    let vote = Vote { leader, zxid: Zxid::ZERO, epoch: 0 };
    VoteNotification { state, vote, round: 1, has_version: true }
}

/// Learns that server 2 leads.
fn learns_of_leader(peer: &mut QuorumPeer, now_ms: i64) {
    let mut out = Effects::new();
    for from in [ServerId(1), ServerId(2)] {
        let state = if from.0 == 2 { PeerState::Leading } else { PeerState::Following };
        peer.step(now_ms, Input::Notification(from, vote_for(ServerId(2), state)), &mut out);
    }
    assert!(out.contains(&Effect::Dial(ServerId(2))), "{out:?}");
}

#[test]
fn leader_is_dialled_until_dial_limit() {
    let options = PeerOptions { dial_ms: 250, dial_pause_ms: 60, ..PeerOptions::default() };
    let mut peer = of_kind(LearnerKind::Follower, options);
    learns_of_leader(&mut peer, 0);
    let (mut now_ms, mut dials, mut pause_ms) = (0, 1, 5);
    loop {
        let mut out = Effects::new();
        peer.step(now_ms, Input::Dialed(ServerId(2), None), &mut out);
        if out.contains(&Effect::StepDown(Reason::LinkLost)) {
            break;
        }
        assert_eq!(peer.deadline(), Some(now_ms + pause_ms), "it may be about to open its port");
        (now_ms, pause_ms) = (now_ms + pause_ms, 60.min(pause_ms * 2));
        peer.step(now_ms, Input::Time, &mut out);
        assert_eq!(out, [Effect::Dial(ServerId(2))]);
        dials += 1;
    }
    assert_eq!((dials, now_ms), (8, 255), "until the limit has passed");
}

#[test]
fn observer_delays_its_next_election() {
    let options = PeerOptions { observer_delay_ms: 1_000, ..PeerOptions::default() };
    let mut rests = std::collections::BTreeSet::new();
    for now_ms in (0..2_000).step_by(100) {
        let mut peer = of_kind(LearnerKind::Observer, options);
        learns_of_leader(&mut peer, now_ms);
        let mut out = Effects::new();
        peer.step(now_ms, Input::Dialed(ServerId(2), Some(LinkId(1))), &mut out);
        peer.step(now_ms, Input::Packet(LinkId(1), Message::LeaderInfo(Epoch(0))), &mut out);
        peer.step(now_ms, Input::LinkClosed(LinkId(1)), &mut out);
        assert!(out.contains(&Effect::StepDown(Reason::LinkLost)), "{out:?}");
        let until_ms = peer.deadline();
        if let Some(until_ms) = until_ms.filter(|_| !out.contains(&Effect::Looking)) {
            assert!((now_ms..now_ms + 1_000).contains(&until_ms), "{until_ms}");
            rests.insert(until_ms - now_ms);
            let mut out = Effects::new();
            peer.step(until_ms - 1, Input::Time, &mut out);
            assert_eq!(out, []);
            peer.step(until_ms, Input::Time, &mut out);
            assert!(out.contains(&Effect::Looking));
        }
    }
    assert!(5 < rests.len(), "they do not rest equally long: {rests:?}");
    let mut peer = of_kind(LearnerKind::Follower, options);
    learns_of_leader(&mut peer, 0);
    let mut out = Effects::new();
    peer.step(0, Input::Dialed(ServerId(2), Some(LinkId(1))), &mut out);
    peer.step(0, Input::Packet(LinkId(1), Message::LeaderInfo(Epoch(0))), &mut out);
    peer.step(0, Input::LinkClosed(LinkId(1)), &mut out);
    assert!(out.contains(&Effect::Looking), "voters do not rest");
}

/// Server 3, elected by some of the others, in discovery. Returns when that began.
fn elected_by(voters: &[i64], options: PeerOptions) -> (QuorumPeer, i64) {
    let mut peer = of_kind(LearnerKind::Follower, options);
    let mut out = Effects::new();
    for from in voters {
        peer.step(0, Input::Notification(ServerId(*from), vote_for(ME, PeerState::Looking)), &mut out);
    }
    while let Some(at_ms) = peer.deadline().filter(|_| peer.role().leader().is_none()) {
        peer.step(at_ms, Input::Time, &mut out);
    }
    assert!(out.contains(&Effect::Listen), "{out:?}");
    let began_ms = peer.role().leader().and_then(|leader| leader.discovery_since_ms()).expect("it waits");
    (peer, began_ms)
}

/// Whether the leader steps down after this notification.
fn gives_up(peer: &mut QuorumPeer, now_ms: i64, from: i64, note: VoteNotification) -> bool {
    let mut out = Effects::new();
    peer.step(now_ms, Input::Notification(ServerId(from), note), &mut out);
    out.contains(&Effect::StepDown(Reason::LostSupport))
}

/// A supporter may change its vote before its own election ends.
#[test]
fn k082_leader_steps_down_without_enough_supporters() {
    let other = |round| VoteNotification { round, ..vote_for(ServerId(2), PeerState::Looking) };
    for round in [1, 2] {
        let (mut peer, now_ms) = elected_by(&[1], PeerOptions::default());
        assert!(!gives_up(&mut peer, now_ms, 2, other(round)), "it was not a supporter");
        assert!(!gives_up(&mut peer, now_ms, 1, vote_for(ME, PeerState::Looking)), "it says the same again");
        assert!(gives_up(&mut peer, now_ms, 1, other(round)), "round {round}");
        let (mut peer, now_ms) = elected_by(&[1, 2], PeerOptions::default());
        assert!(!gives_up(&mut peer, now_ms, 1, other(round)), "the other one may come");
        assert!(gives_up(&mut peer, now_ms, 2, other(round)), "round {round}");
    }
    // A connected voter counts until ACKEPOCH is awaited.
    let (mut peer, now_ms) = elected_by(&[1, 2], PeerOptions::default());
    let hello =
        Message::Hello { server: ServerId(1), kind: LearnerKind::Follower, accepted: Epoch(0), config_version: 0 };
    let mut out = Effects::new();
    peer.step(now_ms, Input::LinkOpened(LinkId(1)), &mut out);
    peer.step(now_ms, Input::Packet(LinkId(1), hello), &mut out);
    assert!(!gives_up(&mut peer, now_ms, 2, other(1)), "it is connected");
    peer.step(now_ms, Input::LinkClosed(LinkId(1)), &mut out);
    assert!(gives_up(&mut peer, now_ms, 1, other(1)));
}

/// A leader in discovery, one of whose supporters is LOOKING again.
#[test]
fn leader_steps_down_when_supporter_is_looking_after_epoch_wait() {
    for (epoch_wait_ms, after_ms, leaves) in
        [(None, 900, false), (Some(300), 299, false), (Some(300), 300, true), (Some(0), 0, true)]
    {
        let (mut peer, began_ms) = elected_by(&[1, 2], PeerOptions { epoch_wait_ms, ..PeerOptions::default() });
        let note = VoteNotification { round: 2, ..vote_for(ServerId(1), PeerState::Looking) };
        assert_eq!(gives_up(&mut peer, began_ms + after_ms, 1, note), leaves, "{epoch_wait_ms:?} {after_ms}");
    }
}
