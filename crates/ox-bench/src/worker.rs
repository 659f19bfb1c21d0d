//! The loop of one load thread.
//!
//! A connection is refilled when its pipeline is half empty, so that requests travel in batches and the server is never
//! idle. With a rate, requests have due times instead, and a latency counts from the due time: a server that stalls
//! does not slow down its own measurement.

use crate::connection::{LoadConnection, ReceiveOutcome};
use crate::counters::Counters;
use crate::failure;
use crate::limits::{READ_BYTES, REPLY_TIMEOUT};
use crate::request_templates::RequestTemplates;
use anyhow::Result;
use mio::{Events, Interest, Poll, Token};
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Phase {
    /// Load without recording results.
    WarmUp,
    /// Load that is recorded.
    Measure,
    /// No new requests are sent.
    Stop,
}

/// State that the load threads share with the thread that controls them.
#[derive(Debug)]
pub struct RunState {
    phase: AtomicU8,
    /// Replies received since the start.
    pub received: AtomicU64,
}

impl Default for RunState {
    fn default() -> Self {
        Self { phase: AtomicU8::new(Phase::WarmUp as u8), received: AtomicU64::new(0) }
    }
}

impl RunState {
    pub fn enter(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::Release);
    }

    pub fn phase(&self) -> Phase {
        match self.phase.load(Ordering::Acquire) {
            0 => Phase::WarmUp,
            1 => Phase::Measure,
            _ => Phase::Stop,
        }
    }
}

/// How requests are timed.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Requests in flight per connection.
    pub depth: usize,
    /// Requests per second of this thread; `None` means as many as possible.
    pub rate: Option<f64>,
    /// An idle connection sends a ping after this time.
    pub keep_alive: Duration,
}

/// One thread's connections and counters.
#[derive(Debug)]
pub struct LoadWorker<'a> {
    server: SocketAddr,
    state: &'a RunState,
    templates: &'a RequestTemplates,
    pace: Pace,
    poll: Poll,
    connections: Vec<LoadConnection>,
    open: usize,
    start: Instant,
    scratch: Vec<u8>,
    out: Vec<u8>,
    counters: Counters,
    phase: Phase,
    /// Requests issued at a rate, and the connection that sends next.
    issued: u64,
    poll_once: usize,
    pinged_ns: u64,
}

impl<'a> LoadWorker<'a> {
    /// A worker that owns `connections`.
    pub fn new(
        server: SocketAddr,
        state: &'a RunState,
        templates: &'a RequestTemplates,
        pace: Pace,
        mut connections: Vec<LoadConnection>,
    ) -> Result<Self> {
        let poll = Poll::new()?;
        for (index, connection) in connections.iter_mut().enumerate() {
            poll.registry().register(connection.stream(), Token(index), Interest::READABLE | Interest::WRITABLE)?;
        }
        Ok(Self {
            server,
            state,
            templates,
            pace,
            poll,
            open: connections.len(),
            connections,
            start: Instant::now(),
            scratch: vec![0; READ_BYTES],
            out: Vec::new(),
            counters: Counters::default(),
            phase: Phase::WarmUp,
            issued: 0,
            poll_once: 0,
            pinged_ns: 0,
        })
    }

    /// Loads the server until the phase is `StopFlag`, then waits for the last replies and closes the sessions.
    pub fn run(mut self) -> Result<Counters> {
        if self.pace.rate.is_none() {
            (0..self.connections.len()).try_for_each(|index| self.refill(index, self.now_ns()))?;
        }
        let mut events = Events::with_capacity(1024);
        let wait = Duration::from_millis(if self.pace.rate.is_some() { 1 } else { 50 });
        while self.phase != Phase::Stop {
            self.poll_once(&mut events, wait)?;
            let phase = self.state.phase();
            if phase != self.phase {
                self.phase = phase;
            }
            self.issue_due()?;
            self.keep_alive()?;
        }
        self.drain(&mut events, |worker| worker.connections.iter().all(|connection| connection.in_flight() == 0))?;
        for index in 0..self.connections.len() {
            self.out.clear();
            self.connections[index].push_close(&mut self.out);
            self.connections[index].send(&self.out, 0)?;
        }
        self.drain(&mut events, |worker| worker.open == 0)?;
        Ok(self.counters)
    }

    fn drain(&mut self, events: &mut Events, done: impl Fn(&Self) -> bool) -> Result<()> {
        let deadline = Instant::now() + REPLY_TIMEOUT;
        while !done(self) {
            self.poll_once(events, Duration::from_millis(50))?;
            if deadline < Instant::now() {
                return Err(failure::silent(self.server, REPLY_TIMEOUT.as_secs()));
            }
        }
        Ok(())
    }

    /// Waits for sockets and serves them.
    fn poll_once(&mut self, events: &mut Events, wait: Duration) -> Result<()> {
        match self.poll.poll(events, Some(wait)) {
            Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(()),
            result => result?,
        }
        let mut received = 0;
        for event in &*events {
            let index = event.token().0;
            let connection = &mut self.connections[index];
            connection.flush()?;
            let now_ns = elapsed_ns(self.start);
            let counters = (self.phase == Phase::Measure).then_some(&mut self.counters);
            match connection.receive(&mut self.scratch, now_ns, counters)? {
                ReceiveOutcome::Closed => {
                    self.poll.registry().deregister(connection.stream())?;
                    self.open -= 1;
                }
                ReceiveOutcome::Received(0) => (),
                ReceiveOutcome::Received(count) => {
                    received += count as u64;
                    if self.phase != Phase::Stop && self.pace.rate.is_none() {
                        self.refill(index, now_ns)?;
                    }
                }
            }
        }
        self.state.received.fetch_add(received, Ordering::Relaxed);
        Ok(())
    }

    fn refill(&mut self, index: usize, now_ns: u64) -> Result<()> {
        let connection = &mut self.connections[index];
        let in_flight = connection.in_flight();
        if self.pace.depth / 2 < in_flight {
            return Ok(());
        }
        self.out.clear();
        connection.push_requests(self.templates, self.pace.depth - in_flight, now_ns, &mut self.out);
        connection.send(&self.out, now_ns)
    }

    /// Sends the requests that are due, one per connection in turn, as far as the pipelines have capacity.
    fn issue_due(&mut self) -> Result<()> {
        let Some(rate) = self.pace.rate else { return Ok(()) };
        let now_ns = self.now_ns();
        let mut full = 0;
        while full < self.connections.len() {
            let due_ns = as_ns(self.issued as f64 / rate);
            if now_ns < due_ns {
                break;
            }
            self.poll_once = (self.poll_once + 1) % self.connections.len();
            let connection = &mut self.connections[self.poll_once];
            if self.pace.depth <= connection.in_flight() {
                full += 1;
                continue;
            }
            full = 0;
            self.issued += 1;
            self.out.clear();
            connection.push_requests(self.templates, 1, due_ns, &mut self.out);
            connection.send(&self.out, now_ns)?;
        }
        Ok(())
    }

    fn keep_alive(&mut self) -> Result<()> {
        let (now_ns, every_ns) = (self.now_ns(), as_ns(self.pace.keep_alive.as_secs_f64()));
        if now_ns < self.pinged_ns + every_ns / 4 {
            return Ok(());
        }
        self.pinged_ns = now_ns;
        for connection in &mut self.connections {
            if connection.in_flight() == 0 && connection.last_sent_ns() + every_ns <= now_ns {
                self.out.clear();
                connection.keep_alive(now_ns, &mut self.out);
                connection.send(&self.out, now_ns)?;
            }
        }
        Ok(())
    }

    fn now_ns(&self) -> u64 {
        elapsed_ns(self.start)
    }
}

fn elapsed_ns(start: Instant) -> u64 {
    u64::try_from(start.elapsed().as_nanos()).expect("a run is shorter than 500 years")
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "times are positive and far from the limit"
)]
fn as_ns(seconds: f64) -> u64 {
    (seconds * 1e9) as u64
}
