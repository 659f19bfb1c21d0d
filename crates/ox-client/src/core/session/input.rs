//! What the server sends.

use super::{Ending, Link, Lost, Pending, Queued, Reply, Session, Waiter, WatchAsk, What};
use crate::core::{Class, Effect, Phase};
use crate::event::{Event, EventKind};
use crate::limits::REPLY_BYTES_MAX;
use bytes::{Buf, Bytes, BytesMut};
use ox_proto::connect::ConnectResponse;
use ox_proto::event::{EventType, WatcherEvent};
use ox_proto::frame::{begin_frame, end_frame, split_frame};
use ox_proto::jute::Jute;
use ox_proto::reply::ReplyHeader;
use ox_proto::request::{RequestHeader, xid};
use ox_proto::{ErrorCode, OpCode, Reader, SessionId, Zxid};

/// The header of a reply.
const HEADER_BYTES: usize = 16;

impl<W: Waiter, S: Clone> Session<W, S> {
    /// Takes all complete frames off the buffer. An error means that the connection is to be given up.
    pub(crate) fn on_input(
        &mut self,
        now_ms: i64,
        buffer: &mut BytesMut,
        effects: &mut Vec<Effect<W, S>>,
    ) -> Result<(), Lost> {
        if self.unread < buffer.len() {
            self.last_heard_ms = now_ms; // a long answer on a slow line is no silence
        }
        let mut end = 0;
        while let Some((payload, _)) = split_frame(&buffer[end..], REPLY_BYTES_MAX).map_err(|_| Lost::Garbage)? {
            end += 4 + payload.len();
        }
        self.unread = buffer.len() - end;
        if end == 0 {
            return Ok(());
        }
        let mut frames = buffer.split_to(end).freeze();
        while 4 <= frames.len() {
            let length = frames.get_i32();
            let frame = frames.split_to(usize::try_from(length).map_err(|_| Lost::Garbage)?);
            match self.link {
                Link::Greeting { since_ms } => self.on_welcome(now_ms, since_ms, &frame, effects)?,
                Link::Open { .. } => self.on_frame(now_ms, frame, effects)?,
                Link::Away | Link::Over(_) => return Err(Lost::Over),
            }
        }
        Ok(())
    }

    fn on_welcome(
        &mut self,
        now_ms: i64,
        since_ms: i64,
        frame: &[u8],
        effects: &mut Vec<Effect<W, S>>,
    ) -> Result<(), Lost> {
        let welcome = ConnectResponse::decode(frame).map_err(|_| Lost::Garbage)?;
        if welcome.session == SessionId::NONE || welcome.timeout_ms <= 0 {
            if !self.is_known {
                return Err(Lost::Handshake); // nothing was asked for that could have expired
            }
            let ending = if self.closing.is_some() { Ending::Closed } else { Ending::Expired };
            self.end(ending, effects);
            return Err(Lost::Over);
        }
        let read_only = welcome.read_only == Some(true);
        (self.id, self.password) = (welcome.session, welcome.password);
        self.timeout_ms = welcome.timeout_ms;
        self.is_known |= !read_only;
        self.last_sent_ms = now_ms;
        self.attempts = 0;
        self.opened_ms = now_ms;
        self.has_served = false;
        self.servers.on_connected();
        self.link = Link::Open { read_only };
        self.prove_life(since_ms);
        effects.push(Effect::State(Phase::Connected { session: self.id, read_only }));
        (0..self.credentials.len()).for_each(|place| self.prove(now_ms, place));
        self.rearm(now_ms, effects);
        while let Some(queued) = self.queued.pop_front() {
            self.queued_bytes -= queued.frame.len();
            self.send_queued(now_ms, queued);
        }
        if self.closing.is_some() {
            self.send_close(now_ms);
        }
        Ok(())
    }

    fn rearm(&mut self, now_ms: i64, effects: &mut Vec<Effect<W, S>>) {
        let seen = self.watched_zxid.unwrap_or(self.last_zxid);
        for (op, body) in self.watches.rearm(seen) {
            let xid = self.next_xid();
            let mark = begin_frame(&mut self.out);
            RequestHeader { xid, op: op.code() }.put(&mut self.out);
            self.out.extend_from_slice(&body);
            end_frame(&mut self.out, mark);
            self.pending.push_back(Pending { xid, sent_ms: now_ms, what: What::Rearm });
            self.rearming += 1;
        }
        if self.rearming == 0 {
            self.watched_zxid = None;
        }
        // Whoever reads again now is answered behind the watches.
        effects.extend(self.watches.staying().map(|sink| Effect::Event(sink.clone(), Event::bare(EventKind::Missed))));
    }

    fn send_queued(&mut self, now_ms: i64, queued: Queued<W, S>) {
        let Queued { mut frame, what, .. } = queued;
        if let What::Request { waiter, watch, .. } = &what
            && waiter.is_gone()
        {
            if let Some(watch) = watch {
                self.watches.armed(watch.class, &watch.path);
            }
            return;
        }
        let xid = self.next_xid();
        frame[4..8].copy_from_slice(&xid.to_be_bytes());
        self.out.extend_from_slice(&frame);
        self.pending.push_back(Pending { xid, sent_ms: now_ms, what });
    }

    fn on_frame(&mut self, now_ms: i64, mut frame: Bytes, effects: &mut Vec<Effect<W, S>>) -> Result<(), Lost> {
        let header: ReplyHeader = Reader::new(&frame).get().map_err(|_| Lost::Garbage)?;
        frame.advance(HEADER_BYTES);
        match header.xid {
            xid::NOTIFICATION => self.on_event(header.zxid, &frame, effects),
            xid::AUTH => self.on_auth(header.err, effects),
            xid::PING => {
                let sent_ms = self.pings.pop_front().unwrap_or(self.proven_ms);
                self.prove_life(sent_ms);
                self.see(header.zxid);
                self.check_welcome(header.err, effects)
            }
            _ => {
                let is_next = self.pending.front().is_some_and(|pending| pending.xid == header.xid);
                let Some(pending) = self.pending.pop_front_if(|_| is_next) else { return Err(Lost::OutOfOrder) };
                self.see(header.zxid);
                self.prove_life(pending.sent_ms);
                let reply = Reply { zxid: header.zxid, err: header.err, body: frame };
                self.on_reply(now_ms, pending.what, reply, effects)
            }
        }
    }

    /// A server has heard of the client at that time, or later. One that lost the others tells nobody: there the session's time runs on.
    fn prove_life(&mut self, sent_ms: i64) {
        if !self.is_read_only() {
            self.proven_ms = self.proven_ms.max(sent_ms);
        }
    }

    fn see(&mut self, zxid: Zxid) {
        self.last_zxid = self.last_zxid.max(zxid);
    }

    fn on_reply(
        &mut self,
        now_ms: i64,
        what: What<W, S>,
        reply: Reply,
        effects: &mut Vec<Effect<W, S>>,
    ) -> Result<(), Lost> {
        match what {
            What::Request { waiter, watch, op } => {
                self.has_served = true;
                if let Some(watch) = watch {
                    self.on_watch_reply(now_ms, op, *watch, reply.err, waiter.is_gone());
                }
                let err = reply.err;
                effects.push(Effect::Done(waiter, Ok(reply)));
                self.check_welcome(err, effects)?;
            }
            What::Rearm => {
                self.rearming -= 1;
                if self.rearming == 0 {
                    self.watched_zxid = None;
                }
            }
            What::Forget => (), // the watch may have fired meanwhile, and old servers know no such type
            What::Close => {
                self.end(Ending::Closed, effects);
                return Err(Lost::Over);
            }
        }
        Ok(())
    }

    /// A server that asks for proof answers nothing before it gets one.
    fn check_welcome(&mut self, err: i32, effects: &mut Vec<Effect<W, S>>) -> Result<(), Lost> {
        if err == ErrorCode::SessionClosedRequireSaslAuth.code() {
            self.end(Ending::AuthFailed, effects);
            return Err(Lost::Over);
        }
        Ok(())
    }

    fn on_watch_reply(&mut self, now_ms: i64, op: OpCode, watch: WatchAsk<S>, err: i32, is_gone: bool) {
        let WatchAsk { id, class, path, sink } = watch;
        self.watches.armed(class, &path);
        let is_missing = op == OpCode::Exists && err == ErrorCode::NoNode.code();
        if err != 0 && !is_missing {
            return;
        }
        if !is_gone {
            self.watches.add(class, &path, id, is_missing, sink);
        } else if self.watches.is_unused(class, &path) {
            self.disarm(now_ms, class, &path);
        }
    }

    fn on_auth(&mut self, err: i32, effects: &mut Vec<Effect<W, S>>) -> Result<(), Lost> {
        let Some(place) = self.proving.pop_front() else { return Err(Lost::OutOfOrder) };
        if err != 0 {
            self.end(Ending::AuthFailed, effects);
            return Err(Lost::Over);
        }
        let waiters = std::mem::take(&mut self.credentials[place].waiters);
        let done = Reply { zxid: self.last_zxid, err: 0, body: Bytes::new() };
        effects.extend(waiters.into_iter().map(|waiter| Effect::Done(waiter, Ok(done.clone()))));
        Ok(())
    }

    fn on_event(&mut self, zxid: Zxid, body: &[u8], effects: &mut Vec<Effect<W, S>>) -> Result<(), Lost> {
        let event = WatcherEvent::get(&mut Reader::new(body)).map_err(|_| Lost::Garbage)?;
        let Ok(kind) = EventType::try_from(event.kind) else { return Ok(()) }; // from a server newer than this client
        let zxid = (Zxid::ZERO < zxid).then_some(zxid);
        let effects_before = effects.len();
        self.watches.fire(kind, &event.path, |class: Class, sink| {
            let event = Event { kind: kind.into(), path: event.path.clone().into_owned(), zxid };
            effects.push(if class.stays() { Effect::Event(sink, event) } else { Effect::End(sink, event) });
        });
        if self.is_heard && effects_before < effects.len() {
            effects.push(Effect::Heard(Event { kind: kind.into(), path: event.path.into_owned(), zxid }));
        }
        Ok(())
    }
}
