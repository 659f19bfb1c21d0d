//! Memory cost of idle sessions and watches.

use crate::failure;
use crate::job::MeasuredServer;
use crate::memory::{self, Gauge, Growth};
use crate::progress::ProgressLine;
use crate::session::Session;
use crate::setup::{self, Needs};
use crate::stop_flag::StopFlag;
use crate::tree_layout::TreeLayout;
use anyhow::{Context, Result, bail};
use ox_proto::OpCode;
use ox_proto::request::{PathWatch, put_request};
use serde::Serialize;
use std::thread::sleep;
use std::time::{Duration, Instant};

#[derive(Clone, Debug)]
pub struct Idle {
    /// The process id must be known.
    pub server: MeasuredServer,
    pub layout: TreeLayout,
    pub sessions: usize,
    /// Watches of each session, one per key.
    pub watches_per_session: u32,
    pub gauge: Gauge,
    /// How long everything stays open before memory is read.
    pub hold: Duration,
}

/// Memory cost of idle sessions and watches.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct IdleResults {
    pub sessions: usize,
    pub per_session: Growth,
    /// Number of watches over all sessions.
    pub watches: usize,
    pub per_watch: Option<Growth>,
}

impl Idle {
    /// Opens the sessions, then sets the watches, and reads the memory in between.
    pub fn run(&self, stop: &StopFlag, progress: &ProgressLine) -> Result<IdleResults> {
        let pid = self.server.pid.context("the server's process is unknown\nhint: give it with --pid")?;
        if 0 < self.watches_per_session {
            let layout = TreeLayout { keys: self.watches_per_session, ..self.layout.clone() };
            setup::prepare(self.server.target, &layout, Needs::Keys, stop, progress)?;
        }
        let result = self.measure(pid, stop, progress);
        if 0 < self.watches_per_session {
            setup::clean(self.server.target, &self.layout.root, progress)?;
        }
        result
    }

    fn measure(&self, pid: u32, stop: &StopFlag, progress: &ProgressLine) -> Result<IdleResults> {
        let before = memory::read(pid, self.gauge)?;
        let mut sessions = Session::open_many(&[self.server.target], self.sessions, |open| {
            progress.show(|| format!("opened {open} of {} sessions", self.sessions));
        })?;
        self.hold(&mut sessions, stop)?;
        let with_sessions = memory::read(pid, self.gauge)?;
        let per_session = with_sessions.growth_per(self.sessions, &before);
        let watches = self.sessions * self.watches_per_session as usize;
        let mut per_watch = None;
        if 0 < watches {
            let mut pinged = Instant::now();
            for index in 0..sessions.len() {
                self.watch(&mut sessions[index])?;
                if ping_interval(&sessions) < pinged.elapsed() {
                    sessions.iter_mut().try_for_each(Session::ping)?;
                    pinged = Instant::now();
                }
                progress.show(|| format!("watches of {index} of {} sessions", self.sessions));
                if stop.is_set() {
                    bail!("interrupted");
                }
            }
            self.hold(&mut sessions, stop)?;
            per_watch = Some(memory::read(pid, self.gauge)?.growth_per(watches, &with_sessions));
        }
        progress.clear();
        sessions.into_iter().try_for_each(Session::close)?;
        Ok(IdleResults { sessions: self.sessions, per_session, watches, per_watch })
    }

    fn watch(&self, session: &mut Session) -> Result<()> {
        let layout = TreeLayout { keys: self.watches_per_session, ..self.layout.clone() };
        session.bulk(
            layout.keys as usize,
            |index, xid, out| {
                let path = layout.key_path(u32::try_from(index).expect("indices stay below the count"));
                put_request(out, xid, OpCode::GetData.code(), &PathWatch { path: Some(path.into()), watch: true });
            },
            |_, err| if err == 0 { Ok(()) } else { Err(failure::refused("watch a key", err)) },
        )
    }

    /// Keeps the sessions alive for the configured time.
    fn hold(&self, sessions: &mut [Session], stop: &StopFlag) -> Result<()> {
        let start = Instant::now();
        loop {
            sessions.iter_mut().try_for_each(Session::ping)?;
            let left = self.hold.saturating_sub(start.elapsed());
            if left.is_zero() || stop.is_set() {
                return Ok(());
            }
            sleep(left.min(ping_interval(sessions)));
        }
    }
}

fn ping_interval(sessions: &[Session]) -> Duration {
    sessions.iter().map(Session::timeout).min().unwrap_or_default() / 3
}
