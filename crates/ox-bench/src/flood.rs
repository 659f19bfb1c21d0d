//! Abusive clients, one kind or several: measures the server's memory during and after the flood, and the latency of a
//! well-behaved client.
//!
//! One thread drives all hostile connections. A connection sends prepared bytes, once or repeatedly, and reads its
//! replies or does not. A connection that the server closes is reopened.

use crate::job::MeasuredServer;
use crate::process;
use crate::progress::ProgressLine;
use crate::session::{BenchTarget, Session};
use crate::stop_flag::StopFlag;
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
/// A little below `jute.maxbuffer`, to leave space for the header.
const LARGE_BYTES: usize = 1_000_000;
/// Children of the node that is listed: about a megabyte of names.
const LISTED_CHILDREN: usize = 20_000;
/// Bytes of the names of watched nodes, which every event carries.
const EVENT_PATH_BYTES: usize = 10_000;
/// Connections reopened per iteration of the loop.
const REOPENED_AT_ONCE: usize = 64;
/// Pause between two requests of the well-behaved client.
const PROBE_PAUSE: Duration = Duration::from_millis(2);
const SAMPLE_PAUSE: Duration = Duration::from_millis(20);
const SCRATCH_BYTES: usize = 256 << 10;

/// A kind of abuse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FloodKind {
    /// Pipelined sets of a megabyte; replies are read
    Writes,
    /// Pipelined reads of megabytes; replies are not read
    SlowReaders,
    /// Nine tenths of a request of a megabyte, then nothing
    HalfFrames,
    /// Watches whose events are not read, and a client that triggers them
    Watches,
    /// Multis of a megabyte; replies are read
    Multis,
    /// Ten times as many idle sessions
    Sessions,
}

#[derive(Clone, Debug)]
pub struct Flood {
    /// The process id must be known.
    pub server: MeasuredServer,
    /// All at the same time.
    pub kinds: Vec<FloodKind>,
    /// Connections of each kind.
    pub connections: usize,
    pub time: Duration,
    /// Time between the flood and the last reading of the memory.
    pub rest: Duration,
}

/// The results of a flood.
#[derive(Clone, Debug, Serialize)]
pub struct FloodResults {
    pub kinds: Vec<FloodKind>,
    /// Memory with the data, before the flood.
    pub before_bytes: u64,
    /// Maximum memory during the flood.
    pub peak_bytes: u64,
    /// Memory after the rest.
    pub after_bytes: u64,
    /// Bytes sent by hostile connections.
    pub sent_bytes: u64,
    /// Hostile connections that the server closed.
    pub closed: u64,
    /// Requests of the well-behaved client.
    pub probes: u64,
    /// Failed connections of the well-behaved client.
    pub probe_failures: u64,
    pub probe_p50_us: u64,
    pub probe_p99_us: u64,
    pub probe_max_us: u64,
}

/// Bytes that a connection sends.
#[derive(Clone, Debug)]
struct Script {
    bytes: Arc<Vec<u8>>,
    /// Total number of bytes to send; `bytes` is repeated up to it.
    total: u64,
    reads: bool,
}

#[derive(Debug)]
struct HostileConnection {
    stream: Option<TcpStream>,
    hello_left: usize,
    sent: u64,
    script: Script,
}

impl Flood {
    /// Creates the data, floods the server, and waits.
    pub fn run(&self, stop: &StopFlag, progress: &ProgressLine) -> Result<FloodResults> {
        let pid = self.server.pid.context("the server's process is unknown\nhint: give it with --pid")?;
        ensure!(!self.kinds.is_empty(), "no kind of flood is given");
        prepare(self.server.target)?;
        std::thread::sleep(Duration::from_secs(1));
        let before_bytes = process::usage(pid)?.rss_bytes;
        let (ends, peak) = (AtomicBool::new(false), AtomicU64::new(before_bytes));
        let mut loader = Loader::new(self.server.target, self.scripts())?;
        let is_fired = self.kinds.contains(&FloodKind::Watches);
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
            progress.show(|| format!("waiting for {:?}", began.elapsed()));
        }
        progress.clear();
        Ok(FloodResults {
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
            let count = if *kind == FloodKind::Sessions { 10 * self.connections } else { self.connections };
            let different: Vec<_> = (0..LARGE_NODES).map(|number| script(*kind, number)).collect();
            scripts.extend(different.iter().cycle().take(count).cloned().enumerate());
        }
        // Connections are opened in this order: all kinds start together.
        scripts.sort_by_key(|(number, _)| *number);
        scripts.into_iter().map(|(_, script)| script).collect()
    }
}

fn large_path(number: usize) -> String {
    format!("/oxflood/large-{number}")
}

fn script(kind: FloodKind, number: usize) -> Script {
    let mut bytes = Vec::new();
    let path = Some(large_path(number).into());
    match kind {
        FloodKind::Writes => {
            let data = vec![b'x'; LARGE_BYTES];
            let set = SetDataRequest { path, data: Some(&data), version: -1 };
            put_request(&mut bytes, 1, OpCode::SetData.code(), &set);
            Script { bytes: Arc::new(bytes), total: u64::MAX, reads: true }
        }
        FloodKind::SlowReaders => {
            put_request(&mut bytes, 1, OpCode::GetData.code(), &PathWatch { path, watch: false });
            let path = Some("/oxflood/list".into());
            put_request(&mut bytes, 2, OpCode::GetChildren.code(), &PathWatch { path, watch: false });
            Script { bytes: Arc::new(bytes), total: u64::MAX, reads: false }
        }
        FloodKind::HalfFrames => {
            let data = vec![b'x'; LARGE_BYTES];
            let set = SetDataRequest { path, data: Some(&data), version: -1 };
            put_request(&mut bytes, 1, OpCode::SetData.code(), &set);
            let total = bytes.len() as u64 / 10 * 9;
            Script { bytes: Arc::new(bytes), total, reads: true }
        }
        FloodKind::Watches => {
            let watch = PathKind { path: Some("/oxflood/watched".into()), kind: 1 };
            put_request(&mut bytes, 1, OpCode::AddWatch.code(), &watch);
            let total = bytes.len() as u64;
            Script { bytes: Arc::new(bytes), total, reads: false }
        }
        FloodKind::Multis => {
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
        FloodKind::Sessions => Script { bytes: Arc::new(vec![0]), total: 0, reads: true },
    }
}

/// Creates twenty megabytes of nodes, and a node with a long list of children.
fn prepare(target: BenchTarget) -> Result<()> {
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
fn fire(target: BenchTarget, ends: &AtomicBool) {
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

/// A client that reads and writes a small node, one request at a time.
fn probe(target: BenchTarget, ends: &AtomicBool) -> (Histogram<u64>, u64) {
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

struct Loader {
    target: BenchTarget,
    hello: Vec<u8>,
    poll: Poll,
    events: Events,
    connections: Vec<HostileConnection>,
    closed_slots: Vec<usize>,
    scratch: Vec<u8>,
    sent_bytes: u64,
    closed: u64,
}

impl Loader {
    fn new(target: BenchTarget, scripts: Vec<Script>) -> Result<Self> {
        let connections: Vec<_> = scripts
            .into_iter()
            .map(|script| HostileConnection { stream: None, hello_left: 0, sent: 0, script })
            .collect();
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

impl HostileConnection {
    /// Sends what the socket accepts; false if it is closed.
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
