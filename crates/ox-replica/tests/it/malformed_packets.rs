//! A member of an ensemble, and a leader that sends malformed packets or is silent.

use crate::ensemble::{LINK, looking};
use crate::harness::Harness;
use bytes::Bytes;
use ox_proto::txn::TxnHeader;
use ox_proto::{Jute, OpCode, SessionId, Zxid};
use ox_replica::{PauseDetector, ReplicaEffect, ReplicaInput};
use ox_zab::{
    DiskDone, Eligibility, EncodedTxn, Epoch, Input, Message, PeerState, Reason, ServerId, Vote, VoteNotification,
};

/// Server 1 of two, which is about to be sent the history of server 2.
fn syncing() -> Harness {
    let mut world = looking(Eligibility::HasHistory, |_| ());
    world.now.mono_ms = 1_000;
    let vote = Vote { leader: ServerId(2), zxid: Zxid::ZERO, epoch: 0 };
    let note = VoteNotification { state: PeerState::Looking, vote, round: 1, has_version: true };
    world.pass(ReplicaInput::Peer(Input::Notification(ServerId(2), note)));
    let is_dialed = |effect: &ReplicaEffect| matches!(effect, ReplicaEffect::Dial(ServerId(2)));
    assert!(world.effects.take().iter().any(is_dialed));
    world.pass(ReplicaInput::Peer(Input::Dialed(ServerId(2), Some(LINK))));
    world.pass(ReplicaInput::Packet(LINK, Message::LeaderInfo(Epoch(1))));
    world.pass(ReplicaInput::Done(DiskDone::AcceptedEpoch(Epoch(1))));
    world.pass(ReplicaInput::Packet(LINK, Message::Diff(Zxid::ZERO)));
    world.effects.take();
    world
}

/// A transaction that cannot be applied is not logged: it would make every later start fail.
#[test]
fn undecodable_transactions_are_refused() {
    let zxid = Zxid::new(1, 1);
    let kind = OpCode::CreateSession.code();
    let header = TxnHeader { session: SessionId(7), cxid: 0, zxid: Zxid::new(1, 2), time_ms: 0, kind };
    let mut other = Vec::new();
    header.put(&mut other);
    other.extend_from_slice(&6_000_i32.to_be_bytes());
    for record in [&b""[..], b"nonsense", &[0xff; 100], &other] {
        for message in [Message::Proposal, Message::Inform] {
            let mut world = syncing();
            let txn = EncodedTxn { zxid, record: Bytes::copy_from_slice(record) };
            world.pass(ReplicaInput::Packet(LINK, message(txn)));
            world.pass(ReplicaInput::Flush);
            assert!(!world.effects.has_log());
            let is_given_up = |effect: &ReplicaEffect| matches!(effect, ReplicaEffect::StepDown(Reason::Violation(_)));
            assert!(world.effects.take().iter().any(is_given_up), "{record:?}");
        }
    }
}

/// If the whole host was paused, the leader's packets wait in the socket, and its silence counts only when they are
/// read.
#[test]
fn paused_member_reads_before_leader_times_out() {
    for is_pause in [true, false] {
        let mut world = syncing();
        let rest_ms = world.replica.rest_ms(world.now).expect("a pause could hide");
        let mut pause_detector = PauseDetector::new(1_000, world.now.mono_ms);
        world.now.mono_ms += 60_000;
        let meant_ms = if is_pause { rest_ms } else { 60_000 };
        assert_eq!(pause_detector.check(world.now.mono_ms, meant_ms, || 0).is_some(), is_pause);
        if is_pause {
            world.pass(ReplicaInput::Pause);
        }
        world.pass(ReplicaInput::Time);
        let is_left = |effect: &ReplicaEffect| matches!(effect, ReplicaEffect::StepDown(Reason::Timeout));
        assert_eq!(world.effects.take().iter().any(is_left), !is_pause);
    }
}
