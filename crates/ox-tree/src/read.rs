//! Reads, one file per operation: requests that change nothing but watches. Replies are encoded directly from the
//! state.
//!
//! The caller holds the read lock of the state. Watches are registered under the same lock, so that no change falls
//! between the contents of a reply and its watch.

mod exists;
mod get_acl;
mod get_all_children_number;
mod get_children;
mod get_data;
mod get_ephemerals;
mod multi_read;
mod watches;
mod who_am_i;

use crate::auth::Identities;
use crate::limits::{MEASURED_BODY_BYTES_MAX, REPLY_BYTES_MAX};
use crate::node::NodeId;
use crate::path;
use crate::watch::{WatchKind, WatchMode, WatcherId};
use crate::{AclList, State};
use ox_proto::acl::perms;
use ox_proto::frame::{begin_frame, end_frame};
use ox_proto::reply::{ReplyHeader, put_bare_reply};
use ox_proto::request::{PathRequest, PathWatch, xid};
use ox_proto::{DecodeError, ErrorCode, Jute, OpCode, Reader, SessionId};

/// The origin of a request.
#[derive(Clone, Copy, Debug)]
pub struct Requester<'a> {
    /// The owner of the watches that the request registers.
    pub watcher: WatcherId,
    pub session: SessionId,
    /// The identities that ACLs are checked against.
    pub ids: &'a Identities,
}

/// A request with its header decoded.
#[derive(Clone, Copy, Debug)]
pub struct ReadRequest<'a> {
    pub xid: i32,
    /// An operation for which [`is_read`] is true.
    pub op: OpCode,
    /// The bytes after the header.
    pub body: &'a [u8],
}

/// Whether [`put_reply`] can execute the operation.
pub fn is_read(op: OpCode) -> bool {
    use OpCode as O;
    matches!(
        op,
        O::Exists
            | O::GetData
            | O::GetAcl
            | O::GetChildren
            | O::GetChildren2
            | O::GetAllChildrenNumber
            | O::Sync
            | O::Ping
            | O::MultiRead
            | O::GetEphemerals
            | O::WhoAmI
            | O::AddWatch
            | O::CheckWatches
            | O::RemoveWatches
            | O::SetWatches
            | O::SetWatches2
    )
}

/// What the caller does after a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum AfterReply {
    /// Keep the connection open.
    Continue,
    /// Close the connection, because re-arming its watches failed and the client ignores the error.
    Close,
}

/// The approximate size of the reply to a read, to separate large replies from small ones in advance. A reply that
/// would take long to measure counts as large.
pub fn reply_bytes(state: &State, op: OpCode, body: &[u8]) -> usize {
    #[expect(clippy::wildcard_enum_match_arm, reason = "all other replies are small")]
    match op {
        OpCode::GetData | OpCode::GetChildren | OpCode::GetChildren2 => {
            Reader::new(body).get().map_or(0, |request| node_bytes(state, op, &request))
        }
        OpCode::MultiRead | OpCode::SetWatches | OpCode::SetWatches2 if MEASURED_BODY_BYTES_MAX < body.len() => {
            usize::MAX
        }
        OpCode::MultiRead => multi_read::reply_bytes(state, body),
        OpCode::SetWatches | OpCode::SetWatches2 => watches::event_bytes(state, op, body),
        OpCode::GetEphemerals => usize::MAX,
        _ => 0,
    }
}

/// The size of the node's data, or of the names of its children.
fn node_bytes(state: &State, op: OpCode, request: &PathWatch<'_>) -> usize {
    /// The estimated size of a name with its length; most are shorter.
    const NAME_BYTES: usize = 32;
    let found = request.path.as_deref().and_then(|path| state.tree.find(path::internal(path)));
    let Some(node) = found.map(|id| state.tree.get(id)) else { return 0 };
    if op == OpCode::GetData { node.data().map_or(0, <[u8]>::len) } else { node.children as usize * NAME_BYTES }
}

/// Appends the reply frame, preceded by events if re-arming watches finds changes.
pub fn put_reply(state: &State, requester: Requester<'_>, request: ReadRequest<'_>, out: &mut Vec<u8>) -> AfterReply {
    put_reply_within(state, requester, request, out, REPLY_BYTES_MAX)
}

fn put_reply_within(
    state: &State,
    requester: Requester<'_>,
    request: ReadRequest<'_>,
    out: &mut Vec<u8>,
    bytes_max: usize,
) -> AfterReply {
    let ReadRequest { xid, op, body } = request;
    if op == OpCode::Ping {
        put_bare_reply(out, ReplyHeader { xid: xid::PING, zxid: state.last_zxid(), err: 0 });
        return AfterReply::Continue;
    }
    if matches!(op, OpCode::SetWatches | OpCode::SetWatches2) {
        let result = watches::rearm(state, requester, op, body, out);
        let err = result.err().map_or(0, ErrorCode::code);
        put_bare_reply(out, ReplyHeader { xid, zxid: state.last_zxid(), err });
        // Clients ignore the error code of setWatches.
        return if result == Err(TOO_MANY_WATCHES) { AfterReply::Close } else { AfterReply::Continue };
    }
    let mark = begin_frame(out);
    ReplyHeader { xid, zxid: state.last_zxid(), err: 0 }.put(out);
    let body_start = out.len();
    let mut result = put_body(state, requester, op, body, out);
    if bytes_max < out.len() - mark {
        result = Err(ErrorCode::MarshallingError.into());
    }
    if let Err(error) = result {
        if !error.keeps_body {
            out.truncate(body_start);
        }
        out[body_start - 4..body_start].copy_from_slice(&error.code.code().to_be_bytes());
    }
    end_frame(out, mark);
    AfterReply::Continue
}

/// The watch limit of the client's address is reached. The code is Apache's for a throttled request; the client must
/// see that its watch was not registered.
const TOO_MANY_WATCHES: ErrorCode = ErrorCode::ThrottledOp;

struct Refusal {
    code: ErrorCode,
    /// A refused multiRead may have a body in addition to its error.
    keeps_body: bool,
}

impl From<ErrorCode> for Refusal {
    fn from(code: ErrorCode) -> Self {
        Self { code, keeps_body: false }
    }
}

impl From<DecodeError> for Refusal {
    fn from(_: DecodeError) -> Self {
        ErrorCode::MarshallingError.into()
    }
}

fn put_body(
    state: &State,
    requester: Requester<'_>,
    op: OpCode,
    body: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), Refusal> {
    let mut from = Reader::new(body);
    #[expect(clippy::wildcard_enum_match_arm, reason = "callers pass reads only")]
    match op {
        OpCode::Exists => exists::put(state, requester, &from.get()?, out)?,
        OpCode::GetData => get_data::put(state, requester, &from.get()?, out)?,
        OpCode::GetChildren | OpCode::GetChildren2 => get_children::put(state, requester, op, &from.get()?, out)?,
        OpCode::GetAcl => get_acl::put(state, requester, &from.get()?, out)?,
        OpCode::GetAllChildrenNumber => get_all_children_number::put(state, requester, &from.get()?, out)?,
        OpCode::GetEphemerals => get_ephemerals::put(state, requester, &from.get()?, out),
        OpCode::Sync => from.get::<PathRequest<'_>>()?.path.put(out),
        OpCode::WhoAmI => who_am_i::put(requester, out),
        OpCode::MultiRead => multi_read::put(state, requester, body, out)?,
        OpCode::AddWatch => watches::add(state, requester, &from.get()?, out)?,
        OpCode::CheckWatches => watches::check(state, requester, &from.get()?)?,
        OpCode::RemoveWatches => watches::remove(state, requester, &from.get()?)?,
        _ => return Err(ErrorCode::Unimplemented.into()),
    }
    Ok(())
}

fn may(state: &State, requester: Requester<'_>, list: &AclList, perm: i32) -> bool {
    state.options.skip_acl || requester.ids.may(&state.options.schemes, list, perm)
}

/// Finds a node that exists and that the requester may read.
fn readable(state: &State, requester: Requester<'_>, client_path: Option<&str>) -> Result<NodeId, ErrorCode> {
    let client_path = client_path.ok_or(ErrorCode::MarshallingError)?;
    let id = state.tree.find(path::internal(client_path)).ok_or(ErrorCode::NoNode)?;
    let list = state.acls.get(state.tree.get(id).acl);
    if may(state, requester, list, perms::READ) { Ok(id) } else { Err(ErrorCode::NoAuth) }
}

fn watch(
    state: &State,
    requester: Requester<'_>,
    request: &PathWatch<'_>,
    watch_kind: WatchKind,
) -> Result<(), ErrorCode> {
    match request.path.as_deref().filter(|_| request.watch) {
        Some(path) if !state.watches().lock().add(requester.watcher, path, &[watch_kind], WatchMode::Standard) => {
            Err(TOO_MANY_WATCHES)
        }
        _ => Ok(()),
    }
}
