//! Closes connections that were silent or did not read for too long, by the rules of `ox-server/src/io/idle.rs`.

use super::IoThread;
use crate::env::Env;
use crate::server::connection::Connection;
use ox_replica::Now;

const SESSIONLESS_MS: i64 = 10_000;

impl IoThread {
    pub(super) fn close_idle(&mut self, env: &mut Env, now: Now) {
        for slot in 0..self.connections.len() {
            let Some(connection) = self.connections[slot].as_ref() else { continue };
            if is_idle(connection, now.mono_ms) {
                env.note(format_args!("io: connection {:?} is idle", connection.core.id()));
                self.close(env, slot);
            }
        }
    }
}

fn is_idle(connection: &Connection, now_ms: i64) -> bool {
    let timeout_ms = connection.core.session().map_or(SESSIONLESS_MS, |_| i64::from(connection.core.timeout_ms()));
    match connection.stuck_since_ms {
        Some(since_ms) if timeout_ms <= now_ms - since_ms => return true,
        None if connection.core.in_flight() != 0 || connection.stalled => return false, // it waits for the server
        _ => (),
    }
    ((connection.last_io_ms + timeout_ms) / SESSIONLESS_MS + 1) * SESSIONLESS_MS <= now_ms
}
