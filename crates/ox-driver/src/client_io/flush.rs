//! The end of an iteration: writes the sockets, and closes connections that are done.

use super::ClientIo;
use super::global_limits::BufferGrowth;
use super::host::{ClientHost, CloseReason};

impl<S, R> ClientIo<S, R> {
    /// Writes output, closes connections that are done, and marks those ready that can continue immediately.
    /// Connections that were skipped because the arena was full go first.
    pub(super) fn flush<H: ClientHost<Socket = S, Record = R>>(&mut self, host: &mut H) {
        let now = self.now;
        let (mut first, mut then, mut growth) = (Vec::new(), Vec::new(), BufferGrowth::default());
        for slot in std::mem::take(&mut self.ready) {
            let Some(conn) = self.conns[slot].as_mut() else { continue };
            (conn.ready, conn.was_stalled, conn.is_overdue) = (false, None, false);
            let before = conn.unsent();
            let is_dead = conn.flush(now.mono_ms, &mut self.pool, host).is_err();
            if conn.unsent() < before {
                conn.last_io_ms = now.mono_ms;
                host.on_io(&conn.record, now.mono_ms);
                if self.pause_bytes < before {
                    conn.core.on_refused(now); // pings are not read, but the client reads its replies
                }
            }
            host.on_interest(&conn.record, conn.interest());
            if conn.wants_more && conn.unsent() == 0 {
                conn.wants_more = false;
                host.continue_command(conn.core.id());
            }
            let is_replied = conn.closing && conn.unsent() == 0;
            // A connection that waits for memory is not read, so this is the only place that notices its end.
            if conn.is_broken && conn.stalled.is_some() {
                host.on_close(&conn.core, &conn.record, CloseReason::Disconnected, now);
                conn.ended = true;
            }
            if is_dead || (conn.ended && (is_replied || !conn.is_command)) {
                self.close(slot, host);
                continue;
            }
            if is_replied {
                self.linger(slot, host);
                continue;
            }
            growth += conn.growth();
            let is_read = conn.unsent() <= self.settings.sizes.unsent_pause_bytes && !conn.closing;
            let may_go_on = conn.core.may_take(self.admission) && is_read;
            if may_go_on && conn.stalled.is_none() && !conn.is_command && (conn.readable || conn.has_frame()) {
                if self.pause_bytes < conn.unsent() {
                    self.paused.insert(slot);
                } else if conn.skipped {
                    first.push(slot);
                } else {
                    then.push(slot);
                }
            }
        }
        growth.unsent -= std::mem::take(&mut self.delivered_mail).cast_signed();
        host.limits().on_buffers_grown(growth);
        self.delivered_bytes = 0;
        self.stalled.end_iteration(now.mono_ms);
        first.into_iter().chain(then).for_each(|slot| self.mark_ready(slot));
    }
}
