//! The beginning of an iteration: checks the memory that all threads hold, and reads the ready sockets.

use super::ClientIo;
use super::connection::Connection;
use super::host::{ClientHost, ClientNote, CloseReason};
use super::limits::STALLED_TOUCH_MS;
use super::stalled::Retry;
use crate::sockets::SocketRead;
use ox_replica::{Load, Pressure, SMALL_BYTES};

impl<S, R> ClientIo<S, R> {
    /// Checks the memory that all threads hold. Connections that waited for memory go first, the longest waiting first.
    pub(super) fn check_admission<H: ClientHost<Socket = S, Record = R>>(&mut self, host: &mut H) {
        let limits = host.limits();
        self.admission = limits.admission(Load::default());
        let read_bytes = self.settings.sizes.read_bytes;
        self.read_bytes = if limits.is_receiving_full() { SMALL_BYTES.min(read_bytes) } else { read_bytes };
        self.check_unsent(host);
        if self.next_touch_ms <= self.now.mono_ms && !self.stalled.is_empty() {
            self.next_touch_ms = self.now.mono_ms + STALLED_TOUCH_MS;
            let stalled = self.stalled.slots().filter_map(|slot| self.conns[slot].as_ref());
            // A client that has closed its side may be dead: its requests are kept, but its session may expire.
            let waits = |conn: &&Connection<S, R>| conn.stalled.is_some() && !conn.read_closed;
            stalled.filter(waits).for_each(|conn| conn.core.on_refused(self.now));
        }
        self.retry_stalled();
        if self.pressure == Pressure::Low {
            for slot in std::mem::take(&mut self.paused) {
                self.mark_ready(slot);
            }
        }
    }

    /// Determines how much of the memory share of replies is used, and the unsent bytes at which a connection is no
    /// longer read.
    pub(super) fn check_unsent<H: ClientHost<Socket = S, Record = R>>(&mut self, host: &H) {
        self.pressure = host.limits().pressure(0);
        self.pause_bytes = if self.pressure == Pressure::Low { self.settings.sizes.unsent_pause_bytes } else { 0 };
    }

    fn retry_stalled(&mut self) {
        if self.stalled.is_empty() {
            return;
        }
        let conns = &self.conns;
        let waits = |slot: usize, shortage| {
            conns[slot].as_ref().is_some_and(|conn| conn.stalled.is_some_and(|stall| stall.shortage == shortage))
        };
        let retried = self.stalled.take((self.admission, self.pressure), self.now.mono_ms, waits);
        let others = std::mem::take(&mut self.ready);
        for slot in &others {
            if let Some(conn) = self.conns[*slot].as_mut() {
                conn.ready = false;
            }
        }
        for Retry { slot, is_overdue } in retried {
            if let Some(conn) = self.conns[slot].as_mut() {
                (conn.was_stalled, conn.is_overdue) = (conn.stalled.take(), is_overdue);
            }
            self.mark_ready(slot);
        }
        others.into_iter().for_each(|slot| self.mark_ready(slot));
    }

    /// Reads every ready connection that may take more input, into one arena.
    pub(super) fn receive<H: ClientHost<Socket = S, Record = R>>(&mut self, host: &mut H) {
        let (mut at, now) = (0, self.now);
        for &slot in &self.ready {
            let Some(conn) = self.conns[slot].as_mut() else { continue };
            conn.skipped = false;
            // A client that has closed its side before the handshake completed may use another server: its session must
            // not be taken over.
            conn.ended |= conn.read_closed && conn.core.is_connecting();
            let may_read = conn.readable
                && !conn.ended
                && !conn.closing
                && conn.stalled.is_none()
                && conn.waiting_for_frame.is_none();
            // A connection with a complete frame is not read: its input stays below one frame and one read.
            let is_unread = self.pause_bytes < conn.unsent();
            if is_unread {
                host.note(ClientNote::PausedReader);
            }
            if !may_read || is_unread || conn.has_frame() || !conn.core.may_take(self.admission) {
                continue;
            }
            let read_bytes = if conn.reserved == 0 { self.read_bytes } else { self.settings.sizes.read_bytes };
            if self.arena.len() < at + read_bytes {
                conn.skipped = true;
                host.note(ClientNote::ArenaFull);
                continue;
            }
            match conn.receive(&mut self.arena[at..at + read_bytes], host) {
                SocketRead::Bytes(count) => {
                    conn.last_io_ms = now.mono_ms;
                    host.on_io(&conn.record, now.mono_ms);
                    self.received.push((slot, at..at + count));
                    at += count;
                }
                SocketRead::Nothing => (),
                SocketRead::End => {
                    if !conn.is_command {
                        host.on_close(&conn.core, &conn.record, CloseReason::Disconnected, now);
                    }
                }
            }
        }
    }
}
