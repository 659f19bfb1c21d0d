//! A member's end of a wire: received bytes that are not processed yet, and packets that the socket has not accepted
//! yet.
//!
//! Sockets hold [`crate::Plan::wire_bytes`]. What does not fit waits here; the core learns how many bytes the socket
//! has accepted. So back-pressure between servers is simulated.

use super::member::{PeerInput, wire};
use super::process::Process;
use crate::env::Env;
use crate::event::{Event, Job, ProcessId};
use crate::net::WireId;
use ox_history::Time;
use ox_proto::Zxid;
use ox_proto::quorum::PacketReader;
use ox_store::LogDiff;
use ox_store::snapshot::stream::SnapshotReceiver;
use ox_zab::{LinkId, Message, Sender};
use std::collections::VecDeque;

/// The send queue of a wire holds these, in order.
enum Outgoing {
    Bytes {
        bytes: Vec<u8>,
        sent: usize,
        /// The number of bytes that count in the send window.
        flow_bytes: usize,
        /// Part of a snapshot or log diff: sending it is a sign of progress.
        is_history: bool,
    },
    LogDiff {
        /// `None` while a job reads from it.
        history: Option<Box<LogDiff>>,
        is_scheduled: bool,
    },
}

pub(super) struct WireEnd {
    /// The role of the sender at the other end.
    pub(super) from: Sender,
    /// The hello has arrived, so that the replica knows the link.
    pub(super) is_identified: bool,
    pub(super) input: Vec<u8>,
    pub(super) reader: PacketReader,
    /// A snapshot that is being received, and its zxid.
    pub(super) loading: Option<(SnapshotReceiver, Zxid)>,
    /// When a slow reader reads again.
    pub(super) reads_at: Time,
    out: VecDeque<Outgoing>,
    /// Bytes of the send window that were sent and not reported to the core yet.
    sent_bytes: usize,
}

impl WireEnd {
    pub(super) fn new(from: Sender) -> Self {
        let (input, reader, out) = (Vec::new(), PacketReader::default(), VecDeque::new());
        Self {
            from,
            is_identified: from == Sender::Leader,
            input,
            reader,
            loading: None,
            reads_at: Time(0),
            out,
            sent_bytes: 0,
        }
    }
}

/// Makes a member read only `bytes` per read, with pauses, until a given time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SlowRead {
    pub(crate) bytes: usize,
    pub(crate) pause_us: i64,
    pub(crate) until: Time,
}

impl SlowRead {
    pub(super) fn is_on(&self, env: &Env) -> bool {
        env.now < self.until && !env.is_healed
    }
}

impl Process {
    pub(super) fn send_message(&mut self, env: &mut Env, pid: ProcessId, id: WireId, message: &Message) {
        let mut bytes = Vec::new();
        message.put(&mut bytes);
        let flow_bytes = message.flow_bytes();
        self.push_out(env, pid, id, Outgoing::Bytes { bytes, sent: 0, flow_bytes, is_history: false });
    }

    pub(super) fn send_history(&mut self, env: &mut Env, pid: ProcessId, id: WireId, bytes: Vec<u8>) {
        self.push_out(env, pid, id, Outgoing::Bytes { bytes, sent: 0, flow_bytes: 0, is_history: true });
    }

    pub(super) fn send_log_diff(&mut self, env: &mut Env, pid: ProcessId, link: LinkId) {
        let Some(found) = self.member.found.remove(&link) else { return }; // the link is closed
        env.note(format_args!("peer {}: sends the log diff on {}", pid.server, link.0));
        env.coverage.log_diffs += 1;
        self.push_out(env, pid, wire(link), Outgoing::LogDiff { history: Some(found), is_scheduled: false });
    }

    fn push_out(&mut self, env: &mut Env, pid: ProcessId, id: WireId, out: Outgoing) {
        if let Some(wire_end) = self.member.wire_ends.get_mut(&id) {
            wire_end.out.push_back(out);
            if wire_end.out.len() == 1 {
                self.drain(env, pid, id, false);
            }
        }
    }

    /// Sends what fits into the socket. `has_waited`: the socket was full before.
    pub(super) fn drain(&mut self, env: &mut Env, pid: ProcessId, id: WireId, has_waited: bool) {
        let Some(wire_end) = self.member.wire_ends.get_mut(&id) else { return };
        let side = env.net.wires[id].side(pid);
        let mut has_moved = false;
        loop {
            match wire_end.out.front_mut() {
                None => break,
                Some(Outgoing::LogDiff { history, is_scheduled }) => {
                    if history.is_some() && !std::mem::replace(is_scheduled, true) {
                        env.schedule_in(0, Event::Job(Job::SendLogDiff(pid, LinkId(id as u64))));
                    }
                    break;
                }
                Some(Outgoing::Bytes { bytes, sent, flow_bytes, is_history }) => {
                    let capacity = env.wire_capacity(id, side, bytes.len() - *sent);
                    env.wire_send(id, side, &bytes[*sent..*sent + capacity]);
                    *sent += capacity;
                    has_moved |= 0 < capacity && (has_waited || *is_history);
                    if *sent < bytes.len() {
                        env.coverage.full_wires += 1;
                        break;
                    }
                    wire_end.sent_bytes += *flow_bytes;
                    wire_end.out.pop_front();
                }
            }
        }
        let step = env.plan.learner_window_bytes.min(env.plan.request_window_bytes) / 4;
        let sent_bytes = if step <= wire_end.sent_bytes { std::mem::take(&mut wire_end.sent_bytes) } else { 0 };
        if 0 < sent_bytes {
            self.on_peer(env, pid, PeerInput::Sent(id, sent_bytes));
        }
        if has_moved {
            self.on_peer(env, pid, PeerInput::Progress(id));
        }
    }

    /// The log diff that is being sent on a link, if the link still exists.
    pub(crate) fn take_log_diff(&mut self, link: LinkId) -> Option<Box<LogDiff>> {
        match self.member.wire_ends.get_mut(&wire(link))?.out.front_mut()? {
            Outgoing::LogDiff { history, .. } => history.take(),
            Outgoing::Bytes { .. } => None,
        }
    }

    /// Part of a log diff was read: `bytes` is empty at its end and `None` after an error.
    pub(crate) fn on_log_diff_read(
        &mut self,
        env: &mut Env,
        pid: ProcessId,
        link: LinkId,
        rest: Box<LogDiff>,
        bytes: Option<&[u8]>,
    ) {
        let id = wire(link);
        let Some(wire_end) = self.member.wire_ends.get_mut(&id) else { return };
        let Some(bytes) = bytes else { return self.on_peer(env, pid, PeerInput::Broken(id)) };
        wire_end.out.pop_front();
        if !bytes.is_empty() {
            wire_end.out.push_front(Outgoing::LogDiff { history: Some(rest), is_scheduled: false });
            wire_end.out.push_front(Outgoing::Bytes {
                bytes: bytes.to_vec(),
                sent: 0,
                flow_bytes: 0,
                is_history: true,
            });
        }
        self.drain(env, pid, id, false);
    }
}
