//! An I/O thread of production, cut into steps: receive, serve, submit, flush.
//!
//! The rules are those of `ox-server/src/io/turn.rs`: what the replica has sent is delivered before anything is
//! served; the state is let go when the budget is spent; answers leave, and connections close, at the end of a turn.

use super::connection::Connection;
use super::process::Process;
use crate::env::Env;
use crate::event::{Event, Who};
use crate::link::{LinkId, Way};
use ox_proto::acl::perms;
use ox_proto::frame::split_frame;
use ox_proto::limits::FRAME_BYTES_MAX_DEFAULT;
use ox_replica::{Ask, Conn, ConnSettings, Now, Room, Service, Submission, Verdict};
use ox_tree::outbox::{Note, Outbox};
use ox_tree::{ConnId, State};
use std::collections::VecDeque;

/// Bytes of answers written under one hold of the state.
const ANSWERED_AT_ONCE_BYTES: usize = 64 << 10;
/// Unsent bytes at which a connection that does not read is given up.
const UNSENT_BYTES_MAX: usize = 64 << 20;
/// `nio.sessionlessCnxnTimeout`.
const SESSIONLESS_MS: i64 = 10_000;

/// What the thread does next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Receive,
    /// From this place of the list on.
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
    /// Connections that have something to do this turn.
    listed: Vec<usize>,
    submission: Submission,
    stage: Stage,
    is_planned: bool,
    pub(crate) looks_for_idle: bool,
}

/// What a step needs of the rest of the process.
struct Serving<'a> {
    state: &'a State,
    now: Now,
    settings: ConnSettings,
}

impl Process {
    pub(crate) fn wake_io(&mut self, env: &mut Env, who: Who, thread: usize) {
        if !std::mem::replace(&mut self.io[thread].is_planned, true) {
            let delay = env.thread_delay();
            env.plan_in(delay, Event::Io(who, thread));
        }
    }

    pub(crate) fn accept(&mut self, env: &mut Env, who: Who, link: LinkId) {
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
        (env.links[link].place, env.links[link].boot) = (Some((thread, slot)), who.boot);
        self.on_readable(env, who, link);
    }

    /// Bytes, or the end, have arrived for a connection.
    pub(crate) fn on_readable(&mut self, env: &mut Env, who: Who, link: LinkId) {
        if let Some((thread, slot)) = env.links[link].place {
            self.io[thread].list(slot);
            self.wake_io(env, who, thread);
        }
    }

    /// The client has read something.
    pub(crate) fn on_writable(&mut self, env: &mut Env, who: Who, link: LinkId) {
        if let Some((thread, slot)) = env.links[link].place
            && self.io[thread].connections[slot].as_ref().is_some_and(|connection| !connection.output.is_empty())
        {
            self.io[thread].list(slot);
            self.wake_io(env, who, thread);
        }
    }

    /// Whether the replica thread has been told of every connection that is closed.
    pub(crate) fn has_told_of_all_ends(&self) -> bool {
        self.io.iter().all(|io| io.submission.is_empty())
    }

    /// Takes steps until the thread is interrupted or its turn is over.
    pub(crate) fn io_step(&mut self, env: &mut Env, who: Who, thread: usize) {
        self.io[thread].is_planned = false;
        let now = self.now(env);
        let settings = ConnSettings {
            min_timeout_ms: env.plan.tick_ms * 2,
            max_timeout_ms: env.plan.tick_ms * 20,
            throttled_op_wait_ms: 0,
            drop_late: false,
        };
        loop {
            let serving = Serving { state: &self.state, now, settings };
            let io = &mut self.io[thread];
            match io.stage {
                Stage::Receive => io.receive(env, now),
                Stage::Serve(from) => io.serve(env, &serving, from),
                Stage::Submit | Stage::SubmitAgain => {
                    if !io.submission.is_empty() {
                        let submission = std::mem::take(&mut io.submission);
                        self.inbox.submissions.push_back(submission);
                        self.wake_replica(env, who);
                    }
                    let io = &mut self.io[thread];
                    if io.stage == Stage::SubmitAgain {
                        io.stage = Stage::Receive;
                        if !io.listed.is_empty() || !io.mailbox.is_empty() {
                            self.wake_io(env, who, thread);
                        }
                        return;
                    }
                    io.stage = Stage::Flush;
                }
                Stage::Flush => io.flush(env, now),
            }
            if env.failure.is_some() {
                return;
            }
            if env.preempts() {
                return self.wake_io(env, who, thread);
            }
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

    /// Reads every listed connection that may take more.
    fn receive(&mut self, env: &mut Env, now: Now) {
        for &slot in &self.listed {
            let Some(connection) = self.connections[slot].as_mut() else { continue };
            let held_back = env.plan.unsent_pause_bytes < connection.output.len();
            env.marks.slow_reader_pauses += u64::from(held_back);
            if connection.ended || connection.closing || !connection.core.may_take(Room::Plenty) || held_back {
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

    /// Serves frames under one hold of the state.
    fn serve(&mut self, env: &mut Env, serving: &Serving<'_>, from: usize) {
        self.deliver(env);
        let (mut requests, mut bytes) = (env.plan.served_at_once, ANSWERED_AT_ONCE_BYTES);
        for at in from..self.listed.len() {
            let slot = self.listed[at];
            let Some(connection) = self.connections[slot].as_mut() else { continue };
            let input = std::mem::take(&mut connection.input);
            let mut rest = &input[..];
            loop {
                if connection.closing {
                    rest = &[];
                    break;
                }
                if requests == 0 || bytes == 0 {
                    connection.input = rest.to_vec();
                    self.stage = Stage::Serve(at);
                    return;
                }
                if !connection.core.may_take(Room::Plenty) || env.plan.unsent_pause_bytes < connection.output.len() {
                    break;
                }
                match split_frame(rest, FRAME_BYTES_MAX_DEFAULT) {
                    Ok(Some((payload, behind))) => {
                        let before = connection.output.len();
                        serve_frame(env, connection, serving, &mut self.submission, payload);
                        rest = behind;
                        requests -= 1;
                        bytes = bytes.saturating_sub(connection.output.len().saturating_sub(before));
                    }
                    Ok(None) => break,
                    Err(_) => connection.closing = true,
                }
            }
            connection.input = rest.to_vec();
        }
        self.stage = Stage::Submit;
    }

    /// Moves everything the replica has sent into the connections' buffers.
    fn deliver(&mut self, env: &mut Env) {
        while let Some(outbox) = self.mailbox.pop_front() {
            for part in &outbox.parts {
                let slot = part.conn.slot();
                let Some(connection) = self.connections.get_mut(slot).and_then(Option::as_mut) else { continue };
                if connection.core.id() != part.conn || connection.closing {
                    continue;
                }
                match &part.note {
                    Note::Event(Some(readers)) if !connection.core.ids().may(readers, perms::READ) => continue,
                    Note::Event(_) => (),
                    Note::Answers(count) => connection.core.on_answers(*count, part.span.len()),
                    Note::Attached(session, timeout_ms) => connection.core.on_attached(*session, *timeout_ms),
                    Note::Close => {
                        connection.core.start_closing();
                        connection.closing = true;
                    }
                }
                connection.output.extend_from_slice(&outbox.bytes[part.span.clone()]);
                if UNSENT_BYTES_MAX < connection.output.len() {
                    connection.output.clear();
                    connection.closing = true;
                }
                self.list(slot);
            }
            env.trace.bytes(&outbox.bytes);
        }
    }

    /// Writes what connections have to send, and closes those that are done.
    fn flush(&mut self, env: &mut Env, now: Now) {
        let mut again = Vec::new();
        for slot in std::mem::take(&mut self.listed) {
            let Some(connection) = self.connections[slot].as_mut() else { continue };
            connection.listed = false;
            let link = connection.link;
            let room = env.plan.window_bytes.saturating_sub(env.links[link].down.unread());
            let count = room.min(connection.output.len());
            let is_dead = env.links[link].down.is_closed();
            if 0 < count && !is_dead {
                let sent: Vec<u8> = connection.output.drain(..count).collect();
                env.send(link, Way::Down, &sent);
                connection.last_io_ms = now.mono_ms;
            }
            let answered = connection.closing && connection.output.is_empty();
            if is_dead || answered || connection.ended {
                self.close(env, slot);
                continue;
            }
            let may_go_on =
                connection.core.may_take(Room::Plenty) && connection.output.len() <= env.plan.unsent_pause_bytes;
            let up = &env.links[link].up;
            let has_frame = !matches!(split_frame(&connection.input, usize::MAX), Ok(None));
            if may_go_on && (up.has_bytes() || up.is_at_end() || has_frame) {
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
        env.close(connection.link, Way::Down);
        self.submission.push(connection.core.id(), Ask::Gone, &[]);
        self.free.push(slot);
    }

    fn close_idle(&mut self, env: &mut Env, now: Now) {
        for slot in 0..self.connections.len() {
            let Some(connection) = self.connections[slot].as_ref() else { continue };
            let timeout_ms =
                connection.core.session().map_or(SESSIONLESS_MS, |_| i64::from(connection.core.timeout_ms()));
            let due = ((connection.last_io_ms + timeout_ms) / SESSIONLESS_MS + 1) * SESSIONLESS_MS;
            if due <= now.mono_ms {
                env.note(format_args!("io: connection {:?} is idle", connection.core.id()));
                self.close(env, slot);
            }
        }
    }
}

fn serve_frame(
    env: &mut Env,
    connection: &mut Connection,
    serving: &Serving<'_>,
    submission: &mut Submission,
    payload: &[u8],
) {
    let (before, in_flight) = (connection.output.len(), connection.core.in_flight());
    let mut service = Service {
        now: serving.now,
        state: serving.state,
        settings: serving.settings,
        room: Room::Plenty,
        waited_ms: 0,
        admit: &|_| true,
        out: &mut connection.output,
        submission,
    };
    let verdict = connection.core.on_frame(payload, &mut service);
    env.marks.waiting_reads += u64::from(0 < in_flight && in_flight < connection.core.in_flight());
    if verdict == Verdict::Close {
        connection.closing = true;
        connection.output.truncate(before);
    }
}
