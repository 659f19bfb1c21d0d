//! An I/O thread of production, split into steps: receive, serve, submit, flush.
//!
//! The rules are those of `ox-server/src/io/*.rs`: output of the replica is delivered before requests are served; the
//! thread releases the state lock when its budget is used up; it sends replies and closes connections at the end of an
//! iteration.

mod deliver;
mod idle;
mod serve;

use super::connection::Connection;
use super::process::Process;
use super::server_load::ServerLoad;
use crate::env::Env;
use crate::event::{Event, ProcessId};
use crate::link::{Direction, LinkId};
use ox_replica::outbox::Outbox;
use ox_replica::{Admission, ClientInput, Conn, ConnId, ConnSettings, Load, Now, Submission, Throttle};
use ox_tree::State;
use std::cell::RefCell;
use std::collections::VecDeque;

/// Delay before a thread retries requests that were not admitted (`request_throttle_stall_time`).
const STALL_US: i64 = 100_000;

/// The next step of the thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Receive,
    /// Continues at this index of `listed`.
    Serve(usize),
    Submit,
    Flush,
    SubmitAgain,
}

#[derive(Debug, Default)]
pub(crate) struct IoThread {
    pub(crate) mailbox: VecDeque<Outbox>,
    pub(crate) connections: Vec<Option<Connection>>,
    free: Vec<usize>,
    generation: u64,
    /// Connections with work in this iteration.
    listed: Vec<usize>,
    /// Connections whose next request is not admitted yet.
    stalled: Vec<usize>,
    /// The admission at the start of the iteration.
    admission: Admission,
    submission: Submission,
    stage: Stage,
    is_scheduled: bool,
    pub(crate) looks_for_idle: bool,
}

/// The parts of the process that a step needs.
struct Serving<'a> {
    state: &'a State,
    now: Now,
    settings: ConnSettings,
    server_load: &'a ServerLoad,
    throttle: &'a RefCell<Option<Throttle>>,
}

impl Process {
    pub(crate) fn wake_io(&mut self, env: &mut Env, pid: ProcessId, thread: usize) {
        if !std::mem::replace(&mut self.io[thread].is_scheduled, true) {
            let delay = self.thread_delay(env);
            env.schedule_in(delay, Event::Io(pid, thread));
        }
    }

    pub(crate) fn accept(&mut self, env: &mut Env, pid: ProcessId, link: LinkId) {
        let thread = self.next_thread;
        self.next_thread = (thread + 1) % self.io.len();
        let now_ms = self.now(env).mono_ms;
        let number = u8::try_from(thread).expect("few threads");
        let io = &mut self.io[thread];
        let slot = io.free.pop().unwrap_or(io.connections.len());
        io.generation += 1;
        let id = ConnId::new(number, slot, io.generation);
        let address = crate::client::address(env.links[link].client);
        let connection = Connection::new(link, Conn::new(id, address), now_ms);
        if slot == io.connections.len() {
            io.connections.push(Some(connection));
        } else {
            io.connections[slot] = Some(connection);
        }
        (env.links[link].place, env.links[link].boot) = (Some((thread, slot)), pid.boot);
        self.on_readable(env, pid, link);
    }

    /// Bytes or the end of the stream have arrived for a connection.
    pub(crate) fn on_readable(&mut self, env: &mut Env, pid: ProcessId, link: LinkId) {
        if let Some((thread, slot)) = env.links[link].place {
            self.io[thread].list(slot);
            self.wake_io(env, pid, thread);
        }
    }

    /// The client has read, so that its socket has free space.
    pub(crate) fn on_writable(&mut self, env: &mut Env, pid: ProcessId, link: LinkId) {
        if let Some((thread, slot)) = env.links[link].place
            && self.io[thread].connections[slot].as_ref().is_some_and(|connection| !connection.output.is_empty())
        {
            self.io[thread].list(slot);
            self.wake_io(env, pid, thread);
        }
    }

    /// Whether the replica thread knows of every closed connection.
    pub(crate) fn has_reported_all_closes(&self) -> bool {
        self.io.iter().all(|io| io.submission.is_empty())
    }

    /// Takes steps until the thread is preempted or its iteration ends.
    pub(crate) fn io_step(&mut self, env: &mut Env, pid: ProcessId, thread: usize) {
        self.io[thread].is_scheduled = false;
        let now = self.now(env);
        let settings = ConnSettings {
            min_timeout_ms: env.plan.tick_ms * 2,
            max_timeout_ms: env.plan.tick_ms * 20,
            throttled_op_wait_ms: env.plan.throttled_wait_ms,
            drop_late: env.plan.drop_late,
            syncs_travel: env.plan.is_ensemble(),
        };
        loop {
            let Self { state, server_load, throttle, io, .. } = self;
            let serving = Serving { state, now, settings, server_load, throttle };
            let io = &mut io[thread];
            match io.stage {
                Stage::Receive => {
                    io.update_admission(server_load, now);
                    io.receive(env, now);
                }
                Stage::Serve(from) => io.serve(env, &serving, from),
                Stage::Submit | Stage::SubmitAgain => {
                    self.submit(env, pid, thread);
                    if self.io[thread].stage == Stage::SubmitAgain {
                        return self.end_turn(env, pid, thread);
                    }
                    self.io[thread].stage = Stage::Flush;
                }
                Stage::Flush => io.flush(env, now),
            }
            if env.failure.is_some() {
                return;
            }
            if env.preempts() {
                return self.wake_io(env, pid, thread);
            }
        }
    }

    fn submit(&mut self, env: &mut Env, pid: ProcessId, thread: usize) {
        let submission = std::mem::take(&mut self.io[thread].submission);
        if !submission.is_empty() {
            self.server_load.queue(submission.load());
            self.inbox.submissions.push_back(submission);
            self.wake_replica(env, pid);
        }
    }

    fn end_turn(&mut self, env: &mut Env, pid: ProcessId, thread: usize) {
        let io = &mut self.io[thread];
        io.stage = Stage::Receive;
        if !io.listed.is_empty() || !io.mailbox.is_empty() {
            self.wake_io(env, pid, thread);
        } else if !io.stalled.is_empty() {
            env.schedule_in(STALL_US, Event::Io(pid, thread));
        }
    }
}

impl IoThread {
    fn list(&mut self, slot: usize) {
        if let Some(connection) = self.connections[slot].as_mut().filter(|connection| !connection.listed) {
            connection.listed = true;
            self.listed.push(slot);
        }
    }

    /// Determines the admission from the load of all threads, once per iteration. Stalled connections are served
    /// first.
    fn update_admission(&mut self, server_load: &ServerLoad, now: Now) {
        self.admission = server_load.admission(Load::default());
        if self.admission == Admission::Closed {
            let stalled = self.stalled.iter().filter_map(|slot| self.connections[*slot].as_ref());
            let stalled = stalled.filter(|connection| connection.stalled);
            return stalled.for_each(|connection| connection.core.on_refused(now));
        }
        let others = std::mem::take(&mut self.listed);
        for slot in std::mem::take(&mut self.stalled) {
            if let Some(connection) = self.connections[slot].as_mut().filter(|connection| connection.stalled) {
                connection.stalled = false;
                self.list(slot);
            }
        }
        self.listed.extend(others);
    }

    /// Defers a connection until its next request is admitted.
    fn stall(&mut self, slot: usize) {
        if let Some(connection) = self.connections[slot].as_mut().filter(|connection| !connection.stalled) {
            connection.stalled = true;
            self.stalled.push(slot);
        }
    }

    /// Reads from every listed connection that accepts more input.
    fn receive(&mut self, env: &mut Env, now: Now) {
        for &slot in &self.listed {
            let Some(connection) = self.connections[slot].as_mut() else { continue };
            connection.ended |= env.links[connection.link].up.has_ended() && connection.core.is_connecting();
            let held_back = env.plan.unsent_pause_bytes < connection.output.len();
            env.coverage.slow_reader_pauses += u64::from(held_back);
            let may_read = !connection.ended && !connection.closing && !connection.stalled && !held_back;
            if !may_read || !connection.core.may_take(self.admission) {
                continue;
            }
            let up = &mut env.links[connection.link].up;
            let bytes = up.read(env.plan.read_bytes);
            if bytes.is_empty() {
                connection.ended |= up.is_at_end();
            } else {
                connection.last_io_ms = now.mono_ms;
                connection.input.extend_from_slice(&bytes);
            }
        }
        self.stage = Stage::Serve(0);
    }

    /// Sends output and closes connections that are done.
    fn flush(&mut self, env: &mut Env, now: Now) {
        let mut again = Vec::new();
        for slot in std::mem::take(&mut self.listed) {
            let Some(connection) = self.connections[slot].as_mut() else { continue };
            connection.listed = false;
            let link = connection.link;
            let window = env.plan.window_bytes.saturating_sub(env.links[link].down.unread());
            let is_dead = env.links[link].down.is_closed();
            if !is_dead && !connection.output.is_empty() {
                let sent = connection.take_output(window, now.mono_ms);
                if !sent.is_empty() {
                    env.send(link, Direction::ToClient, &sent);
                    connection.last_io_ms = now.mono_ms;
                }
            }
            let answered = connection.closing && connection.output.is_empty();
            if is_dead || answered || connection.ended {
                self.close(env, slot);
                continue;
            }
            let may_go_on = connection.core.may_take(self.admission)
                && connection.output.len() <= env.plan.unsent_pause_bytes
                && !connection.stalled;
            let up = &env.links[link].up;
            if may_go_on && (up.has_bytes() || up.is_at_end() || connection.has_frame()) {
                again.push(slot);
            }
        }
        again.into_iter().for_each(|slot| self.list(slot));
        if std::mem::take(&mut self.looks_for_idle) {
            self.close_idle(env, now);
        }
        self.stage = Stage::SubmitAgain;
    }

    fn close(&mut self, env: &mut Env, slot: usize) {
        let Some(connection) = self.connections[slot].take() else { return };
        env.links[connection.link].place = None;
        env.close(connection.link, Direction::ToClient);
        if !connection.core.is_new() {
            self.submission.push(connection.core.id(), ClientInput::Gone, &[]); // the replica knows this connection
        }
        self.free.push(slot);
    }
}
