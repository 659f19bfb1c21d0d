//! What the configuration may say about a member, one option after the other.

use crate::single_member::{member, settings};
use ox_proto::ensemble::Ensemble;
use ox_proto::{ServerId, Zxid};
use ox_zab::{
    Configs, Effect, Effects, Epoch, LearnerKind, LinkId, Message, Notification, Peer, PeerOptions, PeerSettings,
    PeerState, Reason, Standing, Vote,
};

const ME: ServerId = ServerId(3);

/// Server 3, one of three voters or an observer of two.
fn of_kind(kind: LearnerKind, options: PeerOptions) -> Peer {
    let (voters, observers) = [1, 2, 3].split_at(if kind == LearnerKind::Follower { 3 } else { 2 });
    let servers = |numbers: &[i64]| numbers.iter().copied().map(ServerId).collect::<Vec<_>>();
    let ensemble = Ensemble::of_numbers(0, servers(voters), servers(observers)).unwrap();
    let settings = PeerSettings { options, ..settings(ME.0, Configs::fixed(ensemble)) };
    let mut peer = member(settings, Zxid::ZERO, Standing::History);
    peer.start(0, &mut Effects::new());
    peer
}

fn vote_for(leader: ServerId, state: PeerState) -> Notification {
    let vote = Vote { leader, zxid: Zxid::ZERO, epoch: 0 };
    Notification { state, vote, round: 1, has_version: true }
}

/// Hears that server 2 leads.
fn finds_a_leader(peer: &mut Peer, now_ms: i64) {
    let mut out = Effects::new();
    for from in [ServerId(1), ServerId(2)] {
        let state = if from.0 == 2 { PeerState::Leading } else { PeerState::Following };
        peer.on_notification(now_ms, from, vote_for(ServerId(2), state), &mut out);
    }
    assert!(out.contains(&Effect::Dial(ServerId(2))), "{out:?}");
}

#[test]
fn a_leader_is_dialled_for_as_long_as_the_limit_says() {
    let options = PeerOptions { dial_ms: 250, dial_pause_ms: 60, ..PeerOptions::default() };
    let mut peer = of_kind(LearnerKind::Follower, options);
    finds_a_leader(&mut peer, 0);
    let (mut now_ms, mut dials, mut pause_ms) = (0, 1, 5);
    loop {
        let mut out = Effects::new();
        peer.on_dialed(now_ms, ServerId(2), None, &mut out);
        if out.contains(&Effect::Leave(Reason::LinkLost)) {
            break;
        }
        assert_eq!(peer.deadline(), Some(now_ms + pause_ms), "it may be about to open its port");
        (now_ms, pause_ms) = (now_ms + pause_ms, 60.min(pause_ms * 2));
        peer.on_time(now_ms, &mut out);
        assert_eq!(out, [Effect::Dial(ServerId(2))]);
        dials += 1;
    }
    assert_eq!((dials, now_ms), (8, 255), "until the limit has passed");
}

#[test]
fn an_observer_rests_before_it_looks_again() {
    let options = PeerOptions { observer_rest_ms: 1_000, ..PeerOptions::default() };
    let mut rests = std::collections::BTreeSet::new();
    for now_ms in (0..2_000).step_by(100) {
        let mut peer = of_kind(LearnerKind::Observer, options);
        finds_a_leader(&mut peer, now_ms);
        let mut out = Effects::new();
        peer.on_dialed(now_ms, ServerId(2), Some(LinkId(1)), &mut out);
        peer.on_message(now_ms, LinkId(1), Message::LeaderInfo(Epoch(0)), &mut out);
        peer.on_link_gone(now_ms, LinkId(1), &mut out);
        assert!(out.contains(&Effect::Leave(Reason::LinkLost)), "{out:?}");
        let until_ms = peer.deadline();
        if let Some(until_ms) = until_ms.filter(|_| !out.contains(&Effect::Looking)) {
            assert!((now_ms..now_ms + 1_000).contains(&until_ms), "{until_ms}");
            rests.insert(until_ms - now_ms);
            let mut out = Effects::new();
            peer.on_time(until_ms - 1, &mut out);
            assert_eq!(out, []);
            peer.on_time(until_ms, &mut out);
            assert!(out.contains(&Effect::Looking));
        }
    }
    assert!(5 < rests.len(), "they do not rest equally long: {rests:?}");
    let mut peer = of_kind(LearnerKind::Follower, options);
    finds_a_leader(&mut peer, 0);
    let mut out = Effects::new();
    peer.on_dialed(0, ServerId(2), Some(LinkId(1)), &mut out);
    peer.on_message(0, LinkId(1), Message::LeaderInfo(Epoch(0)), &mut out);
    peer.on_link_gone(0, LinkId(1), &mut out);
    assert!(out.contains(&Effect::Looking), "voters do not rest");
}

/// Server 3, elected by some of the others, which waits for their hellos. Returns since when.
fn elected_by(voters: &[i64], options: PeerOptions) -> (Peer, i64) {
    let mut peer = of_kind(LearnerKind::Follower, options);
    let mut out = Effects::new();
    for from in voters {
        peer.on_notification(0, ServerId(*from), vote_for(ME, PeerState::Looking), &mut out);
    }
    while let Some(at_ms) = peer.deadline().filter(|_| peer.leader().is_none()) {
        peer.on_time(at_ms, &mut out);
    }
    assert!(out.contains(&Effect::Listen), "{out:?}");
    let began_ms = peer.leader().and_then(|leader| leader.gathers_since_ms()).expect("it waits");
    (peer, began_ms)
}

/// Whether it gives up when it hears this.
fn gives_up(peer: &mut Peer, now_ms: i64, from: i64, note: Notification) -> bool {
    let mut out = Effects::new();
    peer.on_notification(now_ms, ServerId(from), note, &mut out);
    out.contains(&Effect::Leave(Reason::Deserted))
}

/// Whoever has elected it may be won over by somebody else before it has come to an end itself.
#[test]
fn k082_a_leader_gives_up_when_too_few_of_its_voters_are_left() {
    let other = |round| Notification { round, ..vote_for(ServerId(2), PeerState::Looking) };
    for round in [1, 2] {
        let (mut peer, now_ms) = elected_by(&[1], PeerOptions::default());
        assert!(!gives_up(&mut peer, now_ms, 2, other(round)), "nobody has counted on it");
        assert!(!gives_up(&mut peer, now_ms, 1, vote_for(ME, PeerState::Looking)), "it says the same again");
        assert!(gives_up(&mut peer, now_ms, 1, other(round)), "round {round}");
        let (mut peer, now_ms) = elected_by(&[1, 2], PeerOptions::default());
        assert!(!gives_up(&mut peer, now_ms, 1, other(round)), "the other one may come");
        assert!(gives_up(&mut peer, now_ms, 2, other(round)), "round {round}");
    }
    // Who has come counts, until it is a promise that is waited for.
    let (mut peer, now_ms) = elected_by(&[1, 2], PeerOptions::default());
    let hello =
        Message::Hello { server: ServerId(1), kind: LearnerKind::Follower, accepted: Epoch(0), config_version: 0 };
    let mut out = Effects::new();
    peer.on_link(now_ms, LinkId(1), &mut out);
    peer.on_message(now_ms, LinkId(1), hello, &mut out);
    assert!(!gives_up(&mut peer, now_ms, 2, other(1)), "it is connected");
    peer.on_link_gone(now_ms, LinkId(1), &mut out);
    assert!(gives_up(&mut peer, now_ms, 1, other(1)));
}

/// A leader that waits for hellos, and hears from one of its voters that it looks for a leader again.
#[test]
fn a_leader_that_is_deserted_gives_up_where_that_is_asked_for() {
    for (epoch_wait_ms, after_ms, leaves) in
        [(None, 900, false), (Some(300), 299, false), (Some(300), 300, true), (Some(0), 0, true)]
    {
        let (mut peer, began_ms) = elected_by(&[1, 2], PeerOptions { epoch_wait_ms, ..PeerOptions::default() });
        let note = Notification { round: 2, ..vote_for(ServerId(1), PeerState::Looking) };
        assert_eq!(gives_up(&mut peer, began_ms + after_ms, 1, note), leaves, "{epoch_wait_ms:?} {after_ms}");
    }
}
