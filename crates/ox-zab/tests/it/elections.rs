//! What voters rely on: somebody is elected, the best one, soon, and those who come later join.

use crate::election_cluster::Hall;
use ox_proto::Zxid;
use ox_zab::{Election, ElectionSettings, Link, Notification, Outgoing, PeerState, Quorum, Quorums, ServerId, Vote};

/// The time in which an election ends when nothing stands in its way: a settling time and a few messages.
const BOUND_MS: i64 = 500;

#[test]
fn the_longest_history_wins() {
    for seed in 0..200 {
        let mut hall = Hall::new(seed, 5, 10);
        for (id, epoch, zxid) in [(1, 1, 7), (2, 2, 3), (3, 2, 5), (4, 2, 5), (5, 1, 9)] {
            hall.start(id, epoch, zxid);
        }
        hall.run(BOUND_MS);
        assert_eq!(hall.leader(), Some(4), "seed {seed}");
    }
}

#[test]
fn when_everybody_has_spoken_nobody_waits() {
    let mut hall = Hall::new(1, 3, 2);
    (1..=3).for_each(|id| hall.start(id, 0, 0));
    hall.run(40);
    assert_eq!(hall.leader(), Some(3));
    // A dead leader is known to be dead: the others need not wait for its vote.
    hall.kill(3);
    hall.run(1_100); // until they notice
    assert_eq!(hall.leader(), Some(2));
}

/// A killed process may accept a connection after it has closed another one. To dial it again tells nothing.
#[test]
fn voter_that_is_gone_and_dialled_again_delays_no_election() {
    let quorums = Quorums::of(Quorum::majority_of([1, 2, 3].map(ServerId)));
    let vote = |leader| Vote { leader: ServerId(leader), zxid: Zxid::new(1, 9), epoch: 1 };
    let mut election = Election::new(ServerId(1), PeerState::Following, ElectionSettings::default(), vote(1));
    let mut out = Outgoing::new();
    election.on_link(0, ServerId(3), Link::Down, &quorums, &mut out);
    assert_eq!(election.look(0, vote(1), &quorums, &mut out), None);
    election.on_link(0, ServerId(3), Link::Trying, &quorums, &mut out);
    let note = Notification { state: PeerState::Looking, vote: vote(2), round: 1, has_version: true };
    assert_eq!(election.on_notification(0, ServerId(2), note, &quorums, &mut out), Some(ServerId(2)));
}

#[test]
fn one_voter_elects_itself_at_once() {
    let mut hall = Hall::new(1, 1, 2);
    hall.start(1, 0, 0);
    assert_eq!(hall.leader(), Some(1));
}

#[test]
fn a_minority_elects_nobody() {
    let mut hall = Hall::new(1, 5, 10);
    hall.start(1, 0, 0);
    hall.start(2, 0, 0);
    hall.run(100_000);
    assert_eq!((hall.state(1), hall.state(2)), (PeerState::Looking, PeerState::Looking));
    hall.start(3, 0, 0);
    hall.run(BOUND_MS);
    assert_eq!(hall.leader(), Some(3));
}

/// Whatever number somebody claims, rounds go on.
#[test]
fn k083_any_round_can_be_claimed() {
    let mut hall = Hall::new(1, 3, 10);
    hall.start(1, 0, 0);
    hall.claim_round(1, 2, i64::MAX);
    hall.run(100);
    (2..=3).for_each(|id| hall.start(id, 0, 0));
    hall.run(BOUND_MS);
    assert_eq!(hall.leader(), Some(3));
    hall.kill(3);
    hall.run(5_000);
    assert_eq!(hall.leader(), Some(2));
}

/// K80: a server that comes late joins the leader there is, although it would have won.
#[test]
fn k080_a_late_server_joins() {
    for seed in 0..100 {
        let mut hall = Hall::new(seed, 3, 10);
        hall.start(1, 1, 5);
        hall.start(2, 1, 5);
        hall.run(2_000);
        hall.start(3, 1, 9);
        hall.run(BOUND_MS);
        assert_eq!(hall.leader(), Some(2), "seed {seed}");
    }
}

/// K84: observers find the leader and are never elected.
#[test]
fn k084_observers_follow() {
    for seed in 0..100 {
        let mut hall = Hall::new(seed, 3, 10);
        hall.start(9, 5, 99);
        (1..=3).for_each(|id| hall.start(id, 0, 0));
        hall.run(2_000);
        assert_eq!(hall.leader(), Some(3), "seed {seed}");
        assert_eq!(hall.state(9), PeerState::Observing);
    }
}

/// K79: whatever single link is broken, a leader is found and kept.
#[test]
fn k079_elections_end_with_any_link_broken() {
    for voters in [3, 5, 7] {
        for (seed, (a, b)) in (1..=voters).flat_map(|a| (a + 1..=voters).map(move |b| (a, b))).enumerate() {
            let mut hall = Hall::new(seed as u64, voters, 10);
            hall.set_link(a, b, false);
            (1..=voters).for_each(|id| hall.start(id, 0, id % 2));
            hall.run(20_000);
            let settled = (1..=voters).filter(|id| hall.state(*id) != PeerState::Looking).count();
            assert!(voters / 2 < settled as i64, "{voters} voters without {a}-{b}");
        }
    }
}

/// Processes come and go, links break and are mended; in the end one leader is left, and it stays.
#[test]
fn after_any_disorder_there_is_one_leader() {
    for seed in 0..300 {
        let voters = if seed % 2 == 0 { 3 } else { 5 };
        let mut hall = Hall::new(seed, voters, 30);
        let mut up = vec![false; usize::try_from(voters).unwrap() + 1];
        for _ in 0..40 {
            let id = hall.dice.below(voters) + 1;
            let other = hall.dice.below(voters) + 1;
            let at = usize::try_from(id).unwrap();
            match hall.dice.below(4) {
                0 if up[at] => {
                    hall.kill(id);
                    up[at] = false;
                }
                0 | 1 if !up[at] => {
                    let zxid = hall.dice.below(4);
                    hall.start(id, zxid / 2, zxid);
                    up[at] = true;
                }
                _ if id != other => {
                    let works = hall.dice.below(2) == 0;
                    hall.set_link(id, other, works);
                }
                _ => (),
            }
            let pause = hall.dice.below(600);
            hall.run(pause);
        }
        for a in 1..=voters {
            (a + 1..=voters).for_each(|b| hall.set_link(a, b, true));
        }
        for id in 1..=voters {
            if !up[usize::try_from(id).unwrap()] {
                hall.start(id, 0, 0);
            }
        }
        hall.run(10_000);
        assert!(hall.leader().is_some(), "seed {seed}");
        hall.looks = 0;
        hall.run(100_000);
        assert_eq!(hall.looks, 0, "seed {seed}");
    }
}

/// Two servers that do not vote, and have a leader, have nothing to say to each other.
#[test]
fn k091_observers_do_not_answer_each_other_for_ever() {
    let quorums = Quorums::of(Quorum::majority_of([ServerId(1)]));
    let nobody = Vote::nobody(Zxid(i64::MIN), i64::MIN);
    let mut observer = Election::new(ServerId(2), PeerState::Observing, ElectionSettings::default(), nobody);
    let mut out = Outgoing::new();
    observer.look(0, nobody, &quorums, &mut out);
    assert!(out.iter().all(|(to, _)| *to == ServerId(1)), "only who votes is asked");
    out.clear();
    let vote = Vote { leader: ServerId(1), zxid: Zxid::ZERO, epoch: 1 };
    let says = |state, round| Notification { state, vote, round, has_version: true };
    observer.on_notification(1, ServerId(3), says(PeerState::Observing, 1), &quorums, &mut out);
    assert_eq!(out, [], "it has a leader");
    observer.on_notification(1, ServerId(1), says(PeerState::Looking, 0), &quorums, &mut out);
    assert_eq!(out, [], "a voter does not care for an observer's round");
    observer.on_notification(1, ServerId(3), says(PeerState::Looking, 1), &quorums, &mut out);
    assert_eq!(out.len(), 1, "it looks for one");
}

/// Those that have a leader may have been elected by other rounds and hold other zxids for it: a newcomer joins.
#[test]
fn k081_who_comes_back_joins_although_votes_differ() {
    let quorums = Quorums::of(Quorum::majority_of([1, 2, 3].map(ServerId)));
    for (round, other_round) in [(1, 1), (4, 4), (4, 9), (9, 4)] {
        let own = Vote { leader: ServerId(1), zxid: Zxid(5), epoch: 1 };
        let mut election = Election::new(ServerId(1), PeerState::Following, ElectionSettings::default(), own);
        let mut out = Outgoing::new();
        assert_eq!(election.look(0, own, &quorums, &mut out), None);
        let says = |state, zxid, round| {
            let vote = Vote { leader: ServerId(3), zxid: Zxid(zxid), epoch: 2 };
            Notification { state, vote, round, has_version: true }
        };
        let following = says(PeerState::Following, 7, round);
        assert_eq!(
            election.on_notification(1, ServerId(2), following, &quorums, &mut out),
            None,
            "the leader may be gone"
        );
        let leading = says(PeerState::Leading, 9, other_round);
        let joined = election.on_notification(2, ServerId(3), leading, &quorums, &mut out);
        assert_eq!(joined, Some(ServerId(3)), "rounds {round} and {other_round}");
    }
}
