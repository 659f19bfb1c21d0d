//! The loop of one load thread.
//!
//! A connection is refilled when its pipeline is half empty, so that requests travel in batches and the server is never
//! without work. With a rate, requests have due times instead, and a latency counts from the due time: a server that
//! stalls does not slow its own measurement down.

use crate::connection::{Connection, Progress};
use crate::counters::Tally;
use crate::failure;
use crate::limits::{ANSWER_TIMEOUT, READ_BYTES};
use crate::request_templates::Plan;
use anyhow::Result;
use mio::{Events, Interest, Poll, Token};
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Where a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Phase {
    /// Load without counting.
    WarmUp,
    /// Load that counts.
    Measure,
    /// No new requests.
    Stop,
}

/// What the load threads and the thread that watches them share.
#[derive(Debug)]
pub struct Board {
    phase: AtomicU8,
    /// Requests answered since the start.
    pub answered: AtomicU64,
}

impl Default for Board {
    fn default() -> Self {
        Self { phase: AtomicU8::new(Phase::WarmUp as u8), answered: AtomicU64::new(0) }
    }
}

impl Board {
    /// Moves on to `phase`.
    pub fn enter(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::Release);
    }

    /// The current phase.
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
    /// Requests under way per connection.
    pub depth: usize,
    /// Requests per second of this thread, or as many as can be.
    pub rate: Option<f64>,
    /// A connection that has sent nothing for so long sends a ping.
    pub keep_alive: Duration,
}

/// One thread's connections and counts.
#[derive(Debug)]
pub struct Worker<'a> {
    server: SocketAddr,
    board: &'a Board,
    plan: &'a Plan,
    pace: Pace,
    poll: Poll,
    connections: Vec<Connection>,
    open: usize,
    start: Instant,
    scratch: Vec<u8>,
    out: Vec<u8>,
    tally: Tally,
    phase: Phase,
    /// Requests issued at a rate, and the connection whose turn is next.
    issued: u64,
    turn: usize,
    pinged_ns: u64,
}

impl<'a> Worker<'a> {
    /// A worker that owns `connections`.
    pub fn new(
        server: SocketAddr,
        board: &'a Board,
        plan: &'a Plan,
        pace: Pace,
        mut connections: Vec<Connection>,
    ) -> Result<Self> {
        let poll = Poll::new()?;
        for (index, connection) in connections.iter_mut().enumerate() {
            poll.registry().register(connection.stream(), Token(index), Interest::READABLE | Interest::WRITABLE)?;
        }
        Ok(Self {
            server,
            board,
            plan,
            pace,
            poll,
            open: connections.len(),
            connections,
            start: Instant::now(),
            scratch: vec![0; READ_BYTES],
            out: Vec::new(),
            tally: Tally::default(),
            phase: Phase::WarmUp,
            issued: 0,
            turn: 0,
            pinged_ns: 0,
        })
    }

    /// Loads the server until the board says stop, then waits for the last replies and closes the sessions.
    pub fn run(mut self) -> Result<Tally> {
        if self.pace.rate.is_none() {
            (0..self.connections.len()).try_for_each(|index| self.refill(index, self.now_ns()))?;
        }
        let mut events = Events::with_capacity(1024);
        let wait = Duration::from_millis(if self.pace.rate.is_some() { 1 } else { 50 });
        while self.phase != Phase::Stop {
            self.turn(&mut events, wait)?;
            let phase = self.board.phase();
            if phase != self.phase {
                self.phase = phase;
            }
            self.issue_due()?;
            self.keep_alive()?;
        }
        self.drain(&mut events, |worker| worker.connections.iter().all(|connection| connection.in_flight() == 0))?;
        for index in 0..self.connections.len() {
            self.out.clear();
            self.connections[index].ask_to_close(&mut self.out);
            self.connections[index].send(&self.out, 0)?;
        }
        self.drain(&mut events, |worker| worker.open == 0)?;
        Ok(self.tally)
    }

    fn drain(&mut self, events: &mut Events, done: impl Fn(&Self) -> bool) -> Result<()> {
        let deadline = Instant::now() + ANSWER_TIMEOUT;
        while !done(self) {
            self.turn(events, Duration::from_millis(50))?;
            if deadline < Instant::now() {
                return Err(failure::silent(self.server, ANSWER_TIMEOUT.as_secs()));
            }
        }
        Ok(())
    }

    /// Waits for sockets and serves them.
    fn turn(&mut self, events: &mut Events, wait: Duration) -> Result<()> {
        match self.poll.poll(events, Some(wait)) {
            Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(()),
            result => result?,
        }
        let mut answered = 0;
        for event in &*events {
            let index = event.token().0;
            let connection = &mut self.connections[index];
            connection.flush()?;
            let now_ns = elapsed_ns(self.start);
            let tally = (self.phase == Phase::Measure).then_some(&mut self.tally);
            match connection.receive(&mut self.scratch, now_ns, tally)? {
                Progress::Closed => {
                    self.poll.registry().deregister(connection.stream())?;
                    self.open -= 1;
                }
                Progress::Answered(0) => (),
                Progress::Answered(count) => {
                    answered += count as u64;
                    if self.phase != Phase::Stop && self.pace.rate.is_none() {
                        self.refill(index, now_ns)?;
                    }
                }
            }
        }
        self.board.answered.fetch_add(answered, Ordering::Relaxed);
        Ok(())
    }

    fn refill(&mut self, index: usize, now_ns: u64) -> Result<()> {
        let connection = &mut self.connections[index];
        let in_flight = connection.in_flight();
        if self.pace.depth / 2 < in_flight {
            return Ok(());
        }
        self.out.clear();
        connection.ask(self.plan, self.pace.depth - in_flight, now_ns, &mut self.out);
        connection.send(&self.out, now_ns)
    }

    /// Sends the requests whose time has come, one per connection in turn, as far as the pipelines have room.
    fn issue_due(&mut self) -> Result<()> {
        let Some(rate) = self.pace.rate else { return Ok(()) };
        let now_ns = self.now_ns();
        let mut full = 0;
        while full < self.connections.len() {
            let due_ns = as_ns(self.issued as f64 / rate);
            if now_ns < due_ns {
                break;
            }
            self.turn = (self.turn + 1) % self.connections.len();
            let connection = &mut self.connections[self.turn];
            if self.pace.depth <= connection.in_flight() {
                full += 1;
                continue;
            }
            full = 0;
            self.issued += 1;
            self.out.clear();
            connection.ask(self.plan, 1, due_ns, &mut self.out);
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
