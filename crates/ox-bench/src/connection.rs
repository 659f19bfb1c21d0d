//! One connection of a load: its requests in flight and the replies received.

use crate::counters::Counters;
use crate::failure;
use crate::load_stream::LoadStream;
use crate::operation::Operation;
use crate::replies::{Replies, ReplyHead};
use crate::request_templates::{RequestGenerator, RequestTemplates};
use crate::session::Session;
use anyhow::Result;
use mio::net::TcpStream;
use ox_proto::OpCode;
use ox_proto::request::{put_bare_request, xid};
use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;

/// A request that waits for its reply.
#[derive(Clone, Copy, Debug)]
struct Sent {
    at_ns: u64,
    xid: i32,
    /// `None` for a keep-alive or closeSession, which are not part of the load.
    operation: Option<Operation>,
}

/// Result of reading from a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiveOutcome {
    /// Number of replies to requests of the load.
    Received(usize),
    /// The server closed the connection after closeSession.
    Closed,
}

/// A non-blocking connection with pipelined requests.
#[derive(Debug)]
pub struct LoadConnection {
    server: SocketAddr,
    stream: LoadStream<TcpStream>,
    replies: Replies,
    generator: RequestGenerator,
    in_flight: VecDeque<Sent>,
    /// Bytes that the socket did not accept yet.
    unsent: Vec<u8>,
    last_sent_ns: u64,
    closing: bool,
}

impl LoadConnection {
    /// Takes over the socket of an open session.
    pub fn new(session: Session, generator: RequestGenerator) -> Result<Self> {
        let server = session.address();
        let mut stream = session.into_stream();
        stream.socket().set_nonblocking(true)?;
        Ok(Self {
            server,
            stream: stream.map(TcpStream::from_std),
            replies: Replies::default(),
            generator,
            in_flight: VecDeque::new(),
            unsent: Vec::new(),
            last_sent_ns: 0,
            closing: false,
        })
    }

    /// The socket, for registration with a poll.
    pub fn stream(&mut self) -> &mut TcpStream {
        self.stream.socket()
    }

    pub fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    pub fn last_sent_ns(&self) -> u64 {
        self.last_sent_ns
    }

    /// Appends `count` requests of the templates to `out`, sent at `now_ns`.
    pub fn push_requests(&mut self, templates: &RequestTemplates, count: usize, now_ns: u64, out: &mut Vec<u8>) {
        for _ in 0..count {
            let (operation, xid) = templates.push(&mut self.generator, out);
            self.in_flight.push_back(Sent { at_ns: now_ns, xid, operation: Some(operation) });
        }
    }

    /// Appends a ping that is not part of the load.
    pub fn keep_alive(&mut self, now_ns: u64, out: &mut Vec<u8>) {
        put_bare_request(out, xid::PING, OpCode::Ping.code());
        self.in_flight.push_back(Sent { at_ns: now_ns, xid: xid::PING, operation: None });
    }

    pub fn push_close(&mut self, out: &mut Vec<u8>) {
        self.closing = true;
        let xid = self.generator.take_xid();
        put_bare_request(out, xid, OpCode::CloseSession.code());
        self.in_flight.push_back(Sent { at_ns: 0, xid, operation: None });
    }

    /// Sends `out`; keeps what the socket does not accept until it is writable.
    pub fn send(&mut self, out: &[u8], now_ns: u64) -> Result<()> {
        self.last_sent_ns = now_ns;
        if !self.unsent.is_empty() {
            self.unsent.extend_from_slice(out);
            return Ok(());
        }
        let sent = self.write(|connection| connection.stream.write(out))?;
        self.unsent.extend_from_slice(&out[sent..]);
        Ok(())
    }

    /// Sends the bytes that were kept.
    pub fn flush(&mut self) -> Result<()> {
        self.write(|connection| connection.stream.flush().map(|()| 0))?;
        if self.unsent.is_empty() {
            return Ok(());
        }
        let sent = self.write(|connection| connection.stream.write(&connection.unsent))?;
        self.unsent.drain(..sent);
        Ok(())
    }

    fn write(&mut self, call: impl FnOnce(&mut Self) -> std::io::Result<usize>) -> Result<usize> {
        match call(self) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(0),
            Err(_) if self.closing => Ok(0),
            Err(error) => Err(failure::broken(self.server, &error, "sending requests")),
            Ok(sent) => Ok(sent),
        }
    }

    /// Reads everything that has arrived. Records results only if `counters` is given.
    pub fn receive(
        &mut self,
        scratch: &mut [u8],
        now_ns: u64,
        mut counters: Option<&mut Counters>,
    ) -> Result<ReceiveOutcome> {
        let mut received = 0;
        loop {
            let count = match self.stream.read(scratch) {
                Ok(0) if self.closing => return Ok(ReceiveOutcome::Closed),
                Ok(0) => return Err(failure::closed(self.server, "under load")),
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(_) if self.closing => return Ok(ReceiveOutcome::Closed),
                Err(error) => return Err(failure::broken(self.server, &error, "under load")),
            };
            received += self.match_replies(&scratch[..count], now_ns, counters.as_deref_mut())?;
            if count < scratch.len() && !self.closing && !self.stream.is_tls() {
                break; // the socket is drained; more bytes raise a new event, but an end of stream may be pending
            }
        }
        Ok(ReceiveOutcome::Received(received))
    }

    /// Matches replies with their requests.
    fn match_replies(&mut self, bytes: &[u8], now_ns: u64, counters: Option<&mut Counters>) -> Result<usize> {
        let Self { server, replies, in_flight, .. } = self;
        let mut batch = Batch { counters, now_ns, run: None, received: 0 };
        replies.feed(bytes, |head| {
            if head.xid == xid::NOTIFICATION {
                return Ok(());
            }
            match in_flight.pop_front() {
                Some(sent) if sent.xid == head.xid => batch.add(sent, head),
                sent => return Err(failure::out_of_order(*server, sent.map(|sent| sent.xid), head.xid)),
            }
            Ok(())
        })?;
        batch.end_run();
        Ok(batch.received)
    }
}

/// Replies of one read: equal requests sent together have equal latencies and are recorded together.
struct Batch<'a> {
    counters: Option<&'a mut Counters>,
    now_ns: u64,
    run: Option<(Operation, u64, u64)>,
    received: usize,
}

impl Batch<'_> {
    fn add(&mut self, sent: Sent, head: ReplyHead) {
        let Some(operation) = sent.operation else { return };
        self.received += 1;
        let Some(counters) = self.counters.as_deref_mut() else { return };
        let err = if operation == Operation::Multi { head.multi_err() } else { head.err };
        if err != 0 {
            counters.record_error(err);
        }
        match &mut self.run {
            Some((same, at_ns, count)) if *same == operation && *at_ns == sent.at_ns => *count += 1,
            _ => {
                self.end_run();
                self.run = Some((operation, sent.at_ns, 1));
            }
        }
    }

    fn end_run(&mut self) {
        if let (Some(counters), Some((operation, at_ns, count))) = (self.counters.as_deref_mut(), self.run.take()) {
            counters.record(operation, self.now_ns.saturating_sub(at_ns), count);
        }
    }
}
