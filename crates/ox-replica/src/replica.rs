//! The replica orders all writes: prepare, propose, apply, reply.
//!
//! [`Replica::step`] takes one [`ReplicaInput`] after another, under a read lock of the state; what the driver has to
//! do is returned in [`ReplicaEffects`]. [`Replica::apply`] applies committed transactions under the write lock.
//!
//! | subject | files |
//! |---|---|
//! | request pipeline | `request_pipeline.rs`, `proposals.rs`, `pending_requests.rs`, `replies.rs`, `held_submissions.rs`, `write_admission.rs`, `container_manager.rs` |
//! | sessions | `handshakes.rs`, `session_txns.rs`, `local_sessions.rs`, `revalidations.rs`, `parked_handshakes.rs`, `conn_states.rs` |
//! | ensemble | `peer_effects.rs`, `ensemble_roles.rs`, `restore.rs`, `read_only.rs`, `forwarding.rs`, `forwarded_requests.rs`, `observer_relay.rs`, `syncs.rs`, `reconfig.rs` |

mod conn_states;
mod container_manager;
mod ensemble_roles;
mod forwarded_requests;
mod forwarding;
mod handshakes;
mod held_submissions;
mod local_sessions;
mod observer_relay;
mod parked_handshakes;
mod peer_effects;
mod pending_requests;
mod proposals;
mod read_only;
mod reconfig;
mod replies;
mod request_pipeline;
mod restore;
mod revalidations;
mod session_txns;
mod status;
mod syncs;
mod write_admission;

use crate::audit::AuditEvent;
use crate::clock::Now;
use crate::counters::ReplicaCounters;
use crate::effects::ReplicaEffects;
use crate::input::ReplicaInput;
use crate::limits::{DELETED_AT_ONCE_MAX, EXPIRED_AT_ONCE_MAX};
use crate::pause_detector::PauseDetector;
use crate::sessions::Sessions;
use crate::sessions_per_address::SessionsPerAddress;
use bytes::BytesMut;
use conn_states::{Conns, waited_ms};
use container_manager::ContainerManager;
use forwarded_requests::{IdentityCache, LearnerEvent};
use held_submissions::HeldSubmissions;
use local_sessions::Local;
pub use local_sessions::LocalSessions;
use observer_relay::ObserverSessions;
use ox_proto::ensemble::ChangeRules;
use ox_proto::{SessionId, Zxid};
use ox_tree::auth::Identities;
use ox_tree::{PendingChanges, State};
use ox_zab::{Effect, Effects, Input as PeerInput, LinkId, QuorumPeer, ServerId};
use parked_handshakes::Handshakes;
use pending_requests::PendingWrites;
use proposals::{Proposals, Proposer};
use read_only::ReadOnly;
use reconfig::ConfigReply;
use revalidations::Revalidations;
pub use status::ReplicaStatus;
use std::collections::VecDeque;
use syncs::Syncs;
use write_admission::LogSpace;
pub use write_admission::WriteAdmission;

/// Settings of a replica.
#[derive(Clone, Copy, Debug)]
pub struct ReplicaSettings {
    pub tick_ms: i32,
    /// The server's number in session ids.
    pub server: u8,
    /// The time in new session ids. It must differ between starts of the server.
    pub session_clock_ms: i64,
    pub threads: usize,
    /// How often containers and TTL nodes are checked (`znode.container.checkIntervalMs`).
    pub sweep_interval_ms: i64,
    /// Deletions of containers and TTL nodes per minute.
    pub sweep_per_minute: i64,
    /// How long a container that never had a child is kept; 0 means forever.
    pub sweep_never_used_ms: i64,
    pub change_rules: ChangeRules,
    pub local_sessions: LocalSessions,
    /// Whether a leader serves clients (`leaderServes`).
    pub leader_serves: bool,
    /// How long a member is LOOKING before it serves reads; none means never.
    pub read_only_after_ms: Option<i64>,
    /// How long after the loss of its leader a member lets new connections wait for the next one; 0 means not at all.
    pub park_limit_ms: i64,
    /// Limits the sessions per client address; 0 means no limit.
    pub sessions_per_address: usize,
    /// Whether events for the audit log are recorded.
    pub audits: bool,
    /// For tests: ends every epoch of a leader after this many transactions.
    pub epoch_txns: u32,
}

/// The server's role towards its clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// Serves no clients: it has no leader.
    None,
    ReadOnly,
    /// Proposes writes itself, as leader or standalone.
    Leader,
    Learner(LinkId),
}

/// A server without its sockets and disk.
#[derive(Debug)]
pub struct Replica {
    me: ServerId,
    tick_ms: i32,
    leader_serves: bool,
    peer: Box<QuorumPeer>,
    /// False for a standalone server. Otherwise another server may lead: replies about sessions and to syncs need a proof
    /// of leadership.
    has_peers: bool,
    role: Role,
    /// The last transaction that was proposed or logged here.
    last_proposed_zxid: Zxid,
    counter_max: u32,
    reconfigures_at: Option<Zxid>,
    config_reply: ConfigReply,
    change_rules: ChangeRules,
    /// The last committed transaction.
    committed: Zxid,
    durable: Zxid,
    /// The next role, which begins when this transaction is applied.
    begins_at: Option<(Role, Zxid)>,
    /// The snapshot that is being received from a leader.
    snapshot: Option<Box<State>>,
    /// Effects of the quorum peer that are not executed yet.
    peer_effects: VecDeque<Effect>,
    /// Reused memory for the effects of one step of the quorum peer.
    new_effects: Effects,
    /// Reused memory for the bodies of forwarded requests.
    bodies: BytesMut,
    identity_cache: IdentityCache,
    syncs: Syncs,
    revalidations: Revalidations,
    observer_sessions: ObserverSessions,
    /// What learners have sent while a role is about to begin.
    early_events: VecDeque<(LinkId, LearnerEvent)>,
    pinged_ms: i64,
    pending: PendingChanges,
    sessions: Sessions,
    local: Local,
    read_only: ReadOnly,
    addresses: SessionsPerAddress,
    /// When the submission in progress was handed over.
    submitted_ms: i64,
    conns: Conns,
    handshakes: Handshakes,
    pending_writes: PendingWrites,
    proposals: Proposals,
    held: HeldSubmissions,
    /// What is left of [`ReplicaEffects::replies_max`].
    replies_left: usize,
    next_session: SessionId,
    container_manager: ContainerManager,
    server_ids: Identities,
    log_space: LogSpace,
    digest_mismatches: u64,
    counters: ReplicaCounters,
    audits: bool,
    /// Events of writes that were refused in this step.
    refused_audit: Vec<AuditEvent>,
}

impl Replica {
    /// A server with a recovered state. A standalone server serves immediately, and gives every session its full
    /// timeout; a member serves no clients before it has a leader.
    pub fn new(settings: ReplicaSettings, peer: QuorumPeer, state: &State, now: Now) -> Self {
        if !peer.status().is_standalone {
            return Self::looking(settings, peer, state.last_zxid(), now);
        }
        let settings = ReplicaSettings {
            local_sessions: LocalSessions::Off,
            leader_serves: true,
            read_only_after_ms: None,
            park_limit_ms: 0,
            epoch_txns: u32::MAX,
            ..settings
        };
        let looking = Self::looking(settings, peer, state.last_zxid(), now);
        let mut replica = Self { role: Role::Leader, has_peers: false, ..looking };
        replica.track_sessions(now, state);
        replica
    }

    /// A server that serves no clients yet.
    fn looking(settings: ReplicaSettings, peer: QuorumPeer, last: Zxid, now: Now) -> Self {
        Self {
            me: ServerId(i64::from(settings.server)),
            tick_ms: settings.tick_ms,
            leader_serves: settings.leader_serves,
            peer: Box::new(peer),
            has_peers: true,
            role: Role::None,
            last_proposed_zxid: last,
            counter_max: settings.epoch_txns,
            reconfigures_at: None,
            config_reply: ConfigReply::default(),
            change_rules: settings.change_rules,
            committed: last,
            durable: last,
            begins_at: None,
            snapshot: None,
            peer_effects: VecDeque::new(),
            new_effects: Effects::new(),
            bodies: BytesMut::new(),
            identity_cache: IdentityCache::default(),
            syncs: Syncs::default(),
            revalidations: Revalidations::default(),
            observer_sessions: ObserverSessions::default(),
            early_events: VecDeque::new(),
            pinged_ms: now.mono_ms,
            pending: PendingChanges::default(),
            sessions: Sessions::new(settings.tick_ms),
            local: Local::new(settings.local_sessions, settings.tick_ms),
            read_only: ReadOnly::new(settings.read_only_after_ms),
            addresses: SessionsPerAddress::new(settings.sessions_per_address),
            submitted_ms: 0,
            conns: Conns::new(settings.threads),
            handshakes: Handshakes::new(settings.park_limit_ms),
            pending_writes: PendingWrites::default(),
            proposals: Proposals::default(),
            held: HeldSubmissions::default(),
            replies_left: 0,
            next_session: SessionId::first(settings.server, settings.session_clock_ms),
            container_manager: ContainerManager::new(&settings, now.mono_ms),
            server_ids: Identities::server(),
            log_space: LogSpace::default(),
            digest_mismatches: 0,
            counters: ReplicaCounters::default(),
            audits: settings.audits,
            refused_audit: Vec::new(),
        }
    }

    /// When [`ReplicaInput::Time`] is due.
    pub fn deadline(&self) -> Option<i64> {
        let own = if self.role == Role::Leader {
            [self.sessions.deadline(), self.container_manager.deadline()]
        } else {
            [None; 2]
        };
        let local = self.local.sessions.deadline().filter(|_| self.role != Role::None);
        let others = [self.read_only_at_ms(), self.handshakes.deadline(), self.peer.deadline()];
        own.into_iter().flatten().chain(local).chain(others.into_iter().flatten()).min()
    }

    /// How long the driver may wait before something is due, or a pause could go undetected by a [`PauseDetector`].
    pub fn rest_ms(&self, now: Now) -> Option<i64> {
        let has_sessions = self.sessions.deadline().or(self.local.sessions.deadline()).is_some();
        let judges = has_sessions || self.has_peers;
        let until_ms = self.deadline().map(|deadline_ms| (deadline_ms - now.mono_ms).max(0));
        until_ms.into_iter().chain(judges.then(|| PauseDetector::rest_ms(self.tick_ms))).min()
    }

    /// Processes one event. What it requires of the driver is appended to `out`.
    pub fn step(&mut self, now: Now, input: ReplicaInput, state: &State, out: &mut ReplicaEffects) {
        self.replies_left = out.replies_max;
        match input {
            ReplicaInput::Clients(submission) => self.on_submission(now, submission, state, out),
            ReplicaInput::Flush => self.flush(now, out),
            ReplicaInput::Time => self.on_time(now, state, out),
            ReplicaInput::Pause => self.on_pause(now),
            ReplicaInput::Durable(zxid) => self.on_durable(now, zxid),
            ReplicaInput::DiskSpace { free_bytes, reserve_bytes } => self.on_space(now, free_bytes, reserve_bytes),
            ReplicaInput::Limits(limits) => {
                self.addresses.set_limit(limits.sessions_per_address);
                self.counters.slow_writes.set_limit(limits.slow_write_ms);
            }
            ReplicaInput::CloseSession(session) => self.close_session(now, session, state, &mut out.outboxes),
            ReplicaInput::Done(done) => self.on_done(now, done),
            ReplicaInput::ConfigStored(version) => self.on_config_stored(now, version, state, &mut out.outboxes),
            ReplicaInput::LinkClosed(link) => {
                self.on_learner_event(now, link, LearnerEvent::Closed, state, &mut out.outboxes);
                self.step_peer(now, PeerInput::LinkClosed(link));
            }
            ReplicaInput::Packet(link, message) => self.on_packet(now, link, message),
            ReplicaInput::SnapshotReceived(link, snapshot) => self.on_snapshot_received(now, link, snapshot),
            ReplicaInput::Restore(restored) => self.on_restore(now, restored, state, out),
            ReplicaInput::Peer(input) => self.step_peer(now, input),
        }
        self.perform_effects(now, state, out);
        if self.log_is_full() {
            self.flush(now, out);
            self.perform_effects(now, state, out);
        }
        out.audit.append(&mut self.refused_audit);
    }

    /// Whether [`Self::apply`] has something to do.
    pub fn has_committed(&self) -> bool {
        self.has_applicable() || self.has_due_wait()
    }

    /// Whether packets of a link are accepted now; otherwise they have to wait.
    pub fn takes_packets(&self, link: LinkId) -> bool {
        self.peer.takes_packets(link)
    }

    /// What this server reports about itself.
    pub fn status(&self) -> ReplicaStatus<'_> {
        ReplicaStatus(self)
    }

    pub fn counters_mut(&mut self) -> &mut ReplicaCounters {
        &mut self.counters
    }

    /// Expires sessions, deletes containers and TTL nodes, and runs other timers.
    fn on_time(&mut self, now: Now, state: &State, out: &mut ReplicaEffects) {
        self.step_peer(now, PeerInput::Time);
        self.perform_effects(now, state, out);
        self.begin_read_only(now, state, &mut out.outboxes);
        self.expire_handshakes(now, &mut out.outboxes);
        self.expire_local(now, &mut out.outboxes);
        if self.role != Role::Leader {
            return;
        }
        let mut expired = Vec::new();
        let waited_ms = waited_ms(&self.conns, &self.pending_writes, now);
        self.sessions.expire(now.mono_ms, EXPIRED_AT_ONCE_MAX, waited_ms, &mut expired);
        for session in expired {
            self.counters.expired(session, self.sessions.timeout_ms(session).unwrap_or_default());
            self.propose_close(now, session, 0, Proposer::Server, state);
        }
        for _ in 0..DELETED_AT_ONCE_MAX {
            let Some(path) = self.container_manager.next(now, state) else { break };
            self.propose_removal(now, &path, state);
        }
    }

    fn on_pause(&mut self, now: Now) {
        self.sessions.touch_all(now.mono_ms);
        self.local.sessions.touch_all(now.mono_ms);
        self.step_peer(now, PeerInput::Pause);
    }
}
