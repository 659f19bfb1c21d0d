//! What everybody in the world uses: the clock, the dice, the plan of what happens next, the record of what did.

use crate::checkers::timeliness::Looks;
use crate::checkers::quorums::Agreed;
use crate::rng::Dice;
use crate::engine::Hands;
use crate::event::{Event, Who};
use crate::link::{Link, LinkId, Way};
use crate::coverage::Marks;
use crate::net::Net;
use crate::outcome::{Failure, Kind};
use crate::plan::Plan;
use crate::queue::Queue;
use crate::server::Journal;
use crate::trace::Trace;
use ox_history::{History, Time};
use ox_proto::ensemble::Ensemble;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// A slow disk takes no longer for one call.
const DISK_DELAY_US_MAX: i64 = 2_000_000;

/// The surroundings of servers and clients.
#[derive(Debug)]
pub(crate) struct Env {
    pub(crate) now: Time,
    pub(crate) dice: Dice,
    pub(crate) plan: Plan,
    pub(crate) queue: Queue<Event>,
    pub(crate) hands: Hands,
    pub(crate) links: Vec<Link>,
    pub(crate) net: Net,
    pub(crate) journal: Journal,
    /// What was seen of servers lately.
    pub(crate) looks: Looks,
    /// What was said to be agreed on, and not looked at yet.
    pub(crate) agreed: Vec<Agreed>,
    /// Every configuration that was in force somewhere.
    pub(crate) configs: BTreeMap<i64, Arc<Ensemble>>,
    /// Who was established as leader of which epoch.
    pub(crate) leaders: BTreeMap<i64, Who>,
    pub(crate) history: History,
    pub(crate) trace: Trace,
    pub(crate) marks: Marks,
    pub(crate) failure: Option<Failure>,
    /// No fault strikes any more.
    pub(crate) is_healed: bool,
    /// How much slower than planned the network is, until when.
    pub(crate) slow_net: (i64, Time),
}

impl Env {
    pub(crate) fn new(seed: u64, plan: Plan, is_verbose: bool) -> Self {
        Self {
            now: Time(0),
            dice: Dice::new(seed),
            plan,
            queue: Queue::new(),
            hands: Hands::default(),
            links: Vec::new(),
            net: Net::default(),
            journal: Journal::default(),
            looks: Looks::default(),
            agreed: Vec::new(),
            configs: BTreeMap::new(),
            leaders: BTreeMap::new(),
            history: History::default(),
            trace: Trace::new(is_verbose),
            marks: Marks::default(),
            failure: None,
            is_healed: false,
            slow_net: (1, Time(0)),
        }
    }

    pub(crate) fn note(&mut self, what: fmt::Arguments<'_>) {
        self.trace.note(self.now.0, what);
    }

    /// The first failure counts.
    pub(crate) fn fail(&mut self, kind: Kind, detail: impl Into<String>) {
        let failure = Failure { kind, at_us: self.now.0, detail: detail.into() };
        self.failure.get_or_insert(failure);
    }

    pub(crate) fn plan_in(&mut self, delay_us: i64, event: Event) {
        self.queue.plan(Time(self.now.0 + delay_us.max(0)), event);
    }

    /// Whether a thread is interrupted between two steps.
    pub(crate) fn preempts(&mut self) -> bool {
        self.dice.chance(self.plan.preempt_per_mille)
    }

    fn slowness(&self, (factor, until): (i64, Time)) -> i64 {
        if self.now < until { factor } else { 1 }
    }

    pub(crate) fn disk_delay(&mut self, is_sync: bool, slowness: (i64, Time)) -> i64 {
        let most = if is_sync { self.plan.sync_us } else { self.plan.disk_us };
        let delay = self.dice.skewed(most);
        (delay * self.slowness(slowness)).min(delay.max(DISK_DELAY_US_MAX))
    }

    pub(crate) fn net_delay(&mut self) -> i64 {
        self.dice.skewed(self.plan.net_delay_us) * self.slowness(self.slow_net)
    }

    /// Sends bytes over a link.
    pub(crate) fn send(&mut self, link: LinkId, way: Way, bytes: &[u8]) {
        if self.links[link].pipe(way).send(bytes) {
            self.plan_arrival(link, way);
        }
    }

    /// Closes one direction of a link behind what was sent.
    pub(crate) fn close(&mut self, link: LinkId, way: Way) {
        if self.links[link].pipe(way).close() {
            self.plan_arrival(link, way);
        }
    }

    /// Breaks a link in both directions; some of what is on its way still arrives.
    pub(crate) fn cut(&mut self, link: LinkId) {
        for way in [Way::Up, Way::Down] {
            let keep = self.dice.index(self.links[link].pipe(way).bytes_in_flight() + 1);
            if self.links[link].pipe(way).cut(keep) {
                self.plan_arrival(link, way);
            }
        }
    }

    fn plan_arrival(&mut self, link: LinkId, way: Way) {
        let delay = self.net_delay();
        let at = Time(self.now.0 + delay);
        let pipe = self.links[link].pipe(way);
        pipe.last = pipe.last.max(at); // streams keep their order
        let at = pipe.last;
        self.queue.plan(at, Event::Arrive(link, way));
    }
}
