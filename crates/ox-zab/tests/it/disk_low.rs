//! Members whose disks are low (P63): another voter leads if possible, and there is always a leader.

use crate::single_member::{member, settings, three};
use crate::zab_cluster::ZabCluster;
use ox_proto::Zxid;
use ox_zab::{Effect, Effects, Eligibility, Input, PeerState, QuorumPeer, ServerId, Vote, VoteNotification};

/// A cluster with an established leader.
fn settled(seed: u64, voters: i64) -> (ZabCluster, i64) {
    let mut cluster = ZabCluster::new(seed, voters, i64::try_from(seed % 2).unwrap());
    cluster.run(3_000);
    let leader = cluster.leader().unwrap_or_else(|| panic!("seed {seed}: no leader"));
    (cluster, leader)
}

/// Runs the cluster until the condition holds, at most for the given time.
fn run_until(cluster: &mut ZabCluster, ms: i64, is_so: impl Fn(&ZabCluster) -> bool) -> bool {
    for _ in 0..ms / 1_000 {
        if is_so(cluster) {
            return true;
        }
        cluster.run(1_000);
    }
    is_so(cluster)
}

fn check_progress(cluster: &mut ZabCluster, seed: u64) {
    let served = cluster.served();
    cluster.run(3_000);
    assert!(served < cluster.served(), "seed {seed}: nothing is served: {:?}", cluster.states());
}

#[test]
fn p63_leader_with_low_disk_steps_down() {
    for seed in 0..12 {
        let (mut cluster, leader) = settled(seed, if seed % 3 == 0 { 5 } else { 3 });
        cluster.set_low(leader, true);
        assert_eq!(cluster.leader(), None, "seed {seed}: it gives up at once");
        cluster.run(2_000);
        assert_ne!(cluster.leader(), Some(leader), "seed {seed}");
        check_progress(&mut cluster, seed);
        // It does not return to leadership after a restart of all servers either, while its disk is low.
        let server_ids = cluster.server_ids();
        server_ids.iter().for_each(|id| cluster.kill(*id));
        server_ids.iter().for_each(|id| cluster.start(*id));
        cluster.run(5_000);
        assert!(cluster.leader().is_some_and(|other| other != leader), "seed {seed}: {:?}", cluster.leader());
        check_progress(&mut cluster, seed);
        // With free space it may lead again, which disturbs no other leader.
        let step_downs = cluster.coverage["stepped down for low disk"];
        cluster.set_low(leader, false);
        cluster.run(5_000);
        assert_eq!(cluster.coverage["stepped down for low disk"], step_downs);
        check_progress(&mut cluster, seed);
    }
}

#[test]
fn p63_all_disks_low_still_elect_a_leader() {
    for seed in 0..12 {
        let (mut cluster, _) = settled(seed, 3);
        cluster.server_ids().iter().for_each(|id| cluster.set_low(*id, true));
        cluster.run(10_000);
        assert!(cluster.leader().is_some(), "seed {seed}");
        // Attempts to step down that did not help become rarer.
        cluster.run(200_000);
        let step_downs = cluster.coverage["stepped down for low disk"];
        assert!(step_downs < 12, "seed {seed}: {step_downs}");
        // A server with free space is elected in the end.
        let leader = cluster.leader().unwrap_or_else(|| panic!("seed {seed}: no leader"));
        let others = [1, 2, 3].into_iter().filter(|id| *id != leader);
        others.for_each(|id| cluster.set_low(id, false));
        let is_other = |cluster: &ZabCluster| cluster.leader().is_some_and(|other| other != leader);
        assert!(run_until(&mut cluster, 300_000, is_other), "seed {seed}");
        check_progress(&mut cluster, seed);
    }
}

/// If no quorum exists without the leader, it stays: it may be the only server with every committed transaction.
#[test]
fn p63_irreplaceable_leader_with_low_disk_stays() {
    for seed in 0..8 {
        let (mut cluster, leader) = settled(seed, 3);
        let down = [1, 2, 3].into_iter().find(|id| *id != leader).unwrap();
        cluster.kill(down);
        cluster.run(500);
        cluster.set_low(leader, true);
        cluster.run(10_000);
        assert_eq!(cluster.leader(), Some(leader), "seed {seed}");
        cluster.start(down);
        cluster.run(5_000);
        assert!(cluster.leader().is_some_and(|other| other != leader), "seed {seed}: {:?}", cluster.leader());
        check_progress(&mut cluster, seed);
    }
}

/// Disks become low and recover while servers are killed and links fail.
#[test]
fn p63_disks_low_at_random_keep_one_history() {
    let mut step_downs = 0;
    for seed in 0..24 {
        let mut cluster = ZabCluster::new(seed, if seed % 3 == 0 { 5 } else { 3 }, i64::try_from(seed % 2).unwrap());
        cluster.delay_ms = [2, 10, 60][usize::try_from(seed % 3).unwrap()];
        let server_ids = cluster.server_ids();
        let pick =
            |cluster: &mut ZabCluster| server_ids[usize::try_from(cluster.rng.below(server_ids.len() as i64)).unwrap()];
        cluster.run(1_000);
        for _ in 0..50 {
            let (a, b) = (pick(&mut cluster), pick(&mut cluster));
            match cluster.rng.below(8) {
                0 => cluster.kill(a),
                1 | 2 => cluster.start(a),
                3 => cluster.set_link(a, b, false),
                4 => cluster.set_link(a, b, true),
                5 | 6 => cluster.set_low(a, true),
                _ => cluster.set_low(a, false),
            }
            let pause = cluster.rng.below(800);
            cluster.run(pause);
        }
        // A minority of the disks stays low.
        let voters = if seed % 3 == 0 { 5 } else { 3 };
        for a in &server_ids {
            server_ids.iter().for_each(|b| cluster.set_link(*a, *b, true));
            cluster.set_low(*a, *a <= (voters - 1) / 2);
            cluster.start(*a);
        }
        let leader_has_space = |cluster: &ZabCluster| cluster.leader().is_some_and(|leader| (voters - 1) / 2 < leader);
        assert!(run_until(&mut cluster, 150_000, leader_has_space), "seed {seed}: {:?}", cluster.leader());
        check_progress(&mut cluster, seed);
        cluster.writes = false;
        cluster.run(8_000);
        assert!(cluster.is_converged(), "seed {seed}: {:?}", cluster.states());
        step_downs += cluster.coverage.get("stepped down for low disk").copied().unwrap_or(0);
    }
    assert!(20 < step_downs, "only {step_downs}");
}

/// Server 2 of three, whose disk is low.
struct Low {
    peer: QuorumPeer,
    now_ms: i64,
}

impl Low {
    fn starts(last: Zxid) -> (Self, Effects) {
        let mut low = Self { peer: member(settings(2, three()), last, Eligibility::HasHistory), now_ms: 0 };
        low.step(Input::DiskLow(true));
        let started = low.step(Input::Start);
        (low, started)
    }

    fn step(&mut self, input: Input) -> Effects {
        let mut out = Effects::new();
        self.peer.step(self.now_ms, input, &mut out);
        out
    }

    /// A notification of a server that votes for itself.
    fn receives_vote(&mut self, candidate: i64, zxid: Zxid, round: i64) -> Effects {
        let vote = Vote { leader: ServerId(candidate), zxid, epoch: i64::from(zxid.epoch()) };
        let note = VoteNotification { state: PeerState::Looking, vote, round, has_version: true };
        self.step(Input::Notification(ServerId(candidate), note))
    }

    fn waits(&mut self, ms: i64) -> Effects {
        let (mut all, until_ms) = (Effects::new(), self.now_ms + ms);
        while self.now_ms < until_ms {
            self.now_ms += 10;
            all.extend(self.step(Input::Time));
        }
        all
    }
}

/// The last vote that was sent to server 1.
fn told(effects: &Effects) -> Option<i64> {
    let votes = effects.iter().filter_map(|effect| match effect {
        Effect::Notify(ServerId(1), note) => Some(note.vote.leader.0),
        _ => None,
    });
    votes.last()
}

#[test]
fn p63_voter_with_low_disk_votes_for_others() {
    let here = Zxid::new(3, 7);
    let (mut low, started) = Low::starts(here);
    assert_eq!(told(&started), Some(i64::MIN), "not for itself: as who may not be elected, which Apache leaves alone");
    assert_eq!(told(&low.receives_vote(1, here, 1)), Some(1), "the lower number, with the same history");
    assert!(low.waits(5_000).contains(&Effect::Dial(ServerId(1))), "both are a majority");
}

#[test]
fn p63_voter_with_low_disk_leads_if_only_it_has_the_history() {
    let (mut low, _) = Low::starts(Zxid::new(3, 7));
    assert_eq!(told(&low.receives_vote(1, Zxid::new(3, 6), 1)), None, "that would lose a transaction");
    assert_eq!(told(&low.waits(2_000)), Some(2));
}

/// Abstentions are ignored, and so is their round.
#[test]
fn p63_voter_with_low_disk_joins_earlier_round() {
    let here = Zxid::new(3, 7);
    let (mut low, _) = Low::starts(here);
    low.receives_vote(3, here, 9);
    low.waits(300);
    let again = low.step(Input::StepDown(ox_zab::Reason::NoQuorum));
    assert_eq!(told(&again), Some(i64::MIN));
    low.receives_vote(1, here, 5); // its round is older than that of server 2 by now
    low.waits(500);
    assert_eq!(told(&low.receives_vote(1, here, 5)), Some(1));
}
