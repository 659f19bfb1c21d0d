//! Members whose disks are nearly full (P63): who has room leads, and somebody always does.

use crate::single_member::{member, settings, three};
use crate::zab_cluster::Realm;
use ox_proto::Zxid;
use ox_zab::{Effect, Effects, Notification, Peer, PeerState, ServerId, Standing, Vote};

/// A realm in which somebody leads.
fn settled(seed: u64, voters: i64) -> (Realm, i64) {
    let mut realm = Realm::new(seed, voters, i64::try_from(seed % 2).unwrap());
    realm.run(3_000);
    let leader = realm.leader().unwrap_or_else(|| panic!("seed {seed}: nobody leads"));
    (realm, leader)
}

/// Goes on for a while, and no longer than needed.
fn run_until(realm: &mut Realm, ms: i64, is_so: impl Fn(&Realm) -> bool) -> bool {
    for _ in 0..ms / 1_000 {
        if is_so(realm) {
            return true;
        }
        realm.run(1_000);
    }
    is_so(realm)
}

fn check_progress(realm: &mut Realm, seed: u64) {
    let served = realm.served();
    realm.run(3_000);
    assert!(served < realm.served(), "seed {seed}: nothing is served: {:?}", realm.states());
}

#[test]
fn p63_a_leader_without_room_gives_way() {
    for seed in 0..12 {
        let (mut realm, leader) = settled(seed, if seed % 3 == 0 { 5 } else { 3 });
        realm.set_low(leader, true);
        assert_eq!(realm.leader(), None, "seed {seed}: it gives up at once");
        realm.run(2_000);
        assert_ne!(realm.leader(), Some(leader), "seed {seed}");
        check_progress(&mut realm, seed);
        // Neither does it come back to office by a restart of all, as long as it is low.
        let everybody = realm.everybody();
        everybody.iter().for_each(|id| realm.kill(*id));
        everybody.iter().for_each(|id| realm.start(*id));
        realm.run(5_000);
        assert!(realm.leader().is_some_and(|other| other != leader), "seed {seed}: {:?}", realm.leader());
        check_progress(&mut realm, seed);
        // With room it may lead again, and nobody is disturbed by that.
        let given_up = realm.marks["gave way"];
        realm.set_low(leader, false);
        realm.run(5_000);
        assert_eq!(realm.marks["gave way"], given_up);
        check_progress(&mut realm, seed);
    }
}

#[test]
fn p63_with_all_disks_full_somebody_leads() {
    for seed in 0..12 {
        let (mut realm, _) = settled(seed, 3);
        realm.everybody().iter().for_each(|id| realm.set_low(*id, true));
        realm.run(10_000);
        assert!(realm.leader().is_some(), "seed {seed}");
        // The more often it was of no use, the seldomer is it tried.
        realm.run(200_000);
        let given_up = realm.marks["gave way"];
        assert!(given_up < 12, "seed {seed}: {given_up}");
        // One that has room is found in the end.
        let leader = realm.leader().unwrap_or_else(|| panic!("seed {seed}: nobody leads"));
        let others = [1, 2, 3].into_iter().filter(|id| *id != leader);
        others.for_each(|id| realm.set_low(id, false));
        let is_other = |realm: &Realm| realm.leader().is_some_and(|other| other != leader);
        assert!(run_until(&mut realm, 300_000, is_other), "seed {seed}");
        check_progress(&mut realm, seed);
    }
}

/// Where others cannot go on without it, a leader stays, whatever its disk: it may be the only one that has everything.
#[test]
fn p63_a_leader_that_is_needed_stays() {
    for seed in 0..8 {
        let (mut realm, leader) = settled(seed, 3);
        let down = [1, 2, 3].into_iter().find(|id| *id != leader).unwrap();
        realm.kill(down);
        realm.run(500);
        realm.set_low(leader, true);
        realm.run(10_000);
        assert_eq!(realm.leader(), Some(leader), "seed {seed}");
        realm.start(down);
        realm.run(5_000);
        assert!(realm.leader().is_some_and(|other| other != leader), "seed {seed}: {:?}", realm.leader());
        check_progress(&mut realm, seed);
    }
}

/// Whatever else happens at the same time.
#[test]
fn p63_rooms_come_and_go() {
    let mut given_up = 0;
    for seed in 0..24 {
        let mut realm = Realm::new(seed, if seed % 3 == 0 { 5 } else { 3 }, i64::try_from(seed % 2).unwrap());
        realm.delay_ms = [2, 10, 60][usize::try_from(seed % 3).unwrap()];
        let everybody = realm.everybody();
        let pick = |realm: &mut Realm| everybody[usize::try_from(realm.dice.below(everybody.len() as i64)).unwrap()];
        realm.run(1_000);
        for _ in 0..50 {
            let (a, b) = (pick(&mut realm), pick(&mut realm));
            match realm.dice.below(8) {
                0 => realm.kill(a),
                1 | 2 => realm.start(a),
                3 => realm.set_link(a, b, false),
                4 => realm.set_link(a, b, true),
                5 | 6 => realm.set_low(a, true),
                _ => realm.set_low(a, false),
            }
            let pause = realm.dice.below(800);
            realm.run(pause);
        }
        // A minority stays without room.
        let voters = if seed % 3 == 0 { 5 } else { 3 };
        for a in &everybody {
            everybody.iter().for_each(|b| realm.set_link(*a, *b, true));
            realm.set_low(*a, *a <= (voters - 1) / 2);
            realm.start(*a);
        }
        let has_room = |realm: &Realm| realm.leader().is_some_and(|leader| (voters - 1) / 2 < leader);
        assert!(run_until(&mut realm, 150_000, has_room), "seed {seed}: {:?}", realm.leader());
        check_progress(&mut realm, seed);
        realm.writes = false;
        realm.run(8_000);
        assert!(realm.is_whole(), "seed {seed}: {:?}", realm.states());
        given_up += realm.marks.get("gave way").copied().unwrap_or(0);
    }
    assert!(20 < given_up, "only {given_up}");
}

/// Server 2 of three, whose disk is full.
struct Low {
    peer: Peer,
    now_ms: i64,
}

impl Low {
    fn starts(last: Zxid) -> (Self, Effects) {
        let mut low = Self { peer: member(settings(2, three()), last, Standing::History), now_ms: 0 };
        let started = low.step(|peer, now, out| {
            peer.on_room(now, true, out);
            peer.start(now, out);
        });
        (low, started)
    }

    fn step(&mut self, step: impl FnOnce(&mut Peer, i64, &mut Effects)) -> Effects {
        let mut out = Effects::new();
        step(&mut self.peer, self.now_ms, &mut out);
        out
    }

    /// A server says that it votes for itself.
    fn hears_of(&mut self, candidate: i64, zxid: Zxid, round: i64) -> Effects {
        let vote = Vote { leader: ServerId(candidate), zxid, epoch: i64::from(zxid.epoch()) };
        let note = Notification { state: PeerState::Looking, vote, round, has_version: true };
        self.step(|peer, now, out| peer.on_notification(now, ServerId(candidate), note, out))
    }

    fn waits(&mut self, ms: i64) -> Effects {
        let (mut all, until_ms) = (Effects::new(), self.now_ms + ms);
        while self.now_ms < until_ms {
            self.now_ms += 10;
            all.extend(self.step(|peer, now, out| peer.on_time(now, out)));
        }
        all
    }
}

/// Whom server 1 was told to vote for, last.
fn told(effects: &Effects) -> Option<i64> {
    let votes = effects.iter().filter_map(|effect| match effect {
        Effect::Notify(ServerId(1), note) => Some(note.vote.leader.0),
        _ => None,
    });
    votes.last()
}

#[test]
fn p63_who_has_no_room_votes_for_others() {
    let here = Zxid::new(3, 7);
    let (mut low, started) = Low::starts(here);
    assert_eq!(told(&started), Some(i64::MIN), "not for itself: as who may not be elected, which Apache leaves alone");
    assert_eq!(told(&low.hears_of(1, here, 1)), Some(1), "the lower number, with the same history");
    assert!(low.waits(5_000).contains(&Effect::Dial(ServerId(1))), "both are a majority");
}

#[test]
fn p63_who_has_no_room_leads_if_nobody_else_has_its_history() {
    let (mut low, _) = Low::starts(Zxid::new(3, 7));
    assert_eq!(told(&low.hears_of(1, Zxid::new(3, 6), 1)), None, "that would lose a transaction");
    assert_eq!(told(&low.waits(2_000)), Some(2));
}

/// Its votes for nobody are ignored, and so is their round.
#[test]
fn p63_who_has_no_room_joins_an_election_that_others_have_begun() {
    let here = Zxid::new(3, 7);
    let (mut low, _) = Low::starts(here);
    low.hears_of(3, here, 9);
    low.waits(300);
    let again = low.step(|peer, now, out| peer.step_down(now, ox_zab::Reason::NoQuorum, out));
    assert_eq!(told(&again), Some(i64::MIN));
    low.hears_of(1, here, 5); // its round is older than the own one by now
    low.waits(500);
    assert_eq!(told(&low.hears_of(1, here, 5)), Some(1));
}
