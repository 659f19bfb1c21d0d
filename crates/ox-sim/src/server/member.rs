//! What a simulation records about a member: its role, and what its disk must contain.

use super::ExpectedDisk;
use super::process::Process;
use super::unidentified::Connections;
use crate::checkers::quorums::Decision;
use crate::checkers::{elections, leaders};
use crate::env::Env;
use crate::event::ProcessId;
use crate::net::WireId;
use crate::server::reference_log::Change;
use ox_history::Time;
use ox_proto::ensemble::Ensemble;
use ox_zab::{DiskDone, DiskJob, Epoch, LearnerKind, LinkId, LogDiffRange, Message, PeerState, QuorumPeer, ServerId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// State that only members have.
#[derive(Default)]
pub(crate) struct Member {
    pub(super) unidentified: Connections,
    pub(crate) is_listening: bool,
    /// The committed configuration, if reconfiguration is enabled.
    pub(crate) ensemble: Option<Arc<Ensemble>>,
    /// Searches for log diffs that have not begun yet.
    pub(super) log_searches: BTreeMap<LinkId, LogDiffRange>,
    /// The epochs that leaders have sent in LEADERINFO.
    pub(crate) leader_epochs: BTreeMap<LinkId, Epoch>,
    /// The epoch that it led at the last check.
    pub(crate) leads: Option<Epoch>,
    pub(crate) serves: bool,
    /// When `serves` last changed.
    pub(crate) serves_since: Time,
    /// When each server was last heard on a wire.
    pub(crate) last_seen: BTreeMap<usize, Time>,
}

pub(crate) fn server_id(number: usize) -> ServerId {
    ServerId(i64::try_from(number).unwrap_or(0) + 1)
}

pub(crate) fn number(server: ServerId) -> usize {
    usize::try_from(server.0 - 1).unwrap_or(0)
}

pub(super) fn link(wire: WireId) -> LinkId {
    LinkId(wire as u64)
}

impl Process {
    /// Takes the search for a log diff, unless the link has been closed.
    pub(crate) fn take_log_search(&mut self, link: LinkId) -> Option<LogDiffRange> {
        self.member.log_searches.remove(&link)
    }

    /// Notes whether this server has begun to lead or to serve.
    pub(super) fn update_role(&mut self, env: &mut Env, expected: &ExpectedDisk, pid: ProcessId) {
        let status = self.replica_thread.status();
        let Some(peer) = status.peer() else { return };
        let leads = peer.role().leader().filter(|leader| leader.is_established()).and_then(ox_zab::Leader::epoch);
        if leads != self.member.leads {
            self.member.leads = leads;
            if let Some(epoch) = leads {
                env.note(format_args!("peer {}: leads epoch {epoch}", pid.server));
                env.coverage.leaders += 1;
                let judged = leaders::check(env, expected, pid, epoch).and_then(|()| elections::check(env, pid));
                if let Err(finding) = judged {
                    return finding.report(env);
                }
                env.decisions.push(Decision::Leader(pid, epoch, peer.configs().quorums().committed.clone()));
            }
        }
        let serves = status.is_serving();
        let has_changed = serves != std::mem::replace(&mut self.member.serves, serves);
        if has_changed {
            self.member.serves_since = env.now;
        }
        if has_changed && serves {
            let last = self.state.last_zxid();
            env.note(format_args!("peer {}: serves at {last} as {:?}", pid.server, status.peer_state()));
            // A leader that is established after a later one decides nothing.
            let is_last = env.leaders.last_key_value().is_some_and(|(_, leader)| *leader == pid);
            if status.peer_state() == Some(PeerState::Leading) && is_last {
                env.history.starts.push(env.now);
            }
            self.show(env);
        }
    }

    /// Clients may see the state from now on.
    pub(super) fn show(&self, env: &mut Env) {
        let (last, now, before) = (self.state.last_zxid(), env.now, env.reference_log.shown);
        if let Err(finding) = env.reference_log.show(last, now) {
            return finding.report(env);
        }
        if before < last
            && let Some(peer) = self.status().peer()
        {
            env.decisions.push(Decision::Visible(last, peer.configs().quorums().committed.clone()));
        }
    }
}

/// The server that an observer dials instead of the leader, whether or not it serves observers.
pub(super) fn choose_observer_master(env: &mut Env, peer: &QuorumPeer, pid: ProcessId) -> Option<usize> {
    let observes = peer.configs().kind_of(server_id(pid.server)) == LearnerKind::Observer;
    if !observes || !env.plan.observer_masters || env.rng.chance(250) {
        return None;
    }
    let voters: Vec<usize> = peer.configs().committed().voters().map(number).collect();
    Some(*env.rng.pick(&voters))
}

pub(super) fn short(message: &Message) -> String {
    let mut text = format!("{message:?}");
    text.truncate(text.floor_char_boundary(100));
    text
}

impl ExpectedDisk {
    pub(super) fn begin(&mut self, job: DiskJob) {
        let number = |epoch: Epoch| u32::try_from(epoch.0).unwrap_or(0);
        match job {
            DiskJob::AcceptedEpoch(epoch) => self.epochs_begun.accepted = number(epoch),
            DiskJob::CurrentEpoch(epoch) => self.epochs_begun.current = number(epoch),
            DiskJob::Truncate(zxid) => self.change = Change::Truncate(zxid),
            DiskJob::Install(zxid) => self.change = Change::Install(zxid),
            DiskJob::InitializeLog => (),
        }
    }

    pub(crate) fn done(&mut self, done: DiskDone, reference_log: &super::ReferenceLog) {
        match done {
            DiskDone::AcceptedEpoch(_) => self.epochs.accepted = self.epochs_begun.accepted,
            DiskDone::CurrentEpoch(_) => self.epochs.current = self.epochs_begun.current,
            DiskDone::Truncated(end) => {
                self.change = Change::None;
                if let Some(end) = end {
                    self.last = reference_log.truncated_end(self.last, end);
                    self.synced = self.synced.min(self.last);
                }
            }
            DiskDone::Installed(zxid) => {
                self.change = Change::None;
                (self.last, self.synced) = (zxid, zxid);
            }
            DiskDone::LogInitialized => (),
        }
    }
}
