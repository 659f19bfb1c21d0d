//! A configuration that was proposed before the servers restarted, with a voter that has no data.

use crate::zab_cluster::Realm;

/// Servers 1 to 3 restart with a proposed configuration in their logs, while server 4 is up and empty.
fn restarted(seed: u64, proposed: &[i64]) -> Realm {
    let mut realm = Realm::dynamic(seed, 3, 0);
    realm.changes = false;
    realm.add_joiner(4);
    realm.run(3_000);
    realm.writes = false;
    realm.run(500);
    (1..=3).for_each(|id| realm.kill(id));
    realm.log_proposed(&[1, 2, 3], proposed);
    realm.start(4);
    realm.run(5_000);
    (1..=3).for_each(|id| realm.start(id));
    realm
}

#[test]
fn pending_configuration_with_empty_joiner_is_completed() {
    for seed in 0..40 {
        for proposed in [&[3, 4][..], &[2, 3, 4], &[1, 2, 3, 4]] {
            let mut realm = restarted(seed, proposed);
            realm.run(5_000);
            let config = realm.config().map(|config| config.voters().map(|voter| voter.0).collect::<Vec<_>>());
            assert_eq!(config.as_deref(), Some(proposed), "seed {seed}: {:?}", realm.states());
            realm.writes = true;
            let before = realm.served();
            realm.run(1_000);
            assert!(before < realm.served(), "seed {seed}: {:?}", realm.states());
            realm.writes = false;
            realm.run(1_000);
            assert!(realm.is_whole(), "seed {seed}: {:?}", realm.states());
        }
    }
}

/// Two of three voters may have committed what no other server has.
#[test]
fn pending_configuration_whose_quorum_is_empty_elects_no_leader() {
    let mut realm = Realm::dynamic(1, 3, 0);
    realm.changes = false;
    [4, 5].into_iter().for_each(|id| realm.add_joiner(id));
    realm.run(3_000);
    realm.writes = false;
    realm.run(500);
    (1..=3).for_each(|id| realm.kill(id));
    realm.log_proposed(&[1, 2, 3], &[3, 4, 5]);
    (1..=5).for_each(|id| realm.start(id));
    realm.run(20_000);
    assert_eq!(realm.leader(), None);
}

/// Server 4 votes only in the proposed configuration, comes when the epoch is fixed, and has accepted a higher one. To wait
/// for it, or for another quorum, would take `initLimit`, which is 2 s.
#[test]
fn leader_gives_up_soon_when_a_voter_of_the_proposed_configuration_has_accepted_a_higher_epoch() {
    for (seed, jump) in (0..40).flat_map(|seed| [(seed, 5), (seed, 1 << 20)]) {
        let mut realm = Realm::dynamic(seed, 3, 1);
        realm.changes = false;
        realm.run(3_000);
        realm.writes = false;
        realm.run(500);
        (1..=4).for_each(|id| realm.kill(id));
        realm.log_proposed(&[1, 2, 3], &[3, 4]);
        realm.accept_later_epoch(4, jump);
        (1..=3).for_each(|id| realm.start(id));
        realm.run(600);
        realm.start(4);
        realm.run(1_200);
        assert_eq!(realm.leader().map(|_| ()), Some(()), "seed {seed}, {jump}: {:?}", realm.states());
        realm.run(1_000);
        let config = realm.config().map(|config| config.voters().map(|voter| voter.0).collect::<Vec<_>>());
        assert_eq!(config, Some(vec![3, 4]), "seed {seed}, {jump}: {:?}", realm.states());
    }
}
