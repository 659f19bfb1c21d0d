//! The network between servers: wires between learners and leaders, and election connections between all servers.
//!
//! A path from one server to another can be cut for a while, each direction separately. As with TCP retransmission,
//! bytes sent meanwhile arrive when the path is open again, unless the connection is closed before.

use crate::env::Env;
use crate::event::{Event, ProcessId};
use crate::link::Pipe;
use ox_history::Time;
use ox_proto::ensemble::Ensemble;
use ox_zab::VoteNotification;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// A notification with the sender's committed configuration, if reconfiguration is enabled.
pub(crate) type AnnouncedNotification = (VoteNotification, Option<Arc<Ensemble>>);

/// The index of a wire in `Net::wires`.
pub(crate) type WireId = usize;
/// 0 is the side that dialled, 1 the side that accepted.
pub(crate) type Side = usize;

/// A connection between a learner and its leader.
#[derive(Debug)]
pub(crate) struct Wire {
    pub(crate) ends: [ProcessId; 2],
    /// The stream that each side sends.
    pub(crate) pipes: [Pipe; 2],
    /// Arrivals that wait until the path is open again.
    held: [usize; 2],
    pub(crate) is_up: bool,
    pub(crate) has_waited: bool,
    /// The leader of the learner, even if the wire leads to an observer master.
    pub(crate) leader: usize,
    /// The side could not send everything, and waits until the other side reads.
    pub(crate) waits_for_capacity: [bool; 2],
}

impl Wire {
    pub(crate) fn side(&self, pid: ProcessId) -> Side {
        usize::from(self.ends[0] != pid)
    }
}

/// The election connection of two servers.
#[derive(Debug, Default)]
pub(crate) struct Election {
    is_up: bool,
    /// Notifications in flight, from the lower and from the higher server number.
    notifications: [VecDeque<AnnouncedNotification>; 2],
    last: [Time; 2],
}

/// The whole network between servers.
#[derive(Debug, Default)]
pub(crate) struct Net {
    pub(crate) wires: Vec<Wire>,
    elections: BTreeMap<(usize, usize), Election>,
    cut: BTreeSet<(usize, usize)>,
    /// Slow paths: the largest additional delay, and until when.
    pub(crate) slow: BTreeMap<(usize, usize), (i64, Time)>,
}

fn pair(a: usize, b: usize) -> (usize, usize) {
    (a.min(b), a.max(b))
}

impl Net {
    pub(crate) fn is_open(&self, from: usize, to: usize) -> bool {
        !self.cut.contains(&(from, to))
    }

    pub(crate) fn is_open_both_ways(&self, a: usize, b: usize) -> bool {
        self.is_open(a, b) && self.is_open(b, a)
    }

    pub(crate) fn has_election_link(&self, a: usize, b: usize) -> bool {
        self.elections.get(&pair(a, b)).is_some_and(|election| election.is_up)
    }

    pub(crate) fn open_election_link(&mut self, a: usize, b: usize) {
        let election = self.elections.entry(pair(a, b)).or_default();
        *election = Election { is_up: true, last: election.last, ..Election::default() };
    }

    /// Closes an election connection and loses its notifications in flight. Returns false if it was not open.
    pub(crate) fn close_election_link(&mut self, a: usize, b: usize) -> bool {
        let Some(election) = self.elections.get_mut(&pair(a, b)) else { return false };
        election.notifications = Default::default();
        std::mem::replace(&mut election.is_up, false)
    }

    /// When the last of the bytes in flight arrive on connections between learners and leaders.
    pub(crate) fn last_arrival(&self) -> Time {
        self.wires.iter().flat_map(|wire| &wire.pipes).map(|pipe| pipe.last).max().unwrap_or(Time(0))
    }

    /// The next notification in flight, unless the path is cut.
    pub(crate) fn take_notification(&mut self, from: usize, to: usize) -> Option<AnnouncedNotification> {
        if !self.is_open(from, to) {
            return None;
        }
        self.elections.get_mut(&pair(from, to))?.notifications[usize::from(to < from)].pop_front()
    }
}

impl Env {
    /// Dials a leader, or an observer master in its place.
    pub(crate) fn dial(&mut self, from: ProcessId, leader: usize, master: Option<usize>) {
        let ends = [from, ProcessId { server: master.unwrap_or(leader), boot: 0 }];
        let wire = Wire {
            ends,
            pipes: Default::default(),
            held: [0; 2],
            is_up: false,
            has_waited: false,
            waits_for_capacity: [false; 2],
            leader,
        };
        self.net.wires.push(wire);
        let delay = self.rng.skewed(self.plan.net_delay_us);
        self.schedule_in(delay, Event::Dialed(self.net.wires.len() - 1));
    }

    pub(crate) fn wire_send(&mut self, wire: WireId, side: Side, bytes: &[u8]) {
        if self.net.wires[wire].pipes[side].send(bytes) {
            self.schedule_wire_arrival(wire, side);
        }
    }

    /// The number of bytes that the socket of one side accepts now. If fewer than `wanted`, the side is notified when
    /// there is space.
    pub(crate) fn wire_capacity(&mut self, wire: WireId, side: Side, wanted: usize) -> usize {
        let (capacity, wire) = (self.plan.wire_bytes, &mut self.net.wires[wire]);
        let capacity = capacity.saturating_sub(wire.pipes[side].unread()).min(wanted);
        wire.waits_for_capacity[side] |= capacity < wanted;
        capacity
    }

    /// The other side reads what this side has sent.
    pub(crate) fn wire_read(&mut self, wire: WireId, side: Side, most: usize) -> Vec<u8> {
        let bytes = self.net.wires[wire].pipes[side].read(most);
        if !bytes.is_empty() && std::mem::take(&mut self.net.wires[wire].waits_for_capacity[side]) {
            let delay = self.net_delay();
            self.schedule_in(delay, Event::Ready(wire, side));
        }
        bytes
    }

    /// One side closes the wire: bytes in flight still arrive.
    pub(crate) fn wire_close(&mut self, wire: WireId, side: Side) {
        if self.net.wires[wire].pipes[side].close() {
            self.schedule_wire_arrival(wire, side);
        }
    }

    /// Breaks a wire; part of the bytes in flight still arrive.
    pub(crate) fn wire_cut(&mut self, wire: WireId) {
        for side in [0, 1] {
            let keep = self.rng.index(self.net.wires[wire].pipes[side].bytes_in_flight() + 1);
            if self.net.wires[wire].pipes[side].cut(keep) {
                self.schedule_wire_arrival(wire, side);
            }
        }
    }

    /// The delay of a message between two servers.
    fn path_delay(&mut self, from: usize, to: usize) -> i64 {
        let now = self.now;
        let more = self.net.slow.get(&(from, to)).filter(|(_, until)| now < *until).map_or(0, |(delay, _)| *delay);
        self.net_delay() + if more == 0 { 0 } else { self.rng.between(0, more) }
    }

    fn schedule_wire_arrival(&mut self, wire: WireId, side: Side) {
        let [from, to] = [side, 1 - side].map(|side| self.net.wires[wire].ends[side].server);
        if !self.net.is_open(from, to) {
            self.net.wires[wire].held[side] += 1;
            return;
        }
        let delay = self.path_delay(from, to);
        let pipe = &mut self.net.wires[wire].pipes[side];
        pipe.last = pipe.last.max(Time(self.now.0 + delay));
        let at = pipe.last;
        self.queue.schedule(at, Event::WireArrives(wire, side));
    }

    /// Sends a notification over the election connection.
    pub(crate) fn notify(&mut self, from: usize, to: usize, notification: AnnouncedNotification) {
        let (delay, now, direction) = (self.path_delay(from, to), self.now, usize::from(to < from));
        let Some(election) = self.net.elections.get_mut(&pair(from, to)).filter(|election| election.is_up) else {
            return;
        };
        election.notifications[direction].push_back(notification);
        election.last[direction] = election.last[direction].max(Time(now.0 + delay));
        let at = election.last[direction];
        self.queue.schedule(at, Event::NotificationArrives(from, to));
    }

    /// Cuts or reopens the path from one server to another.
    pub(crate) fn set_path(&mut self, from: usize, to: usize, is_open: bool) {
        if !is_open {
            self.net.cut.insert((from, to));
            // Sometimes the servers notice that nothing arrives.
            if self.rng.chance(500) {
                let delay = self.rng.between(0, 3_000_000);
                self.schedule_in(delay, Event::DropElectionLink(from, to));
            }
            return;
        }
        if !self.net.cut.remove(&(from, to)) {
            return;
        }
        for wire in 0..self.net.wires.len() {
            for side in [0, 1] {
                let ends = [side, 1 - side].map(|side| self.net.wires[wire].ends[side].server);
                if ends == [from, to] {
                    let held = std::mem::take(&mut self.net.wires[wire].held[side]);
                    (0..held).for_each(|_| self.schedule_wire_arrival(wire, side));
                }
            }
        }
        let direction = usize::from(to < from);
        let waiting =
            self.net.elections.get(&pair(from, to)).map_or(0, |election| election.notifications[direction].len());
        for _ in 0..waiting {
            let delay = self.net_delay();
            self.schedule_in(delay, Event::NotificationArrives(from, to));
        }
    }
}
