//! One member and the configurations it receives: which it adopts, and how its role changes.

use crate::single_member::{member, settings};
use bytes::Bytes;
use ox_proto::ensemble::Ensemble;
use ox_proto::txn::{Record, Txn as Body, TxnHeader};
use ox_proto::{SessionId, Zxid};
use ox_zab::{
    ConfigPair, DiskJob, Effect, Effects, ElectionConnection, Eligibility, EncodedTxn, Epoch, Input, LearnerKind,
    LinkId, Message, PeerState, QuorumPeer, Reason, ServerId, Vote, VoteNotification,
};
use std::sync::Arc;

const LINK: LinkId = LinkId(7);

fn ensemble(version: i64, voters: &[i64], observers: &[i64]) -> Arc<Ensemble> {
    let ids = |ids: &[i64]| ids.iter().copied().map(ServerId).collect::<Vec<_>>();
    Arc::new(Ensemble::of_numbers(version, ids(voters), ids(observers)).unwrap())
}

fn brings(counter: u32, config: &Ensemble) -> EncodedTxn {
    let (zxid, text) = (Zxid::new(1, counter), config.to_string());
    let txn = Body::Reconfig { path: "/zookeeper/config".into(), data: Some(text.as_bytes()), version: -1 };
    let header = TxnHeader { session: SessionId(1), cxid: 1, zxid, time_ms: 1, kind: txn.kind().code() };
    let mut record = Vec::new();
    Record { header, txn, digest: None }.put(&mut record);
    EncodedTxn { zxid, record: record.into() }
}

struct Member {
    peer: QuorumPeer,
}

impl Member {
    /// Server 1 of three, which is LOOKING; 4 is an observer.
    fn new(configs: impl FnOnce(Ensemble) -> ConfigPair) -> Self {
        let configs = configs(Ensemble::clone(&ensemble(0, &[1, 2, 3], &[4])));
        let mut peer = member(settings(1, configs), Zxid::ZERO, Eligibility::HasHistory);
        peer.step(0, Input::Start, &mut Effects::new());
        Self { peer }
    }

    fn dynamic() -> Self {
        Self::new(|ensemble| ConfigPair::dynamic(ensemble, None))
    }

    fn step(&mut self, input: Input) -> Effects {
        self.step_at(10, input)
    }

    fn step_at(&mut self, now_ms: i64, input: Input) -> Effects {
        let mut out = Effects::new();
        self.peer.step(now_ms, input, &mut out);
        out
    }

    fn receives(&mut self, message: Message) -> Effects {
        self.step(Input::Packet(LINK, message))
    }

    fn receives_vote(&mut self, from: i64, config: &Arc<Ensemble>) -> Effects {
        self.step(Input::Config(ServerId(from), Arc::clone(config)))
    }

    /// Follows server 3, which is established with a configuration of version (1,0).
    fn following() -> Self {
        let mut member = Self::dynamic();
        let vote = Vote { leader: ServerId(3), zxid: Zxid::ZERO, epoch: 0 };
        for (from, state) in [(2, PeerState::Following), (3, PeerState::Leading)] {
            let note = VoteNotification { state, vote, round: 1, has_version: true };
            member.step(Input::Notification(ServerId(from), note));
        }
        member.step(Input::Dialed(ServerId(3), Some(LINK)));
        member.receives(Message::LeaderInfo(Epoch(1)));
        member.step(Input::Done(DiskJob::AcceptedEpoch(Epoch(1)).done()));
        member.receives(Message::Diff(Zxid::ZERO));
        let config = ensemble(Zxid::new(1, 0).0, &[1, 2, 3], &[4]);
        let new_leader = Message::NewLeader { epoch: Epoch(1), config: Bytes::from(config.to_string()) };
        let told = member.receives(new_leader);
        let current = Effect::Disk(DiskJob::CurrentEpoch(Epoch(1)));
        assert_eq!(
            told,
            [Effect::ConfigProposed(Arc::clone(&config)), current],
            "it is on disk before the history is acknowledged"
        );
        member.step(Input::Done(DiskJob::CurrentEpoch(Epoch(1)).done()));
        assert_eq!(member.receives(Message::UpToDate)[0], Effect::ActivateConfig(config, None));
        member
    }

    /// The same, with a configuration proposed as the first transaction.
    fn proposed(config: &Arc<Ensemble>) -> Self {
        let mut member = Self::following();
        let txn = brings(1, config);
        let told = member.receives(Message::Proposal(txn.clone()));
        assert_eq!(told, [Effect::Append(txn), Effect::ConfigProposed(Arc::clone(config))]);
        member.step(Input::Durable(Zxid::new(1, 1)));
        member
    }

    fn applies(&mut self) -> Effects {
        self.step(Input::Applied(Zxid::new(1, 1)))
    }
}

/// Only members are believed, and only while this server is LOOKING (K102).
#[test]
fn k102_config_is_adopted_from_members_while_looking() {
    let newer = ensemble(9, &[1, 2, 3, 5], &[]);
    let mut member = Member::dynamic();
    assert_eq!(member.receives_vote(5, &newer), [], "an unknown server");
    let told = member.receives_vote(4, &newer);
    assert_eq!(told[..2], [Effect::ActivateConfig(Arc::clone(&newer), None), Effect::Looking], "{told:?}");
    assert_eq!(member.receives_vote(5, &ensemble(8, &[1], &[])), [], "it is older");
    let mut member = Member::following();
    assert_eq!(member.receives_vote(2, &ensemble(i64::MAX, &[1], &[])), []);
}

/// A static configuration does not change, whatever others report (K103).
#[test]
fn k103_static_configuration_does_not_change() {
    let mut member = Member::new(ConfigPair::fixed);
    assert_eq!(member.receives_vote(2, &ensemble(9, &[1], &[])), []);
    assert_eq!(member.peer.configs().committed().version(), 0);
}

#[test]
fn unrelated_reconfig_keeps_role() {
    let config = ensemble(Zxid::new(1, 1).0, &[1, 2, 3, 5], &[]);
    let mut member = Member::proposed(&config);
    let told = member.receives(Message::CommitAndActivate(Zxid::new(1, 1), ServerId(3)));
    assert_eq!(told, [Effect::Commit(Zxid::new(1, 1)), Effect::ActivateConfig(config, Some(ServerId(3)))]);
    assert_eq!(member.applies(), []);
    assert_eq!(member.peer.status().state, PeerState::Following);
}

#[test]
fn role_changes_after_reconfig_is_applied() {
    let config = ensemble(Zxid::new(1, 1).0, &[2, 3], &[1]);
    let mut member = Member::proposed(&config);
    member.receives(Message::CommitAndActivate(Zxid::new(1, 1), ServerId(3)));
    assert!(!member.peer.takes_packets(LINK), "what comes next is for its next role");
    let told = member.applies();
    assert_eq!(told, [Effect::Close(LINK), Effect::StepDown(Reason::Reconfigured), Effect::Dial(ServerId(3))]);
    let told = member.step(Input::Dialed(ServerId(3), Some(LinkId(8))));
    let hello = Message::Hello {
        server: ServerId(1),
        kind: LearnerKind::Observer,
        accepted: Epoch(1),
        config_version: config.version(),
    };
    assert_eq!(told, [Effect::Send(LinkId(8), hello)]);
}

#[test]
fn designated_leader_leads_without_election() {
    let config = ensemble(Zxid::new(1, 1).0, &[1, 2], &[]);
    let mut member = Member::proposed(&config);
    member.receives(Message::CommitAndActivate(Zxid::new(1, 1), ServerId(1)));
    let told = member.applies();
    assert_eq!(told[2], Effect::Listen, "{told:?}");
    assert_eq!(member.peer.status().state, PeerState::Leading);
}

/// Apache's servers close their election connections when they adopt a configuration: the designated leader is still
/// up.
#[test]
fn designated_leader_is_dialled_without_election_connection() {
    let config = ensemble(Zxid::new(1, 1).0, &[1, 2], &[3]);
    let mut member = Member::proposed(&config);
    member.receives(Message::CommitAndActivate(Zxid::new(1, 1), ServerId(2)));
    member.step(Input::ElectionLink(ServerId(2), ElectionConnection::Down));
    assert!(member.applies().contains(&Effect::Dial(ServerId(2))));
    assert_eq!(member.step(Input::Dialed(ServerId(2), None)), []);
    let later_ms = member.peer.deadline().unwrap();
    assert_eq!(member.step_at(later_ms, Input::Time), [Effect::Dial(ServerId(2))]);
}

/// A configuration that cannot be decoded is not logged.
#[test]
fn invalid_configuration_closes_link() {
    let mut member = Member::following();
    let mut txn = brings(1, &ensemble(5, &[1], &[]));
    let mut record = txn.record.to_vec();
    let at = record.windows(7).position(|part| part == b"server.").unwrap();
    record[at] = b'x';
    txn.record = record.into();
    let told = member.receives(Message::Proposal(txn));
    assert!(matches!(told[1], Effect::StepDown(Reason::Violation(_))), "{told:?}");
}
