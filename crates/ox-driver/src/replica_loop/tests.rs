//! Iterations of the loop with a recording host: what is locked, posted, logged and sent, and in which order.

use super::fake::FakeHost;
use super::peer_commands::CommandBatch;
use super::*;
use crate::log_writer::LogWork;
use ox_proto::SessionId;
use ox_proto::Zxid;
use ox_proto::ensemble::{Addresses, ChangeRules};
use ox_replica::{ClientInput, ConnId, LastSeen, LocalSessions, LogJob, ReplicaEffect, ReplicaSettings};
use ox_tree::TreeOptions;
use ox_tree::auth::Identities;
use ox_zab::{
    ConfigPair, DiskDone, DiskJob, ElectionSettings, Eligibility, Epoch, Epochs, LinkId, LogDiffRange, PeerOptions,
    PeerSettings, PeerState, QuorumPeer, RecentLog, Recovered, Timing, Vote, VoteNotification,
};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

const NOW: Now = Now { mono_ms: 1_000, wall_ms: 1_000 };
const LINK: LinkId = LinkId(7);
const ENSEMBLE: &str =
    "server.1=a:2888:3888:participant;2181\nserver.2=b:2888:3888:participant;2181\nversion=100000000";

fn settings() -> ReplicaSettings {
    ReplicaSettings {
        tick_ms: 1000,
        server: 1,
        session_clock_ms: 1,
        threads: 1,
        sweep_interval_ms: 60_000,
        sweep_per_minute: 10_000,
        sweep_never_used_ms: 0,
        change_rules: ChangeRules::default(),
        local_sessions: LocalSessions::Off,
        leader_serves: true,
        read_only_after_ms: None,
        park_limit_ms: 0,
        sessions_per_address: 0,
        audits: false,
        epoch_txns: u32::MAX,
    }
}

fn ensemble() -> Ensemble {
    Ensemble::parse(ENSEMBLE, Addresses::One).unwrap()
}

fn replica_loop(peer: QuorumPeer, host: &FakeHost) -> ReplicaLoop {
    let settings =
        ReplicaLoopSettings { tick_ms: 1000, io_threads: 1, link_chunk_bytes: 1 << 20, consumed_report_bytes: 1 << 20 };
    ReplicaLoop::new(settings, Replica::new(self::settings(), peer, &host.state, NOW), NOW)
}

fn standalone() -> (ReplicaLoop, FakeHost) {
    let host = FakeHost::new();
    (replica_loop(QuorumPeer::standalone(ServerId(1), host.state.last_zxid()), &host), host)
}

/// A member that is LOOKING.
fn member() -> (ReplicaLoop, FakeHost) {
    let host = FakeHost::new();
    let settings = PeerSettings {
        server: ServerId(1),
        configs: ConfigPair::fixed(ensemble()),
        timing: Timing { tick_ms: 1000, init_ticks: 10, sync_ticks: 5 },
        election: ElectionSettings::default(),
        options: PeerOptions::default(),
    };
    let history = RecentLog::new(Zxid::ZERO, 100, 1 << 20);
    let recovered = Recovered {
        epochs: Epochs { accepted: Epoch::ZERO, current: Epoch::ZERO },
        history,
        eligibility: Eligibility::HasHistory,
    };
    (replica_loop(QuorumPeer::new(settings, recovered), &host), host)
}

fn iterate(replica_loop: &mut ReplicaLoop, input: ReplicaInbox, host: &mut FakeHost) {
    replica_loop.begin(NOW, Duration::ZERO, input, host);
    while replica_loop.step(NOW, host) != ReplicaStage::Idle {}
}

/// A handshake that creates a session.
fn connect() -> Submission {
    let mut submission = Submission::default();
    let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let input = ClientInput::Connect {
        session: SessionId(0),
        last_zxid_seen: Zxid::ZERO,
        proven: true,
        timeout_ms: 10_000,
        patience_ms: 10_000,
        read_only: Some(false),
        address,
        ids: Arc::new(Identities::of_address(address)),
        last_seen: LastSeen::default(),
    };
    submission.push(ConnId::new(0, 0, 1), input, &[]);
    submission
}

fn durable(host: &mut FakeHost) -> ReplicaInbox {
    let mut durable = host.log.drain(..).filter_map(|work| match work {
        LogWork::Batch(queued) => Some(queued.batch.last),
        LogWork::Job(..) | LogWork::Config(_) => None,
    });
    ReplicaInbox { durable: durable.next_back(), ..ReplicaInbox::default() }
}

#[test]
fn reply_is_posted_while_the_state_is_locked_for_writing() {
    let (mut replica_loop, mut host) = standalone();
    iterate(&mut replica_loop, ReplicaInbox { submissions: vec![connect()], ..ReplicaInbox::default() }, &mut host);
    assert_eq!((host.log.len(), host.posted.len(), host.posted_under_lock.len()), (1, 0, 0), "logged, not durable");
    let input = durable(&mut host);
    iterate(&mut replica_loop, input, &mut host);
    assert_eq!((host.posted.len(), host.posted_under_lock.len()), (0, 1));
    assert_ne!(host.state.last_zxid(), Zxid::ZERO);
}

#[test]
fn batch_of_inputs_takes_one_read_lock() {
    let (mut replica_loop, mut host) = standalone();
    let iteration_locks = |count: usize, replica_loop: &mut ReplicaLoop, host: &mut FakeHost| {
        let before = host.read_locks;
        let submissions = (0..count).map(|_| Submission::default()).collect();
        iterate(replica_loop, ReplicaInbox { submissions, ..ReplicaInbox::default() }, host);
        host.read_locks - before
    };
    let locks = [0, 1, 10].map(|count| iteration_locks(count, &mut replica_loop, &mut host));
    assert_eq!(locks, [2; 3], "one for all inputs, and one after the committed transactions");
}

#[test]
fn log_diff_that_was_lost_closes_the_link() {
    let (mut replica_loop, mut host) = member();
    let mut batch = CommandBatch::new(1 << 20);
    let range = LogDiffRange { after: Zxid(1), below: Zxid(9), continues: false };
    replica_loop.execute(NOW, ReplicaEffect::ReadLog(LINK, range), &mut batch, &mut host);
    assert_eq!((host.searches.len(), batch.commands.len()), (1, 0));
    replica_loop.execute(NOW, ReplicaEffect::SendLogDiff(LINK), &mut batch, &mut host);
    assert!(matches!(batch.commands[..], [PeerCommand::Close(LINK)]), "an announced DIFF is not skipped");
}

#[test]
fn member_without_a_leader_writes_no_snapshot() {
    let due = || ReplicaInbox { snapshot_due: Some(Zxid::ZERO), ..ReplicaInbox::default() };
    let (mut replica_loop, mut host) = standalone();
    iterate(&mut replica_loop, due(), &mut host);
    assert_eq!((host.snapshots, replica_loop.is_writing_snapshot()), (1, true));
    let (mut replica_loop, mut host) = member();
    iterate(&mut replica_loop, due(), &mut host);
    assert_eq!((host.snapshots, replica_loop.is_writing_snapshot()), (0, false));
}

/// A snapshot of the old state that is finished later would be the newest file.
#[test]
fn restore_waits_for_the_snapshot_that_is_being_written() {
    let (mut replica_loop, mut host) = standalone();
    let due = ReplicaInbox { snapshot_due: Some(Zxid::ZERO), ..ReplicaInbox::default() };
    iterate(&mut replica_loop, due, &mut host);
    let mut restored = State::new(TreeOptions::default());
    restored.set_last_zxid(Zxid(77));
    let due =
        ReplicaInbox { restore: Some(Box::new(restored)), snapshot_due: Some(Zxid::ZERO), ..ReplicaInbox::default() };
    iterate(&mut replica_loop, due, &mut host);
    assert!(host.log.is_empty() && host.state.last_zxid() == Zxid::ZERO);
    replica_loop.on_snapshot_finished(Duration::ZERO, Duration::ZERO, None);
    iterate(&mut replica_loop, ReplicaInbox::default(), &mut host);
    assert!(matches!(host.log[..], [LogWork::Job(DiskJob::Install(Zxid(77)), Some(_))]));
    assert_eq!((host.state.last_zxid(), host.snapshots), (Zxid(77), 1), "no other snapshot begins meanwhile");
    assert!(!replica_loop.replica().status().is_serving(), "the restored state is not durable");
    let report = JobReport { done: DiskDone::Installed(Zxid(77)), state: None };
    iterate(&mut replica_loop, ReplicaInbox { reports: vec![report], ..ReplicaInbox::default() }, &mut host);
    assert!(replica_loop.replica().status().is_serving());
}

/// The recovered state, and an installed one, come without the node.
#[test]
fn replaced_state_shows_the_active_configuration() {
    let (mut replica_loop, mut host) = member();
    host.ensemble = Some(Arc::new(ensemble()));
    let config = |host: &FakeHost| host.state.config().map(<[u8]>::to_vec);
    assert_eq!(config(&host), Some(Vec::new()), "the node is empty");
    replace_state(NOW, State::new(TreeOptions::default()), &mut host);
    assert_eq!(config(&host), Some(ensemble().to_string().into_bytes()), "recovered");
    let mut batch = CommandBatch::new(1 << 20);
    let job = LogJob::Install(Box::new(State::new(TreeOptions::default())));
    host.state = State::new(TreeOptions::default());
    replica_loop.execute(NOW, ReplicaEffect::Disk(job), &mut batch, &mut host);
    assert_eq!(config(&host), Some(ensemble().to_string().into_bytes()), "installed");
    assert!(matches!(host.log[..], [LogWork::Job(_, Some(_))]), "with the state to store");
}

#[test]
fn member_starts_its_election_and_standalone_server_does_not() {
    let space = FreeSpace { free_bytes: 1 << 30, low_water_bytes: 0, is_low: false, last_bytes: 1 << 30 };
    let (mut replica_loop, mut host) = member();
    replica_loop.start(NOW, space, &mut host);
    assert!(host.commands.iter().any(|command| matches!(command, PeerCommand::Notify(ServerId(2), _))));
    let (mut replica_loop, mut host) = standalone();
    replica_loop.start(NOW, space, &mut host);
    assert!(host.commands.is_empty() && host.log.is_empty());
}

/// A pause of the process is no silence of its clients.
#[test]
fn iteration_that_begins_too_late_reports_a_pause() {
    let (mut replica_loop, mut host) = standalone();
    let mut begin = |mono_ms, timeout_ms| {
        let now = Now { mono_ms, ..NOW };
        replica_loop.begin(now, Duration::from_millis(timeout_ms), ReplicaInbox::default(), &mut host);
        host.pauses
    };
    assert_eq!(begin(3_000, 2_000), 0, "it meant to wait");
    assert_eq!(begin(6_000, 1_000), 1);
}

/// The rest of an interrupted iteration does not see the time after the pause, at which sessions would expire.
#[test]
fn pause_within_an_iteration_expires_no_session() {
    let (mut replica_loop, mut host) = standalone();
    iterate(&mut replica_loop, ReplicaInbox { submissions: vec![connect()], ..ReplicaInbox::default() }, &mut host);
    let input = durable(&mut host);
    iterate(&mut replica_loop, input, &mut host);
    let late = Now { mono_ms: 60_000, ..NOW };
    replica_loop.begin(NOW, Duration::ZERO, ReplicaInbox::default(), &mut host);
    for _ in 0..2 {
        while replica_loop.step(late, &mut host) != ReplicaStage::Idle {}
        replica_loop.begin(late, Duration::ZERO, ReplicaInbox::default(), &mut host);
    }
    assert_eq!((host.pauses, host.log.len()), (1, 0), "no closeSession is logged");
}

#[test]
fn newer_notification_replaces_an_older_one_and_keeps_its_configuration() {
    let mut inbox = ReplicaInbox::default();
    let vote = |round, config: Option<Ensemble>| LatestVote {
        note: VoteNotification {
            vote: Vote { epoch: 1, zxid: Zxid(1), leader: ServerId(2) },
            round,
            state: PeerState::Looking,
            has_version: true,
        },
        config: config.map(Arc::new),
        config_version: 1,
    };
    inbox.add_vote(ServerId(2), vote(1, Some(ensemble())));
    inbox.add_vote(ServerId(2), vote(2, None));
    let latest = &inbox.votes[&ServerId(2)];
    assert_eq!((inbox.votes.len(), latest.note.round), (1, 2));
    assert_eq!(latest.config.as_deref(), Some(&ensemble()));
}
