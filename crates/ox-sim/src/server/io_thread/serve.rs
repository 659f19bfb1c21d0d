//! Serves frames of several connections under one read lock of the state.

use super::{IoThread, Serving, Stage};
use crate::env::Env;
use crate::server::connection::Connection;
use ox_proto::frame::split_frame;
use ox_proto::limits::FRAME_BYTES_MAX_DEFAULT;
use ox_replica::{Admission, FrameOutcome, Service, Submission};

/// Bytes of replies that are written under one read lock.
const ANSWERED_AT_ONCE_BYTES: usize = 64 << 10;

/// What may still be served before the thread releases the read lock.
struct Budget {
    requests: usize,
    bytes: usize,
}

/// How far a connection was served.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Served {
    /// No further frame can be served now.
    Done,
    /// The budget is used up and frames are left.
    More,
    /// The next request is not admitted yet.
    Stalled,
}

impl IoThread {
    /// Serves the listed connections from index `from`.
    pub(super) fn serve(&mut self, env: &mut Env, serving: &Serving<'_>, from: usize) {
        self.deliver(env);
        let mut budget = Budget { requests: env.plan.served_at_once, bytes: ANSWERED_AT_ONCE_BYTES };
        for at in from..self.listed.len() {
            let slot = self.listed[at];
            match self.serve_connection(env, serving, slot, &mut budget) {
                Served::Done => (),
                Served::Stalled => {
                    env.coverage.stalled += 1;
                    self.stall(slot);
                }
                Served::More => {
                    self.stage = Stage::Serve(at);
                    return;
                }
            }
        }
        self.stage = Stage::Submit;
    }

    fn serve_connection(&mut self, env: &mut Env, serving: &Serving<'_>, slot: usize, budget: &mut Budget) -> Served {
        let Some(connection) = self.connections[slot].as_mut().filter(|connection| !connection.stalled) else {
            return Served::Done;
        };
        let input = std::mem::take(&mut connection.input);
        let mut rest = &input[..];
        let waited_ms = connection.held_since_ms.map_or(0, |since_ms| serving.now.mono_ms - since_ms);
        let served = loop {
            if connection.closing {
                rest = &[];
                break Served::Done;
            }
            if budget.requests == 0 || budget.bytes == 0 {
                break Served::More;
            }
            let admission = serving.server_load.admission(self.submission.load());
            env.coverage.one_per_connection +=
                u64::from(admission == Admission::OnePerConnection && !connection.core.may_take(admission));
            if !connection.core.may_take(admission) || env.plan.unsent_pause_bytes < connection.output.len() {
                break Served::Done;
            }
            match split_frame(rest, FRAME_BYTES_MAX_DEFAULT) {
                Ok(Some((payload, behind))) => {
                    let before = connection.output.len();
                    match serve_frame(env, connection, serving, admission, waited_ms, &mut self.submission, payload) {
                        FrameOutcome::Continue => (),
                        FrameOutcome::Wait(_) => break Served::Stalled,
                        FrameOutcome::Close => {
                            connection.closing = true;
                            connection.output.truncate(before);
                        }
                    }
                    rest = behind;
                    budget.requests -= 1;
                    budget.bytes = budget.bytes.saturating_sub(connection.output.len().saturating_sub(before));
                }
                Ok(None) => break Served::Done,
                Err(_) => connection.closing = true,
            }
        };
        connection.input = rest.to_vec();
        let is_waiting = served == Served::More || matches!(split_frame(rest, usize::MAX), Ok(Some(_)));
        connection.held_since_ms = is_waiting.then(|| connection.held_since_ms.unwrap_or(serving.now.mono_ms));
        served
    }
}

fn serve_frame(
    env: &mut Env,
    connection: &mut Connection,
    serving: &Serving<'_>,
    admission: Admission,
    waited_ms: i64,
    submission: &mut Submission,
    payload: &[u8],
) -> FrameOutcome {
    let in_flight = connection.core.in_flight();
    let admit = |newcomer| match &mut *serving.throttle.borrow_mut() {
        Some(throttle) => throttle.admit(serving.now, newcomer, 1.0),
        None => true,
    };
    let mut service = Service {
        now: serving.now,
        state: serving.state,
        settings: serving.settings,
        admission,
        small_replies_only: false,
        waited_ms,
        admit: &admit,
        out: &mut connection.output,
        submission,
    };
    let verdict = connection.core.on_frame(payload, &mut service);
    env.coverage.waiting_reads += u64::from(0 < in_flight && in_flight < connection.core.in_flight());
    verdict
}
