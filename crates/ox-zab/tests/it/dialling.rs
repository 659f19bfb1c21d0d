//! Connecting to an elected leader, until its LEADERINFO.

use crate::single_member::{member, settings, three};
use ox_proto::Zxid;
use ox_proto::ensemble::Ensemble;
use ox_zab::{
    ConfigPair, Effect, Effects, ElectionConnection, ElectionSettings, Epoch, Input, LinkId, Message, PeerSettings,
    PeerState, QuorumPeer, ServerId, VoteNotification,
};
use ox_zab::{Eligibility, Timing, Vote};

const LEADER: ServerId = ServerId(3);

/// Server 1 of three, which has elected a leader and is connected to it.
fn follower() -> QuorumPeer {
    let mut peer = member(settings(1, three()), Zxid::new(1, 9), Eligibility::HasHistory);
    let mut out = Effects::new();
    peer.step(0, Input::Start, &mut out);
    let vote = Vote { leader: LEADER, zxid: Zxid::new(1, 9), epoch: 1 };
    for (from, state) in [(2, PeerState::Following), (3, PeerState::Leading)] {
        peer.step(0, Input::ElectionLink(ServerId(from), ElectionConnection::Up), &mut out);
        peer.step(
            0,
            Input::Notification(ServerId(from), VoteNotification { state, vote, round: 7, has_version: true }),
            &mut out,
        );
    }
    assert!(out.contains(&Effect::Dial(LEADER)));
    peer.step(0, Input::Dialed(LEADER, Some(LinkId(1))), &mut out);
    peer
}

/// A new election would take as long as the elected leader waits for this server.
#[test]
fn connection_closed_before_leader_info_is_retried() {
    let mut peer = follower();
    let mut out = Effects::new();
    peer.step(1, Input::LinkClosed(LinkId(1)), &mut out);
    assert_eq!(out, []);
    let at = peer.deadline().unwrap();
    peer.step(at, Input::Time, &mut out);
    assert_eq!(out, [Effect::Dial(LEADER)]);
    peer.step(at, Input::Dialed(LEADER, Some(LinkId(2))), &mut out);
    peer.step(at, Input::Packet(LinkId(2), Message::LeaderInfo(Epoch(1))), &mut out);
    out.clear();
    peer.step(at, Input::LinkClosed(LinkId(2)), &mut out);
    assert!(out.contains(&Effect::Looking), "a leader that has spoken and is gone is given up");
}

#[test]
fn leader_known_to_be_down_is_not_dialled() {
    let mut peer = follower();
    let mut out = Effects::new();
    peer.step(1, Input::ElectionLink(LEADER, ElectionConnection::Down), &mut out);
    peer.step(1, Input::LinkClosed(LinkId(1)), &mut out);
    assert!(out.contains(&Effect::Looking));
}

#[test]
fn leader_without_leader_info_times_out() {
    let mut peer = follower();
    let mut out = Effects::new();
    for number in 1..100 {
        peer.step(number, Input::LinkClosed(LinkId(1)), &mut out);
        if out.contains(&Effect::Looking) {
            return;
        }
        peer.step(1_000 * number, Input::Time, &mut out);
        peer.step(1_000 * number, Input::Dialed(LEADER, Some(LinkId(1))), &mut out);
    }
    panic!("it never stops dialling");
}

/// Server 1 of four elects server 4, which receives packets of server 1 only and so has too few votes. All three others
/// are needed to replace it; the two that it does not receive leave it out after their timeout.
#[test]
fn leader_that_still_asks_for_votes_and_refuses_connections_is_left_out() {
    for is_deaf in [true, false] {
        let (leader, last) = (ServerId(4), Zxid::new(1, 9));
        let four = ConfigPair::fixed(Ensemble::of_numbers(0, [1, 2, 3, 4].map(ServerId), []).unwrap());
        let timing = Timing { tick_ms: 1_000, init_ticks: 10, sync_ticks: 5 };
        let mut peer = member(PeerSettings { timing, ..settings(1, four) }, last, Eligibility::HasHistory);
        let mut out = Effects::new();
        peer.step(0, Input::Start, &mut out);
        out.clear();
        let vote = Vote { leader, zxid: last, epoch: 1 };
        let note = |round| VoteNotification { state: PeerState::Looking, vote, round, has_version: true };
        for from in [2, 3, 4].map(ServerId) {
            peer.step(0, Input::ElectionLink(from, ElectionConnection::Up), &mut out);
            peer.step(0, Input::Notification(from, note(1)), &mut out);
        }
        assert!(out.contains(&Effect::Dial(leader)), "it is elected");
        peer.step(0, Input::Dialed(leader, None), &mut out);
        let mut now_ms = 0;
        while !out.contains(&Effect::Looking) {
            now_ms = peer.deadline().expect("it waits for something");
            let before = out.len();
            peer.step(now_ms, Input::Time, &mut out);
            if out[before..].contains(&Effect::Dial(leader)) {
                peer.step(now_ms, Input::Dialed(leader, None), &mut out);
            }
            if is_deaf && !out.contains(&Effect::Looking) {
                peer.step(now_ms, Input::Notification(leader, note(1)), &mut out);
            }
            assert!(now_ms < 10_000);
        }
        out.clear();
        peer.step(now_ms, Input::Notification(leader, note(2)), &mut out);
        let votes_for_it = |effect: &Effect| matches!(effect, Effect::Notify(_, note) if note.vote == vote);
        assert_eq!(out.iter().any(votes_for_it), !is_deaf, "{out:?}");
    }
}

/// Server 3 is elected and sends no LEADERINFO, and server 2 votes for it again. Returns how long server 1 has waited
/// for LEADERINFO, and how long the next election leaves server 3 out.
fn waits_ms(timing: Timing, finalize_wait_ms: i64, min_notification_ms: i64) -> (i64, i64) {
    let election = ElectionSettings { finalize_wait_ms, min_notification_ms, ..ElectionSettings::default() };
    let mut peer =
        member(PeerSettings { timing, election, ..settings(1, three()) }, Zxid::new(1, 9), Eligibility::HasHistory);
    let vote = Vote { leader: LEADER, zxid: Zxid::new(1, 9), epoch: 1 };
    let note = |round| VoteNotification { state: PeerState::Looking, vote, round, has_version: true };
    let mut out = Effects::new();
    peer.step(0, Input::Start, &mut out);
    [2, 3].into_iter().for_each(|from| peer.step(0, Input::Notification(ServerId(from), note(1)), &mut out));
    peer.step(0, Input::Dialed(LEADER, Some(LinkId(1))), &mut out);
    out.clear();
    let patience_ms = peer.deadline().expect("the answer of the leader is awaited");
    peer.step(patience_ms, Input::Time, &mut out);
    assert!(out.contains(&Effect::Looking), "{out:?}");
    [2, 3].into_iter().for_each(|from| peer.step(patience_ms, Input::Notification(ServerId(from), note(2)), &mut out));
    let (mut now_ms, votes_for_it) =
        (patience_ms, |effect: &Effect| matches!(effect, Effect::Notify(_, note) if note.vote == vote));
    while !out.iter().any(votes_for_it) {
        now_ms = peer.deadline().expect("the election goes on");
        peer.step(now_ms, Input::Time, &mut out);
        assert!(now_ms < 1_000_000);
    }
    assert!(out.contains(&Effect::Dial(LEADER)), "it has the votes of all: {out:?}");
    (patience_ms, now_ms - patience_ms)
}

/// A voter that elects the candidate again returns after twice the timeout. Writes must continue within two
/// `syncLimit`; the first ends with the leader that is not reached. With a short `syncLimit`, the waits for votes are
/// added.
#[test]
fn left_out_candidate_is_readmitted_within_sync_limit_after_other_voters_return() {
    for (tick_ms, sync_ticks) in [(100, 5), (1_000, 5), (2_000, 5), (2_000, 30), (10_000, 6)] {
        let (timing, finalize_wait_ms) = (Timing { tick_ms, init_ticks: 100, sync_ticks }, 200);
        for min_notification_ms in [20, 200, 3_000] {
            let (patience_ms, left_out_ms) = waits_ms(timing, finalize_wait_ms, min_notification_ms);
            assert!(2 * patience_ms + finalize_wait_ms <= left_out_ms, "{timing:?}: {patience_ms} {left_out_ms}");
            let bound_ms = (sync_ticks * tick_ms).max(3 * sync_ticks * tick_ms / 4 + 8 * finalize_wait_ms);
            assert!(patience_ms + left_out_ms <= bound_ms, "{timing:?}: {patience_ms} {left_out_ms}");
        }
    }
}
