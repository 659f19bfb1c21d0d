//! A host with sockets in memory, for tests.

use super::{ClientHost, ClientSockets, CloseReason, GlobalLimits, Mail, Readiness, memory_of};
use crate::sockets::{SocketRead, SocketWrite, Sockets};
use ox_replica::outbox::Outbox;
use ox_replica::{AdmissionLimits, Conn, ConnId, HandshakeKind, MemoryBudget, Now, Submission};
use ox_tree::{State, TreeOptions};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;

/// The memory budget of all clients.
pub(super) const BUDGET_BYTES: usize = 8 << 20;

/// Where the events of a socket go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Slot(usize),
    Lingering(usize),
}

#[derive(Debug, Default)]
pub(super) struct FakeSocket {
    /// Bytes from the client that are not read.
    pub(super) input: VecDeque<u8>,
    /// What the client has been sent.
    pub(super) output: Vec<u8>,
    /// Bytes that the socket still takes.
    pub(super) space: usize,
    /// The client has closed its side.
    pub(super) is_ended: bool,
    pub(super) is_reset: bool,
    pub(super) is_shut_down: bool,
    pub(super) is_closed: bool,
    place: Option<Place>,
}

pub(super) struct FakeHost {
    sockets: Vec<FakeSocket>,
    pub(super) limits: GlobalLimits,
    state: Arc<State>,
    mail: Vec<Outbox>,
    pub(super) submissions: Vec<Submission>,
    /// Reasons for which connections were closed.
    pub(super) closed: Vec<String>,
}

impl FakeHost {
    pub(super) fn new() -> Self {
        let budget = MemoryBudget::new(BUDGET_BYTES);
        let limits = AdmissionLimits { budget, requests_max: 1000, throttle_max: None };
        Self {
            sockets: Vec::new(),
            limits: GlobalLimits::new(limits, None, 0),
            state: Arc::new(State::new(TreeOptions::default())),
            mail: Vec::new(),
            submissions: Vec::new(),
            closed: Vec::new(),
        }
    }

    /// Opens a socket that takes `space` bytes.
    pub(super) fn open(&mut self, space: usize) -> usize {
        self.sockets.push(FakeSocket { space, ..FakeSocket::default() });
        self.sockets.len() - 1
    }

    pub(super) fn socket(&mut self, socket: usize) -> &mut FakeSocket {
        &mut self.sockets[socket]
    }

    pub(super) fn post(&mut self, outbox: Outbox) {
        self.limits.on_posted(memory_of(&outbox));
        self.mail.push(outbox);
    }

    /// What each open socket is ready for.
    pub(super) fn events(&self) -> Vec<(Place, Readiness)> {
        let open = self.sockets.iter().filter(|socket| !socket.is_closed);
        let event = |socket: &FakeSocket| {
            let readiness = Readiness {
                readable: !socket.input.is_empty(),
                writable: 0 < socket.space,
                read_closed: socket.is_ended || socket.is_reset,
                broken: socket.is_reset,
            };
            Some((socket.place?, readiness))
        };
        open.filter_map(event).collect()
    }
}

impl Sockets for FakeHost {
    type Socket = usize;

    fn receive(&mut self, socket: &mut usize, buffer: &mut [u8]) -> SocketRead {
        let FakeSocket { input, is_ended, is_reset, .. } = &mut self.sockets[*socket];
        if *is_reset || (*is_ended && input.is_empty()) {
            return SocketRead::End;
        }
        let count = input.len().min(buffer.len());
        input.drain(..count).zip(buffer).for_each(|(byte, place)| *place = byte);
        if count == 0 { SocketRead::Nothing } else { SocketRead::Bytes(count) }
    }

    fn send(&mut self, socket: &mut usize, bytes: &[u8]) -> SocketWrite {
        let socket = &mut self.sockets[*socket];
        if socket.is_reset {
            return SocketWrite::Broken;
        }
        let count = bytes.len().min(socket.space);
        socket.space -= count;
        socket.output.extend_from_slice(&bytes[..count]);
        if count == 0 { SocketWrite::Full } else { SocketWrite::Bytes(count) }
    }

    fn close(&mut self, socket: usize) {
        self.sockets[socket].is_closed = true;
    }
}

impl ClientSockets for FakeHost {
    fn register(&mut self, socket: &mut usize, slot: usize) -> bool {
        self.sockets[*socket].place = Some(Place::Slot(slot));
        true
    }

    fn shut_down(&mut self, socket: &mut usize, index: usize) -> bool {
        let socket = &mut self.sockets[*socket];
        (socket.is_shut_down, socket.place) = (true, Some(Place::Lingering(index)));
        true
    }
}

impl ClientHost for FakeHost {
    type Record = ();
    type StateGuard = Arc<State>;

    fn lock_state(&mut self) -> Arc<State> {
        Arc::clone(&self.state)
    }

    fn limits(&self) -> &GlobalLimits {
        &self.limits
    }

    fn take_mail(&mut self) -> Option<Mail> {
        Some(Mail { outboxes: std::mem::take(&mut self.mail), texts: Vec::new() })
    }

    fn submit(&mut self, submission: Submission) {
        self.submissions.push(submission);
    }

    fn admits(&self, _now: Now, _kind: HandshakeKind) -> bool {
        true
    }

    fn on_open(&mut self, _id: ConnId, _socket: &Self::Socket, _address: SocketAddr, _now: Now) {}

    fn on_removed(&mut self, _core: &Conn, _record: ()) {}

    fn on_close(&mut self, _core: &Conn, _record: &(), reason: CloseReason<'_>, _now: Now) {
        self.closed.push(format!("{reason:?}"));
    }
}
