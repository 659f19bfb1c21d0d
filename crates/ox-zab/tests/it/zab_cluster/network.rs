//! Connections to leaders, and packet loss in one direction.

use super::{Event, Wire, ZabCluster};
use ox_zab::{Input, LearnerKind, LinkId, ServerId};

/// How long a dial takes if no reply arrives.
const CONNECT_MS: i64 = 3_000;

impl ZabCluster {
    /// Cuts or restores one direction between two servers. Election connections survive it. Open connections to a
    /// leader stay broken in that direction, and new ones cannot be opened meanwhile.
    pub(crate) fn set_direction(&mut self, from: i64, to: i64, is_open: bool) {
        let (from, to) = (ServerId(from), ServerId(to));
        if is_open {
            self.cut_directions.remove(&(from, to));
            return;
        }
        self.cut_directions.insert((from, to));
        for wire in self.wires.values_mut() {
            if [from, to].iter().all(|id| wire.ends.iter().any(|end| end.0 == *id)) {
                wire.cut_directions.push(to);
            }
        }
    }

    /// A learner connects to its leader, or to an observer master.
    pub(super) fn dial(&mut self, id: ServerId, leader: ServerId) {
        let process = self.servers[&id].process.as_ref();
        let observes = process.is_some_and(|process| process.peer.configs().kind_of(id) == LearnerKind::Observer);
        let master = if observes { self.random_observer_master() } else { None };
        if master.is_some() {
            self.cover("observer masters");
        }
        let to = master.unwrap_or(leader);
        if self.cut_directions.contains(&(id, to)) || self.cut_directions.contains(&(to, id)) {
            return self.plan(CONNECT_MS, id, Event::NotReached(leader));
        }
        let leads = self.servers[&to].process.as_ref();
        let leads = leads.is_some_and(|process| {
            process.peer.role().leader().is_some() || process.peer.role().observer_master().is_some()
        });
        if !leads || !self.works(id, to) {
            return self.step(id, Input::Dialed(leader, None));
        }
        self.next += 1;
        let link = LinkId(self.next);
        let ends = [(id, self.servers[&id].boot), (to, self.servers[&to].boot)];
        self.wires.insert(link, Wire { ends, is_cut: false, cut_directions: Vec::new() });
        self.step(to, Input::LinkOpened(link));
        self.step(id, Input::Dialed(leader, Some(link)));
    }
}
