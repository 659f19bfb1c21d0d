//! What servers, clients and the network share: clock, random numbers, event queue, and the records for the checkers.

use crate::checkers::quorums::Decision;
use crate::checkers::timeliness::TimelinessState;
use crate::coverage::CoverageCounts;
use crate::engine::Workers;
use crate::event::{Event, ProcessId};
use crate::link::{Direction, Link, LinkId};
use crate::net::Net;
use crate::outcome::{Failure, FailureKind};
use crate::plan::Plan;
use crate::queue::Queue;
use crate::server::ReferenceLog;
use crate::trace::Trace;
use ox_history::{History, Time};
use ox_proto::ensemble::Ensemble;
use ox_testkit::Rng;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Limit of a disk call on a slow disk.
const DISK_DELAY_US_MAX: i64 = 2_000_000;

#[derive(Debug)]
pub(crate) struct Env {
    pub(crate) now: Time,
    pub(crate) rng: Rng,
    pub(crate) plan: Plan,
    pub(crate) queue: Queue<Event>,
    pub(crate) workers: Workers,
    pub(crate) links: Vec<Link>,
    pub(crate) net: Net,
    pub(crate) reference_log: ReferenceLog,
    /// The state of the timeliness checks.
    pub(crate) timeliness: TimelinessState,
    /// Decisions of servers that are not checked yet.
    pub(crate) decisions: Vec<Decision>,
    /// Every configuration that a server has put into use.
    pub(crate) configs: BTreeMap<i64, Arc<Ensemble>>,
    /// The established leader of each epoch.
    pub(crate) leaders: BTreeMap<i64, ProcessId>,
    pub(crate) history: History,
    pub(crate) trace: Trace,
    pub(crate) coverage: CoverageCounts,
    pub(crate) failure: Option<Failure>,
    /// All faults have ended.
    pub(crate) is_healed: bool,
    /// Factor by which the network is slowed down, and until when.
    pub(crate) slow_net: (i64, Time),
}

impl Env {
    pub(crate) fn new(seed: u64, plan: Plan, is_verbose: bool) -> Self {
        Self {
            now: Time(0),
            rng: Rng::new(seed),
            plan,
            queue: Queue::new(),
            workers: Workers::default(),
            links: Vec::new(),
            net: Net::default(),
            reference_log: ReferenceLog::default(),
            timeliness: TimelinessState::default(),
            decisions: Vec::new(),
            configs: BTreeMap::new(),
            leaders: BTreeMap::new(),
            history: History::default(),
            trace: Trace::new(is_verbose),
            coverage: CoverageCounts::default(),
            failure: None,
            is_healed: false,
            slow_net: (1, Time(0)),
        }
    }

    /// The time as the loops of `ox-driver` take it.
    pub(crate) fn elapsed(&self) -> Duration {
        Duration::from_micros(self.now.0.unsigned_abs())
    }

    pub(crate) fn note(&mut self, what: fmt::Arguments<'_>) {
        self.trace.note(self.now.0, what);
    }

    /// Only the first failure is reported.
    pub(crate) fn fail(&mut self, kind: FailureKind, detail: impl Into<String>) {
        let failure = Failure { kind, at_us: self.now.0, detail: detail.into() };
        self.failure.get_or_insert(failure);
    }

    pub(crate) fn schedule_in(&mut self, delay_us: i64, event: Event) {
        self.queue.schedule(Time(self.now.0 + delay_us.max(0)), event);
    }

    /// Draws whether a thread is preempted between two steps.
    pub(crate) fn preempts(&mut self) -> bool {
        self.rng.chance(self.plan.preempt_per_mille)
    }

    fn slowness(&self, (factor, until): (i64, Time)) -> i64 {
        if self.now < until { factor } else { 1 }
    }

    pub(crate) fn disk_delay(&mut self, is_sync: bool, slowness: (i64, Time)) -> i64 {
        let most = if is_sync { self.plan.sync_us } else { self.plan.disk_us };
        let delay = self.rng.skewed(most);
        (delay * self.slowness(slowness)).min(delay.max(DISK_DELAY_US_MAX))
    }

    pub(crate) fn net_delay(&mut self) -> i64 {
        self.rng.skewed(self.plan.net_delay_us) * self.slowness(self.slow_net)
    }

    /// Sends bytes over a client link.
    pub(crate) fn send(&mut self, link: LinkId, direction: Direction, bytes: &[u8]) {
        if self.links[link].pipe(direction).send(bytes) {
            self.schedule_arrival(link, direction);
        }
    }

    /// Closes one direction of a link after the bytes in flight.
    pub(crate) fn close(&mut self, link: LinkId, direction: Direction) {
        if self.links[link].pipe(direction).close() {
            self.schedule_arrival(link, direction);
        }
    }

    /// Breaks a link in both directions; part of the bytes in flight still arrive.
    pub(crate) fn cut(&mut self, link: LinkId) {
        for direction in [Direction::ToServer, Direction::ToClient] {
            let keep = self.rng.index(self.links[link].pipe(direction).bytes_in_flight() + 1);
            if self.links[link].pipe(direction).cut(keep) {
                self.schedule_arrival(link, direction);
            }
        }
    }

    fn schedule_arrival(&mut self, link: LinkId, direction: Direction) {
        let delay = self.net_delay();
        let at = Time(self.now.0 + delay);
        let pipe = self.links[link].pipe(direction);
        pipe.last = pipe.last.max(at); // streams keep their order
        let at = pipe.last;
        self.queue.schedule(at, Event::Arrive(link, direction));
    }
}
