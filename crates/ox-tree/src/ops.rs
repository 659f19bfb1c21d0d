//! Writes, one file per operation: prepare, apply and reply.
//!
//! Preparing checks a request against the state and its pending changes; it becomes a transaction body or a refusal
//! (Apache's `PrepRequestProcessor`). The reply is built from the transaction and the result of applying it.
//!
//! Clients can observe the order of the checks; it is Apache's for each operation (tests in `ox-diff`). A refused write
//! becomes an error transaction, because it uses a zxid; only a request that cannot be decoded does not.

mod check;
mod close_session;
mod create;
mod create_session;
mod delete;
mod multi;
mod reconfig;
mod set_acl;
mod set_data;

use crate::apply::Applied;
use crate::limits::RECORD_OVERHEAD_BYTES;
use crate::pending::PendingView;
pub use close_session::prepare_close_session;
pub use create_session::prepare_create_session;
use ox_proto::frame::{begin_frame, end_frame};
use ox_proto::jute::Jute;
use ox_proto::reply::ReplyHeader;
use ox_proto::txn::{Record, Txn};
use ox_proto::{DecodeError, ErrorCode, OpCode, Reader};
pub use reconfig::ReconfigFn;

/// The result of preparing a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prepared {
    /// A transaction of this type; its body is at the end of the buffer.
    Txn(OpCode),
    /// The reply has this code, and no transaction is logged.
    Refused(ErrorCode),
}

/// Prepares the write `op` with request body `body` and appends the transaction body to `out`.
pub fn prepare(view: &mut PendingView<'_>, op: OpCode, body: &[u8], out: &mut Vec<u8>) -> Prepared {
    prepare_with(view, out, |view, out| prepare_op(view, op, body, out))
}

/// Prepares a reconfig; `new_config` computes the resulting configuration.
pub fn prepare_reconfig(
    view: &mut PendingView<'_>,
    body: &[u8],
    new_config: &ReconfigFn<'_>,
    out: &mut Vec<u8>,
) -> Prepared {
    prepare_with(view, out, |view, out| Ok(reconfig::prepare(view, &Reader::new(body).get()?, Some(new_config), out)?))
}

fn prepare_with(
    view: &mut PendingView<'_>,
    out: &mut Vec<u8>,
    prepare: impl FnOnce(&mut PendingView<'_>, &mut Vec<u8>) -> Result<OpCode, Failure>,
) -> Prepared {
    let (mark, digest) = (out.len(), view.mark());
    let mut result = prepare(view, out);
    // An `auth` entry can expand far beyond the size of its request: refuse a transaction that no reader would accept
    // (R25).
    if result.is_ok() && !fits_record(view, out.len() - mark) {
        view.roll_back(digest);
        result = Err(ErrorCode::MarshallingError.into());
    }
    if result.is_err() {
        out.truncate(mark);
    }
    match result {
        Ok(kind) => Prepared::Txn(kind),
        Err(Failure::Undecodable(_)) => Prepared::Refused(ErrorCode::MarshallingError),
        Err(Failure::Code(code)) => {
            Txn::Error { err: code.code() }.put(out);
            Prepared::Txn(OpCode::Error)
        }
    }
}

/// Refuses a request that cannot be decoded. It uses no zxid, so the server that received it refuses it without the
/// leader.
pub fn check_body(op: OpCode, body: &[u8]) -> Result<(), ErrorCode> {
    use ox_proto::request as r;
    let mut from = Reader::new(body);
    #[expect(clippy::wildcard_enum_match_arm, reason = "other bodies need no check")]
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

/// Whether a write creates an ephemeral node, for which its session must be global. False if the request cannot be
/// decoded.
pub fn creates_ephemeral(op: OpCode, body: &[u8]) -> bool {
    #[expect(clippy::wildcard_enum_match_arm, reason = "no other operation creates one")]
    match op {
        OpCode::Create | OpCode::Create2 => {
            Reader::new(body).get().is_ok_and(|request| create::creates_ephemeral(op, &request))
        }
        OpCode::Multi => multi::creates_ephemeral(body),
        _ => false,
    }
}

/// Whether every server with the same settings can read a transaction with a body of this size.
fn fits_record(view: &PendingView<'_>, body_bytes: usize) -> bool {
    body_bytes + RECORD_OVERHEAD_BYTES <= view.state.options.record_bytes_max
}

/// Why a write was refused.
enum Failure {
    /// The body cannot be decoded: refused without a zxid.
    Undecodable(#[expect(dead_code, reason = "kept for debugging")] DecodeError),
    /// Refused by an error transaction, which uses a zxid.
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

fn prepare_op(view: &mut PendingView<'_>, op: OpCode, body: &[u8], out: &mut Vec<u8>) -> Result<OpCode, Failure> {
    let mut from = Reader::new(body);
    #[expect(clippy::wildcard_enum_match_arm, reason = "all other operations are not writes")]
    match op {
        OpCode::Create | OpCode::Create2 | OpCode::CreateContainer => Ok(create::prepare(view, op, &from.get()?, out)?),
        OpCode::CreateTtl => Ok(create::prepare_ttl(view, &from.get()?, out)?),
        OpCode::Delete => Ok(delete::prepare(view, &from.get()?, out)?),
        OpCode::SetData => Ok(set_data::prepare(view, &from.get()?, out)?),
        OpCode::SetAcl => Ok(set_acl::prepare(view, &from.get()?, out)?),
        OpCode::Multi => multi::prepare(view, body, out),
        OpCode::Reconfig => Ok(reconfig::prepare(view, &from.get()?, None, out)?),
        // Only the server itself deletes containers. The request must not be accepted from a client.
        OpCode::DeleteContainer => Err(ErrorCode::NoAuth.into()),
        _ => Err(ErrorCode::Unimplemented.into()),
    }
}

/// Prepares the deletion of an expired container or TTL node. `never_used_ms` is the time for which a container that
/// never had a child is kept, 0 for no limit.
pub fn prepare_delete_container(
    view: &mut PendingView<'_>,
    path: &str,
    never_used_ms: i64,
    out: &mut Vec<u8>,
) -> Prepared {
    match delete::prepare_container(view, path, never_used_ms, out) {
        Ok(kind) => Prepared::Txn(kind),
        Err(code) => Prepared::Refused(code),
    }
}

/// The version after the next change.
// Compat: the rule of 3.10. Clients pass -1 for "any version", so counting skips it (K73).
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

/// Appends the complete reply frame for the write that `record` logs.
pub fn put_write_reply(out: &mut Vec<u8>, record: &Record<'_>, applied: &Applied) {
    let mark = begin_frame(out);
    let err = if let Txn::Error { err } = record.txn { err } else { 0 };
    ReplyHeader { xid: record.header.cxid, zxid: record.header.zxid, err }.put(out);
    put_body(out, &record.txn, applied);
    end_frame(out, mark);
}

fn put_body(out: &mut Vec<u8>, txn: &Txn<'_>, applied: &Applied) {
    match txn {
        Txn::Create(create) => create::put_reply(out, create, applied),
        Txn::Multi(elements) => multi::put_reply(out, elements, applied),
        Txn::Reconfig { data, .. } => reconfig::put_reply(out, *data, applied),
        Txn::SetData { .. } | Txn::SetAcl { .. } => put_stat(out, applied),
        Txn::Delete { .. }
        | Txn::DeleteContainer { .. }
        | Txn::Check { .. }
        | Txn::CreateSession { .. }
        | Txn::CloseSession { .. }
        | Txn::Error { .. } => (),
    }
}

fn put_stat(out: &mut Vec<u8>, applied: &Applied) {
    if let Applied::Stat(stat) = applied {
        stat.put(out);
    }
}
