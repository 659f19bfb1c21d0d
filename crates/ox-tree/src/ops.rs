//! Writes before they are agreed on: a request and the projected state make a transaction body or a refusal.
//!
//! The order of checks is visible to clients; it is Apache's, operation by operation (tests in `ox-diff`). A
//! refused write becomes a transaction too, because it takes a zxid; only requests that cannot be decoded do not.

mod check;
mod close_session;
mod create;
mod delete;
mod multi;
mod set_acl;
mod set_data;

use crate::pending::View;
use ox_proto::txn::Txn;
use ox_proto::{DecodeError, ErrorCode, OpCode, Reader};

/// What became of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// A transaction of this type; its body stands at the end of the buffer.
    Txn(OpCode),
    /// Answered without a transaction.
    Refused(ErrorCode),
}

/// Prepares the write `op` with request body `body` and appends the transaction's body to `out`.
pub fn prepare(view: &mut View<'_>, op: OpCode, body: &[u8], out: &mut Vec<u8>) -> Verdict {
    let mark = out.len();
    let verdict = match prepare_op(view, op, body, out) {
        Ok(kind) => Verdict::Txn(kind),
        Err(Failure::Undecodable(_)) => Verdict::Refused(ErrorCode::MarshallingError),
        Err(Failure::Code(code)) => {
            out.truncate(mark);
            Txn::Error { err: code.code() }.put(out);
            Verdict::Txn(OpCode::Error)
        }
    };
    if matches!(verdict, Verdict::Refused(_)) {
        out.truncate(mark);
    }
    verdict
}

/// Why a write is not carried out.
enum Failure {
    /// The body is not a request: answered without a zxid.
    Undecodable(#[expect(dead_code, reason = "kept for debugging")] DecodeError),
    /// Refused: takes a zxid.
    Code(ErrorCode),
}

impl From<DecodeError> for Failure {
    fn from(error: DecodeError) -> Self {
        Self::Undecodable(error)
    }
}

impl From<ErrorCode> for Failure {
    fn from(code: ErrorCode) -> Self {
        Self::Code(code)
    }
}

fn prepare_op(view: &mut View<'_>, op: OpCode, body: &[u8], out: &mut Vec<u8>) -> Result<OpCode, Failure> {
    let mut from = Reader::new(body);
    #[expect(clippy::wildcard_enum_match_arm, reason = "everything else is no write")]
    match op {
        OpCode::Create | OpCode::Create2 | OpCode::CreateContainer => Ok(create::prepare(view, op, &from.get()?, out)?),
        OpCode::CreateTtl => Ok(create::prepare_ttl(view, &from.get()?, out)?),
        OpCode::Delete => Ok(delete::prepare(view, &from.get()?, out)?),
        OpCode::SetData => Ok(set_data::prepare(view, &from.get()?, out)?),
        OpCode::SetAcl => Ok(set_acl::prepare(view, &from.get()?, out)?),
        OpCode::Multi => multi::prepare(view, body, out),
        OpCode::Reconfig => {
            from.get::<ox_proto::request::ReconfigRequest<'_>>()?;
            let enabled = view.state.options.reconfig_enabled;
            Err(if enabled { ErrorCode::Unimplemented } else { ErrorCode::ReconfigDisabled }.into())
        }
        _ => Err(ErrorCode::Unimplemented.into()),
    }
}

/// Prepares the end of the view's session: its ephemeral nodes go with it. Returns whether the transaction may
/// carry a digest.
pub fn prepare_close_session(view: &mut View<'_>, out: &mut Vec<u8>) -> bool {
    close_session::prepare(view, out)
}

/// Prepares the removal of a container or TTL node that nobody needs any more.
pub fn prepare_delete_container(view: &mut View<'_>, path: &str, out: &mut Vec<u8>) -> Verdict {
    match delete::prepare_container(view, path, out) {
        Ok(kind) => Verdict::Txn(kind),
        Err(code) => Verdict::Refused(code),
    }
}

/// The version after one more change.
// Compat: 3.10's rule (and K73): -1 means "any version" to clients, so counting leaves it out.
fn next_version(version: i32) -> i32 {
    match version.wrapping_add(1) {
        -1 => 0,
        next => next,
    }
}

fn check_version(expected: i32, actual: i32) -> Result<(), ErrorCode> {
    if expected == -1 || expected == actual { Ok(()) } else { Err(ErrorCode::BadVersion) }
}
