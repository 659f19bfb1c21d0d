//! Connections that have been silent, slow or stuck for too long.

use super::connection::Connection;
use super::turn::IoThread;
use crate::limits::{
    BUFFERED_BYTES_SMALL, FRAME_BYTES_PER_SECOND_MIN, FRAME_DEADLINE_MS, STANDSTILL_MS, UNSENT_BYTES_PAUSE,
};
use ox_replica::{Now, Room};

/// How often connections are looked at, at least.
const CHECK_MS: i64 = 1000;

/// Why a connection is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// Nothing came or went.
    Silent,
    /// It does not take what it is sent.
    Stuck,
    /// A frame does not get complete.
    Slow,
}

impl IoThread {
    /// Closes connections that have been silent, slow or stuck for too long. Looks again when the next may be.
    pub(super) fn check_idle(&mut self, now: Now) {
        let step_ms = i64::from(self.shared.config.sessionless_timeout_ms.max(1));
        self.next_idle_check_ms = now.mono_ms + CHECK_MS.min(step_ms);
        let are_full = self.shared.totals.buffers_are_full();
        for slot in 0..self.conns.len() {
            let Some(conn) = self.conns[slot].as_mut() else { continue };
            match fault(conn, now.mono_ms, step_ms, are_full) {
                None => continue,
                Some(Fault::Silent) => {
                    tracing::debug!(address = %conn.address, "connection closed: silent for too long");
                    self.figures.on_idle();
                }
                Some(Fault::Stuck) => self.complain(slot, now, "it does not read what it is sent"),
                Some(Fault::Slow) => self.complain(slot, now, "a request did not become complete"),
            }
            self.close(slot);
        }
    }
}

fn fault(conn: &mut Connection, now_ms: i64, step_ms: i64, are_full: bool) -> Option<Fault> {
    let timeout_ms = if conn.core.session().is_some() { i64::from(conn.core.timeout_ms()) } else { step_ms };
    if let Some(since_ms) = conn.stuck_since_ms {
        let stuck_ms = now_ms - since_ms;
        let is_in_the_way = are_full && BUFFERED_BYTES_SMALL < conn.unsent() && STANDSTILL_MS <= stuck_ms;
        if timeout_ms <= stuck_ms || is_in_the_way {
            return Some(Fault::Stuck);
        }
    } else if conn.core.in_flight() != 0 || conn.stalled {
        return None; // it waits for us, and is perhaps not even read
    }
    if conn.figures.closes_at_ms(step_ms) <= now_ms {
        return Some(Fault::Silent);
    }
    let is_ours_to_read = conn.core.may_take(Room::Plenty) && conn.unsent() <= UNSENT_BYTES_PAUSE;
    if conn.input.is_empty() || !is_ours_to_read || conn.has_frame() {
        conn.partial_since_ms = None;
        return None;
    }
    let since_ms = *conn.partial_since_ms.get_or_insert(now_ms);
    let seconds = i64::try_from(conn.input.len() / FRAME_BYTES_PER_SECOND_MIN).unwrap_or(i64::MAX);
    (FRAME_DEADLINE_MS + 1000 * seconds <= now_ms - since_ms).then_some(Fault::Slow)
}
