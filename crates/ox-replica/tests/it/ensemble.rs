//! Members of ensembles: a leader, a LOOKING server, and followers whose leader is the test.

use crate::harness::{Harness, replica_settings};
use bytes::Bytes;
use ox_proto::ensemble::Ensemble;
use ox_proto::txn::{Txn as Body, TxnHeader};
use ox_proto::{Jute, OpCode, SessionId, Zxid};
use ox_replica::{Replica, ReplicaInput, ReplicaSettings};
use ox_zab::{
    ConfigPair, ElectionSettings, Eligibility, EncodedTxn, Epoch, Epochs, Input, LearnerKind, LinkId, Message,
    PeerOptions, PeerSettings, PeerState, QuorumPeer, RecentLog, Recovered, Request, ServerId, Timing, Vote,
    VoteNotification,
};

/// The link to the leader, or from a learner.
pub(crate) const LINK: LinkId = LinkId(1);
/// The link from an observer of a follower.
pub(crate) const OBSERVER: LinkId = LinkId(2);

fn member(
    voters: i64,
    standing: Eligibility,
    change: impl FnOnce(&mut ReplicaSettings),
    options: PeerOptions,
) -> Harness {
    let ensemble = Ensemble::of_numbers(0, (1..=voters).map(ServerId), []).unwrap();
    member_of(ConfigPair::fixed(ensemble), standing, change, options)
}

fn member_of(
    configs: ConfigPair,
    standing: Eligibility,
    change: impl FnOnce(&mut ReplicaSettings),
    options: PeerOptions,
) -> Harness {
    let mut world = Harness::new();
    let mut settings = replica_settings(1, 5);
    change(&mut settings);
    let peer_settings = PeerSettings {
        server: ServerId(1),
        configs,
        timing: Timing { tick_ms: 1_000, init_ticks: 10, sync_ticks: 5 },
        election: ElectionSettings::default(),
        options,
    };
    let epochs = Epochs { accepted: Epoch::ZERO, current: Epoch::ZERO };
    let history = RecentLog::new(world.state.last_zxid(), 500, 1 << 20);
    let peer = QuorumPeer::new(peer_settings, Recovered { epochs, history, eligibility: standing });
    world.settings.syncs_travel = true;
    world.replica = Replica::new(settings, peer, &world.state, world.now);
    world.pass(ReplicaInput::Peer(Input::Start));
    world.settle();
    world
}

/// A leader that is the only voter.
pub(crate) fn leading(change: impl FnOnce(&mut ReplicaSettings)) -> Harness {
    let mut world = member(1, Eligibility::HasHistory, change, PeerOptions::default());
    while let Some(at_ms) = world.replica.deadline().filter(|_| !world.replica.status().is_serving()) {
        world.now.mono_ms = world.now.mono_ms.max(at_ms);
        world.on_time();
        world.settle();
    }
    assert_eq!(world.replica.status().peer_state(), Some(PeerState::Leading));
    world
}

/// One of two voters, while the other is down.
pub(crate) fn looking(standing: Eligibility, change: impl FnOnce(&mut ReplicaSettings)) -> Harness {
    member(2, standing, change, PeerOptions::default())
}

/// One of two voters, whose leader is the test.
pub(crate) fn following(change: impl FnOnce(&mut ReplicaSettings)) -> Harness {
    let mut world = looking(Eligibility::HasHistory, change);
    follow(&mut world, 1);
    world
}

/// The same, in an ensemble that can be reconfigured.
pub(crate) fn following_with_reconfig() -> Harness {
    let configs = ConfigPair::dynamic(Ensemble::of_numbers(0, [1, 2].map(ServerId), []).unwrap(), None);
    let mut world = member_of(configs, Eligibility::HasHistory, |_| (), PeerOptions::default());
    follow(&mut world, 1);
    world
}

/// Follows a leader of this epoch, which has nothing new to send.
pub(crate) fn follow(world: &mut Harness, epoch: i64) {
    start_following(world, epoch);
    world.sent.clear();
}

/// The same; packets of the follower are kept.
pub(crate) fn start_following(world: &mut Harness, epoch: i64) {
    let last = world.state.last_zxid();
    let vote = Vote { leader: ServerId(2), zxid: last, epoch: epoch - 1 };
    let note = VoteNotification { state: PeerState::Looking, vote, round: epoch, has_version: true };
    world.pass(ReplicaInput::Peer(Input::Notification(ServerId(2), note)));
    world.settle();
    world.pass(ReplicaInput::Peer(Input::Dialed(ServerId(2), Some(LINK))));
    let new_leader = Message::NewLeader { epoch: Epoch(epoch), config: Bytes::new() };
    for message in [Message::LeaderInfo(Epoch(epoch)), Message::Diff(last), new_leader, Message::UpToDate] {
        world.pass(ReplicaInput::Packet(LINK, message));
        world.settle();
    }
    assert!(world.replica.status().is_serving());
}

/// An observer that a leader has accepted.
pub(crate) fn observed(world: &mut Harness) {
    let last = world.state.last_zxid();
    world.pass(ReplicaInput::Peer(Input::LinkOpened(LINK)));
    let hello =
        Message::Hello { server: ServerId(2), kind: LearnerKind::Observer, accepted: Epoch::ZERO, config_version: 0 };
    let ack_epoch = Message::AckEpoch { last, current: Some(Epoch::ZERO) };
    let epoch = world.replica.status().peer().unwrap().status().epochs.current;
    for message in [hello, ack_epoch, Message::Ack(Zxid::new(u32::try_from(epoch.0).unwrap(), 0))] {
        world.pass(ReplicaInput::Packet(LINK, message));
        world.settle();
    }
    assert_eq!(world.sent.last(), Some(&(LINK, Message::UpToDate)));
    world.sent.clear();
}

/// Requests that were forwarded to the leader.
pub(crate) fn requests(world: &mut Harness) -> Vec<Request> {
    let requests = std::mem::take(&mut world.sent).into_iter().filter_map(|(_, message)| match message {
        Message::Request(request) => Some(request),
        _ => None,
    });
    requests.collect()
}

/// The leader commits a transaction.
pub(crate) fn ordered(world: &mut Harness, zxid: Zxid, session: SessionId, cxid: i32, body: &Body<'_>) {
    proposed(world, zxid, session, cxid, body);
    world.pass(ReplicaInput::Packet(LINK, Message::Commit(zxid)));
    world.settle();
}

/// The leader proposes a transaction.
pub(crate) fn proposed(world: &mut Harness, zxid: Zxid, session: SessionId, cxid: i32, body: &Body<'_>) {
    let mut record = Vec::new();
    TxnHeader { session, cxid, zxid, time_ms: 7, kind: body.kind().code() }.put(&mut record);
    body.put(&mut record);
    let txn = EncodedTxn { zxid, record: record.into() };
    world.pass(ReplicaInput::Packet(LINK, Message::Proposal(txn)));
    world.settle();
}

/// Whether a request has this operation and xid.
pub(crate) fn is(request: &Request, op: OpCode, cxid: i32) -> bool {
    (request.op, request.cxid) == (op.code(), cxid)
}

/// A follower that is observer master, with an observer.
pub(crate) fn observed_follower(change: impl FnOnce(&mut ReplicaSettings)) -> Harness {
    let mut world =
        member(2, Eligibility::HasHistory, change, PeerOptions { serves_observers: true, ..PeerOptions::default() });
    follow(&mut world, 1);
    observe(&mut world, OBSERVER, ServerId(3));
    world
}

/// An observer connects to a follower.
pub(crate) fn observe(world: &mut Harness, link: LinkId, server: ServerId) {
    let last = world.state.last_zxid();
    world.pass(ReplicaInput::Peer(Input::LinkOpened(link)));
    let hello = Message::Hello { server, kind: LearnerKind::Observer, accepted: Epoch(1), config_version: 0 };
    let ack_epoch = Message::AckEpoch { last, current: None };
    for message in [hello, ack_epoch, Message::Ack(Zxid::new(1, 0))] {
        world.pass(ReplicaInput::Packet(link, message));
        world.settle();
    }
    assert_eq!(world.sent.last(), Some(&(link, Message::UpToDate)));
    world.sent.clear();
}
