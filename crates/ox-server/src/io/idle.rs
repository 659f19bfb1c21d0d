//! Connections that have been silent, slow or stuck for too long.

use super::connection::Connection;
use super::serve::unsent_limits;
use super::stalled::Stall;
use super::turn::IoThread;
use crate::limits::{BUFFERED_BYTES_SMALL, FRAME_BYTES_PER_SECOND_MIN, FRAME_DEADLINE_MS, SLOW_MS};
use ox_replica::{Admission, Now, Pressure, SMALL_BYTES, Shortage};
use std::sync::atomic::Ordering;

/// How often connections are looked at, at least.
const CHECK_MS: i64 = 1000;

/// What the server lacks memory for.
#[derive(Clone, Copy, Debug)]
struct Scarcity {
    pressure: Pressure,
    /// Unsent bytes at which connections are not read.
    pause_bytes: usize,
    /// Large requests wait for others to become complete.
    frames_wait: bool,
}

impl Scarcity {
    /// Unsent bytes from which on a connection that is slow to take them is closed.
    fn much(&self) -> Option<usize> {
        match self.pressure {
            Pressure::Low => None,
            Pressure::High => Some(BUFFERED_BYTES_SMALL),
            Pressure::Full => Some(SMALL_BYTES),
        }
    }
}

/// Why a connection is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// Nothing came or went.
    Silent,
    /// It does not take what it is sent.
    Stuck,
    /// It takes what it is sent too slowly, while others wait for the memory.
    SlowReader,
    /// A frame does not get complete.
    Slow,
    /// Its next reply has waited for memory for so long that the client is better off elsewhere.
    NoMemory,
}

impl IoThread {
    /// Closes connections that have been silent, slow or stuck for too long. Looks again when the next may be.
    pub(super) fn check_idle(&mut self, now: Now) {
        let step_ms = i64::from(self.shared.config.sessionless_timeout_ms.max(1));
        let check_ms = CHECK_MS.min(step_ms);
        self.next_idle_check_ms = now.mono_ms + check_ms;
        // While this thread works it hears nobody: unlike the replica's, its own work counts as a pause.
        if let Some(late_ms) = self.pulse.check(now.mono_ms, check_ms, || 0) {
            self.conns.iter_mut().flatten().for_each(|conn| forgive(conn, now.mono_ms, late_ms));
        }
        self.leavers.check(now.mono_ms, &self.shared.register);
        self.pool.trim();
        let (pressure, pause_bytes) = unsent_limits(&self.shared);
        let scarcity = Scarcity { pressure, pause_bytes, frames_wait: self.shared.totals.do_frames_wait() };
        for slot in 0..self.conns.len() {
            let Some(conn) = self.conns[slot].as_mut() else { continue };
            if pressure != Pressure::Low && conn.rate_since_ms.is_some() {
                // The system tells of free space only when there is much of it: a slow client may have taken something.
                let _ = conn.flush_again(now.mono_ms, &mut self.pool); // if it is dead, the next iteration closes it
                self.list(slot);
            }
            let Some(conn) = self.conns[slot].as_mut() else { continue };
            match fault(conn, now.mono_ms, step_ms, scarcity) {
                None => continue,
                Some(Fault::Silent) => {
                    tracing::debug!(address = %conn.address, "connection closed: silent for too long");
                    self.figures.on_idle();
                }
                Some(Fault::Stuck) => self.complain(slot, now, "it does not read what it is sent"),
                Some(Fault::SlowReader) => {
                    self.complain(slot, now, "it reads what it is sent too slowly, and memory is short")
                }
                Some(Fault::NoMemory) => self.complain(slot, now, "there is no memory for its reply"),
                Some(Fault::Slow) => self.complain(slot, now, "a request did not become complete"),
            }
            self.close(slot);
        }
    }
}

/// The thread did not run for a while, and could neither hear nor tell anybody anything: that time does not count.
fn forgive(conn: &mut Connection, now_ms: i64, late_ms: i64) {
    let later = |since_ms: i64| since_ms.saturating_add(late_ms).min(now_ms);
    let last_io_ms = &conn.figures.last_io_ms;
    last_io_ms.store(later(last_io_ms.load(Ordering::Relaxed)), Ordering::Relaxed);
    conn.stuck_since_ms = conn.stuck_since_ms.map(later);
    conn.rate_since_ms = conn.rate_since_ms.map(later);
    conn.partial_since_ms = conn.partial_since_ms.map(later);
    conn.stalled = conn.stalled.map(|stall| Stall { since_ms: later(stall.since_ms), ..stall });
}

fn fault(conn: &mut Connection, now_ms: i64, step_ms: i64, scarcity: Scarcity) -> Option<Fault> {
    let timeout_ms = if conn.core.session().is_some() { i64::from(conn.core.timeout_ms()) } else { step_ms };
    if let Some(Stall { shortage: Shortage::Replies, since_ms }) = conn.stalled
        && timeout_ms / 3 <= now_ms - since_ms
    {
        return Some(Fault::NoMemory); // clients expect a reply within two thirds
    }
    if let Some(since_ms) = conn.stuck_since_ms {
        if timeout_ms <= now_ms - since_ms {
            return Some(Fault::Stuck);
        }
        let is_much = scarcity.much().is_some_and(|bytes| bytes < conn.unsent());
        if conn.is_slow_reader(now_ms) == Some(true) && is_much {
            return Some(Fault::SlowReader);
        }
    } else if conn.core.in_flight() != 0 || conn.stalled.is_some() {
        conn.partial_since_ms = None;
        return None; // it waits for us, and is perhaps not even read
    }
    if conn.figures.closes_at_ms(step_ms) <= now_ms {
        return Some(Fault::Silent);
    }
    let is_ours_to_read =
        conn.core.may_take(Admission::Open) && conn.unsent() <= scarcity.pause_bytes && conn.stalled.is_none();
    let came = conn.input.len().saturating_sub(std::mem::replace(&mut conn.checked_input, conn.input.len()));
    if conn.input.is_empty() || !is_ours_to_read || conn.has_frame() {
        conn.partial_since_ms = None;
        return None;
    }
    let since_ms = *conn.partial_since_ms.get_or_insert(now_ms);
    // Bytes that have come and are not read yet are not the client's delay.
    let is_slow = came < FRAME_BYTES_PER_SECOND_MIN && !conn.readable && SLOW_MS <= now_ms - since_ms;
    if scarcity.frames_wait && conn.reserved != 0 && is_slow {
        return Some(Fault::Slow);
    }
    let seconds = i64::try_from(conn.input.len() / FRAME_BYTES_PER_SECOND_MIN).unwrap_or(i64::MAX);
    (FRAME_DEADLINE_MS + 1000 * seconds <= now_ms - since_ms).then_some(Fault::Slow)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::pool::Pool;
    use crate::register::Register;
    use ox_proto::SessionId;
    use ox_replica::Conn;
    use ox_tree::ConnId;
    use socket2::{Domain, Socket, Type};
    use std::io::Read;
    use std::net::{TcpListener, TcpStream};

    const STEP_MS: i64 = 10_000;
    const PLENTY: Scarcity = Scarcity { pressure: Pressure::Low, pause_bytes: 1 << 20, frames_wait: false };

    /// A connection with a session of 40 s, and the client's end of it.
    fn connection() -> (Connection, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        // A small window: the system moves a few bytes at a time.
        let client = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        client.set_recv_buffer_size(4096).unwrap();
        client.connect(&listener.local_addr().unwrap().into()).unwrap();
        let (stream, address) = listener.accept().unwrap();
        stream.set_nonblocking(true).unwrap();
        let id = ConnId::new(0, 0, 1);
        let figures = Register::default().add(id, address, 0, 0);
        let mut core = Conn::new(id, address.ip());
        core.on_attached(SessionId(1), 40_000);
        figures.attach(SessionId(1), 40_000);
        (Connection::new(mio::net::TcpStream::from_std(stream), address, core, figures), client.into())
    }

    fn check(conn: &mut Connection, now_ms: i64, expected: Option<Fault>) {
        assert_eq!(fault(conn, now_ms, STEP_MS, PLENTY), expected, "at {now_ms}");
    }

    #[test]
    fn silence_ends_after_the_timeout_at_the_next_step() {
        let (mut conn, _client) = connection();
        check(&mut conn, 49_999, None);
        check(&mut conn, 50_000, Some(Fault::Silent));
    }

    /// F2: a process that was stopped closes nobody for it.
    #[test]
    fn time_in_which_the_server_stood_still_does_not_count() {
        let (mut conn, _client) = connection();
        conn.output = vec![0; 64 << 20];
        conn.flush(1000, &mut Pool::default()).unwrap();
        conn.partial_since_ms = Some(500);
        forgive(&mut conn, 70_000, 60_000);
        assert_eq!((conn.stuck_since_ms, conn.partial_since_ms), (Some(61_000), Some(60_500)));
        check(&mut conn, 70_000, None);
        check(&mut conn, 101_000, Some(Fault::Stuck));
        conn.stuck_since_ms = None;
        check(&mut conn, 109_999, None);
        check(&mut conn, 110_000, Some(Fault::Silent));
        forgive(&mut conn, 110_000, 300_000);
        assert_eq!(conn.figures.last_io_ms.load(Ordering::Relaxed), 110_000, "nothing was heard later than now");
    }

    #[test]
    fn a_frame_has_its_time_and_large_ones_more() {
        let (mut conn, _client) = connection();
        let look = |conn: &mut Connection, now_ms, expected| {
            conn.figures.last_io_ms.store(now_ms, Ordering::Relaxed); // a byte now and then
            check(conn, now_ms, expected);
        };
        conn.input = vec![0, 0, 0xff, 0];
        look(&mut conn, 1000, None);
        look(&mut conn, 1000 + FRAME_DEADLINE_MS - 1, None);
        look(&mut conn, 1000 + FRAME_DEADLINE_MS, Some(Fault::Slow));
        conn.input.resize(5 * FRAME_BYTES_PER_SECOND_MIN, 0);
        conn.input[..4].copy_from_slice(&[0, 0xf, 0xff, 0xff]);
        look(&mut conn, 5999 + FRAME_DEADLINE_MS, None);
        look(&mut conn, 6000 + FRAME_DEADLINE_MS, Some(Fault::Slow));
        conn.input.clear();
        look(&mut conn, 100_000, None);
        conn.input = vec![0, 0, 0, 4, 1, 2, 3, 4, 0]; // a frame that waits for us
        look(&mut conn, 200_000, None);
        look(&mut conn, 300_000, None);
    }

    #[test]
    fn clients_must_take_what_they_are_sent() {
        let (mut conn, client) = connection();
        conn.output = vec![0; 64 << 20];
        conn.flush(1000, &mut Pool::default()).unwrap();
        assert!(BUFFERED_BYTES_SMALL < conn.unsent(), "more than sockets hold");
        conn.figures.last_io_ms.store(40_000, Ordering::Relaxed); // it still sends
        check(&mut conn, 40_999, None);
        check(&mut conn, 41_000, Some(Fault::Stuck));
        drop(client);
    }

    /// A connection with more unsent bytes than sockets hold, since 1000 ms.
    fn unread_connection() -> (Connection, TcpStream) {
        let (mut conn, client) = connection();
        conn.output = vec![0; 64 << 20];
        conn.flush(1000, &mut Pool::default()).unwrap();
        (conn, client)
    }

    #[test]
    fn reader_that_stands_still_is_closed_while_memory_is_short() {
        let high = Scarcity { pressure: Pressure::High, pause_bytes: 0, ..PLENTY };
        let full = Scarcity { pressure: Pressure::Full, ..high };
        let (mut conn, _client) = unread_connection();
        assert_eq!(fault(&mut conn, 1000 + SLOW_MS - 1, STEP_MS, high), None);
        assert_eq!(fault(&mut conn, 1000 + SLOW_MS, STEP_MS, high), Some(Fault::SlowReader), "others need the memory");
        let (mut conn, _client) = unread_connection();
        conn.output.truncate(conn.output.len() - conn.unsent() + BUFFERED_BYTES_SMALL);
        assert_eq!(fault(&mut conn, 1000 + SLOW_MS, STEP_MS, high), None, "it holds little");
        assert_eq!(fault(&mut conn, 1000 + 2 * SLOW_MS, STEP_MS, full), Some(Fault::SlowReader));
    }

    /// The first fault within 20 seconds if the client reads until so many bytes could be sent in each of them.
    fn fault_of_reader(sent_per_second: usize, scarcity: Scarcity) -> Option<Fault> {
        let (mut conn, mut client) = unread_connection();
        client.set_nonblocking(true).unwrap();
        let mut buffer = vec![0; sent_per_second.max(1000)];
        (2000..=21_000).step_by(1000).find_map(|now_ms| {
            let before = conn.unsent();
            for _ in 0..1_000_000 {
                let _ = client.read(&mut buffer); // nothing, until the system has moved the next bytes
                conn.flush_again(now_ms, &mut Pool::default()).unwrap();
                if sent_per_second <= before - conn.unsent() || conn.unsent() == 0 {
                    return fault(&mut conn, now_ms, STEP_MS, scarcity);
                }
                std::thread::yield_now();
            }
            panic!("nothing could be sent");
        })
    }

    /// A few bytes a second keep a connection from standing still, and would hold the memory for hours.
    #[test]
    fn reader_below_the_least_rate_is_closed_while_memory_is_short() {
        let high = Scarcity { pressure: Pressure::High, pause_bytes: 0, ..PLENTY };
        assert_eq!(fault_of_reader(1, high), Some(Fault::SlowReader));
        assert_eq!(fault_of_reader(1, PLENTY), None);
        assert_eq!(fault_of_reader(256 << 10, high), Some(Fault::SlowReader), "64 MiB would take minutes");
        assert_eq!(fault_of_reader(6 << 20, high), None, "it reads fast enough");
    }

    #[test]
    fn connection_whose_reply_waits_for_memory_is_closed_in_time() {
        let (mut conn, _client) = connection();
        conn.stalled = Some(Stall { shortage: Shortage::Replies, since_ms: 1000 });
        check(&mut conn, 14_332, None);
        check(&mut conn, 14_333, Some(Fault::NoMemory));
        forgive(&mut conn, 14_333, 5000);
        check(&mut conn, 14_333, None);
        conn.stalled = Some(Stall { shortage: Shortage::LargeWrites, since_ms: 1000 });
        check(&mut conn, 14_333, None); // requests in flight become fewer by themselves
    }

    #[test]
    fn slow_frame_is_closed_only_while_others_wait_for_its_memory() {
        let (mut conn, _client) = connection();
        let scarce = Scarcity { frames_wait: true, ..PLENTY };
        conn.input = vec![0; 100_000];
        conn.input[..4].copy_from_slice(&[0, 0xf, 0xff, 0xff]);
        conn.reserved = 1 << 20;
        assert_eq!(fault(&mut conn, 1000, STEP_MS, scarce), None, "seen for the first time");
        assert_eq!(fault(&mut conn, 2000, STEP_MS, PLENTY), None);
        conn.input.resize(100_000 + FRAME_BYTES_PER_SECOND_MIN, 0);
        assert_eq!(fault(&mut conn, 3000, STEP_MS, scarce), None, "it comes fast enough");
        conn.readable = true;
        assert_eq!(fault(&mut conn, 4000, STEP_MS, scarce), None, "the rest has come and is not read yet");
        conn.readable = false;
        conn.stalled = Some(Stall { shortage: Shortage::Frames, since_ms: 4500 });
        assert_eq!(fault(&mut conn, 5000, STEP_MS, scarce), None, "it waits for the server");
        conn.stalled = None;
        assert_eq!(fault(&mut conn, 6000, STEP_MS, scarce), None, "seen again for the first time");
        assert_eq!(fault(&mut conn, 7000, STEP_MS, scarce), Some(Fault::Slow));
    }
}
