//! A host that records what the loop does, for tests.

use super::{PeerCommand, ReplicaHost, StateWriter};
use crate::client_io::GlobalLimits;
use crate::log_writer::LogWork;
use ox_proto::ensemble::Ensemble;
use ox_replica::outbox::Outbox;
use ox_replica::{AdmissionLimits, MemoryBudget};
use ox_tree::{FrozenView, State, TreeOptions};
use ox_zab::{LinkId, LogDiffRange};
use std::sync::Arc;
use std::time::Duration;

pub(super) struct FakeHost {
    pub(super) state: State,
    limits: GlobalLimits,
    pub(super) ensemble: Option<Arc<Ensemble>>,
    is_locked: bool,
    /// How often the state was locked for reading.
    pub(super) read_locks: usize,
    /// Outboxes that were posted while the state was locked for writing, and others.
    pub(super) posted_under_lock: Vec<Outbox>,
    pub(super) posted: Vec<Outbox>,
    pub(super) log: Vec<LogWork>,
    pub(super) commands: Vec<PeerCommand>,
    pub(super) searches: Vec<LinkId>,
    pub(super) snapshots: usize,
    pub(super) pauses: usize,
}

impl FakeHost {
    pub(super) fn new() -> Self {
        let budget = MemoryBudget::new(8 << 20);
        let limits = AdmissionLimits { budget, requests_max: 1000, throttle_max: None };
        Self {
            state: State::new(TreeOptions::default()),
            limits: GlobalLimits::new(limits, None, 0),
            ensemble: None,
            is_locked: false,
            read_locks: 0,
            posted_under_lock: Vec::new(),
            posted: Vec::new(),
            log: Vec::new(),
            commands: Vec::new(),
            searches: Vec::new(),
            snapshots: 0,
            pauses: 0,
        }
    }
}

impl StateWriter for &mut FakeHost {
    fn state(&mut self) -> &mut State {
        &mut self.state
    }

    fn post(&mut self, _thread: usize, outbox: Outbox) {
        self.posted_under_lock.push(outbox);
    }
}

impl ReplicaHost for FakeHost {
    type StateWriter<'a> = &'a mut FakeHost;

    fn state(&mut self) -> &State {
        self.read_locks += usize::from(!std::mem::replace(&mut self.is_locked, true));
        &self.state
    }

    fn release_state(&mut self) {
        self.is_locked = false;
    }

    fn write_state(&mut self) -> &mut FakeHost {
        self.is_locked = false;
        self
    }

    fn limits(&self) -> &GlobalLimits {
        &self.limits
    }

    fn post(&mut self, _thread: usize, outbox: Outbox) {
        self.posted.push(outbox);
    }

    fn push_log(&mut self, work: LogWork) {
        assert!(!self.is_locked, "effects are executed without the read lock");
        self.log.push(work);
    }

    fn command_peers(&mut self, commands: Vec<PeerCommand>) {
        self.commands.extend(commands);
    }

    fn search_log(&mut self, link: LinkId, _range: LogDiffRange) {
        self.searches.push(link);
    }

    fn write_snapshot(&mut self, _frozen: FrozenView) {
        self.snapshots += 1;
    }

    fn ensemble(&self) -> Option<Arc<Ensemble>> {
        self.ensemble.clone()
    }

    fn activate(&mut self, committed: &Arc<Ensemble>) {
        self.ensemble = Some(Arc::clone(committed));
    }

    fn elapsed(&self) -> Duration {
        Duration::from_secs(1)
    }

    fn worked_ms(&self) -> i64 {
        0
    }

    fn on_pause(&mut self, _late_ms: i64) {
        self.pauses += 1;
    }
}
