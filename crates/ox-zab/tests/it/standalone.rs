//! A standalone server: a quorum peer with one voter and no links.

use ox_proto::{ServerId, Zxid};
use ox_zab::{Effect, Input, QuorumPeer};

fn step(peer: &mut QuorumPeer, input: Input) -> Vec<Effect> {
    let mut out = Vec::new();
    peer.step(1_000_000, input, &mut out);
    out
}

#[test]
fn own_disk_commits_without_election_and_epochs() {
    let last = Zxid::new(3, 7);
    let mut peer = QuorumPeer::standalone(ServerId(1), last);
    assert!(peer.status().is_standalone);
    assert_eq!(step(&mut peer, Input::ProposeUpTo(Zxid::new(3, 9))), []);
    for input in [Input::Time, Input::Pause, Input::DiskLow(true), Input::Time] {
        assert_eq!(step(&mut peer, input), [], "however slow and full the disk is");
    }
    assert_eq!(peer.deadline(), None);
    assert_eq!(step(&mut peer, Input::Durable(Zxid::new(3, 8))), [Effect::Commit(Zxid::new(3, 8))]);
    assert_eq!(step(&mut peer, Input::Durable(Zxid::new(3, 9))), [Effect::Commit(Zxid::new(3, 9))]);
    assert_eq!(step(&mut peer, Input::Applied(Zxid::new(3, 9))), []);
}

#[test]
fn counter_overflow_continues_in_next_epoch() {
    let last = Zxid::new(3, u32::MAX);
    let mut peer = QuorumPeer::standalone(ServerId(1), last);
    let next = peer.role().leader().and_then(|leader| leader.zxid_after(last)).expect("no election is needed");
    assert_eq!(next, Zxid::new(4, 0));
    assert_eq!(step(&mut peer, Input::ProposeUpTo(next)), []);
    assert_eq!(step(&mut peer, Input::Durable(next)), [Effect::Commit(next)]);
}
