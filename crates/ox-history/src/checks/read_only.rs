//! A server without a leader accepts nothing that needs a leader (P22), and announces in the handshake that it is
//! read-only (P28). What it shows is checked like all other replies, by zxid.

use super::streams::Stream;
use crate::history::History;
use crate::op::Op;
use crate::violation::{Checked, Violation, ViolationKind, ViolationPlace};
use ox_proto::ErrorCode;

pub(crate) fn check(history: &History, streams: &[Stream]) -> Checked {
    for (number, connection) in history.connections.iter().enumerate() {
        for (at, sent) in connection.requests.iter().enumerate() {
            let Some(reply) = streams[number].reply_to(connection, at) else { continue };
            let fail = |reason| {
                Err(Violation::new(reason, ViolationPlace::Request(number, at), format!("{sent:?}: {}", reply.err)))
            };
            let was_refused = reply.err == ErrorCode::NotReadOnly.code();
            if was_refused && !connection.is_read_only {
                return fail(ViolationKind::UnannouncedReadOnly);
            }
            // Sessions are local there, and may be closed.
            let is_broken = matches!(sent.op, Op::Broken(_));
            let is_refused = needs_leader(&sent.op) && sent.op != Op::CloseSession && !is_broken;
            let was_late = reply.err == ErrorCode::ThrottledOp.code();
            if connection.is_read_only && is_refused && !was_refused && !was_late {
                return fail(ViolationKind::ReadOnlyAccepted);
            }
        }
    }
    Ok(())
}

/// Whether a server without a leader refuses it; an undecodable request may be a read too.
pub(crate) fn needs_leader(op: &Op) -> bool {
    op.is_write() || matches!(op, Op::Sync { .. } | Op::Broken(_))
}
