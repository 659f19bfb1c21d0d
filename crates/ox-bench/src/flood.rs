//! Abusive clients, alone or all together, and what they cost a server: its memory during the flood and after it, and
//! what a well-behaved client sees meanwhile.
//!
//! One thread drives all hostile connections. A connection sends a prepared run of bytes, once or again and again, and
//! reads its replies or does not. A connection that the server closes is opened again.

use crate::job::Server;
use crate::process;
use crate::progress::Progress;
use crate::session::{Session, Target};
use crate::stop_flag::Stop;
use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use hdrhistogram::Histogram;
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use ox_proto::OpCode;
use ox_proto::jute::Jute;
use ox_proto::multi::{MultiHeader, MultiOp};
use ox_proto::request::{PathKind, PathWatch, SetDataRequest, put_request};
use serde::Serialize;
use std::io::{ErrorKind, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Nodes of a megabyte that large requests set and get.
const LARGE_NODES: usize = 20;
/// A little below `jute.maxbuffer`, with room for the header.
const LARGE_BYTES: usize = 1_000_000;
/// Children of the node whose list is asked for: about a megabyte of names.
const LISTED_CHILDREN: usize = 20_000;
/// Bytes of the names of watched nodes, which every event carries.
const EVENT_PATH_BYTES: usize = 10_000;
/// Connections that are opened again in one round of the loop.
const REOPENED_AT_ONCE: usize = 64;
/// A pause between two requests of the well-behaved client.
const PROBE_PAUSE: Duration = Duration::from_millis(2);
const SAMPLE_PAUSE: Duration = Duration::from_millis(20);
const SCRATCH_BYTES: usize = 256 << 10;

/// A kind of abuse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Pipelined sets of a megabyte; replies are read
    Writes,
    /// Pipelined reads of megabytes; replies are not read
    SlowReaders,
    /// Nine tenths of a request of a megabyte, then nothing
    HalfFrames,
    /// Watches whose events are not read, and a client that fires them
    Watches,
    /// Transactions of a megabyte; replies are read
    Multis,
    /// Ten times as many sessions that do nothing
    Sessions,
}

/// What to do to a server.
#[derive(Clone, Debug)]
pub struct Flood {
    /// The server; its process must be known.
    pub server: Server,
    /// All at the same time.
    pub kinds: Vec<Kind>,
    /// Connections of each kind.
    pub connections: usize,
    /// How long the flood lasts.
    pub time: Duration,
    /// How long the server then rests before its memory is read again.
    pub rest: Duration,
}

/// What came of it.
#[derive(Clone, Debug, Serialize)]
pub struct FloodFigures {
    /// What was done.
    pub kinds: Vec<Kind>,
    /// Memory with the data and without the flood.
    pub before_bytes: u64,
    /// The most that was seen.
    pub peak_bytes: u64,
    /// Memory after the rest.
    pub after_bytes: u64,
    /// Bytes sent by hostile connections.
    pub sent_bytes: u64,
    /// Hostile connections that the server closed.
    pub closed: u64,
    /// Requests of the well-behaved client.
    pub probes: u64,
    /// Its connections that broke.
    pub probe_failures: u64,
    /// Its latencies.
    pub probe_p50_us: u64,
    /// The same.
    pub probe_p99_us: u64,
    /// The same.
    pub probe_max_us: u64,
}

/// Bytes that a connection sends.
#[derive(Clone, Debug)]
struct Script {
    bytes: Arc<Vec<u8>>,
    /// Bytes to send in all; more than `bytes` sends them again.
    total: u64,
    reads: bool,
}

#[derive(Debug)]
struct Hostile {
    stream: Option<TcpStream>,
    hello_left: usize,
    sent: u64,
    script: Script,
}

impl Flood {
    /// Makes the data, floods, rests.
    pub fn run(&self, stop: &Stop, progress: &Progress) -> Result<FloodFigures> {
        let pid = self.server.pid.context("the server's process is unknown\nhint: give it with --pid")?;
        ensure!(!self.kinds.is_empty(), "no kind of flood is given");
        prepare(self.server.target)?;
        std::thread::sleep(Duration::from_secs(1));
        let before_bytes = process::usage(pid)?.rss_bytes;
        let (ends, peak) = (AtomicBool::new(false), AtomicU64::new(before_bytes));
        let mut loader = Loader::new(self.server.target, self.scripts())?;
        let is_fired = self.kinds.contains(&Kind::Watches);
        let (latencies, failures) = std::thread::scope(|scope| {
            let sampler = scope.spawn(|| {
                while !ends.load(Ordering::Relaxed) {
                    peak.fetch_max(process::usage(pid).map_or(0, |usage| usage.rss_bytes), Ordering::Relaxed);
                    std::thread::sleep(SAMPLE_PAUSE);
                }
            });
            let prober = scope.spawn(|| probe(self.server.target, &ends));
            let firer = is_fired.then(|| scope.spawn(|| fire(self.server.target, &ends)));
            let began = Instant::now();
            let mut result = Ok(());
            while result.is_ok() && began.elapsed() < self.time && !stop.is_set() {
                result = loader.round();
                progress.show(|| format!("{} MB sent, {} closed", loader.sent_bytes >> 20, loader.closed));
            }
            loader.connections.clear();
            ends.store(true, Ordering::Relaxed);
            let _ = sampler.join();
            if let Some(firer) = firer {
                let _ = firer.join();
            }
            let probed = prober.join();
            result.map(|()| probed.unwrap_or_else(|_| (empty(), 0)))
        })?;
        let began = Instant::now();
        while began.elapsed() < self.rest && !stop.is_set() {
            std::thread::sleep(Duration::from_millis(100));
            progress.show(|| format!("rests for {:?}", began.elapsed()));
        }
        progress.clear();
        Ok(FloodFigures {
            kinds: self.kinds.clone(),
            before_bytes,
            peak_bytes: peak.into_inner(),
            after_bytes: process::usage(pid)?.rss_bytes,
            sent_bytes: loader.sent_bytes,
            closed: loader.closed,
            probes: latencies.len(),
            probe_failures: failures,
            probe_p50_us: latencies.value_at_quantile(0.5),
            probe_p99_us: latencies.value_at_quantile(0.99),
            probe_max_us: latencies.max(),
        })
    }

    fn scripts(&self) -> Vec<Script> {
        let mut scripts = Vec::new();
        for kind in &self.kinds {
            let count = if *kind == Kind::Sessions { 10 * self.connections } else { self.connections };
            let different: Vec<_> = (0..LARGE_NODES).map(|number| script(*kind, number)).collect();
            scripts.extend(different.iter().cycle().take(count).cloned().enumerate());
        }
        // Connections are opened in this order: all kinds begin together.
        scripts.sort_by_key(|(number, _)| *number);
        scripts.into_iter().map(|(_, script)| script).collect()
    }
}

fn large_path(number: usize) -> String {
    format!("/oxflood/large-{number}")
}

fn script(kind: Kind, number: usize) -> Script {
    let mut bytes = Vec::new();
    let path = Some(large_path(number).into());
    match kind {
        Kind::Writes => {
            let data = vec![b'x'; LARGE_BYTES];
            let set = SetDataRequest { path, data: Some(&data), version: -1 };
            put_request(&mut bytes, 1, OpCode::SetData.code(), &set);
            Script { bytes: Arc::new(bytes), total: u64::MAX, reads: true }
        }
        Kind::SlowReaders => {
            put_request(&mut bytes, 1, OpCode::GetData.code(), &PathWatch { path, watch: false });
            let path = Some("/oxflood/list".into());
            put_request(&mut bytes, 2, OpCode::GetChildren.code(), &PathWatch { path, watch: false });
            Script { bytes: Arc::new(bytes), total: u64::MAX, reads: false }
        }
        Kind::HalfFrames => {
            let data = vec![b'x'; LARGE_BYTES];
            let set = SetDataRequest { path, data: Some(&data), version: -1 };
            put_request(&mut bytes, 1, OpCode::SetData.code(), &set);
            let total = bytes.len() as u64 / 10 * 9;
            Script { bytes: Arc::new(bytes), total, reads: true }
        }
        Kind::Watches => {
            let watch = PathKind { path: Some("/oxflood/watched".into()), kind: 1 };
            put_request(&mut bytes, 1, OpCode::AddWatch.code(), &watch);
            let total = bytes.len() as u64;
            Script { bytes: Arc::new(bytes), total, reads: false }
        }
        Kind::Multis => {
            let (data, mut body) = (vec![b'x'; LARGE_BYTES / 1000 - 60], Vec::new());
            for _ in 0..1000 {
                let path = Some("/oxflood/small".into());
                MultiOp::SetData(SetDataRequest { path, data: Some(&data), version: -1 }).put(&mut body);
            }
            MultiHeader::END.put(&mut body);
            let length = u32::try_from(8 + body.len()).expect("about a megabyte");
            bytes.extend(length.to_be_bytes());
            bytes.extend(1_i32.to_be_bytes());
            bytes.extend(OpCode::Multi.code().to_be_bytes());
            bytes.extend(body);
            Script { bytes: Arc::new(bytes), total: u64::MAX, reads: true }
        }
        Kind::Sessions => Script { bytes: Arc::new(vec![0]), total: 0, reads: true },
    }
}

/// Twenty megabytes of nodes, and a long list.
fn prepare(target: Target) -> Result<()> {
    let mut session = Session::open(target)?;
    for path in ["/oxflood", "/oxflood/list", "/oxflood/watched", "/oxflood/small"] {
        session.create(path, b"small")?;
    }
    for number in 0..LARGE_NODES {
        session.create(&large_path(number), &vec![b'x'; LARGE_BYTES])?;
    }
    let name = |number: usize| format!("/oxflood/list/{number:040}");
    session.bulk(LISTED_CHILDREN, |at, xid, out| Session::put_create(&name(at), b"", xid, out), |_, _| Ok(()))?;
    session.close()
}

/// Creates and deletes watched nodes.
fn fire(target: Target, ends: &AtomicBool) {
    let path = format!("/oxflood/watched/{}", "w".repeat(EVENT_PATH_BYTES));
    while !ends.load(Ordering::Relaxed) {
        let Ok(mut session) = Session::open(target) else { continue };
        let put = |at: usize, xid, out: &mut Vec<u8>| match at % 2 {
            0 => Session::put_create(&path, b"", xid, out),
            _ => Session::put_delete(&path, xid, out),
        };
        while !ends.load(Ordering::Relaxed) && session.bulk(100, put, |_, _| Ok(())).is_ok() {}
    }
}

fn empty() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 3_600_000_000, 3).expect("an hour in microseconds")
}

/// A client that reads and writes a small node, one request after the other.
fn probe(target: Target, ends: &AtomicBool) -> (Histogram<u64>, u64) {
    let (mut latencies, mut failures) = (empty(), 0);
    while !ends.load(Ordering::Relaxed) {
        let began = Instant::now();
        let Ok(mut session) = Session::open(target) else {
            failures += 1;
            continue;
        };
        let mut note = |began: Instant| {
            latencies.saturating_record(u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX));
        };
        note(began);
        let mut turns = 0_u64;
        let ended = loop {
            if ends.load(Ordering::Relaxed) {
                break Ok(());
            }
            let began = Instant::now();
            let done = match turns % 2 {
                0 => session.data("/oxflood/small").map(|_| ()),
                _ => session.set("/oxflood/small", b"small").map(|_| ()),
            };
            note(began);
            if done.is_err() {
                break done;
            }
            turns += 1;
            std::thread::sleep(PROBE_PAUSE);
        };
        failures += u64::from(ended.is_err());
        let _ = session.close();
    }
    (latencies, failures)
}

/// All hostile connections.
struct Loader {
    target: Target,
    hello: Vec<u8>,
    poll: Poll,
    events: Events,
    connections: Vec<Hostile>,
    closed_slots: Vec<usize>,
    scratch: Vec<u8>,
    sent_bytes: u64,
    closed: u64,
}

impl Loader {
    fn new(target: Target, scripts: Vec<Script>) -> Result<Self> {
        let connections: Vec<_> =
            scripts.into_iter().map(|script| Hostile { stream: None, hello_left: 0, sent: 0, script }).collect();
        Ok(Self {
            hello: target.connect_frame(),
            target,
            poll: Poll::new()?,
            events: Events::with_capacity(1024),
            closed_slots: (0..connections.len()).rev().collect(),
            connections,
            scratch: vec![0; SCRATCH_BYTES],
            sent_bytes: 0,
            closed: 0,
        })
    }

    fn round(&mut self) -> Result<()> {
        for _ in 0..REOPENED_AT_ONCE.min(self.closed_slots.len()) {
            let slot = self.closed_slots.pop().expect("counted before");
            let Ok(mut stream) = TcpStream::connect(self.target.address) else {
                self.closed_slots.insert(0, slot);
                continue;
            };
            self.poll.registry().register(&mut stream, Token(slot), Interest::READABLE | Interest::WRITABLE)?;
            let hostile = &mut self.connections[slot];
            (hostile.stream, hostile.hello_left, hostile.sent) = (Some(stream), self.hello.len(), 0);
        }
        let patience = if self.closed_slots.is_empty() { 100 } else { 1 };
        match self.poll.poll(&mut self.events, Some(Duration::from_millis(patience))) {
            Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(()),
            polled => polled?,
        }
        for event in &self.events {
            let Token(slot) = event.token();
            let hostile = &mut self.connections[slot];
            let is_over = event.is_read_closed() || event.is_error();
            let lives = !is_over && hostile.send(&self.hello, &mut self.sent_bytes) && hostile.read(&mut self.scratch);
            if !lives && hostile.stream.take().is_some() {
                self.closed += 1;
                self.closed_slots.insert(0, slot);
            }
        }
        Ok(())
    }
}

impl Hostile {
    /// Sends what the socket takes; false when it is closed.
    fn send(&mut self, hello: &[u8], sent_bytes: &mut u64) -> bool {
        let Some(stream) = &mut self.stream else { return true };
        while 0 < self.hello_left || self.sent < self.script.total {
            let length = self.script.bytes.len();
            let at = usize::try_from(self.sent % length as u64).expect("below a length");
            let left = usize::try_from(self.script.total - self.sent).unwrap_or(usize::MAX);
            let bytes = match self.hello_left {
                0 => &self.script.bytes[at..length.min(at.saturating_add(left))],
                left => &hello[hello.len() - left..],
            };
            match stream.write(bytes) {
                Ok(count) if 0 < self.hello_left => self.hello_left -= count,
                Ok(count) => {
                    self.sent += count as u64;
                    *sent_bytes += count as u64;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return true,
                Err(error) if error.kind() == ErrorKind::NotConnected => return true,
                Err(_) => return false,
            }
        }
        true
    }

    fn read(&mut self, scratch: &mut [u8]) -> bool {
        let Some(stream) = self.stream.as_mut().filter(|_| self.script.reads) else { return true };
        loop {
            match stream.read(scratch) {
                Ok(0) => return false,
                Ok(_) => (),
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::NotConnected) => return true,
                Err(_) => return false,
            }
        }
    }
}
