//! Members that send and do not receive, or receive and do not send, while a quorum of others is connected.

use crate::zab_cluster::Realm;

/// `syncLimit` of the realm's members.
const SYNC_MS: i64 = 1_000;

/// What elections may take besides: votes are waited for 200 ms in the round that elects the deaf leader, in the one after
/// it, and by the next leader when its followers dial it.
const ELECTIONS_MS: i64 = 600;

/// Which ways to and from the leader are lost.
#[derive(Clone, Copy, Debug)]
enum Loss {
    /// Of what all others send to it.
    Deaf,
    /// Of what it sends to all others.
    Mute,
    /// Of what all but one send to it.
    DeafToAllButOne,
}

/// A realm whose leader suffers a loss that does not end, and the longest time without a write since.
fn longest_pause(seed: u64, voters: i64, loss: Loss) -> (Realm, i64) {
    let mut realm = Realm::new(seed, voters, 0);
    realm.run(3_000);
    let leader = realm.leader().expect("nothing is wrong yet");
    let others: Vec<i64> = (1..=voters).filter(|id| *id != leader).collect();
    let lost = if matches!(loss, Loss::DeafToAllButOne) { &others[1..] } else { &others[..] };
    for other in lost {
        let (from, to) = if matches!(loss, Loss::Mute) { (leader, *other) } else { (*other, leader) };
        realm.set_way(from, to, false);
    }
    let (mut longest_ms, mut since_ms, mut served) = (0, realm.now_ms, realm.served());
    for _ in 0..1_000 {
        realm.run(20);
        if served < realm.served() {
            (since_ms, served) = (realm.now_ms, realm.served());
        }
        longest_ms = longest_ms.max(realm.now_ms - since_ms);
    }
    assert_ne!(realm.leader(), Some(leader), "seed {seed}");
    (realm, longest_ms)
}

fn check(voters: i64, loss: Loss) {
    for seed in 0..40 {
        let (mut realm, longest_ms) = longest_pause(seed, voters, loss);
        let bound_ms = 2 * SYNC_MS + ELECTIONS_MS;
        assert!(longest_ms <= bound_ms, "seed {seed}: no write for {longest_ms} ms with {voters} voters, {loss:?}");
        for a in 1..=voters {
            (1..=voters).filter(|b| *b != a).for_each(|b| realm.set_way(a, b, true));
        }
        realm.run(8_000);
        realm.writes = false;
        realm.run(2_000);
        assert!(realm.is_whole(), "seed {seed}: {:?}", realm.states());
    }
}

#[test]
fn deaf_leader_is_replaced_within_two_sync_limits() {
    check(3, Loss::Deaf);
    check(5, Loss::Deaf);
}

#[test]
fn mute_leader_is_replaced_within_two_sync_limits() {
    check(3, Loss::Mute);
    check(5, Loss::Mute);
}

#[test]
fn leader_deaf_to_a_quorum_is_replaced_within_two_sync_limits() {
    check(5, Loss::DeafToAllButOne);
}
