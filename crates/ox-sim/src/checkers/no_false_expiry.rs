//! No session expires because its server did not read: a client's message counts from its arrival (P38, F7).

use super::Finding;
use crate::env::Env;
use crate::outcome::FailureKind;
use crate::plan::Plan;
use crate::server::process::Process;
use ox_history::Time;
use ox_proto::SessionId;
use ox_replica::Admission;

/// How long a server may leave a message unread without a detected pause.
fn tolerance_us(plan: &Plan) -> i64 {
    let pause_us = i64::from(plan.tick_ms.max(100)) * 1000;
    let stall_us = if plan.stall_ms == 0 { 0 } else { 1_500_000 };
    pause_us + stall_us + plan.thread_delay_us * 100 + 50_000
}

/// `expired` contains the sessions that are being closed now, with their timeouts.
pub(crate) fn check(process: &Process, env: &Env, expired: &[(SessionId, i32)]) -> Result<(), Finding> {
    let connections = || process.io.iter().flat_map(|io| io.connections.connections().map(move |conn| (io, conn)));
    for (session, timeout_ms) in expired {
        let Some((io, connection)) = connections().find(|(_, conn)| conn.core().session() == Some(*session)) else {
            continue;
        };
        let up = &env.links[*connection.socket()].up;
        let is_heard = !up.has_bytes() && !connection.has_frame();
        // With partial reads of a few bytes, a large request may take longer than the timeout.
        let is_read_slowly = env.plan.partial_per_mille != 0 && 0 < connection.received() && !connection.has_frame();
        // A client that has closed its side may be dead.
        let is_ending = connection.is_ending() || up.has_ended();
        if io.connections.is_held_back(connection) || is_heard || is_read_slowly || is_ending {
            continue;
        }
        let arrived = up.arrived;
        let (since, latest) = (env.now.0 - i64::from(*timeout_ms) * 1000, env.now.0 - tolerance_us(&env.plan));
        if Time(since) < arrived && arrived < Time(latest) {
            let is_admitted = connection.core().may_take(Admission::Open);
            let detail = format!("session {session} has an unread message since {arrived:?} (admitted: {is_admitted})");
            return Err(Finding::new(FailureKind::FalseExpiry, detail));
        }
    }
    Ok(())
}
