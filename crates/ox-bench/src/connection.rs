//! One connection of a load: what has been asked on it, and what of the answers has arrived.

use crate::counters::Tally;
use crate::failure;
use crate::operation::Operation;
use crate::replies::{Replies, ReplyHead};
use crate::request_templates::{Author, Plan};
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
    /// `None`: a keep-alive or the end of the session, which are not part of the load.
    operation: Option<Operation>,
}

/// What a batch of bytes did to a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// So many requests of the load were answered.
    Answered(usize),
    /// The server has closed the connection, as it was asked to.
    Closed,
}

/// A non-blocking connection with its pipeline.
#[derive(Debug)]
pub struct Connection {
    server: SocketAddr,
    stream: TcpStream,
    replies: Replies,
    author: Author,
    in_flight: VecDeque<Sent>,
    /// What the socket did not take.
    unsent: Vec<u8>,
    last_sent_ns: u64,
    closing: bool,
}

impl Connection {
    /// Takes over an open session.
    pub fn new(session: Session, author: Author) -> Result<Self> {
        let server = session.address();
        let stream = session.into_stream();
        stream.set_nonblocking(true)?;
        Ok(Self {
            server,
            stream: TcpStream::from_std(stream),
            replies: Replies::default(),
            author,
            in_flight: VecDeque::new(),
            unsent: Vec::new(),
            last_sent_ns: 0,
            closing: false,
        })
    }

    /// The socket, to be registered.
    pub fn stream(&mut self) -> &mut TcpStream {
        &mut self.stream
    }

    /// Requests without a reply.
    pub fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// When the last request was sent.
    pub fn last_sent_ns(&self) -> u64 {
        self.last_sent_ns
    }

    /// Appends `count` requests of `plan` to `out`, sent at `now_ns`.
    pub fn ask(&mut self, plan: &Plan, count: usize, now_ns: u64, out: &mut Vec<u8>) {
        for _ in 0..count {
            let (operation, xid) = plan.push(&mut self.author, out);
            self.in_flight.push_back(Sent { at_ns: now_ns, xid, operation: Some(operation) });
        }
    }

    /// Appends a ping that is not part of the load.
    pub fn keep_alive(&mut self, now_ns: u64, out: &mut Vec<u8>) {
        put_bare_request(out, xid::PING, OpCode::Ping.code());
        self.in_flight.push_back(Sent { at_ns: now_ns, xid: xid::PING, operation: None });
    }

    /// Appends the end of the session.
    pub fn ask_to_close(&mut self, out: &mut Vec<u8>) {
        self.closing = true;
        let xid = self.author.take_xid();
        put_bare_request(out, xid, OpCode::CloseSession.code());
        self.in_flight.push_back(Sent { at_ns: 0, xid, operation: None });
    }

    /// Sends `out`; what the socket does not take is kept until it is writable.
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

    /// Sends what was kept.
    pub fn flush(&mut self) -> Result<()> {
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

    /// Reads all that has arrived. `tally` is there when results count.
    pub fn receive(&mut self, scratch: &mut [u8], now_ns: u64, mut tally: Option<&mut Tally>) -> Result<Progress> {
        let mut answered = 0;
        loop {
            let count = match self.stream.read(scratch) {
                Ok(0) if self.closing => return Ok(Progress::Closed),
                Ok(0) => return Err(failure::closed(self.server, "under load")),
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(_) if self.closing => return Ok(Progress::Closed),
                Err(error) => return Err(failure::broken(self.server, &error, "under load")),
            };
            answered += self.settle(&scratch[..count], now_ns, tally.as_deref_mut())?;
            if count < scratch.len() && !self.closing {
                break; // the socket is empty; more bytes are a new event, but an end may have come with these
            }
        }
        Ok(Progress::Answered(answered))
    }

    /// Matches replies with the requests they answer.
    fn settle(&mut self, bytes: &[u8], now_ns: u64, tally: Option<&mut Tally>) -> Result<usize> {
        let Self { server, replies, in_flight, .. } = self;
        let mut batch = Batch { tally, now_ns, run: None, answered: 0 };
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
        Ok(batch.answered)
    }
}

/// Replies of one read: equal requests sent together have equal latencies and are recorded together.
struct Batch<'a> {
    tally: Option<&'a mut Tally>,
    now_ns: u64,
    run: Option<(Operation, u64, u64)>,
    answered: usize,
}

impl Batch<'_> {
    fn add(&mut self, sent: Sent, head: ReplyHead) {
        let Some(operation) = sent.operation else { return };
        self.answered += 1;
        let Some(tally) = self.tally.as_deref_mut() else { return };
        let err = if operation == Operation::Multi { head.multi_err() } else { head.err };
        if err != 0 {
            tally.record_error(err);
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
        if let (Some(tally), Some((operation, at_ns, count))) = (self.tally.as_deref_mut(), self.run.take()) {
            tally.record(operation, self.now_ns.saturating_sub(at_ns), count);
        }
    }
}
