//! Log lines and metrics about a member's role: elections, leaders, synchronisation and lost learners.
//!
//! The sentences are Apache's where Apache has one, because operators and their tools search for them.

#![expect(clippy::wildcard_enum_match_arm, reason = "most messages are not logged")]

use super::latency::Latency;
use crate::shared::Shared;
use crate::status::java_text;
use ox_proto::{ServerId, Zxid};
use ox_replica::{LogJob, Replica, ReplicaEffect};
use ox_zab::{Leader, ZxidRange};
use ox_zab::{LearnerKind, LinkId, Message, MissingVotes, PeerState, PeerStatus, QuorumPeer, Reason, VoteNotification};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// An election that takes longer does not end by itself.
const LONG_ELECTION: Duration = Duration::from_secs(10);
/// Interval of the warnings about such an election.
const WARN_INTERVAL: Duration = Duration::from_secs(60);

/// A learner that has connected to this server.
struct LearnerLink {
    address: Option<SocketAddr>,
    /// None before its hello.
    server: Option<ServerId>,
    kind: LearnerKind,
    /// The end of its log when it connected.
    last: Zxid,
    /// It has acknowledged NEWLEADER.
    is_synced: bool,
}

/// What happens to transactions that the leader does not have.
#[derive(Clone, Copy)]
enum FateOfDropped {
    /// A snapshot replaces the local files, which are renamed.
    KeptAside,
    /// The log is truncated.
    Removed,
}

/// The warning that transactions of this server are dropped; `None` if the leader's history reaches as far.
fn dropped_text(own_last: Zxid, leader_last: Zxid, fate: FateOfDropped) -> Option<String> {
    let copy = match fate {
        FateOfDropped::KeptAside => {
            "the replaced files are kept as version-2/old.* until the next snapshot of this server: copy them now if they \
             are needed"
        }
        FateOfDropped::Removed => "they are removed from the log, and no copy is kept",
    };
    let has_more = leader_last < own_last;
    has_more.then(|| {
        format!(
            "this server has transactions that the leader does not have: those after {leader_last}, up to {own_last}, are \
             dropped; {copy}"
        )
    })
}

pub(super) struct RoleLog {
    shared: Arc<Shared>,
    /// The state that was logged last; none between two roles.
    state: Option<PeerState>,
    /// The last notification of each member since the last election began, with the version of its configuration.
    last_notified: BTreeMap<ServerId, (VoteNotification, i64)>,
    /// Since when this server has not served clients.
    unavailable_since: Instant,
    /// Since when the election runs.
    looking_since: Option<Instant>,
    warned_at: Option<Instant>,
    elected_at: Instant,
    is_serving: bool,
    is_read_only: bool,
    /// The learners of this leader, or of this observer master.
    learners: BTreeMap<LinkId, LearnerLink>,
    /// The end of this learner's log, as it was sent to the leader.
    own_last: Zxid,
    /// Learners being synchronised, and whether with a snapshot.
    syncing: BTreeMap<LinkId, bool>,
    latency: Latency,
}

impl RoleLog {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        let now = Instant::now();
        let acks_timed_every = shared.config.member.as_ref().map_or(0, |member| member.acks_timed_every);
        Self {
            shared,
            state: Some(PeerState::Looking),
            last_notified: BTreeMap::new(),
            unavailable_since: now,
            looking_since: None,
            warned_at: None,
            elected_at: now,
            is_serving: false,
            is_read_only: false,
            learners: BTreeMap::new(),
            own_last: Zxid::ZERO,
            syncing: BTreeMap::new(),
            latency: Latency::new(acks_timed_every),
        }
    }

    /// Logs what the replica requires, before it is executed.
    pub(super) fn on_effect(&mut self, replica: &Replica, effect: &ReplicaEffect, wall_ms: i64) {
        match effect {
            ReplicaEffect::Send(link, message) => self.sending(replica, *link, message, wall_ms),
            ReplicaEffect::Dial(leader) => {
                self.elected(*leader, replica.status().peer_state().unwrap_or(PeerState::Looking));
            }
            ReplicaEffect::SendSnapshot(link) => self.sending_snapshot(replica, *link),
            ReplicaEffect::Disk(LogJob::CurrentEpoch(_)) => self.synchronising(""),
            ReplicaEffect::Listen => self.elected(self.me(), PeerState::Leading),
            ReplicaEffect::Looking => self.looking(replica),
            ReplicaEffect::StepDown(reason) => self.stepped_down(reason),
            _ => (),
        }
    }

    fn me(&self) -> ServerId {
        self.shared.config.member.as_ref().map_or(ServerId(0), |member| member.server)
    }

    fn looking(&mut self, replica: &Replica) {
        if self.state.replace(PeerState::Looking) != Some(PeerState::Looking) {
            tracing::info!("Peer state changed: looking");
        }
        tracing::info!("LOOKING");
        if let (Some(member), Some(peer)) = (&self.shared.config.member, replica.status().peer()) {
            let is_voter = peer.status().kind == LearnerKind::Follower;
            let proposed = if is_voter { peer.status().last_logged } else { Zxid(i64::MIN) };
            tracing::info!("New election. My id = {}, proposed zxid={proposed}", member.server);
        }
        self.shared.metrics.looking_count.add(1);
        (self.looking_since, self.warned_at) = (Some(Instant::now()), None);
        self.last_notified.clear();
        self.learners.clear();
        self.syncing.clear();
        self.latency.reset();
    }

    /// Logs a notification of another server. Repetitions, and servers that are in no configuration, are not logged at
    /// the default level, because a server may send them by the hundred.
    pub(super) fn notified(&mut self, replica: &Replica, from: ServerId, note: VoteNotification, config_version: i64) {
        let Some(peer) = replica.status().peer() else { return };
        let is_new = peer.configs().is_member(from)
            && self.last_notified.insert(from, (note, config_version)) != Some((note, config_version));
        let (state, vote, format) = (peer.status().state, note.vote, if note.has_version { 2 } else { 0 });
        let line = format!(
            "Notification: my state:{}; n.sid:{from}, n.state:{}, n.leader:{}, n.round:{:#x}, n.peerEpoch:{:#x}, \
             n.zxid:{}, message format version:{format:#x}, n.config version:{config_version:#x}",
            upper_name(state),
            upper_name(note.state),
            vote.leader,
            note.round,
            vote.epoch,
            vote.zxid,
        );
        if is_new { tracing::info!("{line}") } else { tracing::debug!("{line}") }
    }

    /// Logs the end of an election. A leader may be dialled more than once; later dials are not logged.
    fn elected(&mut self, leader: ServerId, state: PeerState) {
        let state = if state == PeerState::Looking { PeerState::Following } else { state };
        if self.state.replace(state) == Some(state) {
            return;
        }
        let (name, upper_name) = (name(state), upper_name(state));
        tracing::info!("Peer state changed: {name}");
        tracing::info!(%leader, "{upper_name}");
        // A configuration may name the leader without an election.
        if let Some(since) = self.looking_since.take() {
            let took_ms = super::elapsed_ms(since);
            tracing::info!("{upper_name} - LEADER ELECTION TOOK - {took_ms} MS");
            self.shared.metrics.election_time.note(took_ms, 1);
            self.elected_at = Instant::now();
        }
        tracing::info!("Peer state changed: {name} - discovery");
    }

    /// Logs that synchronisation begins, or that its mode is known or has ended.
    fn synchronising(&self, mode: &str) {
        if let Some(state) = self.state {
            tracing::info!("Peer state changed: {} - synchronization{mode}", name(state));
        }
    }

    /// Logs whether clients are served from now on.
    pub(super) fn update(&mut self, replica: &Replica) {
        if replica.status().is_read_only() != self.is_read_only {
            self.is_read_only = !self.is_read_only;
            let what = if self.is_read_only { "started" } else { "stopped" };
            tracing::info!("Read-only server {what}");
        }
        if let Some(peer) = replica.status().peer() {
            self.warn_long_election(peer);
        }
        if replica.status().is_serving() == self.is_serving {
            return;
        }
        self.is_serving = !self.is_serving;
        if !self.is_serving {
            self.unavailable_since = Instant::now();
            return;
        }
        let Some(peer) = replica.status().peer() else { return };
        let (metrics, sync_ms) = (&self.shared.metrics, super::elapsed_ms(self.elected_at));
        let unavailable_ms = super::elapsed_ms(self.unavailable_since);
        metrics.unavailable_time.note(unavailable_ms, 1);
        let state = match peer.status().state {
            PeerState::Leading => {
                metrics.leader_unavailable_time.note(unavailable_ms, 1);
                self.shared.stats.leads_since_ms.store(self.shared.clock.mono_ms(), Relaxed);
                "leading"
            }
            PeerState::Observing => {
                metrics.observer_sync_time.note(sync_ms, 1);
                "observing"
            }
            PeerState::Following | PeerState::Looking => {
                metrics.follower_sync_time.note(sync_ms, 1);
                "following"
            }
        };
        let (epoch, leader) = (peer.status().epochs.current, peer.status().leader.map_or(-1, |leader| leader.0));
        if peer.role().leader().is_some_and(Leader::is_established) {
            let (sids, zxid) = (self.synced_voters(), epoch.start());
            tracing::info!(
                "Have quorum of supporters, sids: [{sids}]; starting up and setting last processed zxid: {zxid}"
            );
        }
        tracing::info!(leader, %epoch, sync_ms, unavailable_ms, "Peer state changed: {state} - broadcast");
    }

    /// Logs what a long election waits for, and what an operator can do.
    fn warn_long_election(&mut self, peer: &QuorumPeer) {
        let Some(looking) = self.looking_since.map(|since| since.elapsed()).filter(|looking| LONG_ELECTION <= *looking)
        else {
            return;
        };
        if self.warned_at.is_some_and(|at| at.elapsed() < WARN_INTERVAL) {
            return;
        }
        self.warned_at = Some(Instant::now());
        let looking_s = looking.as_secs();
        let text = |servers: Vec<ServerId>| servers.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let MissingVotes { own, abstaining, unreachable } = peer.missing_votes();
        let unreachable = text(unreachable);
        if own.is_none() && !abstaining.is_empty() {
            let abstaining: Vec<String> =
                abstaining.iter().map(|(server, data)| format!("{server} (data {data})")).collect();
            tracing::warn!(
                looking_s,
                unreachable,
                abstaining = abstaining.join(", "),
                "no leader elected: too few voters with data can be reached. A server without data of its own abstains until it has a leader's. Start the unreachable servers, or repair the connections to them; if they are lost for good, the log of each server that abstains names its remedy"
            );
        } else if own.is_none() {
            let voters = peer.configs().committed().voters().count();
            tracing::warn!(
                looking_s,
                voters,
                unreachable,
                "no leader elected: too few voters can be reached; check that a quorum of servers runs and their election ports are open, and look for `Cannot open channel` above, which names the cause where it is known"
            );
        } else if !unreachable.is_empty() {
            let data = if peer.status().has_quarantined_files { "quarantined" } else { "empty" };
            tracing::warn!(
                looking_s,
                unreachable,
                data,
                "no leader elected, and this server abstains until it has the data of a leader. Start the unreachable \
                 servers, or repair the connections to them; if they are lost for good, \
                 docs/operate/troubleshooting.md has the procedure"
            );
        } else if peer.status().has_quarantined_files {
            tracing::warn!(
                looking_s,
                "no leader elected, and this server abstains: its data is quarantined, and it waits for a leader's \
                 snapshot. If no other member has intact data, apply the remedy that `oxkeeper log check` names, and \
                 start it once with -Doxkeeper.recovery.onDamage=accept"
            );
        } else {
            tracing::warn!(
                looking_s,
                "no leader elected, and this server abstains: its data directory is empty, and may have been lost. It \
                 waits for a leader, or for a quorum of empty members. If it is new and other members are not, create an \
                 empty file named initialize in its dataDir and restart it"
            );
        }
    }

    fn stepped_down(&mut self, reason: &Reason) {
        self.elected_at = Instant::now(); // a configuration may name the next leader without an election
        let why = match reason {
            Reason::LinkLost => "connection to the leader lost".to_owned(),
            Reason::Timeout => "no packet from the leader within syncLimit".to_owned(),
            Reason::NoQuorum => {
                format!("Not sufficient followers synced, only synced with sids: [ {} ]", self.synced_voters())
            }
            Reason::OldEpoch(epoch) => format!("the leader's epoch {epoch} is lower than the accepted epoch"),
            Reason::Violation(what) => format!("protocol violation: {what}"),
            Reason::NeedsSnapshot => "the log does not match the leader's: a snapshot is needed".to_owned(),
            Reason::CannotListen => "the quorum port cannot be bound".to_owned(),
            Reason::ZxidRollover => "zxid rollover: the epoch has no zxids left".to_owned(),
            Reason::DiskStalled => "the disk of this server stalled".to_owned(),
            Reason::DiskLow => "disk space is low, and another voter can lead".to_owned(),
            Reason::LostSupport => {
                self.shared.metrics.quit_leading_due_to_disloyal_voter.add(1);
                "supporters changed their vote before the leader was established".to_owned()
            }
            Reason::OtherLeader(leader) => format!("a quorum follows server {leader}"),
            Reason::HandedOver(leader) => format!("server {leader} leads under the new configuration"),
            Reason::Reconfigured => "changes proposed in reconfig".to_owned(),
            Reason::HigherAcceptedEpoch => "a voter has accepted a higher epoch".to_owned(),
        };
        match self.state.take() {
            Some(PeerState::Following) => {
                tracing::warn!(cause = why, "Exception when following the leader");
                tracing::info!("shutdown Follower");
            }
            Some(PeerState::Observing) => {
                tracing::warn!(cause = why, "Exception when observing the leader");
                tracing::info!("shutdown Observer");
            }
            _ => tracing::warn!("Shutdown called. For the reason {why}"),
        }
        tracing::info!("Shutting down");
    }

    /// A learner has connected, and has not been heard yet.
    pub(super) fn connected(&mut self, link: LinkId, address: Option<SocketAddr>) {
        let (server, kind, last, is_synced) = (None, LearnerKind::Follower, Zxid::ZERO, false);
        self.learners.insert(link, LearnerLink { address, server, kind, last, is_synced });
    }

    /// Logs and measures a packet from the leader or a learner.
    pub(super) fn received(&mut self, link: LinkId, message: &Message, wall_ms: i64) {
        let metrics = &self.shared.metrics;
        match message {
            Message::Hello { server, kind, accepted, .. } => {
                let ensemble = self.shared.ensemble.read().clone();
                match ensemble.as_ref().and_then(|ensemble| ensemble.members().get(server)) {
                    Some(member) => tracing::info!(?kind, %accepted, "Follower sid: {server} : info : {member}"),
                    None => {
                        let version = ensemble.map_or(0, |ensemble| ensemble.version());
                        tracing::info!(?kind, %accepted, "Follower sid: {server} not in the current config {version:x}");
                    }
                }
                if let Some(learner) = self.learners.get_mut(&link) {
                    (learner.server, learner.kind) = (Some(*server), *kind);
                }
            }
            Message::AckEpoch { last, .. } => {
                self.learners.get_mut(&link).into_iter().for_each(|learner| learner.last = *last);
            }
            Message::Diff(zxid) => {
                tracing::info!("Getting a diff from the leader {zxid}");
                self.synchronising(" - diff");
            }
            Message::Snap(zxid) => {
                tracing::info!("Getting a snapshot from leader {zxid}");
                self.warn_dropped(*zxid, FateOfDropped::KeptAside);
                self.synchronising(" - snap");
            }
            Message::Trunc(zxid) => {
                tracing::warn!("Truncating log to get in sync with the leader {zxid}");
                self.warn_dropped(*zxid, FateOfDropped::Removed);
                self.synchronising(" - trunc");
            }
            Message::NewLeader { .. } => tracing::info!("Learner received NEWLEADER message"),
            Message::UpToDate => tracing::info!("Learner received UPTODATE message"),
            Message::Proposal(txn) => {
                metrics.learner_proposal_received_count.add(1);
                self.latency.on_proposal_received(txn, wall_ms, metrics);
            }
            Message::Commit(zxid) | Message::CommitAndActivate(zxid, _) => {
                metrics.learner_commit_received_count.add(1);
                self.latency.on_commit_received(*zxid, wall_ms, metrics);
            }
            Message::Commits(run) => {
                metrics.learner_commit_received_count.add(run.count());
                self.latency.on_commit_received(run.last, wall_ms, metrics);
            }
            Message::Inform(txn) | Message::InformAndActivate(txn, _) => {
                metrics.learner_commit_received_count.add(1);
                self.latency.on_inform_received(txn, wall_ms, metrics);
            }
            Message::Ack(zxid) => self.acked(link, ZxidRange::from(*zxid), wall_ms),
            Message::Acks(run) => self.acked(link, *run, wall_ms),
            Message::Revalidate(..) => metrics.revalidate_count.add(1),
            _ => (),
        }
    }

    /// Warns if the leader's history ends before this learner's.
    fn warn_dropped(&self, leader_last: Zxid, fate: FateOfDropped) {
        if let Some(text) = dropped_text(self.own_last, leader_last, fate) {
            tracing::warn!(own_last = %self.own_last, leader = %leader_last, "{text}");
        }
    }

    /// Measures acknowledgements of a learner.
    fn acked(&mut self, link: LinkId, run: ZxidRange, wall_ms: i64) {
        self.syncing.remove(&link);
        if run.last.counter() == 0
            && let Some(learner) = self.learners.get_mut(&link)
            && let Some(server) = learner.server
            && !std::mem::replace(&mut learner.is_synced, true)
        {
            tracing::info!("Received NEWLEADER-ACK message from {server}");
        }
        for ms in self.latency.acked_ages(run, wall_ms) {
            let server = self.learners.get(&link).and_then(|learner| learner.server);
            let metric = server.and_then(|server| self.shared.metrics.ack_latency.of(server));
            metric.iter().for_each(|metric| metric.note(ms, 1));
        }
    }

    /// Measures transactions that are durable on this server.
    pub(super) fn durable(&mut self, zxid: Zxid, wall_ms: i64) {
        let me = self.me();
        for ms in self.latency.durable_ages(zxid, wall_ms) {
            self.shared.metrics.ack_latency.of(me).iter().for_each(|metric| metric.note(ms, 1));
        }
    }

    /// Logs and measures a packet to a learner or the leader.
    fn sending(&mut self, replica: &Replica, link: LinkId, message: &Message, wall_ms: i64) {
        let metrics = &self.shared.metrics;
        match message {
            Message::Commit(zxid) | Message::Commits(ZxidRange { last: zxid, .. }) => {
                self.latency.on_commit_sent(*zxid, wall_ms, metrics);
            }
            Message::Ack(zxid) | Message::Acks(ZxidRange { last: zxid, .. }) => {
                self.latency.on_ack_sent(*zxid, wall_ms, metrics)
            }
            Message::Proposal(txn) => {
                self.latency.on_proposal_sent(txn);
                self.shared.stats.proposals.note_one(i64::try_from(txn.record.len()).unwrap_or(i64::MAX));
            }
            Message::AckEpoch { last, .. } => {
                self.own_last = *last;
                self.synchronising("");
            }
            Message::Diff(zxid) => {
                self.start_sync(replica, link, false);
                tracing::info!("Sending DIFF zxid={zxid} for peer sid: {}", self.name(link));
            }
            Message::Trunc(zxid) => {
                self.start_sync(replica, link, false);
                tracing::info!("Sending TRUNC zxid={zxid} for peer sid: {}", self.name(link));
            }
            _ => (),
        }
    }

    fn sending_snapshot(&mut self, replica: &Replica, link: LinkId) {
        self.start_sync(replica, link, true);
        let concurrent = self.syncing.values().filter(|is_snapshot| **is_snapshot).count();
        let learner = self.learners.get(&link);
        let last = learner.map_or(Zxid::ZERO, |learner| learner.last);
        let is_observer = learner.is_some_and(|learner| learner.kind == LearnerKind::Observer);
        tracing::info!(
            sid = %self.name(link),
            "Sending snapshot last zxid of peer is {last}, zxid of leader is {}, send zxid of db as {}, {concurrent} \
             concurrent snapshot sync, snapshot sync was {} from throttle",
            replica.status().last_proposed(),
            self.shared.state.read().last_zxid(),
            if is_observer { "not exempt" } else { "exempt" },
        );
    }

    fn start_sync(&mut self, replica: &Replica, link: LinkId, is_snapshot: bool) {
        self.syncing.insert(link, is_snapshot);
        if let (Some(peer), Some(learner)) = (replica.status().peer(), self.learners.get_mut(&link)) {
            learner.is_synced = false;
            let processed = self.shared.state.read().last_zxid();
            let PeerStatus { first_recent: first, last_logged, .. } = peer.status();
            let last = first.map_or(Zxid::ZERO, |_| last_logged.min(processed));
            tracing::info!(
                "Synchronizing with Learner sid: {} maxCommittedLog={last} minCommittedLog={} \
                 lastProcessedZxid={processed} peerLastZxid={}",
                learner.server.map_or(-1, |server| server.0),
                first.unwrap_or(Zxid::ZERO),
                learner.last,
            );
        }
        let metrics = &self.shared.metrics;
        let (count, in_flight) = match is_snapshot {
            true => (&metrics.snap_count, &metrics.inflight_snap_count),
            false => (&metrics.diff_count, &metrics.inflight_diff_count),
        };
        count.add(1);
        let same = self.syncing.values().filter(|other| **other == is_snapshot).count();
        in_flight.note(i64::try_from(same).unwrap_or(i64::MAX), 1);
    }

    /// Logs that a learner is disconnected.
    pub(super) fn link_closed(&mut self, link: LinkId) {
        self.syncing.remove(&link);
        if let Some(LearnerLink { address, server: Some(server), .. }) = self.learners.remove(&link) {
            let address = address.map_or_else(|| "null".to_owned(), java_text::address);
            tracing::warn!("******* GOODBYE sid:{server} {address} ********");
        }
    }

    fn name(&self, link: LinkId) -> String {
        let server = self.learners.get(&link).and_then(|learner| learner.server);
        server.map_or_else(|| "?".to_owned(), |server| server.to_string())
    }

    /// This leader and the followers that have acknowledged NEWLEADER: `[1, 2]`.
    fn synced_voters(&self) -> String {
        let synced =
            self.learners.values().filter(|learner| learner.is_synced && learner.kind == LearnerKind::Follower);
        let me = self.shared.config.member.as_ref().map(|member| member.server);
        let sids: BTreeSet<ServerId> = synced.filter_map(|learner| learner.server).chain(me).collect();
        format!("{:?}", sids.iter().map(|sid| sid.0).collect::<Vec<_>>())
    }
}

/// A state as Apache logs it in `Peer state changed`.
fn name(state: PeerState) -> &'static str {
    match state {
        PeerState::Looking => "looking",
        PeerState::Following => "following",
        PeerState::Leading => "leading",
        PeerState::Observing => "observing",
    }
}

fn upper_name(state: PeerState) -> &'static str {
    match state {
        PeerState::Looking => "LOOKING",
        PeerState::Following => "FOLLOWING",
        PeerState::Leading => "LEADING",
        PeerState::Observing => "OBSERVING",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn older_history_of_the_leader_is_a_warning_that_names_the_copy() {
        let text = |own, leader, fate| dropped_text(Zxid(own), Zxid(leader), fate);
        let snapshot = text(0x99, 0, FateOfDropped::KeptAside).unwrap();
        assert!(snapshot.contains("those after 0x0, up to 0x99, are dropped"), "{snapshot}");
        assert!(snapshot.contains("version-2/old.*"), "{snapshot}");
        assert!(text(0x99, 0x98, FateOfDropped::Removed).unwrap().contains("no copy is kept"));
        assert_eq!(text(0x99, 0x99, FateOfDropped::Removed), None);
        assert_eq!(text(0, 0x99, FateOfDropped::KeptAside), None, "an empty server");
    }
}
