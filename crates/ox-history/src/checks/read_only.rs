//! A server without a leader takes nothing that only a leader can do (P22), and has said in the handshake that it has
//! none (P28). What it shows is judged as everything is: by the zxid that it comes with.

use super::streams::Stream;
use crate::history::History;
use crate::op::Op;
use crate::violation::{Checked, Place, Reason, Violation};
use ox_proto::ErrorCode;

pub(crate) fn check(history: &History, streams: &[Stream]) -> Checked {
    for (number, connection) in history.connections.iter().enumerate() {
        for (at, sent) in connection.requests.iter().enumerate() {
            let Some(reply) = streams[number].answer(connection, at) else { continue };
            let fail =
                |reason| Err(Violation::new(reason, Place::Request(number, at), format!("{sent:?}: {}", reply.err)));
            let was_refused = reply.err == ErrorCode::NotReadOnly.code();
            if was_refused && !connection.is_read_only {
                return fail(Reason::ReadOnlyUnsaid);
            }
            // Sessions are local there, and may end.
            let is_broken = matches!(sent.op, Op::Broken(_));
            let is_refused = needs_leader(&sent.op) && sent.op != Op::CloseSession && !is_broken;
            let was_late = reply.err == ErrorCode::ThrottledOp.code();
            if connection.is_read_only && is_refused && !was_refused && !was_late {
                return fail(Reason::ReadOnlyTook);
            }
        }
    }
    Ok(())
}

/// Whether a server without a leader refuses it; what cannot be decoded may be a read too.
pub(crate) fn needs_leader(op: &Op) -> bool {
    op.is_write() || matches!(op, Op::Sync { .. } | Op::Broken(_))
}
