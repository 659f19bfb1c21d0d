//! Writes before they are agreed on: a request and the projected state make a transaction body or a refusal.
//!
//! The order of checks is visible to clients; it is Apache's, operation by operation (tests in `ox-diff`). A
//! refused write becomes a transaction too, because it takes a zxid; only requests that cannot be decoded do not.

mod check;
mod close_session;
mod create;
mod delete;
mod multi;
mod reconfig;
mod set_acl;
mod set_data;

use crate::limits::RECORD_OVERHEAD_BYTES;
use crate::pending::View;
use ox_proto::txn::Txn;
use ox_proto::{DecodeError, ErrorCode, OpCode, Reader};
pub use reconfig::Judge;

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
    prepare_with(view, out, |view, out| prepare_op(view, op, body, out))
}

/// Prepares a change of the ensemble; `judge` says what it would be.
pub fn prepare_reconfig(view: &mut View<'_>, body: &[u8], judge: &Judge<'_>, out: &mut Vec<u8>) -> Verdict {
    prepare_with(view, out, |view, out| Ok(reconfig::prepare(view, &Reader::new(body).get()?, Some(judge), out)?))
}

fn prepare_with(
    view: &mut View<'_>,
    out: &mut Vec<u8>,
    prepare: impl FnOnce(&mut View<'_>, &mut Vec<u8>) -> Result<OpCode, Failure>,
) -> Verdict {
    let (mark, digest) = (out.len(), view.mark());
    let mut result = prepare(view, out);
    // R25: what was accepted can be read. Lists that name `auth` can grow far beyond their request.
    if result.is_ok() && !fits_a_record(view, out.len() - mark) {
        view.roll_back(digest);
        result = Err(ErrorCode::MarshallingError.into());
    }
    if result.is_err() {
        out.truncate(mark);
    }
    match result {
        Ok(kind) => Verdict::Txn(kind),
        Err(Failure::Undecodable(_)) => Verdict::Refused(ErrorCode::MarshallingError),
        Err(Failure::Code(code)) => {
            Txn::Error { err: code.code() }.put(out);
            Verdict::Txn(OpCode::Error)
        }
    }
}

/// Whether a write is for the leader to judge. One that cannot be decoded takes no zxid, so it is refused where it is.
pub fn check_body(op: OpCode, body: &[u8]) -> Result<(), ErrorCode> {
    use ox_proto::request as r;
    let mut from = Reader::new(body);
    #[expect(clippy::wildcard_enum_match_arm, reason = "everything else has no body that matters")]
    let decoded = match op {
        OpCode::Create | OpCode::Create2 | OpCode::CreateContainer => from.get::<r::CreateRequest<'_>>().map(drop),
        OpCode::CreateTtl => from.get::<r::CreateTtlRequest<'_>>().map(drop),
        OpCode::Delete => from.get::<r::PathVersion<'_>>().map(drop),
        OpCode::SetData => from.get::<r::SetDataRequest<'_>>().map(drop),
        OpCode::SetAcl => from.get::<r::SetAclRequest<'_>>().map(drop),
        OpCode::Multi => {
            let takes_no_zxid = matches!(multi::check_body(body), Err(Failure::Undecodable(_)));
            return if takes_no_zxid { Err(ErrorCode::MarshallingError) } else { Ok(()) };
        }
        OpCode::Reconfig => from.get::<r::ReconfigRequest<'_>>().map(drop),
        _ => Ok(()),
    };
    decoded.map_err(|_| ErrorCode::MarshallingError)
}

/// Whether a write asks for an ephemeral node: its session must be global. What cannot be decoded asks for nothing.
pub fn makes_ephemeral(op: OpCode, body: &[u8]) -> bool {
    #[expect(clippy::wildcard_enum_match_arm, reason = "nothing else makes one")]
    match op {
        OpCode::Create | OpCode::Create2 => {
            Reader::new(body).get().is_ok_and(|request| create::makes_ephemeral(op, &request))
        }
        OpCode::Multi => multi::makes_ephemeral(body),
        _ => false,
    }
}

/// Whether everybody with the same settings can read a transaction with a body of so many bytes.
fn fits_a_record(view: &View<'_>, body_bytes: usize) -> bool {
    body_bytes + RECORD_OVERHEAD_BYTES <= view.state.options.record_bytes_max
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
        OpCode::Reconfig => Ok(reconfig::prepare(view, &from.get()?, None, out)?),
        // Only the server itself removes containers; a peer must not do it for a client, who has no right to it.
        OpCode::DeleteContainer => Err(ErrorCode::NoAuth.into()),
        _ => Err(ErrorCode::Unimplemented.into()),
    }
}

/// Prepares the beginning of the view's session: its ephemeral creates may follow at once.
pub fn prepare_create_session(view: &mut View<'_>, timeout_ms: i32, out: &mut Vec<u8>) {
    view.open_session();
    Txn::CreateSession { timeout_ms }.put(out);
}

/// Prepares the end of the view's session: its ephemeral nodes go with it. Returns whether the transaction may
/// carry a digest.
pub fn prepare_close_session(view: &mut View<'_>, out: &mut Vec<u8>) -> bool {
    close_session::prepare(view, out)
}

/// Prepares the removal of a container or TTL node that nobody needs any more. `never_used_ms` is how long a
/// container that never had a child is kept, 0 for ever.
pub fn prepare_delete_container(view: &mut View<'_>, path: &str, never_used_ms: i64, out: &mut Vec<u8>) -> Verdict {
    match delete::prepare_container(view, path, never_used_ms, out) {
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

pub(crate) fn signed(bytes: usize) -> i64 {
    i64::try_from(bytes).expect("sizes are far below 2^63")
}

fn check_version(expected: i32, actual: i32) -> Result<(), ErrorCode> {
    if expected == -1 || expected == actual { Ok(()) } else { Err(ErrorCode::BadVersion) }
}
