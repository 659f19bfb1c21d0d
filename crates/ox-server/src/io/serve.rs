//! Frames, from the arena or from what a connection has kept.

use super::connection::Connection;
use super::turn::IoThread;
use crate::limits::{
    ANSWERED_AT_ONCE_BYTES, HANDSHAKE_BYTES_MAX, SERVED_AT_ONCE_MAX, SUBMITTED_AT_ONCE_BYTES, UNSENT_BYTES_PAUSE,
};
use crate::metrics::Metrics;
use crate::shared::Shared;
use crate::words::{self, Heard, WordQueue};
use ox_proto::frame::{Split, split_frame};
use ox_replica::{
    Admission, Conn, ConnSettings, FrameOutcome, Load, Now, Pressure, SMALL_BYTES, Service, Shortage, Submission,
};
use ox_tree::State;
use ox_tree::prefetch::{BATCH, request_path};
use parking_lot::RwLockReadGuard;
use std::sync::Arc;

/// A request's xid and type.
const REQUEST_HEAD_BYTES: usize = 8;

/// How much may still be served before the state is let go.
pub(super) struct Budget {
    requests: usize,
    bytes: usize,
}

impl Budget {
    fn new() -> Self {
        Self { requests: SERVED_AT_ONCE_MAX, bytes: ANSWERED_AT_ONCE_BYTES }
    }

    fn is_spent(&self) -> bool {
        self.requests == 0 || self.bytes == 0
    }
}

/// What became of the frames of a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Served {
    /// All that may be served now.
    Done,
    /// The budget is spent; there is more.
    More,
    /// The next one waits until the server has memory for it.
    Stalled(Shortage),
}

impl IoThread {
    /// Serves all frames that have come in, and those that had to wait.
    pub(super) fn serve(&mut self, now: Now) {
        let shared = Arc::clone(&self.shared);
        let mut state = shared.state.read();
        self.figures.on_state(shared.clock.mono_ms(), state.last_zxid());
        self.deliver();
        let mut budget = Budget::new();
        for (slot, range) in std::mem::take(&mut self.received) {
            // The arena is lent out so that a connection and its bytes can be used side by side.
            let arena = std::mem::take(&mut self.arena);
            let mut rest = &arena[range];
            let Some(conn) = self.conns[slot].as_mut() else {
                self.arena = arena;
                continue;
            };
            if !conn.input.is_empty() {
                conn.keep(rest);
                rest = &[];
            }
            if !rest.is_empty() {
                self.serve_all(slot, now, &mut state, &mut rest, &mut budget);
            }
            if let Some(conn) = self.conns[slot].as_mut().filter(|_| !rest.is_empty()) {
                self.pool.lend(&mut conn.input);
                conn.keep(rest);
            }
            self.count(slot);
            self.arena = arena;
        }
        self.serve_waiting(now, &mut state, &mut budget);
    }

    /// Serves what connections have kept: frames that were incomplete, or that had to wait.
    fn serve_waiting(&mut self, now: Now, state: &mut RwLockReadGuard<'_, State>, budget: &mut Budget) {
        let mut at = 0;
        while at < self.listed.len() {
            let slot = self.listed[at];
            at += 1;
            let Some(conn) = self.conns[slot].as_mut() else { continue };
            if conn.input.is_empty() || conn.stalled.is_some() {
                continue;
            }
            let input = std::mem::take(&mut conn.input);
            let mut rest = &input[..];
            self.serve_all(slot, now, state, &mut rest, budget);
            let served = input.len() - rest.len();
            if let Some(conn) = self.conns[slot].as_mut() {
                conn.input = input;
                conn.on_served(served);
                self.pool.take_back(&mut conn.input);
            }
            self.reserve_frame(slot, now);
            self.count(slot);
        }
    }

    /// Counts what a connection holds now, if that is much more than was counted.
    fn count(&mut self, slot: usize) {
        if let Some(conn) = self.conns[slot].as_mut().filter(|conn| conn.has_grown_much()) {
            self.shared.totals.buffer(conn.growth());
        }
    }

    /// Reserves memory for a large frame that is being received. Without it, the connection is not read.
    fn reserve_frame(&mut self, slot: usize, now: Now) {
        let (totals, frame_bytes_max) = (&self.shared.totals, self.frame_bytes_max);
        let Some(conn) = self.conns[slot].as_mut() else { return };
        // A frame beyond the limit is refused when its turn comes.
        let is_large = |bytes: &usize| SMALL_BYTES < *bytes && *bytes <= frame_bytes_max + 4;
        let is_partial = |bytes: &usize| conn.input.len() < *bytes && conn.reserved != *bytes;
        let Some(frame_bytes) = conn.frame_bytes().filter(|bytes| is_large(bytes) && is_partial(bytes)) else { return };
        let fits = totals.reserve(conn.unreserved(frame_bytes));
        if fits {
            conn.on_reserved(frame_bytes);
        }
        if conn.waits_for_frame == fits {
            conn.waits_for_frame = !fits;
            totals.wait_for_frame(!fits);
        }
        if !fits {
            self.stall(slot, Shortage::Frames, now);
        }
    }

    /// Serves the frames at the start of `rest` and moves it on, letting writers in between.
    fn serve_all(
        &mut self,
        slot: usize,
        now: Now,
        state: &mut RwLockReadGuard<'_, State>,
        rest: &mut &[u8],
        budget: &mut Budget,
    ) {
        loop {
            let served = self.serve_frames(slot, now, state, rest, budget);
            if SUBMITTED_AT_ONCE_BYTES <= self.submission.bytes.len() {
                self.submit();
                self.room = self.shared.totals.room(Load::default());
            }
            match served {
                Served::Done => return,
                Served::Stalled(shortage) => {
                    let was_stalled = self.conns[slot].as_ref().is_some_and(|conn| conn.was_stalled.is_some());
                    self.shared.metrics.request_throttle_wait_count.add(u64::from(!was_stalled));
                    return self.stall(slot, shortage, now);
                }
                Served::More => {
                    RwLockReadGuard::bump(state);
                    self.figures.on_state(self.shared.clock.mono_ms(), state.last_zxid());
                    self.deliver();
                    *budget = Budget::new();
                }
            }
        }
    }

    /// Serves frames until the budget is spent or nothing more may be served.
    fn serve_frames(&mut self, slot: usize, now: Now, state: &State, rest: &mut &[u8], budget: &mut Budget) -> Served {
        let Some(conn) = self.conns[slot].as_mut() else {
            *rest = &[];
            return Served::Done;
        };
        self.pool.lend(&mut conn.output);
        (self.pressure, self.pause_bytes) = unsent_limits(&self.shared);
        let (mut requests, mut complaint) = (0_usize, None);
        let waited_ms = conn.held_since_ms.map_or(0, |since_ms| now.mono_ms - since_ms);
        let served = loop {
            if conn.closing || conn.asked_word {
                *rest = &[];
                break Served::Done;
            }
            if budget.is_spent() {
                break Served::More;
            }
            let room = self.shared.totals.exact_room(self.room, self.submission.load());
            let room = if conn.is_overdue { room.for_overdue() } else { room };
            if !conn.core.may_take(room) || self.pause_bytes < conn.unsent() {
                break Served::Done;
            }
            match take_command(conn, rest, &mut self.words, &self.shared) {
                CommandBytes::Taken => continue,
                CommandBytes::Incomplete => break Served::Done,
                CommandBytes::None => (),
            }
            if requests.is_multiple_of(BATCH) {
                state.prefetch(paths(rest));
            }
            let (payload, behind) = match next_frame(conn, &self.shared, rest, self.frame_bytes_max) {
                Ok(Some(frame)) => frame,
                Ok(None) => break Served::Done,
                Err(reason) => {
                    conn.closing = true;
                    complaint = Some(reason);
                    continue;
                }
            };
            let (before, in_flight) = (conn.output.len(), conn.core.in_flight());
            let (shared, settings, submission) = (&self.shared, self.settings, &mut self.submission);
            let small_replies_only = self.pressure == Pressure::Full;
            let mut turn = Turn { now, state, settings, room, small_replies_only, waited_ms, shared, submission };
            match take_frame(conn, payload, &mut turn) {
                FrameOutcome::Continue => (),
                FrameOutcome::Wait(shortage) => break Served::Stalled(shortage),
                FrameOutcome::Close => {
                    conn.closing = true;
                    conn.output.truncate(before);
                }
            }
            *rest = behind;
            self.figures.on_frame(conn, payload, before, in_flight, now);
            requests += 1;
            budget.requests -= 1;
            budget.bytes = budget.bytes.saturating_sub(conn.output.len().saturating_sub(before));
        };
        note_waiting(conn, now, rest, served, requests);
        self.figures.on_served(conn, now);
        if let Some(reason) = complaint {
            self.complain(slot, now, &reason);
        }
        served
    }
}

/// How much of the share of replies is used, and the unsent bytes at which a connection's requests wait for that.
pub(super) fn unsent_limits(shared: &Shared) -> (Pressure, usize) {
    let pressure = shared.totals.pressure(0);
    (pressure, if pressure == Pressure::Low { UNSENT_BYTES_PAUSE } else { 0 })
}

/// What all frames of a connection are served with.
struct Turn<'a> {
    now: Now,
    state: &'a State,
    settings: ConnSettings,
    room: Admission,
    small_replies_only: bool,
    waited_ms: i64,
    shared: &'a Shared,
    submission: &'a mut Submission,
}

/// What the first bytes of a connection are, as far as four-letter commands are concerned.
enum CommandBytes {
    Taken,
    Incomplete,
    None,
}

/// Takes a four-letter command, which only the first bytes of a connection can be.
fn take_command(conn: &mut Connection, bytes: &[u8], words: &mut WordQueue, shared: &Shared) -> CommandBytes {
    if !conn.core.is_new() {
        return CommandBytes::None;
    }
    match words::hear(bytes, &shared.config.four_letter_whitelist) {
        Heard::Word(word) => {
            conn.asked_word = true;
            conn.closing = !words.ask(shared, conn.core.id(), &conn.figures, word);
            CommandBytes::Taken
        }
        Heard::TooLittle => CommandBytes::Incomplete,
        Heard::Nothing => CommandBytes::None,
    }
}

/// The frame at the start of `bytes`, if it is complete; or why the connection cannot go on.
fn next_frame<'a>(
    conn: &Connection,
    shared: &Shared,
    bytes: &'a [u8],
    bytes_max: usize,
) -> Result<Option<Split<'a>>, String> {
    let bytes_max = if conn.core.is_new() { bytes_max.min(HANDSHAKE_BYTES_MAX) } else { bytes_max };
    let frame = split_frame(bytes, bytes_max).map_err(|error| error.to_string())?;
    let announced = || bytes.first_chunk().map_or(0, |prefix| u32::from_be_bytes(*prefix)) as usize;
    if frame.is_none() && shared.totals.is_large(announced()) && !shared.totals.has_large_room(announced()) {
        shared.metrics.large_requests_rejected.add(1);
        return Err("too many large requests".to_owned());
    }
    Ok(frame)
}

/// The paths in the frames that are complete.
fn paths(mut bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let frames = std::iter::from_fn(move || {
        let (payload, behind) = split_frame(bytes, usize::MAX).ok()??;
        bytes = behind;
        Some(payload)
    });
    frames.filter_map(|payload| request_path(payload.get(REQUEST_HEAD_BYTES..)?))
}

/// Serves one frame.
fn take_frame(conn: &mut Connection, payload: &[u8], turn: &mut Turn<'_>) -> FrameOutcome {
    let totals = &turn.shared.totals;
    let is_large = totals.is_large(payload.len());
    if is_large && !totals.take_large_room(payload.len()) {
        turn.shared.metrics.large_requests_rejected.add(1);
        return FrameOutcome::Close;
    }
    let in_flight = conn.core.in_flight();
    let admit = |newcomer| turn.shared.admit(turn.now, newcomer);
    let verdict = conn.core.on_frame(
        payload,
        &mut Service {
            now: turn.now,
            state: turn.state,
            settings: turn.settings,
            admission: turn.room,
            small_replies_only: turn.small_replies_only,
            waited_ms: turn.waited_ms,
            admit: &admit,
            out: &mut conn.output,
            submission: turn.submission,
        },
    );
    let handed = conn.core.in_flight() - in_flight;
    conn.handed += u64::from(handed);
    if is_large && handed != 0 {
        conn.large.push((conn.handed, payload.len()));
    } else if is_large {
        totals.free_large_room(payload.len());
    }
    note_late(&conn.core, &turn.settings, turn.waited_ms, verdict, &turn.shared.metrics);
    verdict
}

/// Counts a request that had waited, if it came too late.
fn note_late(core: &Conn, settings: &ConnSettings, waited_ms: i64, verdict: FrameOutcome, metrics: &Metrics) {
    if waited_ms == 0 {
        return;
    }
    let is_throttled = 0 < settings.throttled_op_wait_ms && settings.throttled_op_wait_ms < waited_ms;
    let is_spared = |op| {
        use ox_proto::OpCode as O;
        matches!(op, O::Ping | O::CloseSession | O::CreateSession | O::Auth | O::Sasl)
    };
    if verdict == FrameOutcome::Close && settings.drop_late && i64::from(core.timeout_ms()) < waited_ms {
        metrics.stale_requests.add(1);
        metrics.stale_requests_dropped.add(1);
    } else if verdict == FrameOutcome::Continue && is_throttled && !core.last_op().is_none_or(is_spared) {
        metrics.throttled_ops.add(1);
    }
}

/// Notes since when frames have been waiting, for those that must not wait too long.
fn note_waiting(conn: &mut Connection, now: Now, rest: &[u8], served: Served, requests: usize) {
    if requests != 0 {
        conn.partial_since_ms = None;
    }
    let is_waiting = served == Served::More || matches!(split_frame(rest, usize::MAX), Ok(Some(_)));
    conn.held_since_ms = is_waiting.then(|| conn.held_since_ms.unwrap_or(now.mono_ms));
}
