//! A member's end of a link to another server: what it has received and not taken, what it has to send and could not yet.
//!
//! Sockets hold only so much ([`crate::Plan::wire_bytes`]), as everywhere; what they do not take waits here, and the core
//! hears of what they have taken.

use super::member::{PeerInput, wire};
use super::process::Process;
use crate::env::Env;
use crate::event::{Event, Job, Who};
use crate::net::WireId;
use ox_history::Time;
use ox_proto::Zxid;
use ox_proto::quorum::PacketReader;
use ox_store::StoredHistory;
use ox_store::snapshot::stream::SnapshotReceiver;
use ox_zab::{LinkId, Message, Side};
use std::collections::VecDeque;

/// What is to be sent, in order.
enum Out {
    Bytes {
        bytes: Vec<u8>,
        sent: usize,
        /// What it counts in a send window.
        flow_bytes: usize,
        /// A part of a history, whose way out shows that the other end is there.
        is_history: bool,
    },
    Stored {
        /// Away while a job reads it.
        history: Option<Box<StoredHistory>>,
        is_planned: bool,
    },
}

/// This server's end of a wire.
pub(super) struct Plug {
    /// Who speaks at the other end.
    pub(super) from: Side,
    /// The replica knows of it.
    pub(super) is_identified: bool,
    pub(super) input: Vec<u8>,
    pub(super) reader: PacketReader,
    /// A state that is coming in, and where it is.
    pub(super) loading: Option<(SnapshotReceiver, Zxid)>,
    /// When a member that reads slowly reads again.
    pub(super) reads_at: Time,
    out: VecDeque<Out>,
    /// What was sent of the window, and not reported.
    sent_bytes: usize,
}

impl Plug {
    pub(super) fn new(from: Side) -> Self {
        let (input, reader, out) = (Vec::new(), PacketReader::default(), VecDeque::new());
        Self {
            from,
            is_identified: from == Side::Leader,
            input,
            reader,
            loading: None,
            reads_at: Time(0),
            out,
            sent_bytes: 0,
        }
    }
}

/// A member that reads so much from a link at a time, until then.
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
    pub(super) fn send_message(&mut self, env: &mut Env, who: Who, id: WireId, message: &Message) {
        let mut bytes = Vec::new();
        message.put(&mut bytes);
        let flow_bytes = message.flow_bytes();
        self.push_out(env, who, id, Out::Bytes { bytes, sent: 0, flow_bytes, is_history: false });
    }

    pub(super) fn send_history(&mut self, env: &mut Env, who: Who, id: WireId, bytes: Vec<u8>) {
        self.push_out(env, who, id, Out::Bytes { bytes, sent: 0, flow_bytes: 0, is_history: true });
    }

    pub(super) fn send_stored(&mut self, env: &mut Env, who: Who, link: LinkId) {
        let Some(found) = self.member.found.remove(&link) else { return }; // the link is gone
        env.note(format_args!("peer {}: sends what is stored on {}", who.server, link.0));
        env.marks.stored_histories += 1;
        self.push_out(env, who, wire(link), Out::Stored { history: Some(found), is_planned: false });
    }

    fn push_out(&mut self, env: &mut Env, who: Who, id: WireId, out: Out) {
        if let Some(plug) = self.member.plugs.get_mut(&id) {
            plug.out.push_back(out);
            if plug.out.len() == 1 {
                self.drain(env, who, id, false);
            }
        }
    }

    /// Sends what the sockets take, which may have become more.
    pub(super) fn drain(&mut self, env: &mut Env, who: Who, id: WireId, has_waited: bool) {
        let Some(plug) = self.member.plugs.get_mut(&id) else { return };
        let side = env.net.wires[id].side(who);
        let mut has_moved = false;
        loop {
            match plug.out.front_mut() {
                None => break,
                Some(Out::Stored { history, is_planned }) => {
                    if history.is_some() && !std::mem::replace(is_planned, true) {
                        env.plan_in(0, Event::Job(Job::SendStored(who, LinkId(id as u64))));
                    }
                    break;
                }
                Some(Out::Bytes { bytes, sent, flow_bytes, is_history }) => {
                    let room = env.wire_room(id, side, bytes.len() - *sent);
                    env.wire_send(id, side, &bytes[*sent..*sent + room]);
                    *sent += room;
                    has_moved |= 0 < room && (has_waited || *is_history);
                    if *sent < bytes.len() {
                        env.marks.full_wires += 1;
                        break;
                    }
                    plug.sent_bytes += *flow_bytes;
                    plug.out.pop_front();
                }
            }
        }
        let step = env.plan.learner_window_bytes.min(env.plan.request_window_bytes) / 4;
        let sent_bytes = if step <= plug.sent_bytes { std::mem::take(&mut plug.sent_bytes) } else { 0 };
        if 0 < sent_bytes {
            self.on_peer(env, who, PeerInput::Sent(id, sent_bytes));
        }
        if has_moved {
            self.on_peer(env, who, PeerInput::Progress(id));
        }
    }

    /// The stored history that is sent on a link, if the link is still there.
    pub(crate) fn take_stored(&mut self, link: LinkId) -> Option<Box<StoredHistory>> {
        match self.member.plugs.get_mut(&wire(link))?.out.front_mut()? {
            Out::Stored { history, .. } => history.take(),
            Out::Bytes { .. } => None,
        }
    }

    /// A part of a stored history was read; an empty one is its end, none a failure.
    pub(crate) fn on_stored(
        &mut self,
        env: &mut Env,
        who: Who,
        link: LinkId,
        rest: Box<StoredHistory>,
        bytes: Option<&[u8]>,
    ) {
        let id = wire(link);
        let Some(plug) = self.member.plugs.get_mut(&id) else { return };
        let Some(bytes) = bytes else { return self.on_peer(env, who, PeerInput::Broken(id)) };
        plug.out.pop_front();
        if !bytes.is_empty() {
            plug.out.push_front(Out::Stored { history: Some(rest), is_planned: false });
            plug.out.push_front(Out::Bytes { bytes: bytes.to_vec(), sent: 0, flow_bytes: 0, is_history: true });
        }
        self.drain(env, who, id, false);
    }
}
