//! What servers say to each other: streams of packets between learners and leaders, notifications between all.
//!
//! A way from one server to another can be cut for a while, each direction by itself. What is sent meanwhile waits, as
//! TCP would repeat it, and comes when the way is open again, unless the connection is given up before.

use crate::env::Env;
use crate::event::{Event, Who};
use crate::link::Pipe;
use ox_history::Time;
use ox_proto::ensemble::Ensemble;
use ox_zab::VoteNotification;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// What is said on the election port, with the configuration that is in force for who says it, if that can change.
pub(crate) type Note = (VoteNotification, Option<Arc<Ensemble>>);

/// Place of a wire in the world.
pub(crate) type WireId = usize;
/// 0 is who dialled, 1 who was dialled.
pub(crate) type Side = usize;

/// A connection between a learner and its leader.
#[derive(Debug)]
pub(crate) struct Wire {
    pub(crate) ends: [Who; 2],
    /// What each side sends.
    pub(crate) pipes: [Pipe; 2],
    /// Arrivals that wait until the way is open.
    held: [usize; 2],
    pub(crate) is_up: bool,
    pub(crate) has_waited: bool,
    /// The leader that the learner wants, if only through an observer master.
    pub(crate) leader: usize,
    /// A side could not send everything, and waits until the other one reads.
    pub(crate) wants_room: [bool; 2],
}

impl Wire {
    pub(crate) fn side(&self, who: Who) -> Side {
        usize::from(self.ends[0] != who)
    }
}

/// The election connection of two servers.
#[derive(Debug, Default)]
pub(crate) struct Election {
    is_up: bool,
    /// On their way from the lower number, and from the higher.
    notes: [VecDeque<Note>; 2],
    last: [Time; 2],
}

/// Everything between servers.
#[derive(Debug, Default)]
pub(crate) struct Net {
    pub(crate) wires: Vec<Wire>,
    elections: BTreeMap<(usize, usize), Election>,
    cut: BTreeSet<(usize, usize)>,
    /// Ways that take longer, at most by how much, until when.
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

    pub(crate) fn is_meshed(&self, a: usize, b: usize) -> bool {
        self.elections.get(&pair(a, b)).is_some_and(|election| election.is_up)
    }

    /// An election connection comes up.
    pub(crate) fn mesh(&mut self, a: usize, b: usize) {
        let election = self.elections.entry(pair(a, b)).or_default();
        *election = Election { is_up: true, last: election.last, ..Election::default() };
    }

    /// It goes down; what is on its way is lost. False if it was not up.
    pub(crate) fn unmesh(&mut self, a: usize, b: usize) -> bool {
        let Some(election) = self.elections.get_mut(&pair(a, b)) else { return false };
        election.notes = Default::default();
        std::mem::replace(&mut election.is_up, false)
    }

    /// The next notification on its way, if it gets through.
    pub(crate) fn take_note(&mut self, from: usize, to: usize) -> Option<Note> {
        if !self.is_open(from, to) {
            return None;
        }
        self.elections.get_mut(&pair(from, to))?.notes[usize::from(to < from)].pop_front()
    }
}

impl Env {
    /// A server wants to be connected to another one.
    pub(crate) fn dial(&mut self, from: Who, leader: usize, master: Option<usize>) {
        let ends = [from, Who { server: master.unwrap_or(leader), boot: 0 }];
        let wire = Wire {
            ends,
            pipes: Default::default(),
            held: [0; 2],
            is_up: false,
            has_waited: false,
            wants_room: [false; 2],
            leader,
        };
        self.net.wires.push(wire);
        let delay = self.dice.skewed(self.plan.net_delay_us);
        self.plan_in(delay, Event::Dialed(self.net.wires.len() - 1));
    }

    pub(crate) fn wire_send(&mut self, wire: WireId, side: Side, bytes: &[u8]) {
        if self.net.wires[wire].pipes[side].send(bytes) {
            self.plan_wired(wire, side);
        }
    }

    /// How many bytes the sockets take from one side now. If not all it has, it hears when there is room again.
    pub(crate) fn wire_room(&mut self, wire: WireId, side: Side, wanted: usize) -> usize {
        let (room, wire) = (self.plan.wire_bytes, &mut self.net.wires[wire]);
        let room = room.saturating_sub(wire.pipes[side].unread()).min(wanted);
        wire.wants_room[side] |= room < wanted;
        room
    }

    /// The other side of a wire reads what this one has sent.
    pub(crate) fn wire_read(&mut self, wire: WireId, side: Side, most: usize) -> Vec<u8> {
        let bytes = self.net.wires[wire].pipes[side].read(most);
        if !bytes.is_empty() && std::mem::take(&mut self.net.wires[wire].wants_room[side]) {
            let delay = self.net_delay();
            self.plan_in(delay, Event::Ready(wire, side));
        }
        bytes
    }

    /// One side closes: what it has sent still arrives.
    pub(crate) fn wire_close(&mut self, wire: WireId, side: Side) {
        if self.net.wires[wire].pipes[side].close() {
            self.plan_wired(wire, side);
        }
    }

    /// Breaks a wire; some of what is on its way still arrives.
    pub(crate) fn wire_cut(&mut self, wire: WireId) {
        for side in [0, 1] {
            let keep = self.dice.index(self.net.wires[wire].pipes[side].bytes_in_flight() + 1);
            if self.net.wires[wire].pipes[side].cut(keep) {
                self.plan_wired(wire, side);
            }
        }
    }

    /// How long a message takes from one server to another.
    fn way_delay(&mut self, from: usize, to: usize) -> i64 {
        let now = self.now;
        let more = self.net.slow.get(&(from, to)).filter(|(_, until)| now < *until).map_or(0, |(delay, _)| *delay);
        self.net_delay() + if more == 0 { 0 } else { self.dice.between(0, more) }
    }

    fn plan_wired(&mut self, wire: WireId, side: Side) {
        let [from, to] = [side, 1 - side].map(|side| self.net.wires[wire].ends[side].server);
        if !self.net.is_open(from, to) {
            self.net.wires[wire].held[side] += 1;
            return;
        }
        let delay = self.way_delay(from, to);
        let pipe = &mut self.net.wires[wire].pipes[side];
        pipe.last = pipe.last.max(Time(self.now.0 + delay));
        let at = pipe.last;
        self.queue.plan(at, Event::Wired(wire, side));
    }

    /// Tells a server something on the election port. What is not sent yet is out of date.
    pub(crate) fn notify(&mut self, from: usize, to: usize, note: Note) {
        let (delay, now, way) = (self.way_delay(from, to), self.now, usize::from(to < from));
        let Some(election) = self.net.elections.get_mut(&pair(from, to)).filter(|election| election.is_up) else {
            return;
        };
        election.notes[way].push_back(note);
        election.last[way] = election.last[way].max(Time(now.0 + delay));
        let at = election.last[way];
        self.queue.plan(at, Event::Noted(from, to));
    }

    /// Cuts or opens the way from one server to another.
    pub(crate) fn set_way(&mut self, from: usize, to: usize, is_open: bool) {
        if !is_open {
            self.net.cut.insert((from, to));
            // Sometimes somebody notices that nothing gets through.
            if self.dice.chance(500) {
                let delay = self.dice.between(0, 3_000_000);
                self.plan_in(delay, Event::Unmesh(from, to));
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
                    (0..held).for_each(|_| self.plan_wired(wire, side));
                }
            }
        }
        let way = usize::from(to < from);
        let waiting = self.net.elections.get(&pair(from, to)).map_or(0, |election| election.notes[way].len());
        for _ in 0..waiting {
            let delay = self.net_delay();
            self.plan_in(delay, Event::Noted(from, to));
        }
    }
}
