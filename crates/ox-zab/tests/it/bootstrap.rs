//! A member without files: when it believes that there is nothing to lose.

use crate::single_member::{member, settings, three};
use bytes::Bytes;
use ox_proto::Zxid;
use ox_proto::ensemble::Ensemble;
use ox_zab::{
    Configs, DiskDone, DiskJob, Effect, Effects, Epoch, LinkId, Message, Notification, Peer, PeerState, ServerId,
    Standing, Txn, Vote,
};

/// Longer than a contradiction takes.
const LATER_MS: i64 = 1_000;

/// Server 1 of three, which finds no files.
fn newcomer() -> Peer {
    let mut peer = member(settings(1, three()), Zxid::ZERO, Standing::Empty);
    peer.start(0, &mut Effects::new());
    peer
}

fn note(state: PeerState, epoch: u32, counter: u32) -> Notification {
    let vote = Vote { leader: ServerId(3), zxid: Zxid::new(epoch, counter), epoch: i64::from(epoch) };
    Notification { state, vote, round: 1, has_version: true }
}

/// What it does about what servers say, one after the other, and when time has passed.
fn hears(peer: &mut Peer, notes: &[(i64, Notification)]) -> Effects {
    let mut out = Effects::new();
    for (from, note) in notes {
        peer.on_notification(1, ServerId(*from), *note, &mut out);
    }
    peer.on_time(LATER_MS, &mut out);
    out
}

fn founds(out: &Effects) -> bool {
    out.contains(&Effect::Disk(DiskJob::Found))
}

#[test]
fn servers_that_have_nothing_begin_together() {
    let mut peer = newcomer();
    let mut out = Effects::new();
    peer.on_notification(1, ServerId(3), note(PeerState::Looking, 0, 0), &mut out);
    assert!(!founds(&out), "somebody may contradict");
    while !founds(&out) {
        let at = peer.deadline().unwrap();
        assert!(at < LATER_MS);
        peer.on_time(at, &mut out);
    }
}

/// An Apache server repeats what it said last when a connection comes up, then answers.
#[test]
fn old_votes_do_not_make_an_ensemble_empty() {
    let (before, now) = (note(PeerState::Looking, 0, 0), note(PeerState::Leading, 1, 9));
    assert!(!founds(&hears(&mut newcomer(), &[(3, before), (3, now)])));
    assert!(!founds(&hears(&mut newcomer(), &[(2, before), (3, before), (2, note(PeerState::Following, 1, 9))])));
    assert!(!founds(&hears(&mut newcomer(), &[(3, before), (2, note(PeerState::Looking, 1, 9))])));
}

/// A history that is in doubt is one that can be lost.
#[test]
fn who_doubts_its_history_contradicts_those_who_have_none() {
    let mut damaged = member(settings(2, three()), Zxid::ZERO, Standing::Quarantined);
    let mut out = Effects::new();
    damaged.start(0, &mut out);
    let said = out.iter().find_map(|effect| match effect {
        Effect::Notify(ServerId(1), note) => Some(*note),
        _ => None,
    });
    let (said, before) = (said.expect("it tells everybody"), note(PeerState::Looking, 0, 0));
    assert!(!founds(&hears(&mut newcomer(), &[(3, before), (2, said)])));
    assert!(founds(&hears(&mut newcomer(), &[(3, before)])));
}

#[test]
fn nobody_begins_who_is_not_to() {
    let mut settings = settings(1, three());
    settings.options.founds = false;
    let mut peer = member(settings, Zxid::ZERO, Standing::Empty);
    peer.start(0, &mut Effects::new());
    assert!(!founds(&hears(&mut peer, &[(2, note(PeerState::Looking, 0, 0)), (3, note(PeerState::Looking, 0, 0))])));
}

/// Otherwise its report would come while a leader's state is being taken over.
#[test]
fn nobody_is_dialled_while_the_disk_is_prepared() {
    let mut peer = newcomer();
    let leads = [(2, note(PeerState::Following, 0, 0)), (3, note(PeerState::Leading, 0, 0))];
    let dials = |out: &Effects| out.contains(&Effect::Dial(ServerId(3)));
    let mut out = Effects::new();
    peer.on_notification(1, ServerId(3), note(PeerState::Looking, 0, 0), &mut out);
    for (from, note) in leads {
        peer.on_notification(1, ServerId(from), note, &mut out);
    }
    assert_eq!(peer.leader_id(), Some(ServerId(3)));
    peer.on_time(LATER_MS, &mut out);
    assert!(founds(&out) && !dials(&out));
    peer.on_done(LATER_MS, DiskDone::Founded, &mut out);
    assert!(dials(&out));
}

/// A leader that was found by old votes is dialled when somebody tells the truth, and nothing is claimed.
#[test]
fn who_is_contradicted_asks_the_leader() {
    let mut peer = newcomer();
    let before = note(PeerState::Looking, 0, 0);
    let out = hears(&mut peer, &[(2, before), (3, before), (3, note(PeerState::Leading, 1, 9))]);
    assert!(!founds(&out));
    let said = hears(&mut peer, &[(2, note(PeerState::Following, 1, 9)), (3, note(PeerState::Leading, 1, 9))]);
    assert!(out.iter().chain(&said).any(|effect| *effect == Effect::Dial(ServerId(3))));
}

#[test]
fn who_has_lost_its_history_is_not_elected_by_those_who_followed_it() {
    let mut peer = newcomer();
    let vote = Vote { leader: ServerId(1), zxid: Zxid::new(1, 9), epoch: 1 };
    let following = Notification { state: PeerState::Following, vote, round: 1, has_version: true };
    let out = hears(&mut peer, &[(2, following), (3, following)]);
    assert_eq!(peer.standing(), Standing::Quarantined);
    assert!(!out.contains(&Effect::Listen), "{out:?}");
}

#[test]
fn a_late_comer_of_the_same_round_is_told_the_better_vote_at_once() {
    // Server 3 has been looking for a while, and speaks seldom by now. Server 1 begins to look, in the same round.
    let mut peer = member(settings(3, three()), Zxid::new(1, 9), Standing::History);
    peer.start(0, &mut Effects::new());
    let mut now = 0;
    while now < 30_000 {
        now = peer.deadline().unwrap();
        peer.on_time(now, &mut Effects::new());
    }
    let vote = Vote { leader: ServerId(1), zxid: Zxid::new(1, 9), epoch: 1 };
    let looking = Notification { state: PeerState::Looking, vote, round: 1, has_version: true };
    let mut out = Effects::new();
    peer.on_notification(now + 1, ServerId(1), looking, &mut out);
    assert!(
        out.iter().any(|effect| matches!(effect, Effect::Notify(ServerId(1), _))),
        "next word in {} ms",
        peer.deadline().unwrap() - now
    );
}

#[test]
fn nothing_is_appended_to_files_that_are_not_there() {
    let mut peer = newcomer();
    let mut out = hears(&mut peer, &[(3, note(PeerState::Leading, 0, 0)), (2, note(PeerState::Following, 0, 0))]);
    assert!(out.contains(&Effect::Dial(ServerId(3))), "{out:?}");
    peer.on_dialed(2_000, ServerId(3), Some(LinkId(7)), &mut out);
    out.clear();
    let zxid = Zxid::new(1, 1);
    for message in [
        Message::LeaderInfo(Epoch(1)),
        Message::Diff(zxid),
        Message::Proposal(Txn { zxid, record: Bytes::new() }),
        Message::Commit(zxid),
    ] {
        assert!(peer.takes_packets(LinkId(7)));
        peer.on_message(2_000, LinkId(7), message, &mut out);
    }
    assert!(!out.iter().any(|effect| matches!(effect, Effect::Append(_))), "{out:?}");
}

#[test]
fn no_history_is_begun_while_a_leaders_is_taken_over() {
    let mut peer = newcomer();
    let mut out = Effects::new();
    peer.on_notification(1, ServerId(3), note(PeerState::Leading, 0, 0), &mut out);
    peer.on_notification(1, ServerId(2), note(PeerState::Following, 0, 0), &mut out);
    assert!(out.contains(&Effect::Dial(ServerId(3))), "{out:?}");
    // While it is dialled, server 2 looks again, or an old word of it comes late.
    peer.on_notification(2, ServerId(2), note(PeerState::Looking, 0, 0), &mut out);
    peer.on_dialed(3, ServerId(3), Some(LinkId(7)), &mut out);
    out.clear();
    peer.on_time(LATER_MS, &mut out);
    assert!(!founds(&out), "{out:?}");
}

/// An observer has no history to lose, whatever the voters say. A follower that has none either gives it nothing.
#[test]
fn an_observer_takes_nothing_from_who_has_nothing() {
    let ensemble = Ensemble::of_numbers(0, [1, 2, 3].map(ServerId), [ServerId(4)]).unwrap();
    let mut peer = member(settings(4, Configs::fixed(ensemble)), Zxid::ZERO, Standing::Empty);
    let mut out = Effects::new();
    peer.start(0, &mut out);
    out.extend(hears(&mut peer, &[(3, note(PeerState::Leading, 1, 0)), (2, note(PeerState::Following, 1, 0))]));
    assert!(out.contains(&Effect::Dial(ServerId(3))), "{out:?}");
    peer.on_dialed(LATER_MS, ServerId(3), Some(LinkId(7)), &mut out);
    out.clear();
    let new_leader = Message::NewLeader { epoch: Epoch(1), config: Bytes::new() };
    for message in [Message::LeaderInfo(Epoch(1)), Message::Diff(Zxid::ZERO), new_leader] {
        peer.on_message(LATER_MS, LinkId(7), message, &mut out);
    }
    assert!(founds(&out), "{out:?}");
}
