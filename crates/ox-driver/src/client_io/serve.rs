//! Serving frames, from the arena or from a connection's input buffer. The connection's core
//! (`ox-replica/src/conn.rs`) replies to reads, and adds writes to the submission.

use super::ClientIo;
use super::connection::Connection;
use super::host::{ClientHost, ClientNote, CloseReason, FirstBytes, SaslTurn};
use super::limits::{HANDSHAKE_BYTES_MAX, SUBMISSION_BYTES_MAX};
use super::settings::ClientIoSizes;
use ox_proto::frame::{Split, split_frame};
use ox_proto::quorum::hello::TLS_HANDSHAKE;
use ox_replica::{
    Admission, Conn, ConnSettings, FrameOutcome, Load, Now, Pressure, SMALL_BYTES, Service, Shortage, Submission,
};
use ox_tree::State;
use ox_tree::prefetch::{BATCH, request_path};

/// Xid and type of a request.
const REQUEST_HEAD_BYTES: usize = 8;

/// What may still be served before the read lock of the state is released.
struct Budget {
    requests: usize,
    bytes: usize,
}

impl Budget {
    fn new(sizes: &ClientIoSizes) -> Self {
        Self { requests: sizes.requests_per_lock, bytes: sizes.reply_bytes_per_lock }
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

impl<S, R> ClientIo<S, R> {
    /// Delivers the mail, then serves received frames, and those that had to wait, until a budget is spent. Returns
    /// whether frames are left. The state is locked meanwhile, so that writers proceed between two calls.
    pub(super) fn serve<H: ClientHost<Socket = S, Record = R>>(&mut self, host: &mut H) -> bool {
        let state = host.lock_state();
        self.deliver(host, &state);
        let mut budget = Budget::new(&self.settings.sizes);
        let is_left = self.serve_received(host, &state, &mut budget) || self.serve_waiting(host, &state, &mut budget);
        drop(state);
        self.step_sasl(host);
        if is_left {
            host.note(ClientNote::BudgetSpent);
        } else {
            self.received.clear();
            (self.served, self.next_waiting) = (0, 0);
        }
        is_left
    }

    /// Serves frames in the arena. Returns whether some are left.
    fn serve_received<H>(&mut self, host: &mut H, state: &State, budget: &mut Budget) -> bool
    where
        H: ClientHost<Socket = S, Record = R>,
    {
        while let Some((slot, range)) = self.received.get(self.served).cloned() {
            // The arena is moved out, so that a connection and its bytes can be borrowed side by side.
            let arena = std::mem::take(&mut self.arena);
            let mut rest = &arena[range.clone()];
            let is_left = self.serve_slice(slot, host, state, &mut rest, budget);
            let start = range.end - rest.len();
            self.arena = arena;
            if is_left {
                self.received[self.served].1.start = start;
                return true;
            }
            self.served += 1;
        }
        false
    }

    /// Serves received bytes of one connection, and keeps what is left. Returns whether the budget is spent before.
    fn serve_slice<H>(
        &mut self,
        slot: usize,
        host: &mut H,
        state: &State,
        rest: &mut &[u8],
        budget: &mut Budget,
    ) -> bool
    where
        H: ClientHost<Socket = S, Record = R>,
    {
        let Some(conn) = self.conns[slot].as_mut() else { return false };
        if !conn.input.is_empty() {
            conn.keep(rest);
            *rest = &[];
        }
        if !rest.is_empty() && self.serve_connection(slot, host, state, rest, budget) {
            return true;
        }
        if let Some(conn) = self.conns[slot].as_mut().filter(|_| !rest.is_empty()) {
            self.pool.lend(&mut conn.input);
            conn.keep(rest);
        }
        self.count(slot, host);
        false
    }

    /// Serves frames in input buffers: those that were incomplete, and those that had to wait. Returns whether some are
    /// left.
    fn serve_waiting<H>(&mut self, host: &mut H, state: &State, budget: &mut Budget) -> bool
    where
        H: ClientHost<Socket = S, Record = R>,
    {
        while let Some(&slot) = self.ready.get(self.next_waiting) {
            if let Some(conn) = self.conns[slot].as_mut()
                && !conn.input.is_empty()
                && conn.stalled.is_none()
            {
                let input = std::mem::take(&mut conn.input);
                let mut rest = &input[..];
                let is_left = self.serve_connection(slot, host, state, &mut rest, budget);
                let served = input.len() - rest.len();
                if let Some(conn) = self.conns[slot].as_mut() {
                    conn.input = input;
                    conn.on_served(served);
                    self.pool.take_back(&mut conn.input);
                }
                if is_left {
                    return true;
                }
                self.reserve_frame(slot, host);
                self.count(slot, host);
            }
            self.next_waiting += 1;
        }
        false
    }

    /// Reports the buffers of a connection to the global limits if they have grown much.
    fn count<H: ClientHost<Socket = S, Record = R>>(&mut self, slot: usize, host: &H) {
        if let Some(conn) = self.conns[slot].as_mut().filter(|conn| conn.has_grown_much()) {
            host.limits().on_buffers_grown(conn.growth());
        }
    }

    /// Reserves memory for a large frame that is being received. Without the reservation the connection is not read.
    fn reserve_frame<H: ClientHost<Socket = S, Record = R>>(&mut self, slot: usize, host: &mut H) {
        let frame_bytes_max = self.settings.frame_bytes_max;
        let Some(conn) = self.conns[slot].as_mut() else { return };
        // A frame beyond the limit is refused when it is served.
        let is_large = |bytes: &usize| SMALL_BYTES < *bytes && *bytes <= frame_bytes_max + 4;
        let is_partial = |bytes: &usize| conn.input.len() < *bytes && conn.reserved != *bytes;
        let Some(frame_bytes) = conn.frame_bytes().filter(|bytes| is_large(bytes) && is_partial(bytes)) else { return };
        let fits = host.limits().reserve(conn.unreserved(frame_bytes));
        if fits {
            conn.on_reserved(frame_bytes);
        }
        let waited = conn.waiting_for_frame.take();
        waited.into_iter().for_each(|bytes| host.limits().stop_waiting_for_frame(bytes));
        if !fits {
            conn.waiting_for_frame = Some(conn.input.len());
            host.limits().start_waiting_for_frame(conn.input.len());
            host.note(ClientNote::FrameWaits);
            self.stall(slot, Shortage::Frames);
        }
    }

    /// Serves the frames at the start of `rest` and advances it. Returns whether the budget is spent and frames are
    /// left.
    fn serve_connection<H>(
        &mut self,
        slot: usize,
        host: &mut H,
        state: &State,
        rest: &mut &[u8],
        budget: &mut Budget,
    ) -> bool
    where
        H: ClientHost<Socket = S, Record = R>,
    {
        let served = self.serve_frames(slot, host, state, rest, budget);
        if SUBMISSION_BYTES_MAX <= self.submission.bytes.len() {
            self.submit(host);
            self.admission = host.limits().admission(Load::default());
        }
        if let Served::Stalled(shortage) = served {
            if self.conns[slot].as_ref().is_some_and(|conn| conn.was_stalled.is_none()) {
                host.note(ClientNote::Stalled);
            }
            self.stall(slot, shortage);
        }
        if self.conns[slot].as_ref().is_some_and(|conn| conn.core.has_sasl_token()) {
            self.sasl_steps.push(slot);
        }
        served == Served::More
    }

    /// Steps SASL exchanges whose token has arrived. The state is not locked: a step hashes and decrypts.
    fn step_sasl<H: ClientHost<Socket = S, Record = R>>(&mut self, host: &mut H) {
        let (now, auth) = (self.now, self.settings.conn.auth);
        for slot in self.sasl_steps.drain(..) {
            let Some(conn) = self.conns[slot].as_mut().filter(|conn| !conn.closing) else { continue };
            let in_flight = conn.core.in_flight();
            let Connection { core, record, output, .. } = conn;
            host.step_sasl(SaslTurn { core, record, auth, now, out: output, submission: &mut self.submission });
            conn.submitted += u64::from(conn.core.in_flight() - in_flight);
        }
    }

    /// Serves frames until the budget is spent or no further frame may be served.
    fn serve_frames<H>(
        &mut self,
        slot: usize,
        host: &mut H,
        state: &State,
        rest: &mut &[u8],
        budget: &mut Budget,
    ) -> Served
    where
        H: ClientHost<Socket = S, Record = R>,
    {
        self.check_unsent(host);
        let now = self.now;
        let Some(conn) = self.conns[slot].as_mut() else {
            *rest = &[];
            return Served::Done;
        };
        self.pool.lend(&mut conn.output);
        let mut requests = 0_usize;
        let waited_ms = conn.held_since_ms.map_or(0, |since_ms| now.mono_ms - since_ms);
        let served = loop {
            if conn.closing || conn.is_command {
                *rest = &[];
                break Served::Done;
            }
            // Without bytes the connection is not visited again, and would seem to wait from now on.
            if budget.is_spent() && !rest.is_empty() {
                break Served::More;
            }
            let admission = host.limits().recheck_admission(self.admission, self.submission.load());
            let admission = if conn.is_overdue { admission.for_overdue() } else { admission };
            if is_held_back(conn, self.pause_bytes, admission, host) {
                break Served::Done;
            }
            match take_command(conn, rest, host) {
                FirstBytes::Command | FirstBytes::Refused => continue,
                FirstBytes::Incomplete => break Served::Done,
                FirstBytes::Frame => (),
            }
            if requests.is_multiple_of(BATCH) {
                state.prefetch(paths(rest));
            }
            let (payload, after) = match next_frame(conn, rest, self.settings.frame_bytes_max, host) {
                Ok(Some(frame)) => frame,
                Ok(None) => break Served::Done,
                Err(reason) => {
                    conn.closing = true;
                    host.on_close(&conn.core, &conn.record, CloseReason::Refused(&reason), now);
                    continue;
                }
            };
            let before = conn.output.len();
            let mut context = ServeContext {
                now,
                state,
                settings: self.settings.conn,
                admission,
                small_replies_only: self.pressure == Pressure::Full,
                waited_ms,
                submission: &mut self.submission,
            };
            match take_frame(conn, payload, &mut context, host) {
                FrameOutcome::Continue => (),
                FrameOutcome::Wait(shortage) => break Served::Stalled(shortage),
                FrameOutcome::Close => {
                    conn.closing = true;
                    conn.output.truncate(before);
                }
            }
            *rest = after;
            requests += 1;
            budget.requests -= 1;
            budget.bytes = budget.bytes.saturating_sub(conn.output.len().saturating_sub(before));
        };
        note_waiting(conn, now, rest, served, requests);
        host.on_served(&conn.core, &conn.record, now);
        served
    }
}

/// The arguments that all frames of a connection share.
struct ServeContext<'a> {
    now: Now,
    state: &'a State,
    settings: ConnSettings,
    admission: Admission,
    small_replies_only: bool,
    waited_ms: i64,
    submission: &'a mut Submission,
}

/// Whether no further frame of a connection may be served now: its client does not read, or too much is in flight.
fn is_held_back<H: ClientHost>(
    conn: &Connection<H::Socket, H::Record>,
    pause_bytes: usize,
    admission: Admission,
    host: &mut H,
) -> bool {
    let may_take = conn.core.may_take(admission);
    if admission == Admission::OnePerConnection && !may_take {
        host.note(ClientNote::OnePerConnection);
    }
    pause_bytes < conn.unsent() || !may_take
}

/// Takes a four-letter command. Only the first bytes of a connection can be one.
fn take_command<H: ClientHost>(conn: &mut Connection<H::Socket, H::Record>, bytes: &[u8], host: &mut H) -> FirstBytes {
    if !conn.core.is_new() {
        return FirstBytes::Frame;
    }
    let first = host.take_command(conn.core.id(), &conn.record, bytes);
    if matches!(first, FirstBytes::Command | FirstBytes::Refused) {
        (conn.is_command, conn.closing) = (true, first == FirstBytes::Refused);
    }
    first
}

/// The frame at the start of `bytes` if it is complete, or the reason to close the connection.
fn next_frame<'a, H: ClientHost>(
    conn: &Connection<H::Socket, H::Record>,
    bytes: &'a [u8],
    bytes_max: usize,
    host: &mut H,
) -> Result<Option<Split<'a>>, String> {
    let bytes_max = if conn.core.is_new() { bytes_max.min(HANDSHAKE_BYTES_MAX) } else { bytes_max };
    let frame = split_frame(bytes, bytes_max).map_err(|error| {
        match conn.core.is_new() && bytes.starts_with(&TLS_HANDSHAKE) {
            true => "the client uses TLS, and this port does not".to_owned(),
            false => error.to_string(),
        }
    })?;
    let announced = || bytes.first_chunk().map_or(0, |prefix| u32::from_be_bytes(*prefix)) as usize;
    if frame.is_none() && host.limits().is_large(announced()) && !host.limits().fits_large(announced()) {
        host.note(ClientNote::LargeRefused);
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

fn take_frame<H: ClientHost>(
    conn: &mut Connection<H::Socket, H::Record>,
    payload: &[u8],
    context: &mut ServeContext<'_>,
    host: &mut H,
) -> FrameOutcome {
    let is_large = host.limits().is_large(payload.len());
    if is_large && !host.limits().reserve_large(payload.len()) {
        host.note(ClientNote::LargeRefused);
        return FrameOutcome::Close;
    }
    let (before, in_flight, now) = (conn.output.len(), conn.core.in_flight(), context.now);
    let outcome = conn.core.on_frame(
        payload,
        &mut Service {
            now,
            state: context.state,
            settings: context.settings,
            admission: context.admission,
            small_replies_only: context.small_replies_only,
            waited_ms: context.waited_ms,
            admit: &|kind| host.admits(now, kind),
            out: &mut conn.output,
            submission: context.submission,
        },
    );
    if let Some(event) = conn.core.take_auth_event() {
        host.on_auth_event(&conn.core, &conn.record, event, now);
    }
    let submitted = conn.core.in_flight() - in_flight;
    conn.submitted += u64::from(submitted);
    if is_large && submitted != 0 {
        conn.large.push((conn.submitted, payload.len()));
    } else if is_large {
        host.limits().release_large(payload.len());
    }
    note_late(&conn.core, context, outcome, host);
    if !matches!(outcome, FrameOutcome::Wait(_)) {
        if in_flight != 0 && submitted != 0 {
            host.note(ClientNote::FollowsInFlight);
        }
        let reply = (submitted == 0).then(|| conn.output.get(before..).unwrap_or_default());
        let reply = if outcome == FrameOutcome::Close { reply.map(|_| &[][..]) } else { reply };
        host.on_frame(&conn.core, &mut conn.record, payload, reply, now);
    }
    outcome
}

/// Counts a request that waited for too long.
fn note_late(core: &Conn, context: &ServeContext<'_>, outcome: FrameOutcome, host: &mut impl ClientHost) {
    let (settings, waited_ms) = (&context.settings, context.waited_ms);
    if waited_ms == 0 {
        return;
    }
    let is_throttled = 0 < settings.throttled_op_wait_ms && settings.throttled_op_wait_ms < waited_ms;
    let is_spared = |op| {
        use ox_proto::OpCode as O;
        matches!(op, O::Ping | O::CloseSession | O::CreateSession | O::Auth | O::Sasl)
    };
    if outcome == FrameOutcome::Close && settings.drop_late && i64::from(core.timeout_ms()) < waited_ms {
        host.note(ClientNote::StaleDropped);
    } else if outcome == FrameOutcome::Continue && is_throttled && !core.last_op().is_none_or(is_spared) {
        host.note(ClientNote::Throttled);
    }
}

/// Records since when frames have been waiting, for the limits on that time.
fn note_waiting<S, R>(conn: &mut Connection<S, R>, now: Now, rest: &[u8], served: Served, requests: usize) {
    if requests != 0 {
        conn.partial_since_ms = None;
    }
    let is_waiting = served == Served::More || matches!(split_frame(rest, usize::MAX), Ok(Some(_)));
    conn.held_since_ms = is_waiting.then(|| conn.held_since_ms.unwrap_or(now.mono_ms));
}
