//! Packets from the server: the connect response, replies, pings, notifications.

use super::{ConnState, Disconnect, Pending, PendingKind, Queued, Reply, Session, SessionEnd, Waiter, WatchRequest};
use crate::core::{Effect, Phase, WatchClass};
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

/// Length of a reply header: xid, zxid, err.
const HEADER_BYTES: usize = 16;

impl<W: Waiter, S: Clone> Session<W, S> {
    /// Processes all complete frames of the buffer. On an error the driver closes the connection.
    pub(crate) fn on_input(
        &mut self,
        now_ms: i64,
        buffer: &mut BytesMut,
        effects: &mut Vec<Effect<W, S>>,
    ) -> Result<(), Disconnect> {
        if self.partial_bytes < buffer.len() {
            self.last_received_ms = now_ms; // a partial reply on a slow connection counts as a sign of life
        }
        let mut end = 0;
        while let Some((payload, _)) =
            split_frame(&buffer[end..], REPLY_BYTES_MAX).map_err(|_| Disconnect::MalformedPacket)?
        {
            end += 4 + payload.len();
        }
        self.partial_bytes = buffer.len() - end;
        if end == 0 {
            return Ok(());
        }
        let mut frames = buffer.split_to(end).freeze();
        while 4 <= frames.len() {
            let length = frames.get_i32();
            let frame = frames.split_to(usize::try_from(length).map_err(|_| Disconnect::MalformedPacket)?);
            match self.conn {
                ConnState::Handshake { since_ms } => self.on_connect_response(now_ms, since_ms, &frame, effects)?,
                ConnState::Open { .. } | ConnState::Authenticating { .. } => self.on_frame(now_ms, frame, effects)?,
                ConnState::Disconnected | ConnState::Ended(_) => return Err(Disconnect::SessionEnded),
            }
        }
        Ok(())
    }

    fn on_connect_response(
        &mut self,
        now_ms: i64,
        since_ms: i64,
        frame: &[u8],
        effects: &mut Vec<Effect<W, S>>,
    ) -> Result<(), Disconnect> {
        let response = ConnectResponse::decode(frame).map_err(|_| Disconnect::MalformedPacket)?;
        if response.session == SessionId::NONE || response.timeout_ms <= 0 {
            if !self.is_established {
                return Err(Disconnect::NoSession); // no session was resumed that could have expired
            }
            let ended = if self.closing.is_some() { SessionEnd::Closed } else { SessionEnd::Expired };
            self.end(ended, effects);
            return Err(Disconnect::SessionEnded);
        }
        let read_only = response.read_only == Some(true);
        (self.id, self.password) = (response.session, response.password);
        self.timeout_ms = response.timeout_ms;
        self.is_established |= !read_only;
        match self.first_sasl_token() {
            None => self.enter_open(now_ms, read_only, effects),
            Some(token) => {
                self.conn = ConnState::Authenticating { since_ms: now_ms, read_only };
                effects.push(Effect::Authenticating { read_only });
                self.send_sasl(now_ms, &token);
            }
        }
        self.touch(since_ms);
        Ok(())
    }

    /// The client is authenticated, if it has to be: sends everything that has waited for the connection.
    pub(super) fn enter_open(&mut self, now_ms: i64, read_only: bool, effects: &mut Vec<Effect<W, S>>) {
        self.last_sent_ms = now_ms;
        self.attempts = 0;
        self.opened_ms = now_ms;
        self.has_replied = false;
        self.servers.on_connected();
        self.conn = ConnState::Open { read_only };
        effects.push(Effect::State(Phase::Connected { session: self.id, read_only }));
        (0..self.credentials.len()).for_each(|index| self.send_auth(now_ms, index));
        self.rearm(now_ms, effects);
        while let Some(queued) = self.queued.pop_front() {
            self.queued_bytes -= queued.frame.len();
            self.send_queued(now_ms, queued);
        }
        if self.closing.is_some() {
            self.send_close(now_ms);
        }
    }

    fn rearm(&mut self, now_ms: i64, effects: &mut Vec<Effect<W, S>>) {
        let seen = self.watched_zxid.unwrap_or(self.last_zxid);
        for (op, body) in self.watches.rearm(seen) {
            let xid = self.next_xid();
            let mark = begin_frame(&mut self.out);
            RequestHeader { xid, op: op.code() }.put(&mut self.out);
            self.out.extend_from_slice(&body);
            end_frame(&mut self.out, mark);
            self.pending.push_back(Pending { xid, sent_ms: now_ms, kind: PendingKind::Rearm });
            self.rearming += 1;
        }
        if self.rearming == 0 {
            self.watched_zxid = None;
        }
        // After `Missed` the application reads again; its reads follow the re-armed watches.
        effects
            .extend(self.watches.persistent().map(|sink| Effect::Event(sink.clone(), Event::bare(EventKind::Missed))));
    }

    fn send_queued(&mut self, now_ms: i64, queued: Queued<W, S>) {
        let Queued { mut frame, kind, .. } = queued;
        if let PendingKind::Request { waiter, watch, .. } = &kind
            && waiter.is_cancelled()
        {
            if let Some(watch) = watch {
                self.watches.end_arming(watch.class, &watch.path);
            }
            return;
        }
        let xid = self.next_xid();
        frame[4..8].copy_from_slice(&xid.to_be_bytes());
        self.out.extend_from_slice(&frame);
        self.pending.push_back(Pending { xid, sent_ms: now_ms, kind });
    }

    fn on_frame(&mut self, now_ms: i64, mut frame: Bytes, effects: &mut Vec<Effect<W, S>>) -> Result<(), Disconnect> {
        let header: ReplyHeader = Reader::new(&frame).get().map_err(|_| Disconnect::MalformedPacket)?;
        frame.advance(HEADER_BYTES);
        match header.xid {
            xid::NOTIFICATION => self.on_event(header.zxid, &frame, effects),
            xid::AUTH => self.on_auth(header.err, effects),
            xid::PING => {
                let sent_ms = self.pings.pop_front().unwrap_or(self.last_touch_ms);
                self.touch(sent_ms);
                self.advance_zxid(header.zxid);
                self.check_sasl_required(header.err, effects)
            }
            _ => {
                let is_next = self.pending.front().is_some_and(|pending| pending.xid == header.xid);
                let Some(pending) = self.pending.pop_front_if(|_| is_next) else { return Err(Disconnect::OutOfOrder) };
                self.advance_zxid(header.zxid);
                self.touch(pending.sent_ms);
                if matches!(pending.kind, PendingKind::Sasl) {
                    return self.on_sasl_reply(now_ms, header.err, &frame, effects);
                }
                let reply = Reply { zxid: header.zxid, err: header.err, body: frame };
                self.on_reply(now_ms, pending.kind, reply, effects)
            }
        }
    }

    /// Notes that a server received a request sent at `sent_ms`. A read-only server cannot touch the session on the
    /// leader, so its replies do not count.
    fn touch(&mut self, sent_ms: i64) {
        let is_read_only = matches!(
            self.conn,
            ConnState::Open { read_only: true } | ConnState::Authenticating { read_only: true, .. }
        );
        if !is_read_only {
            self.last_touch_ms = self.last_touch_ms.max(sent_ms);
        }
    }

    fn advance_zxid(&mut self, zxid: Zxid) {
        self.last_zxid = self.last_zxid.max(zxid);
    }

    fn on_reply(
        &mut self,
        now_ms: i64,
        kind: PendingKind<W, S>,
        reply: Reply,
        effects: &mut Vec<Effect<W, S>>,
    ) -> Result<(), Disconnect> {
        match kind {
            PendingKind::Request { waiter, watch, op } => {
                self.has_replied = true;
                if let Some(watch) = watch {
                    self.on_watch_reply(now_ms, op, *watch, reply.err, waiter.is_cancelled());
                }
                let err = reply.err;
                effects.push(Effect::Complete(waiter, Ok(reply)));
                self.check_sasl_required(err, effects)?;
            }
            PendingKind::Rearm => {
                self.rearming -= 1;
                if self.rearming == 0 {
                    self.watched_zxid = None;
                }
            }
            PendingKind::RemoveWatches | PendingKind::Sasl => (), // an error is fine: the watch may have fired, or the server does not know the type
            PendingKind::Close => {
                self.end(SessionEnd::Closed, effects);
                return Err(Disconnect::SessionEnded);
            }
        }
        Ok(())
    }

    /// A server that requires SASL rejects every request of a client without it.
    fn check_sasl_required(&mut self, err: i32, effects: &mut Vec<Effect<W, S>>) -> Result<(), Disconnect> {
        if err == ErrorCode::SessionClosedRequireSaslAuth.code() {
            self.end(SessionEnd::AuthFailed, effects);
            return Err(Disconnect::SessionEnded);
        }
        Ok(())
    }

    fn on_watch_reply(&mut self, now_ms: i64, op: OpCode, watch: WatchRequest<S>, err: i32, is_cancelled: bool) {
        let WatchRequest { id, class, path, sink } = watch;
        self.watches.end_arming(class, &path);
        let is_missing = op == OpCode::Exists && err == ErrorCode::NoNode.code();
        if err != 0 && !is_missing {
            return;
        }
        if !is_cancelled {
            self.watches.add(class, &path, id, is_missing, sink);
        } else if self.watches.is_unused(class, &path) {
            self.disarm(now_ms, class, &path);
        }
    }

    fn on_auth(&mut self, err: i32, effects: &mut Vec<Effect<W, S>>) -> Result<(), Disconnect> {
        let Some(index) = self.auth_in_flight.pop_front() else { return Err(Disconnect::OutOfOrder) };
        if err != 0 {
            effects.push(Effect::AuthRejected(self.credentials[index].scheme.clone()));
            self.end(SessionEnd::AuthFailed, effects);
            return Err(Disconnect::SessionEnded);
        }
        let waiters = std::mem::take(&mut self.credentials[index].waiters);
        let done = Reply { zxid: self.last_zxid, err: 0, body: Bytes::new() };
        effects.extend(waiters.into_iter().map(|waiter| Effect::Complete(waiter, Ok(done.clone()))));
        Ok(())
    }

    fn on_event(&mut self, zxid: Zxid, body: &[u8], effects: &mut Vec<Effect<W, S>>) -> Result<(), Disconnect> {
        let event = WatcherEvent::get(&mut Reader::new(body)).map_err(|_| Disconnect::MalformedPacket)?;
        let Ok(kind) = EventType::try_from(event.kind) else { return Ok(()) }; // an event type newer than this client
        let zxid = (Zxid::ZERO < zxid).then_some(zxid);
        let effects_before = effects.len();
        self.watches.fire(kind, &event.path, |class: WatchClass, sink| {
            let event = Event { kind: kind.into(), path: event.path.clone().into_owned(), zxid };
            effects.push(if class.is_persistent() {
                Effect::Event(sink, event)
            } else {
                Effect::EndWatch(sink, event)
            });
        });
        if self.forwards_events && effects_before < effects.len() {
            effects.push(Effect::Notification(Event { kind: kind.into(), path: event.path.into_owned(), zxid }));
        }
        Ok(())
    }
}
