//! Connections to leaders, and ways between servers on which everything is lost, in one direction.

use super::{Event, Realm, Wire};
use ox_zab::{LearnerKind, LinkId, ServerId};

/// How long a connection is tried when nothing comes back.
const CONNECT_MS: i64 = 3_000;

impl Realm {
    /// Cuts or opens the way from one server to another. Election connections survive it. Connections to a leader that
    /// were open stay broken in that direction, and new ones cannot be made meanwhile.
    pub(crate) fn set_way(&mut self, from: i64, to: i64, is_open: bool) {
        let (from, to) = (ServerId(from), ServerId(to));
        if is_open {
            self.cut_ways.remove(&(from, to));
            return;
        }
        self.cut_ways.insert((from, to));
        for wire in self.wires.values_mut() {
            if [from, to].iter().all(|id| wire.ends.iter().any(|end| end.0 == *id)) {
                wire.cut_ways.push(to);
            }
        }
    }

    /// A learner connects to its leader, or to an observer master.
    pub(super) fn dial(&mut self, id: ServerId, leader: ServerId) {
        let process = self.servers[&id].process.as_ref();
        let observes = process.is_some_and(|process| process.peer.configs().kind_of(id) == LearnerKind::Observer);
        let master = if observes { self.master() } else { None };
        if master.is_some() {
            self.mark("observed followers");
        }
        let to = master.unwrap_or(leader);
        if self.cut_ways.contains(&(id, to)) || self.cut_ways.contains(&(to, id)) {
            return self.plan(CONNECT_MS, id, Event::NotReached(leader));
        }
        let leads = self.servers[&to].process.as_ref();
        let leads = leads.is_some_and(|process| process.peer.leader().is_some() || process.peer.master().is_some());
        if !leads || !self.works(id, to) {
            return self.step(id, |peer, now, out| peer.on_dialed(now, leader, None, out));
        }
        self.next += 1;
        let link = LinkId(self.next);
        let ends = [(id, self.servers[&id].boot), (to, self.servers[&to].boot)];
        self.wires.insert(link, Wire { ends, is_cut: false, cut_ways: Vec::new() });
        self.step(to, |peer, now, out| peer.on_link(now, link, out));
        self.step(id, |peer, now, out| peer.on_dialed(now, leader, Some(link), out));
    }
}
