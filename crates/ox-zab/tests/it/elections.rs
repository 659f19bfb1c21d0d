//! Elections: the best candidate wins, in bounded time, and late servers join.

use crate::election_cluster::ElectionCluster;
use ox_proto::Zxid;
use ox_zab::{
    Election, ElectionConnection, ElectionSettings, Outgoing, PeerState, Quorum, Quorums, ServerId, Vote,
    VoteNotification,
};

/// How long an undisturbed election may take: the finalize wait and a few messages.
const BOUND_MS: i64 = 500;

#[test]
fn longest_history_wins() {
    for seed in 0..200 {
        let mut cluster = ElectionCluster::new(seed, 5, 10);
        for (id, epoch, zxid) in [(1, 1, 7), (2, 2, 3), (3, 2, 5), (4, 2, 5), (5, 1, 9)] {
            cluster.start(id, epoch, zxid);
        }
        cluster.run(BOUND_MS);
        assert_eq!(cluster.leader(), Some(4), "seed {seed}");
    }
}

/// Voters do not notify observers of a new leader, so after a long outage the interval must not have grown to a minute.
#[test]
fn observer_asks_for_the_leader_at_short_intervals() {
    let quorums = Quorums::of(Quorum::majority_of([1, 2].map(ServerId)));
    let own = Vote::abstain(Zxid::ZERO, 0);
    let mut observer = Election::new(ServerId(3), PeerState::Observing, ElectionSettings::default(), own);
    observer.start_round(0, own, &quorums, &mut Outgoing::new());
    let mut asked_ms = 0;
    while asked_ms < 60_000 {
        let (at_ms, mut out) = (observer.deadline().unwrap(), Outgoing::new());
        assert!(at_ms - asked_ms <= 2_000, "{at_ms} ms after {asked_ms} ms");
        observer.on_time(at_ms, &quorums, &mut out);
        assert_eq!(out.len(), 2, "it asks both voters");
        asked_ms = at_ms;
    }
}

#[test]
fn votes_of_all_voters_end_election_without_wait() {
    let mut cluster = ElectionCluster::new(1, 3, 2);
    (1..=3).for_each(|id| cluster.start(id, 0, 0));
    cluster.run(40);
    assert_eq!(cluster.leader(), Some(3));
    // Voters do not wait for the vote of a leader whose connection broke.
    cluster.kill(3);
    cluster.run(1_100); // until they notice
    assert_eq!(cluster.leader(), Some(2));
}

/// A killed process may accept a connection after it has closed another one, so a dial proves nothing.
#[test]
fn voter_that_is_gone_and_dialled_again_delays_no_election() {
    let quorums = Quorums::of(Quorum::majority_of([1, 2, 3].map(ServerId)));
    let vote = |leader| Vote { leader: ServerId(leader), zxid: Zxid::new(1, 9), epoch: 1 };
    let mut election = Election::new(ServerId(1), PeerState::Following, ElectionSettings::default(), vote(1));
    let mut out = Outgoing::new();
    election.on_link(0, ServerId(3), ElectionConnection::Down, &quorums, &mut out);
    assert_eq!(election.start_round(0, vote(1), &quorums, &mut out), None);
    election.on_link(0, ServerId(3), ElectionConnection::Connecting, &quorums, &mut out);
    let note = VoteNotification { state: PeerState::Looking, vote: vote(2), round: 1, has_version: true };
    assert_eq!(election.on_notification(0, ServerId(2), note, &quorums, &mut out), Some(ServerId(2)));
}

#[test]
fn single_voter_elects_itself_immediately() {
    let mut cluster = ElectionCluster::new(1, 1, 2);
    cluster.start(1, 0, 0);
    assert_eq!(cluster.leader(), Some(1));
}

#[test]
fn minority_elects_no_leader() {
    let mut cluster = ElectionCluster::new(1, 5, 10);
    cluster.start(1, 0, 0);
    cluster.start(2, 0, 0);
    cluster.run(100_000);
    assert_eq!((cluster.state(1), cluster.state(2)), (PeerState::Looking, PeerState::Looking));
    cluster.start(3, 0, 0);
    cluster.run(BOUND_MS);
    assert_eq!(cluster.leader(), Some(3));
}

/// A server may claim any round, and elections continue.
#[test]
fn k083_forged_round_does_not_stop_elections() {
    let mut cluster = ElectionCluster::new(1, 3, 10);
    cluster.start(1, 0, 0);
    cluster.forge_round(1, 2, i64::MAX);
    cluster.run(100);
    (2..=3).for_each(|id| cluster.start(id, 0, 0));
    cluster.run(BOUND_MS);
    assert_eq!(cluster.leader(), Some(3));
    cluster.kill(3);
    cluster.run(5_000);
    assert_eq!(cluster.leader(), Some(2));
}

/// A server that starts late joins the existing leader, although it would have won the election (K80).
#[test]
fn k080_late_server_joins_existing_leader() {
    for seed in 0..100 {
        let mut cluster = ElectionCluster::new(seed, 3, 10);
        cluster.start(1, 1, 5);
        cluster.start(2, 1, 5);
        cluster.run(2_000);
        cluster.start(3, 1, 9);
        cluster.run(BOUND_MS);
        assert_eq!(cluster.leader(), Some(2), "seed {seed}");
    }
}

/// Observers find the leader and are never elected (K84).
#[test]
fn k084_observers_follow_and_are_not_elected() {
    for seed in 0..100 {
        let mut cluster = ElectionCluster::new(seed, 3, 10);
        cluster.start(9, 5, 99);
        (1..=3).for_each(|id| cluster.start(id, 0, 0));
        cluster.run(2_000);
        assert_eq!(cluster.leader(), Some(3), "seed {seed}");
        assert_eq!(cluster.state(9), PeerState::Observing);
    }
}

/// With any single link broken, a leader is elected and stays (K79).
#[test]
fn k079_elections_end_with_any_link_broken() {
    for voters in [3, 5, 7] {
        for (seed, (a, b)) in (1..=voters).flat_map(|a| (a + 1..=voters).map(move |b| (a, b))).enumerate() {
            let mut cluster = ElectionCluster::new(seed as u64, voters, 10);
            cluster.set_link(a, b, false);
            (1..=voters).for_each(|id| cluster.start(id, 0, id % 2));
            cluster.run(20_000);
            let settled = (1..=voters).filter(|id| cluster.state(*id) != PeerState::Looking).count();
            assert!(voters / 2 < settled as i64, "{voters} voters without {a}-{b}");
        }
    }
}

/// Processes stop and start, links break and recover; in the end there is one leader, which stays.
#[test]
fn random_faults_end_with_one_leader() {
    for seed in 0..300 {
        let voters = if seed % 2 == 0 { 3 } else { 5 };
        let mut cluster = ElectionCluster::new(seed, voters, 30);
        let mut up = vec![false; usize::try_from(voters).unwrap() + 1];
        for _ in 0..40 {
            let id = cluster.rng.below(voters) + 1;
            let other = cluster.rng.below(voters) + 1;
            let at = usize::try_from(id).unwrap();
            match cluster.rng.below(4) {
                0 if up[at] => {
                    cluster.kill(id);
                    up[at] = false;
                }
                0 | 1 if !up[at] => {
                    let zxid = cluster.rng.below(4);
                    cluster.start(id, zxid / 2, zxid);
                    up[at] = true;
                }
                _ if id != other => {
                    let works = cluster.rng.below(2) == 0;
                    cluster.set_link(id, other, works);
                }
                _ => (),
            }
            let pause = cluster.rng.below(600);
            cluster.run(pause);
        }
        for a in 1..=voters {
            (a + 1..=voters).for_each(|b| cluster.set_link(a, b, true));
        }
        for id in 1..=voters {
            if !up[usize::try_from(id).unwrap()] {
                cluster.start(id, 0, 0);
            }
        }
        cluster.run(10_000);
        assert!(cluster.leader().is_some(), "seed {seed}");
        cluster.elections = 0;
        cluster.run(100_000);
        assert_eq!(cluster.elections, 0, "seed {seed}");
    }
}

/// Two observers that have a leader do not reply to each other.
#[test]
fn k091_observers_do_not_reply_to_each_other() {
    let quorums = Quorums::of(Quorum::majority_of([ServerId(1)]));
    let abstention = Vote::abstain(Zxid(i64::MIN), i64::MIN);
    let mut observer = Election::new(ServerId(2), PeerState::Observing, ElectionSettings::default(), abstention);
    let mut out = Outgoing::new();
    observer.start_round(0, abstention, &quorums, &mut out);
    assert!(out.iter().all(|(to, _)| *to == ServerId(1)), "only who votes is asked");
    out.clear();
    let vote = Vote { leader: ServerId(1), zxid: Zxid::ZERO, epoch: 1 };
    let says = |state, round| VoteNotification { state, vote, round, has_version: true };
    observer.on_notification(1, ServerId(3), says(PeerState::Observing, 1), &quorums, &mut out);
    assert_eq!(out, [], "it has a leader");
    observer.on_notification(1, ServerId(1), says(PeerState::Looking, 0), &quorums, &mut out);
    assert_eq!(out, [], "a voter does not care for an observer's round");
    observer.on_notification(1, ServerId(3), says(PeerState::Looking, 1), &quorums, &mut out);
    assert_eq!(out.len(), 1, "it looks for one");
}

/// Servers that have a leader may have elected it in different rounds and with different zxids; a restarted server
/// joins them.
#[test]
fn k081_restarted_server_joins_although_votes_differ() {
    let quorums = Quorums::of(Quorum::majority_of([1, 2, 3].map(ServerId)));
    for (round, other_round) in [(1, 1), (4, 4), (4, 9), (9, 4)] {
        let own = Vote { leader: ServerId(1), zxid: Zxid(5), epoch: 1 };
        let mut election = Election::new(ServerId(1), PeerState::Following, ElectionSettings::default(), own);
        let mut out = Outgoing::new();
        assert_eq!(election.start_round(0, own, &quorums, &mut out), None);
        let says = |state, zxid, round| {
            let vote = Vote { leader: ServerId(3), zxid: Zxid(zxid), epoch: 2 };
            VoteNotification { state, vote, round, has_version: true }
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

/// Without that it would find the leader only when its next notification is due, up to a minute later.
#[test]
fn server_that_has_looked_for_long_repeats_its_notification_soon_when_a_voter_reports_a_leader() {
    let quorums = Quorums::of(Quorum::majority_of([1, 2, 3].map(ServerId)));
    let settings = ElectionSettings::default();
    let vote = |leader| Vote { leader: ServerId(leader), zxid: Zxid(5), epoch: 1 };
    let mut election = Election::new(ServerId(1), PeerState::Following, settings, vote(1));
    let mut out = Outgoing::new();
    election.start_round(0, vote(1), &quorums, &mut out);
    let mut now_ms = 0;
    while now_ms < 10 * settings.min_notification_ms {
        now_ms = election.deadline().unwrap();
        assert_eq!(election.on_time(now_ms, &quorums, &mut out), None);
    }
    let following = VoteNotification { state: PeerState::Following, vote: vote(3), round: 9, has_version: true };
    assert!(now_ms + 2 * settings.min_notification_ms < election.deadline().unwrap(), "it waits longer each time");
    assert_eq!(election.on_notification(now_ms, ServerId(2), following, &quorums, &mut out), None);
    let due_ms = election.deadline().unwrap();
    assert!(due_ms <= now_ms + settings.min_notification_ms);
    // The same report once more is no news.
    out.clear();
    election.on_time(due_ms, &quorums, &mut out);
    assert_eq!(out.iter().map(|(to, _)| *to).collect::<Vec<_>>(), [2, 3].map(ServerId));
    election.on_notification(due_ms, ServerId(2), following, &quorums, &mut out);
    assert!(due_ms + settings.min_notification_ms < election.deadline().unwrap());
}
