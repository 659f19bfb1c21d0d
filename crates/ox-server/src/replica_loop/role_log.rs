//! Log lines and metrics about a member's role: elections, leaders, synchronisation and lost learners.

#![expect(clippy::wildcard_enum_match_arm, reason = "most messages are not logged")]

use super::latency::Latency;
use crate::shared::Shared;
use ox_proto::{ServerId, Zxid};
use ox_replica::Replica;
use ox_zab::{Eligibility, LearnerKind, LinkId, Message, PeerState, QuorumPeer, Reason, ZxidRange};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// An election that takes longer does not end by itself.
const LONG_ELECTION: Duration = Duration::from_secs(10);
/// Interval of the warnings about such an election.
const WARN_INTERVAL: Duration = Duration::from_secs(60);

pub(super) struct RoleLog {
    shared: Arc<Shared>,
    /// Since when this server has not served clients.
    unavailable_since: Instant,
    /// Since when the election runs.
    looking_since: Option<Instant>,
    warned_at: Option<Instant>,
    elected_at: Instant,
    is_serving: bool,
    is_read_only: bool,
    /// The learners of this leader.
    learners: BTreeMap<LinkId, (ServerId, LearnerKind)>,
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
            unavailable_since: now,
            looking_since: None,
            warned_at: None,
            elected_at: now,
            is_serving: false,
            is_read_only: false,
            learners: BTreeMap::new(),
            syncing: BTreeMap::new(),
            latency: Latency::new(acks_timed_every),
        }
    }

    pub(super) fn looking(&mut self) {
        tracing::info!("LOOKING");
        self.shared.metrics.looking_count.add(1);
        (self.looking_since, self.warned_at) = (Some(Instant::now()), None);
        self.learners.clear();
        self.syncing.clear();
        self.latency.reset();
    }

    /// Logs the end of an election. A leader may be dialled more than once; later dials are not logged.
    pub(super) fn elected(&mut self, leader: ServerId, state: PeerState) {
        let Some(since) = self.looking_since.take() else { return };
        let state = match state {
            PeerState::Leading => "LEADING",
            PeerState::Observing => "OBSERVING",
            PeerState::Following | PeerState::Looking => "FOLLOWING",
        };
        let took_ms = super::elapsed_ms(since);
        tracing::info!(%leader, "{state}");
        tracing::info!("{state} - LEADER ELECTION TOOK - {took_ms} MS");
        self.shared.metrics.election_time.note(took_ms, 1);
        self.elected_at = Instant::now();
    }

    /// Logs whether clients are served from now on.
    pub(super) fn update(&mut self, replica: &Replica) {
        if replica.is_read_only() != self.is_read_only {
            self.is_read_only = !self.is_read_only;
            let what = if self.is_read_only { "started" } else { "stopped" };
            tracing::info!("Read-only server {what}");
        }
        if let Some(peer) = replica.as_peer() {
            self.warn_long_election(peer);
        }
        if replica.is_serving() == self.is_serving {
            return;
        }
        self.is_serving = !self.is_serving;
        if !self.is_serving {
            self.unavailable_since = Instant::now();
            return;
        }
        let Some(peer) = replica.as_peer() else { return };
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
        if peer.status().eligibility == Eligibility::HasHistory || peer.status().kind == LearnerKind::Observer {
            tracing::warn!(
                looking_s,
                "no leader elected: too few voters can be reached; check that a quorum of servers runs and their election ports are open"
            );
        } else if peer.status().has_quarantined_files {
            tracing::warn!(
                looking_s,
                "no leader elected, and this server abstains: its data is quarantined, and it waits for a leader's \
                 snapshot. If no other member has intact data, start it once with -Doxkeeper.recovery.onDamage=accept"
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

    pub(super) fn stepped_down(&mut self, reason: &Reason) {
        self.elected_at = Instant::now(); // a configuration may name the next leader without an election
        let why = match reason {
            Reason::LinkLost => "connection to the leader lost".to_owned(),
            Reason::Timeout => "no packet from the leader within syncLimit".to_owned(),
            Reason::NoQuorum => "Not sufficient followers synced, no quorum is left".to_owned(),
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
        tracing::warn!("Shutdown called. For the reason {why}");
    }

    /// Logs and measures a packet from the leader or a learner.
    pub(super) fn received(&mut self, link: LinkId, message: &Message, wall_ms: i64) {
        let metrics = &self.shared.metrics;
        match message {
            Message::Hello { server, kind, accepted, .. } => {
                tracing::info!(sid = %server, ?kind, %accepted, "learner connected");
                self.learners.insert(link, (*server, *kind));
            }
            Message::Diff(zxid) => tracing::info!("Getting a diff from the leader {zxid}"),
            Message::Snap(zxid) => tracing::info!("Getting a snapshot from leader {zxid}"),
            Message::Trunc(zxid) => tracing::warn!("Truncating log to get in sync with the leader {zxid}"),
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

    /// Measures acknowledgements of a learner.
    fn acked(&mut self, link: LinkId, run: ZxidRange, wall_ms: i64) {
        self.syncing.remove(&link);
        for ms in self.latency.acked_ages(run, wall_ms) {
            let metric = self.learners.get(&link).and_then(|(server, _)| self.shared.metrics.ack_latency.of(*server));
            metric.iter().for_each(|metric| metric.note(ms, 1));
        }
    }

    /// Measures transactions that are durable on this server.
    pub(super) fn durable(&mut self, me: ServerId, zxid: Zxid, wall_ms: i64) {
        for ms in self.latency.durable_ages(zxid, wall_ms) {
            self.shared.metrics.ack_latency.of(me).iter().for_each(|metric| metric.note(ms, 1));
        }
    }

    /// Logs and measures a packet to a learner or the leader.
    pub(super) fn sending(&mut self, link: LinkId, message: &Message, wall_ms: i64) {
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
            Message::Diff(zxid) => {
                tracing::info!("Sending DIFF zxid={zxid} for peer sid: {}", self.name(link));
                self.start_sync(link, false);
            }
            Message::Trunc(zxid) => {
                tracing::info!("Sending TRUNC zxid={zxid} for peer sid: {}", self.name(link));
                self.start_sync(link, false);
            }
            _ => (),
        }
    }

    pub(super) fn sending_snapshot(&mut self, link: LinkId) {
        tracing::info!("Sending snapshot for peer sid: {}", self.name(link));
        self.start_sync(link, true);
    }

    fn start_sync(&mut self, link: LinkId, is_snapshot: bool) {
        self.syncing.insert(link, is_snapshot);
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
        if let Some((server, _)) = self.learners.remove(&link) {
            tracing::warn!("******* GOODBYE sid:{server} ********");
        }
    }

    fn name(&self, link: LinkId) -> String {
        self.learners.get(&link).map_or_else(|| "?".to_owned(), |(server, _)| server.to_string())
    }
}
