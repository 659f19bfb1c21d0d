//! What operators want to know of a member: who leads, since when, how learners caught up, who is gone.

#![expect(clippy::wildcard_enum_match_arm, reason = "most messages are no news")]

use super::latency::Latency;
use crate::shared::Shared;
use ox_proto::{ServerId, Zxid};
use ox_replica::Replica;
use ox_zab::{Eligibility, LearnerKind, LinkId, Message, PeerState, QuorumPeer, Reason, ZxidRange};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// An election that takes so long does not end by itself.
const LONG: Duration = Duration::from_secs(10);
/// Between two reminders of that.
const REMIND_EVERY: Duration = Duration::from_secs(60);

pub(super) struct Journal {
    shared: Arc<Shared>,
    /// Since when there is no leader, or none that serves.
    unserved_since: Instant,
    /// Since when one is looked for.
    looking_since: Option<Instant>,
    reminded_at: Option<Instant>,
    elected_at: Instant,
    is_serving: bool,
    is_read_only: bool,
    /// Learners of a leader.
    learners: BTreeMap<LinkId, (ServerId, LearnerKind)>,
    /// Learners that get the history, and whether it is a snapshot.
    syncing: BTreeMap<LinkId, bool>,
    latency: Latency,
}

impl Journal {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        let now = Instant::now();
        let acks_timed_every = shared.config.member.as_ref().map_or(0, |member| member.acks_timed_every);
        Self {
            shared,
            unserved_since: now,
            looking_since: None,
            reminded_at: None,
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
        (self.looking_since, self.reminded_at) = (Some(Instant::now()), None);
        self.learners.clear();
        self.syncing.clear();
        self.latency.forget();
    }

    /// Somebody was elected. A leader is dialled more than once; that is no news.
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

    /// Looks whether clients are served now, or not any more.
    pub(super) fn look_at(&mut self, replica: &Replica) {
        if replica.is_read_only() != self.is_read_only {
            self.is_read_only = !self.is_read_only;
            let what = if self.is_read_only { "started" } else { "stopped" };
            tracing::info!("Read-only server {what}");
        }
        if let Some(peer) = replica.as_peer() {
            self.remind(peer);
        }
        if replica.is_serving() == self.is_serving {
            return;
        }
        self.is_serving = !self.is_serving;
        if !self.is_serving {
            self.unserved_since = Instant::now();
            return;
        }
        let Some(peer) = replica.as_peer() else { return };
        let (metrics, sync_ms) = (&self.shared.metrics, super::elapsed_ms(self.elected_at));
        let unserved_ms = super::elapsed_ms(self.unserved_since);
        metrics.unavailable_time.note(unserved_ms, 1);
        let state = match peer.state() {
            PeerState::Leading => {
                metrics.leader_unavailable_time.note(unserved_ms, 1);
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
        let (epoch, leader) = (peer.epochs().current, peer.leader_id().map_or(-1, |leader| leader.0));
        tracing::info!(leader, %epoch, sync_ms, unserved_ms, "QuorumPeer state changed: {state} - broadcast");
    }

    /// Says what an election that does not end is waiting for, and what an operator can do about it.
    fn remind(&mut self, peer: &QuorumPeer) {
        let Some(looking) = self.looking_since.map(|since| since.elapsed()).filter(|looking| LONG <= *looking) else {
            return;
        };
        if self.reminded_at.is_some_and(|at| at.elapsed() < REMIND_EVERY) {
            return;
        }
        self.reminded_at = Some(Instant::now());
        let looking_s = looking.as_secs();
        if peer.eligibility() == Eligibility::HasHistory || peer.kind() == LearnerKind::Observer {
            tracing::warn!(looking_s, "no leader yet: too few servers can be reached and vote");
        } else if peer.has_quarantined_files() {
            tracing::warn!(
                looking_s,
                "no leader yet, and this server does not vote: its history is in doubt, and another server's is waited \
                 for. If none has a better one, -Doxkeeper.recovery.onDamage=accept makes this one vote"
            );
        } else {
            tracing::warn!(
                looking_s,
                "no leader yet, and this server does not vote: it has no files, and may have lost them. It waits for a \
                 leader, or for a quorum without files. If it is new and others are not, an empty file named initialize in \
                 its dataDir makes it vote when it is started again"
            );
        }
    }

    pub(super) fn left(&mut self, reason: &Reason) {
        self.elected_at = Instant::now(); // the next leader need not be elected: a configuration may name it
        let why = match reason {
            Reason::LinkLost => "the connection to the leader is gone".to_owned(),
            Reason::Timeout => "the leader was silent for too long".to_owned(),
            Reason::NoQuorum => "not sufficient followers synced: there is no quorum".to_owned(),
            Reason::OldEpoch(epoch) => format!("the leader's epoch {epoch} is older than one that was promised"),
            Reason::Violation(what) => format!("the protocol was broken: {what}"),
            Reason::NeedsSnapshot => "the own history does not fit; the leader's state is needed".to_owned(),
            Reason::CannotListen => "the quorum port cannot be opened".to_owned(),
            Reason::ZxidRollover => "the epoch has no numbers left".to_owned(),
            Reason::DiskStalled => "the own disk is too slow".to_owned(),
            Reason::DiskLow => "the own disk is nearly full, and others can lead".to_owned(),
            Reason::LostSupport => {
                self.shared.metrics.quit_leading_due_to_disloyal_voter.add(1);
                "a voter that has elected this leader looks for one again".to_owned()
            }
            Reason::OtherLeader(leader) => format!("a quorum follows server {leader}"),
            Reason::HandedOver(leader) => format!("server {leader} leads under the new configuration"),
            Reason::Reconfigured => "changes proposed in reconfig".to_owned(),
            Reason::HigherAcceptedEpoch => "a voter has promised a higher epoch".to_owned(),
        };
        tracing::warn!("Shutdown called. For the reason {why}");
    }

    /// The leader, or a learner, has said something.
    pub(super) fn heard(&mut self, link: LinkId, message: &Message, wall_ms: i64) {
        let metrics = &self.shared.metrics;
        match message {
            Message::Hello { server, kind, accepted, .. } => {
                tracing::info!(sid = %server, ?kind, %accepted, "a learner has connected");
                self.learners.insert(link, (*server, *kind));
            }
            Message::Diff(zxid) => tracing::info!("Getting a diff from the leader {zxid}"),
            Message::Snap(zxid) => tracing::info!("Getting a snapshot from leader {zxid}"),
            Message::Trunc(zxid) => tracing::warn!("Truncating log to get in sync with the leader {zxid}"),
            Message::Proposal(txn) => {
                metrics.learner_proposal_received_count.add(1);
                self.latency.hears(txn, wall_ms, metrics);
            }
            Message::Commit(zxid) | Message::CommitAndActivate(zxid, _) => {
                metrics.learner_commit_received_count.add(1);
                self.latency.hears_commit(*zxid, wall_ms, metrics);
            }
            Message::Commits(run) => {
                metrics.learner_commit_received_count.add(run.count());
                self.latency.hears_commit(run.last, wall_ms, metrics);
            }
            Message::Inform(txn) | Message::InformAndActivate(txn, _) => {
                metrics.learner_commit_received_count.add(1);
                self.latency.is_informed(txn, wall_ms, metrics);
            }
            Message::Ack(zxid) => self.acked(link, ZxidRange::from(*zxid), wall_ms),
            Message::Acks(run) => self.acked(link, *run, wall_ms),
            Message::Revalidate(..) => metrics.revalidate_count.add(1),
            _ => (),
        }
    }

    /// These are durable at a learner.
    fn acked(&mut self, link: LinkId, run: ZxidRange, wall_ms: i64) {
        self.syncing.remove(&link);
        for ms in self.latency.are_acked(run, wall_ms) {
            let figure = self.learners.get(&link).and_then(|(server, _)| self.shared.metrics.ack_latency.of(*server));
            figure.iter().for_each(|figure| figure.note(ms, 1));
        }
    }

    /// Everything up to here is durable here.
    pub(super) fn durable(&mut self, me: ServerId, zxid: Zxid, wall_ms: i64) {
        for ms in self.latency.are_durable(zxid, wall_ms) {
            self.shared.metrics.ack_latency.of(me).iter().for_each(|figure| figure.note(ms, 1));
        }
    }

    /// Something is said to a learner or the leader.
    pub(super) fn says(&mut self, link: LinkId, message: &Message, wall_ms: i64) {
        let metrics = &self.shared.metrics;
        match message {
            Message::Commit(zxid) | Message::Commits(ZxidRange { last: zxid, .. }) => {
                self.latency.tells_commit(*zxid, wall_ms, metrics);
            }
            Message::Ack(zxid) | Message::Acks(ZxidRange { last: zxid, .. }) => {
                self.latency.acks(*zxid, wall_ms, metrics)
            }
            Message::Proposal(txn) => {
                self.latency.proposes(txn);
                self.shared.stats.proposals.note_one(i64::try_from(txn.record.len()).unwrap_or(i64::MAX));
            }
            Message::Diff(zxid) => {
                tracing::info!("Sending DIFF zxid={zxid} for peer sid: {}", self.name(link));
                self.begins_to_give(link, false);
            }
            Message::Trunc(zxid) => {
                tracing::info!("Sending TRUNC zxid={zxid} for peer sid: {}", self.name(link));
                self.begins_to_give(link, false);
            }
            _ => (),
        }
    }

    pub(super) fn sends_state(&mut self, link: LinkId) {
        tracing::info!("Sending snapshot for peer sid: {}", self.name(link));
        self.begins_to_give(link, true);
    }

    fn begins_to_give(&mut self, link: LinkId, is_snapshot: bool) {
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

    /// A connection is gone, or is given up.
    pub(super) fn gone(&mut self, link: LinkId) {
        self.syncing.remove(&link);
        if let Some((server, _)) = self.learners.remove(&link) {
            tracing::warn!("******* GOODBYE sid:{server} ********");
        }
    }

    fn name(&self, link: LinkId) -> String {
        self.learners.get(&link).map_or_else(|| "?".to_owned(), |(server, _)| server.to_string())
    }
}
