//! Closing of connections that have been silent, slow or stuck for too long. Their sessions stay, and may expire later.

use super::ClientIo;
use super::connection::Connection;
use super::host::{ClientHost, CloseReason};
use super::limits::{BUFFERED_BYTES_SMALL, FRAME_BYTES_PER_SECOND_MIN, FRAME_DEADLINE_MS, SLOW_MS};
use super::stalled::Stall;
use ox_replica::{Admission, Pressure, SMALL_BYTES, Shortage};

/// The longest interval between two checks.
const CHECK_MS: i64 = 1000;

/// What the server is short of memory for.
#[derive(Clone, Copy, Debug)]
struct MemoryPressure {
    pressure: Pressure,
    /// Unsent bytes at which the server stops reading from a connection.
    pause_bytes: usize,
    /// Large requests wait until memory of other requests is released.
    frames_wait: bool,
}

impl MemoryPressure {
    /// Unsent bytes above which a slow reader is closed.
    fn close_above(&self) -> Option<usize> {
        match self.pressure {
            Pressure::Low => None,
            Pressure::High => Some(BUFFERED_BYTES_SMALL),
            Pressure::Full => Some(SMALL_BYTES),
        }
    }
}

/// When a connection is closed if nothing is sent or received before, rounded up to `step_ms`.
pub fn closes_at_ms(last_io_ms: i64, timeout_ms: i64, step_ms: i64) -> i64 {
    ((last_io_ms + timeout_ms) / step_ms + 1) * step_ms
}

impl<S, R> ClientIo<S, R> {
    /// Closes connections that have been silent, slow or stuck for too long, and schedules the next check.
    pub(super) fn check_idle<H: ClientHost<Socket = S, Record = R>>(&mut self, host: &mut H) {
        let now = self.now;
        let step_ms = self.settings.sessionless_timeout_ms.max(1);
        let check_ms = CHECK_MS.min(step_ms);
        self.next_idle_check_ms = now.mono_ms + check_ms;
        // This thread reads no socket while it works. So, other than on the replica thread, its own work counts as a
        // pause.
        if let Some(late_ms) = self.pulse.check(now.mono_ms, check_ms, || 0) {
            for conn in self.conns.iter_mut().flatten() {
                extend_deadlines(conn, now.mono_ms, late_ms);
                host.on_io(&conn.record, conn.last_io_ms);
            }
        }
        self.lingering.check(now.mono_ms, host);
        self.pool.trim();
        self.check_unsent(host);
        let (pressure, pause_bytes) = (self.pressure, self.pause_bytes);
        let memory = MemoryPressure { pressure, pause_bytes, frames_wait: host.limits().do_frames_wait() };
        for slot in 0..self.conns.len() {
            let Some(conn) = self.conns[slot].as_mut() else { continue };
            if pressure != Pressure::Low && conn.rate_since_ms.is_some() {
                // The kernel reports free space only when there is much of it: a slow client may have read something.
                let _ = conn.flush_again(now.mono_ms, &mut self.pool, host); // if the socket is broken, the next iteration closes the connection
                self.mark_ready(slot);
            }
            let Some(conn) = self.conns[slot].as_mut() else { continue };
            if let Some(reason) = close_reason(conn, now.mono_ms, step_ms, memory) {
                host.on_close(&conn.core, &conn.record, reason, now);
                self.close(slot, host);
            }
        }
    }
}

/// Extends all deadlines of a connection by a pause of the thread, in which it could neither receive nor send.
fn extend_deadlines<S, R>(conn: &mut Connection<S, R>, now_ms: i64, late_ms: i64) {
    let later = |since_ms: i64| since_ms.saturating_add(late_ms).min(now_ms);
    conn.last_io_ms = later(conn.last_io_ms);
    conn.stuck_since_ms = conn.stuck_since_ms.map(later);
    conn.rate_since_ms = conn.rate_since_ms.map(later);
    conn.partial_since_ms = conn.partial_since_ms.map(later);
    conn.stalled = conn.stalled.map(|stall| Stall { since_ms: later(stall.since_ms), ..stall });
}

fn close_reason<S, R>(
    conn: &mut Connection<S, R>,
    now_ms: i64,
    step_ms: i64,
    memory: MemoryPressure,
) -> Option<CloseReason<'static>> {
    let timeout_ms = if conn.core.session().is_some() { i64::from(conn.core.timeout_ms()) } else { step_ms };
    if let Some(Stall { shortage: Shortage::Replies, since_ms }) = conn.stalled
        && timeout_ms / 3 <= now_ms - since_ms
    {
        return Some(CloseReason::NoMemory); // clients expect a reply within two thirds of the timeout
    }
    if let Some(since_ms) = conn.stuck_since_ms {
        if timeout_ms <= now_ms - since_ms {
            return Some(CloseReason::Stuck);
        }
        let is_above = memory.close_above().is_some_and(|bytes| bytes < conn.unsent());
        if conn.is_slow_reader(now_ms) == Some(true) && is_above {
            return Some(CloseReason::SlowReader);
        }
    } else if conn.core.in_flight() != 0 || conn.stalled.is_some() {
        conn.partial_since_ms = None;
        return None; // it waits for the server, and may not even be read
    }
    // A connection that is closing keeps the timeout of its session.
    let idle_ms = if conn.core.timeout_ms() == 0 { step_ms } else { i64::from(conn.core.timeout_ms()) };
    if closes_at_ms(conn.last_io_ms, idle_ms, step_ms) <= now_ms {
        return Some(CloseReason::Idle);
    }
    let is_ours_to_read =
        conn.core.may_take(Admission::Open) && conn.unsent() <= memory.pause_bytes && conn.stalled.is_none();
    let received = conn.input.len().saturating_sub(std::mem::replace(&mut conn.checked_input, conn.input.len()));
    if conn.input.is_empty() || !is_ours_to_read || conn.has_frame() {
        conn.partial_since_ms = None;
        return None;
    }
    let since_ms = *conn.partial_since_ms.get_or_insert(now_ms);
    // Received bytes that are not read yet are not the client's delay.
    let is_slow = received < FRAME_BYTES_PER_SECOND_MIN && !conn.readable && SLOW_MS <= now_ms - since_ms;
    if memory.frames_wait && conn.reserved != 0 && is_slow {
        return Some(CloseReason::SlowRequest);
    }
    let seconds = i64::try_from(conn.input.len() / FRAME_BYTES_PER_SECOND_MIN).unwrap_or(i64::MAX);
    (FRAME_DEADLINE_MS + 1000 * seconds <= now_ms - since_ms).then_some(CloseReason::SlowRequest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client_io::buffer_pool::BufferPool;
    use crate::client_io::fake::FakeHost;
    use ox_proto::SessionId;
    use ox_replica::{Conn, ConnId};
    use std::net::{IpAddr, Ipv4Addr};

    const STEP_MS: i64 = 10_000;
    const NO_PRESSURE: MemoryPressure =
        MemoryPressure { pressure: Pressure::Low, pause_bytes: 1 << 20, frames_wait: false };

    /// A connection with a session timeout of 40 s.
    fn connection() -> Connection<usize, ()> {
        let mut core = Conn::new(ConnId::new(0, 0, 1), IpAddr::V4(Ipv4Addr::LOCALHOST));
        core.on_attached(SessionId(1), 40_000);
        Connection::new(0, (), core, 0)
    }

    /// A connection with unsent output since 1000 ms. Its client reads nothing.
    fn unread_connection() -> (Connection<usize, ()>, FakeHost) {
        let (mut conn, mut host) = (connection(), FakeHost::new());
        host.open(0);
        conn.output = vec![0; 64 << 20];
        conn.flush(1000, &mut BufferPool::default(), &mut host).unwrap();
        assert_eq!(conn.unsent(), conn.output.len());
        (conn, host)
    }

    fn check(conn: &mut Connection<usize, ()>, now_ms: i64, expected: Option<CloseReason<'_>>) {
        assert_eq!(close_reason(conn, now_ms, STEP_MS, NO_PRESSURE), expected, "at {now_ms}");
    }

    #[test]
    fn silent_connection_is_closed_at_the_check_after_its_timeout() {
        let mut conn = connection();
        check(&mut conn, 49_999, None);
        check(&mut conn, 50_000, Some(CloseReason::Idle));
    }

    /// A process that was paused closes no connection for the time of the pause (F2).
    #[test]
    fn pause_of_the_server_does_not_count_against_deadlines() {
        let (mut conn, _host) = unread_connection();
        conn.partial_since_ms = Some(500);
        extend_deadlines(&mut conn, 70_000, 60_000);
        assert_eq!((conn.stuck_since_ms, conn.partial_since_ms), (Some(61_000), Some(60_500)));
        check(&mut conn, 70_000, None);
        check(&mut conn, 101_000, Some(CloseReason::Stuck));
        conn.stuck_since_ms = None;
        check(&mut conn, 109_999, None);
        check(&mut conn, 110_000, Some(CloseReason::Idle));
        extend_deadlines(&mut conn, 110_000, 300_000);
        assert_eq!(conn.last_io_ms, 110_000, "no traffic is later than now");
    }

    #[test]
    fn large_incomplete_request_has_more_time_than_a_small_one() {
        let mut conn = connection();
        let look = |conn: &mut Connection<usize, ()>, now_ms, expected| {
            conn.last_io_ms = now_ms; // some traffic
            check(conn, now_ms, expected);
        };
        conn.input = vec![0, 0, 0xff, 0];
        look(&mut conn, 1000, None);
        look(&mut conn, 1000 + FRAME_DEADLINE_MS - 1, None);
        look(&mut conn, 1000 + FRAME_DEADLINE_MS, Some(CloseReason::SlowRequest));
        conn.input.resize(5 * FRAME_BYTES_PER_SECOND_MIN, 0);
        conn.input[..4].copy_from_slice(&[0, 0xf, 0xff, 0xff]);
        look(&mut conn, 5999 + FRAME_DEADLINE_MS, None);
        look(&mut conn, 6000 + FRAME_DEADLINE_MS, Some(CloseReason::SlowRequest));
        conn.input.clear();
        look(&mut conn, 100_000, None);
        conn.input = vec![0, 0, 0, 4, 1, 2, 3, 4, 0]; // a complete frame that waits for the server
        look(&mut conn, 200_000, None);
        look(&mut conn, 300_000, None);
    }

    #[test]
    fn client_that_does_not_read_is_closed_after_its_timeout() {
        let (mut conn, _host) = unread_connection();
        conn.last_io_ms = 40_000; // it still sends
        check(&mut conn, 40_999, None);
        check(&mut conn, 41_000, Some(CloseReason::Stuck));
    }

    #[test]
    fn stuck_reader_is_closed_while_memory_is_short() {
        let high = MemoryPressure { pressure: Pressure::High, pause_bytes: 0, ..NO_PRESSURE };
        let full = MemoryPressure { pressure: Pressure::Full, ..high };
        let (mut conn, _host) = unread_connection();
        assert_eq!(close_reason(&mut conn, 1000 + SLOW_MS - 1, STEP_MS, high), None);
        assert_eq!(
            close_reason(&mut conn, 1000 + SLOW_MS, STEP_MS, high),
            Some(CloseReason::SlowReader),
            "others need the memory"
        );
        let (mut conn, _host) = unread_connection();
        conn.output.truncate(conn.output.len() - conn.unsent() + BUFFERED_BYTES_SMALL);
        assert_eq!(close_reason(&mut conn, 1000 + SLOW_MS, STEP_MS, high), None, "it holds little");
        assert_eq!(close_reason(&mut conn, 1000 + 2 * SLOW_MS, STEP_MS, full), Some(CloseReason::SlowReader));
    }

    /// The first reason to close within 20 s, if the client reads `sent_per_second` bytes in each of them.
    fn close_reason_of_reader(sent_per_second: usize, memory: MemoryPressure) -> Option<CloseReason<'static>> {
        let (mut conn, mut host) = unread_connection();
        (2000..=21_000).step_by(1000).find_map(|now_ms| {
            host.socket(0).space = sent_per_second;
            conn.flush_again(now_ms, &mut BufferPool::default(), &mut host).unwrap();
            close_reason(&mut conn, now_ms, STEP_MS, memory)
        })
    }

    /// A few bytes a second keep a connection from being stuck, and would hold the memory for hours.
    #[test]
    fn reader_below_the_minimum_rate_is_closed_while_memory_is_short() {
        let high = MemoryPressure { pressure: Pressure::High, pause_bytes: 0, ..NO_PRESSURE };
        assert_eq!(close_reason_of_reader(1, high), Some(CloseReason::SlowReader));
        assert_eq!(close_reason_of_reader(1, NO_PRESSURE), None);
        assert_eq!(close_reason_of_reader(256 << 10, high), Some(CloseReason::SlowReader), "64 MiB would take minutes");
        assert_eq!(close_reason_of_reader(6 << 20, high), None, "it reads fast enough");
    }

    #[test]
    fn connection_whose_reply_waits_for_memory_is_closed_in_time() {
        let mut conn = connection();
        conn.stalled = Some(Stall { shortage: Shortage::Replies, since_ms: 1000 });
        check(&mut conn, 14_332, None);
        check(&mut conn, 14_333, Some(CloseReason::NoMemory));
        extend_deadlines(&mut conn, 14_333, 5000);
        check(&mut conn, 14_333, None);
        conn.stalled = Some(Stall { shortage: Shortage::LargeWrites, since_ms: 1000 });
        check(&mut conn, 14_333, None); // requests in flight complete without the client
    }

    #[test]
    fn slow_frame_is_closed_only_while_others_wait_for_its_memory() {
        let mut conn = connection();
        let short = MemoryPressure { frames_wait: true, ..NO_PRESSURE };
        conn.input = vec![0; 100_000];
        conn.input[..4].copy_from_slice(&[0, 0xf, 0xff, 0xff]);
        conn.reserved = 1 << 20;
        assert_eq!(close_reason(&mut conn, 1000, STEP_MS, short), None, "seen for the first time");
        assert_eq!(close_reason(&mut conn, 2000, STEP_MS, NO_PRESSURE), None);
        conn.input.resize(100_000 + FRAME_BYTES_PER_SECOND_MIN, 0);
        assert_eq!(close_reason(&mut conn, 3000, STEP_MS, short), None, "it arrives fast enough");
        conn.readable = true;
        assert_eq!(close_reason(&mut conn, 4000, STEP_MS, short), None, "the rest has arrived and is not read yet");
        conn.readable = false;
        conn.stalled = Some(Stall { shortage: Shortage::Frames, since_ms: 4500 });
        assert_eq!(close_reason(&mut conn, 5000, STEP_MS, short), None, "it waits for the server");
        conn.stalled = None;
        assert_eq!(close_reason(&mut conn, 6000, STEP_MS, short), None, "seen again for the first time");
        assert_eq!(close_reason(&mut conn, 7000, STEP_MS, short), Some(CloseReason::SlowRequest));
    }
}
