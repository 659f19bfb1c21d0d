//! Notifications: every connection watches one node, a writer changes it, and the run waits for all notifications.

use crate::counters;
use crate::failure;
use crate::limits::{READ_BYTES, REPLY_TIMEOUT};
use crate::load::{RunTiming, WindowStart};
use crate::load_stream::LoadStream;
use crate::progress::ProgressLine;
use crate::replies::Replies;
use crate::results::RunResults;
use crate::session::{BenchTarget, Session};
use crate::stop_flag::StopFlag;
use crate::tree_layout::TreeLayout;
use anyhow::Result;
use hdrhistogram::Histogram;
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use ox_proto::OpCode;
use ox_proto::request::{PathKind, PathWatch, SetDataRequest, put_bare_request, put_request, xid};
use std::io::{ErrorKind, Read, Write};
use std::time::{Duration, Instant};

/// The kind of watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum WatcherKind {
    /// getData with a watch, repeated after each notification, as most clients do.
    Once,
    /// A persistent watch of addWatch.
    Persistent,
}

/// Watchers of the root of `layout`.
#[derive(Clone, Debug)]
pub struct Notify {
    pub target: BenchTarget,
    /// The server's process, to measure its cost.
    pub pid: Option<u32>,
    /// The watched node and the size of its data.
    pub layout: TreeLayout,
    /// Number of watchers, one connection each.
    pub watchers: usize,
    pub mode: WatcherKind,
    pub timing: RunTiming,
}

impl Notify {
    /// Measures the latency from sending a write to each notification.
    pub fn run(&self, stop: &StopFlag, progress: &ProgressLine) -> Result<RunResults> {
        let sessions = Session::open_many(&[self.target], self.watchers, |open| {
            progress.show(|| format!("connected {open} of {}", self.watchers));
        })?;
        let mut group = WatcherGroup::new(self, sessions, Session::open(self.target)?)?;
        group.watch_all()?;
        group.write_for(self.timing.warm_up, stop, progress, "warm up")?;
        failure::unless_interrupted(stop)?;
        group.latencies.reset();
        let mark = WindowStart::take(self.pid.into_iter().collect())?;
        group.write_for(self.timing.duration, stop, progress, "measure")?;
        let window = mark.window()?;
        progress.clear();
        let results = RunResults::of(&group.latencies, window);
        group.end()?;
        Ok(results)
    }
}

#[derive(Debug)]
struct Watcher {
    stream: LoadStream<TcpStream>,
    replies: Replies,
    pending: usize,
}

/// All watchers and the writer.
#[derive(Debug)]
struct WatcherGroup<'a> {
    job: &'a Notify,
    poll: Poll,
    watchers: Vec<Watcher>,
    writer: Session,
    /// The request that sets a watch; its xid is always 1.
    watch_frame: Vec<u8>,
    scratch: Vec<u8>,
    /// Notifications and replies outstanding before the next write.
    awaited: usize,
    written: Instant,
    latencies: Histogram<u64>,
}

impl<'a> WatcherGroup<'a> {
    fn new(job: &'a Notify, sessions: Vec<Session>, writer: Session) -> Result<Self> {
        let poll = Poll::new()?;
        let mut watchers = Vec::with_capacity(sessions.len());
        for (index, session) in sessions.into_iter().enumerate() {
            let mut stream = session.into_stream();
            stream.socket().set_nonblocking(true)?;
            let mut stream = stream.map(TcpStream::from_std);
            poll.registry().register(stream.socket(), Token(index), Interest::READABLE)?;
            watchers.push(Watcher { stream, replies: Replies::default(), pending: 0 });
        }
        let (mut watch_frame, path) = (Vec::new(), Some(job.layout.root.as_str().into()));
        match job.mode {
            WatcherKind::Once => {
                put_request(&mut watch_frame, 1, OpCode::GetData.code(), &PathWatch { path, watch: true });
            }
            WatcherKind::Persistent => {
                put_request(&mut watch_frame, 1, OpCode::AddWatch.code(), &PathKind { path, kind: 0 });
            }
        }
        let scratch = vec![0; READ_BYTES];
        let (written, latencies) = (Instant::now(), counters::histogram());
        Ok(Self { job, poll, watchers, writer, watch_frame, scratch, awaited: 0, written, latencies })
    }

    fn watch_all(&mut self) -> Result<()> {
        for index in 0..self.watchers.len() {
            self.watch(index)?;
        }
        self.wait_for_replies()
    }

    fn write_for(&mut self, duration: Duration, stop: &StopFlag, progress: &ProgressLine, doing: &str) -> Result<()> {
        let start = Instant::now();
        let data = self.job.layout.data();
        while start.elapsed() < duration && !stop.is_set() {
            self.written = Instant::now();
            self.awaited = self.watchers.len();
            let path = Some(self.job.layout.root.as_str().into());
            // The data must keep the mark of this tool.
            let data = [crate::tree_layout::MARK, &data].concat();
            let reply = self.writer.call(OpCode::SetData, &SetDataRequest { path, data: Some(&data), version: -1 })?;
            if reply.header.err != 0 {
                return Err(failure::refused("write the watched node", reply.header.err));
            }
            self.wait_for_replies()?;
            progress.show(|| {
                let seconds = start.elapsed().as_secs_f64();
                format!("{doing}: {:.0} notifications per second", self.latencies.len() as f64 / seconds)
            });
        }
        Ok(())
    }

    /// Waits until nothing is outstanding.
    fn wait_for_replies(&mut self) -> Result<()> {
        let deadline = Instant::now() + REPLY_TIMEOUT;
        let mut events = Events::with_capacity(1024);
        while 0 < self.awaited {
            match self.poll.poll(&mut events, Some(Duration::from_millis(100))) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                result => result?,
            }
            for event in &events {
                // A read returns one record of TLS, and the socket raises no event for those that have arrived with it.
                while self.receive(event.token().0)? && self.watchers[event.token().0].stream.is_tls() {}
            }
            if deadline < Instant::now() {
                return Err(failure::silent(self.job.target.address, REPLY_TIMEOUT.as_secs()));
            }
        }
        Ok(())
    }

    /// Reads once. Returns false if nothing has arrived.
    fn receive(&mut self, index: usize) -> Result<bool> {
        let server = self.job.target.address;
        let watcher = &mut self.watchers[index];
        let count = match watcher.stream.read(&mut self.scratch) {
            Ok(0) => return Err(failure::closed(server, "watching")),
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(failure::broken(server, &error, "watching")),
        };
        let mut notified = 0;
        watcher.replies.feed(&self.scratch[..count], |head| {
            match head.xid {
                xid::NOTIFICATION => notified += 1,
                1 if head.err == 0 && 0 < watcher.pending => {
                    watcher.pending -= 1;
                    self.awaited -= 1;
                }
                1 if head.err != 0 => return Err(failure::refused("watch the node", head.err)),
                other => return Err(failure::out_of_order(server, Some(1), other)),
            }
            Ok(())
        })?;
        if 0 < notified {
            let latency_ns = u64::try_from(self.written.elapsed().as_nanos()).unwrap_or(u64::MAX);
            self.latencies.saturating_record_n(latency_ns, notified);
            self.awaited -= usize::try_from(notified).expect("a read holds few notifications");
            if self.job.mode == WatcherKind::Once {
                self.watch(index)?;
            }
        }
        Ok(true)
    }

    fn end(self) -> Result<()> {
        let mut close_frame = Vec::new();
        put_bare_request(&mut close_frame, 2, OpCode::CloseSession.code());
        let mut streams: Vec<LoadStream<TcpStream>> = self.watchers.into_iter().map(|watcher| watcher.stream).collect();
        streams.iter_mut().try_for_each(|stream| stream.write_all(&close_frame))?;
        for stream in streams {
            let mut stream = stream.map(std::net::TcpStream::from);
            stream.socket().set_nonblocking(false)?;
            stream.socket().set_read_timeout(Some(REPLY_TIMEOUT))?;
            let _ = stream.read_to_end(&mut Vec::new()); // errors do not matter: closeSession was sent
        }
        self.writer.close()
    }

    fn watch(&mut self, index: usize) -> Result<()> {
        let server = self.job.target.address;
        let watcher = &mut self.watchers[index];
        watcher
            .stream
            .write_all(&self.watch_frame) // a single small request always fits the socket buffer
            .map_err(|error| failure::broken(server, &error, "watching"))?;
        watcher.pending += 1;
        self.awaited += 1;
        Ok(())
    }
}
