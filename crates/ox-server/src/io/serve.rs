//! Serving frames, from the arena or from a connection's input buffer. The connection's core
//! (`ox-replica/src/conn.rs`) replies to reads, and adds writes to the submission.

use super::connection::Connection;
use super::io_thread::IoThread;
use crate::four_letter::{self, CommandQueue, Parsed};
use crate::limits::{
    HANDSHAKE_BYTES_MAX, REPLY_BYTES_PER_LOCK, REQUESTS_PER_LOCK_MAX, SUBMISSION_BYTES_MAX, UNSENT_BYTES_PAUSE,
};
use crate::metrics::Metrics;
use crate::shared::Shared;
use ox_proto::frame::{Split, split_frame};
use ox_replica::{
    Admission, Conn, ConnSettings, FrameOutcome, Load, Now, Pressure, SMALL_BYTES, Service, Shortage, Submission,
};
use ox_tree::State;
use ox_tree::prefetch::{BATCH, request_path};
use parking_lot::RwLockReadGuard;
use std::sync::Arc;

/// Xid and type of a request.
const REQUEST_HEAD_BYTES: usize = 8;

/// What may still be served before the read lock of the state is released.
pub(super) struct Budget {
    requests: usize,
    bytes: usize,
}

impl Budget {
    fn new() -> Self {
        Self { requests: REQUESTS_PER_LOCK_MAX, bytes: REPLY_BYTES_PER_LOCK }
    }

    fn is_spent(&self) -> bool {
        self.requests == 0 || self.bytes == 0
    }
}

/// Result of serving the frames of a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Served {
    /// All frames that may be served now are served.
    Done,
    /// The budget is spent, and frames are left.
    More,
    /// The next frame waits until the server has memory for it.
    Stalled(Shortage),
}

impl IoThread {
    /// Serves all received frames, and those that had to wait.
    pub(super) fn serve(&mut self, now: Now) {
        let shared = Arc::clone(&self.shared);
        let mut state = shared.state.read();
        self.stats.on_state(shared.clock.mono_ms(), state.last_zxid());
        self.deliver();
        let mut budget = Budget::new();
        for (slot, range) in std::mem::take(&mut self.received) {
            // The arena is moved out, so that a connection and its bytes can be borrowed side by side.
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

    /// Serves frames in input buffers: those that were incomplete, and those that had to wait.
    fn serve_waiting(&mut self, now: Now, state: &mut RwLockReadGuard<'_, State>, budget: &mut Budget) {
        let mut at = 0;
        while at < self.ready.len() {
            let slot = self.ready[at];
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

    /// Reports the buffers of a connection to the global limits if they have grown much.
    fn count(&mut self, slot: usize) {
        if let Some(conn) = self.conns[slot].as_mut().filter(|conn| conn.has_grown_much()) {
            self.shared.global_limits.on_buffers_grown(conn.growth());
        }
    }

    /// Reserves memory for a large frame that is being received. Without the reservation the connection is not read.
    fn reserve_frame(&mut self, slot: usize, now: Now) {
        let (global_limits, frame_bytes_max) = (&self.shared.global_limits, self.frame_bytes_max);
        let Some(conn) = self.conns[slot].as_mut() else { return };
        // A frame beyond the limit is refused when it is served.
        let is_large = |bytes: &usize| SMALL_BYTES < *bytes && *bytes <= frame_bytes_max + 4;
        let is_partial = |bytes: &usize| conn.input.len() < *bytes && conn.reserved != *bytes;
        let Some(frame_bytes) = conn.frame_bytes().filter(|bytes| is_large(bytes) && is_partial(bytes)) else { return };
        let fits = global_limits.reserve(conn.unreserved(frame_bytes));
        if fits {
            conn.on_reserved(frame_bytes);
        }
        if conn.waits_for_frame == fits {
            conn.waits_for_frame = !fits;
            global_limits.wait_for_frame(!fits);
        }
        if !fits {
            self.stall(slot, Shortage::Frames, now);
        }
    }

    /// Serves the frames at the start of `rest` and advances it. The lock is released in between, so that writers can
    /// proceed.
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
            if SUBMISSION_BYTES_MAX <= self.submission.bytes.len() {
                self.submit();
                self.admission = self.shared.global_limits.admission(Load::default());
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
                    self.stats.on_state(self.shared.clock.mono_ms(), state.last_zxid());
                    self.deliver();
                    *budget = Budget::new();
                }
            }
        }
    }

    /// Serves frames until the budget is spent or no further frame may be served.
    fn serve_frames(&mut self, slot: usize, now: Now, state: &State, rest: &mut &[u8], budget: &mut Budget) -> Served {
        let Some(conn) = self.conns[slot].as_mut() else {
            *rest = &[];
            return Served::Done;
        };
        self.pool.lend(&mut conn.output);
        (self.pressure, self.pause_bytes) = unsent_limits(&self.shared);
        let (mut requests, mut close_reason) = (0_usize, None);
        let waited_ms = conn.held_since_ms.map_or(0, |since_ms| now.mono_ms - since_ms);
        let served = loop {
            if conn.closing || conn.is_command {
                *rest = &[];
                break Served::Done;
            }
            if budget.is_spent() {
                break Served::More;
            }
            let admission = self.shared.global_limits.recheck_admission(self.admission, self.submission.load());
            let admission = if conn.is_overdue { admission.for_overdue() } else { admission };
            if !conn.core.may_take(admission) || self.pause_bytes < conn.unsent() {
                break Served::Done;
            }
            match take_command(conn, rest, &mut self.commands, &self.shared) {
                CommandBytes::Taken => continue,
                CommandBytes::Incomplete => break Served::Done,
                CommandBytes::None => (),
            }
            if requests.is_multiple_of(BATCH) {
                state.prefetch(paths(rest));
            }
            let (payload, after) = match next_frame(conn, &self.shared, rest, self.frame_bytes_max) {
                Ok(Some(frame)) => frame,
                Ok(None) => break Served::Done,
                Err(reason) => {
                    conn.closing = true;
                    close_reason = Some(reason);
                    continue;
                }
            };
            let (before, in_flight) = (conn.output.len(), conn.core.in_flight());
            let (shared, settings, submission) = (&self.shared, self.settings, &mut self.submission);
            let small_replies_only = self.pressure == Pressure::Full;
            let mut context =
                ServeContext { now, state, settings, admission, small_replies_only, waited_ms, shared, submission };
            match take_frame(conn, payload, &mut context) {
                FrameOutcome::Continue => (),
                FrameOutcome::Wait(shortage) => break Served::Stalled(shortage),
                FrameOutcome::Close => {
                    conn.closing = true;
                    conn.output.truncate(before);
                }
            }
            *rest = after;
            self.stats.on_frame(conn, payload, before, in_flight, now);
            requests += 1;
            budget.requests -= 1;
            budget.bytes = budget.bytes.saturating_sub(conn.output.len().saturating_sub(before));
        };
        note_waiting(conn, now, rest, served, requests);
        self.stats.on_served(conn, now);
        if let Some(reason) = close_reason {
            self.log_close(slot, now, &reason);
        }
        served
    }
}

/// How much of the memory share of replies is used, and the unsent bytes at which a connection is no longer read.
pub(super) fn unsent_limits(shared: &Shared) -> (Pressure, usize) {
    let pressure = shared.global_limits.pressure(0);
    (pressure, if pressure == Pressure::Low { UNSENT_BYTES_PAUSE } else { 0 })
}

/// The arguments that all frames of a connection share.
struct ServeContext<'a> {
    now: Now,
    state: &'a State,
    settings: ConnSettings,
    admission: Admission,
    small_replies_only: bool,
    waited_ms: i64,
    shared: &'a Shared,
    submission: &'a mut Submission,
}

/// Whether the first bytes of a connection are a four-letter command.
enum CommandBytes {
    Taken,
    Incomplete,
    None,
}

/// Takes a four-letter command. Only the first bytes of a connection can be one.
fn take_command(conn: &mut Connection, bytes: &[u8], commands: &mut CommandQueue, shared: &Shared) -> CommandBytes {
    if !conn.core.is_new() {
        return CommandBytes::None;
    }
    match four_letter::parse(bytes, &shared.config.four_letter_whitelist) {
        Parsed::Command(command) => {
            conn.is_command = true;
            conn.closing = !commands.enqueue(shared, conn.core.id(), &conn.stats, command);
            CommandBytes::Taken
        }
        Parsed::Incomplete => CommandBytes::Incomplete,
        Parsed::NotACommand => CommandBytes::None,
    }
}

/// The frame at the start of `bytes` if it is complete, or the reason to close the connection.
fn next_frame<'a>(
    conn: &Connection,
    shared: &Shared,
    bytes: &'a [u8],
    bytes_max: usize,
) -> Result<Option<Split<'a>>, String> {
    let bytes_max = if conn.core.is_new() { bytes_max.min(HANDSHAKE_BYTES_MAX) } else { bytes_max };
    let frame = split_frame(bytes, bytes_max).map_err(|error| error.to_string())?;
    let announced = || bytes.first_chunk().map_or(0, |prefix| u32::from_be_bytes(*prefix)) as usize;
    if frame.is_none() && shared.global_limits.is_large(announced()) && !shared.global_limits.fits_large(announced()) {
        shared.metrics.large_requests_rejected.add(1);
        return Err("too many large requests".to_owned());
    }
    Ok(frame)
}

/// The paths of the requests in complete frames, for the prefetch.
fn paths(mut bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let frames = std::iter::from_fn(move || {
        let (payload, after) = split_frame(bytes, usize::MAX).ok()??;
        bytes = after;
        Some(payload)
    });
    frames.filter_map(|payload| request_path(payload.get(REQUEST_HEAD_BYTES..)?))
}

fn take_frame(conn: &mut Connection, payload: &[u8], context: &mut ServeContext<'_>) -> FrameOutcome {
    let global_limits = &context.shared.global_limits;
    let is_large = global_limits.is_large(payload.len());
    if is_large && !global_limits.reserve_large(payload.len()) {
        context.shared.metrics.large_requests_rejected.add(1);
        return FrameOutcome::Close;
    }
    let in_flight = conn.core.in_flight();
    let admit = |kind| context.shared.admit(context.now, kind);
    let verdict = conn.core.on_frame(
        payload,
        &mut Service {
            now: context.now,
            state: context.state,
            settings: context.settings,
            admission: context.admission,
            small_replies_only: context.small_replies_only,
            waited_ms: context.waited_ms,
            admit: &admit,
            out: &mut conn.output,
            submission: context.submission,
        },
    );
    let submitted = conn.core.in_flight() - in_flight;
    conn.submitted += u64::from(submitted);
    if is_large && submitted != 0 {
        conn.large.push((conn.submitted, payload.len()));
    } else if is_large {
        global_limits.release_large(payload.len());
    }
    note_late(&conn.core, &context.settings, context.waited_ms, verdict, &context.shared.metrics);
    verdict
}

/// Counts a request that waited for too long.
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

/// Records since when frames have been waiting, for the limits on that time.
fn note_waiting(conn: &mut Connection, now: Now, rest: &[u8], served: Served, requests: usize) {
    if requests != 0 {
        conn.partial_since_ms = None;
    }
    let is_waiting = served == Served::More || matches!(split_frame(rest, usize::MAX), Ok(Some(_)));
    conn.held_since_ms = is_waiting.then(|| conn.held_since_ms.unwrap_or(now.mono_ms));
}
