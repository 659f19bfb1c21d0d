//! The way from an elected leader to its packets.

use crate::member::{member, settings, three};
use ox_proto::Zxid;
use ox_zab::{Effect, Effects, Epoch, Link, LinkId, Message, Notification, Peer, PeerState, ServerId, Standing, Vote};

const LEADER: ServerId = ServerId(3);

/// Server 1 of three, which has just been told who leads, and has reached it.
fn follower() -> Peer {
    let mut peer = member(settings(1, three()), Zxid::new(1, 9), Standing::History);
    let mut out = Effects::new();
    peer.start(0, &mut out);
    let vote = Vote { leader: LEADER, zxid: Zxid::new(1, 9), epoch: 1 };
    for (from, state) in [(2, PeerState::Following), (3, PeerState::Leading)] {
        peer.on_election_link(0, ServerId(from), Link::Up, &mut out);
        peer.on_notification(0, ServerId(from), Notification { state, vote, round: 7, has_version: true }, &mut out);
    }
    assert!(out.contains(&Effect::Dial(LEADER)));
    peer.on_dialed(0, LEADER, Some(LinkId(1)), &mut out);
    peer
}

/// To look for another leader would take as long as the elected one waits for this one.
#[test]
fn a_connection_that_ends_before_the_leader_speaks_is_tried_again() {
    let mut peer = follower();
    let mut out = Effects::new();
    peer.on_link_gone(1, LinkId(1), &mut out);
    assert_eq!(out, []);
    let at = peer.deadline().unwrap();
    peer.on_time(at, &mut out);
    assert_eq!(out, [Effect::Dial(LEADER)]);
    peer.on_dialed(at, LEADER, Some(LinkId(2)), &mut out);
    peer.on_message(at, LinkId(2), Message::LeaderInfo(Epoch(1)), &mut out);
    out.clear();
    peer.on_link_gone(at, LinkId(2), &mut out);
    assert!(out.contains(&Effect::Looking), "a leader that has spoken and is gone is given up");
}

#[test]
fn nobody_dials_a_leader_that_is_gone() {
    let mut peer = follower();
    let mut out = Effects::new();
    peer.on_election_link(1, LEADER, Link::Down, &mut out);
    peer.on_link_gone(1, LinkId(1), &mut out);
    assert!(out.contains(&Effect::Looking));
}

#[test]
fn a_leader_that_never_speaks_is_given_up() {
    let mut peer = follower();
    let mut out = Effects::new();
    for number in 1..100 {
        peer.on_link_gone(number, LinkId(1), &mut out);
        if out.contains(&Effect::Looking) {
            return;
        }
        peer.on_time(1_000 * number, &mut out);
        peer.on_dialed(1_000 * number, LEADER, Some(LinkId(1)), &mut out);
    }
    panic!("it dials for ever");
}
