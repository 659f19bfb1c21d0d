//! Notifications: every connection watches one node, a writer changes it, and all notifications are awaited.

use crate::counters;
use crate::failure;
use crate::limits::{ANSWER_TIMEOUT, READ_BYTES};
use crate::load::{Mark, Timing};
use crate::progress::Progress;
use crate::replies::Replies;
use crate::results::Figures;
use crate::session::{Session, Target};
use crate::stop_flag::Stop;
use crate::tree_layout::Shape;
use anyhow::Result;
use hdrhistogram::Histogram;
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use ox_proto::OpCode;
use ox_proto::request::{PathKind, PathWatch, SetDataRequest, put_bare_request, put_request, xid};
use std::io::{ErrorKind, Read, Write};
use std::time::{Duration, Instant};

/// How the watchers watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum WatchMode {
    /// getData with a watch, again after each notification: what most clients do.
    Once,
    /// A persistent watch.
    Persistent,
}

/// Watchers of the root of `shape`.
#[derive(Clone, Debug)]
pub struct Notify {
    /// The server.
    pub target: Target,
    /// The server's process, if its cost is wanted.
    pub pid: Option<u32>,
    /// The watched node and the size of what is written to it.
    pub shape: Shape,
    /// Number of watchers, one connection each.
    pub watchers: usize,
    /// How they watch.
    pub mode: WatchMode,
    /// How long.
    pub timing: Timing,
}

impl Notify {
    /// Runs; the latencies are those from sending a write to each notification.
    pub fn run(&self, stop: &Stop, progress: &Progress) -> Result<Figures> {
        let sessions = Session::open_many(&[self.target], self.watchers, |open| {
            progress.show(|| format!("connected {open} of {}", self.watchers));
        })?;
        let mut crowd = Crowd::new(self, sessions, Session::open(self.target)?)?;
        crowd.watch_all()?;
        crowd.write_for(self.timing.warm_up, stop, progress, "warm up")?;
        crowd.latencies.reset();
        let mark = Mark::take(self.pid.into_iter().collect())?;
        crowd.write_for(self.timing.duration, stop, progress, "measure")?;
        let window = mark.window()?;
        progress.clear();
        let figures = Figures::of(&crowd.latencies, window);
        crowd.end()?;
        Ok(figures)
    }
}

#[derive(Debug)]
struct Watcher {
    stream: TcpStream,
    replies: Replies,
    /// Replies to come.
    pending: usize,
}

/// All watchers and the writer.
#[derive(Debug)]
struct Crowd<'a> {
    job: &'a Notify,
    poll: Poll,
    watchers: Vec<Watcher>,
    writer: Session,
    /// The request that leaves a watch; its xid is always 1.
    watch_frame: Vec<u8>,
    scratch: Vec<u8>,
    /// Notifications and replies to come before the next write.
    awaited: usize,
    written: Instant,
    latencies: Histogram<u64>,
}

impl<'a> Crowd<'a> {
    fn new(job: &'a Notify, sessions: Vec<Session>, writer: Session) -> Result<Self> {
        let poll = Poll::new()?;
        let mut watchers = Vec::with_capacity(sessions.len());
        for (index, session) in sessions.into_iter().enumerate() {
            let stream = session.into_stream();
            stream.set_nonblocking(true)?;
            let mut stream = TcpStream::from_std(stream);
            poll.registry().register(&mut stream, Token(index), Interest::READABLE)?;
            watchers.push(Watcher { stream, replies: Replies::default(), pending: 0 });
        }
        let (mut watch_frame, path) = (Vec::new(), Some(job.shape.root.as_str().into()));
        match job.mode {
            WatchMode::Once => {
                put_request(&mut watch_frame, 1, OpCode::GetData.code(), &PathWatch { path, watch: true });
            }
            WatchMode::Persistent => {
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
        self.settle()
    }

    fn write_for(&mut self, duration: Duration, stop: &Stop, progress: &Progress, doing: &str) -> Result<()> {
        let start = Instant::now();
        let data = self.job.shape.data();
        while start.elapsed() < duration && !stop.is_set() {
            self.written = Instant::now();
            self.awaited = self.watchers.len();
            let path = Some(self.job.shape.root.as_str().into());
            // Made by this tool, as the data must go on saying.
            let data = [crate::tree_layout::MARK, &data].concat();
            let reply = self.writer.call(OpCode::SetData, &SetDataRequest { path, data: Some(&data), version: -1 })?;
            if reply.header.err != 0 {
                return Err(failure::refused("write the watched node", reply.header.err));
            }
            self.settle()?;
            progress.show(|| {
                let seconds = start.elapsed().as_secs_f64();
                format!("{doing}: {:.0} notifications per second", self.latencies.len() as f64 / seconds)
            });
        }
        Ok(())
    }

    /// Waits until nothing is awaited.
    fn settle(&mut self) -> Result<()> {
        let deadline = Instant::now() + ANSWER_TIMEOUT;
        let mut events = Events::with_capacity(1024);
        while 0 < self.awaited {
            match self.poll.poll(&mut events, Some(Duration::from_millis(100))) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                result => result?,
            }
            for event in &events {
                self.receive(event.token().0)?;
            }
            if deadline < Instant::now() {
                return Err(failure::silent(self.job.target.address, ANSWER_TIMEOUT.as_secs()));
            }
        }
        Ok(())
    }

    fn receive(&mut self, index: usize) -> Result<()> {
        let server = self.job.target.address;
        let watcher = &mut self.watchers[index];
        let count = match watcher.stream.read(&mut self.scratch) {
            Ok(0) => return Err(failure::closed(server, "watching")),
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
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
            if self.job.mode == WatchMode::Once {
                self.watch(index)?;
            }
        }
        Ok(())
    }

    /// Closes all sessions.
    fn end(self) -> Result<()> {
        let mut close_frame = Vec::new();
        put_bare_request(&mut close_frame, 2, OpCode::CloseSession.code());
        let mut streams: Vec<TcpStream> = self.watchers.into_iter().map(|watcher| watcher.stream).collect();
        streams.iter_mut().try_for_each(|stream| stream.write_all(&close_frame))?;
        for stream in streams {
            let mut stream = std::net::TcpStream::from(stream);
            stream.set_nonblocking(false)?;
            stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
            let _ = stream.read_to_end(&mut Vec::new()); // however it ends, the session was asked to
        }
        self.writer.close()
    }

    fn watch(&mut self, index: usize) -> Result<()> {
        let server = self.job.target.address;
        let watcher = &mut self.watchers[index];
        watcher
            .stream
            .write_all(&self.watch_frame) // one small request at a time always fits the socket buffer
            .map_err(|error| failure::broken(server, &error, "watching"))?;
        watcher.pending += 1;
        self.awaited += 1;
        Ok(())
    }
}
