//! Answers that change nothing but watches, encoded straight from the state.
//!
//! The caller holds the state for reading; watches are registered under the same hold, so that nothing can change
//! between what an answer shows and what its watch will see.

mod multi_read;
mod watches;

use crate::auth::{Identities, user_name};
use crate::limits::{MEASURED_BODY_BYTES_MAX, REPLY_BYTES_MAX};
use crate::node::NodeId;
use crate::path;
use crate::watch::{Mode, Table};
use crate::{AclList, ConnId, State};
use ox_proto::acl::{perms, put_acls};
use ox_proto::frame::{begin_frame, end_frame};
use ox_proto::jute::{put_buffer, put_count, put_text};
use ox_proto::reply::{ReplyHeader, put_bare_reply};
use ox_proto::request::{PathRequest, PathWatch, xid};
use ox_proto::{Acl, DecodeError, ErrorCode, Jute, OpCode, Reader, SessionId};

/// Who asks.
#[derive(Clone, Copy, Debug)]
pub struct Asker<'a> {
    /// The connection, which owns the watches.
    pub conn: ConnId,
    /// Its session.
    pub session: SessionId,
    /// What it has proven.
    pub ids: &'a Identities,
}

/// A request whose header has been read.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// Echoed in the answer.
    pub xid: i32,
    /// A read.
    pub op: OpCode,
    /// What follows the header.
    pub body: &'a [u8],
}

/// True for the operations that [`answer`] answers.
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

/// What is to be done when a read is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Then {
    /// Nothing.
    GoOn,
    /// Close the connection. Its client believes that all its watches are armed again, and they are not.
    Close,
}

/// About how many bytes the reply to a read will have, to tell large replies from small ones before they are made. Replies
/// that would take long to measure count as large.
pub fn reply_bytes(state: &State, op: OpCode, body: &[u8]) -> usize {
    #[expect(clippy::wildcard_enum_match_arm, reason = "all others have small replies")]
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

/// Bytes of the data of a node, or of the names of its children.
fn node_bytes(state: &State, op: OpCode, request: &PathWatch<'_>) -> usize {
    /// A name takes its bytes and a length; most are shorter.
    const NAME_BYTES: usize = 32;
    let found = request.path.as_deref().and_then(|path| state.tree.find(path::internal(path)));
    let Some(node) = found.map(|id| state.tree.get(id)) else { return 0 };
    if op == OpCode::GetData { node.data().map_or(0, <[u8]>::len) } else { node.children as usize * NAME_BYTES }
}

/// Appends the whole reply frame, with events before it where re-arming a watch finds a difference.
pub fn answer(state: &State, asker: Asker<'_>, question: Question<'_>, out: &mut Vec<u8>) -> Then {
    answer_within(state, asker, question, out, REPLY_BYTES_MAX)
}

fn answer_within(state: &State, asker: Asker<'_>, question: Question<'_>, out: &mut Vec<u8>, bytes_max: usize) -> Then {
    let Question { xid, op, body } = question;
    if op == OpCode::Ping {
        put_bare_reply(out, ReplyHeader { xid: xid::PING, zxid: state.last_zxid(), err: 0 });
        return Then::GoOn;
    }
    if matches!(op, OpCode::SetWatches | OpCode::SetWatches2) {
        let result = watches::rearm(state, asker, op, body, out);
        let err = result.err().map_or(0, ErrorCode::code);
        put_bare_reply(out, ReplyHeader { xid, zxid: state.last_zxid(), err });
        // Clients do not look at this answer.
        return if result == Err(TOO_MANY_WATCHES) { Then::Close } else { Then::GoOn };
    }
    let mark = begin_frame(out);
    ReplyHeader { xid, zxid: state.last_zxid(), err: 0 }.put(out);
    let body_start = out.len();
    let mut result = put_answer(state, asker, op, body, out);
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
    Then::GoOn
}

/// The client's address has enough watches. A code of Apache's own servers for "not now"; a read whose watch is refused
/// must not look like one whose watch is armed.
const TOO_MANY_WATCHES: ErrorCode = ErrorCode::ThrottledOp;

/// A refused read.
struct Refusal {
    code: ErrorCode,
    /// multiRead may have a body in spite of its error.
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

fn put_answer(state: &State, asker: Asker<'_>, op: OpCode, body: &[u8], out: &mut Vec<u8>) -> Result<(), Refusal> {
    let mut from = Reader::new(body);
    #[expect(clippy::wildcard_enum_match_arm, reason = "the caller sends reads only")]
    match op {
        OpCode::Exists => exists(state, asker, &from.get()?, out)?,
        OpCode::GetData => get_data(state, asker, &from.get()?, out)?,
        OpCode::GetChildren | OpCode::GetChildren2 => get_children(state, asker, op, &from.get()?, out)?,
        OpCode::GetAcl => get_acl(state, asker, &from.get()?, out)?,
        OpCode::GetAllChildrenNumber => get_all_children_number(state, asker, &from.get()?, out)?,
        OpCode::GetEphemerals => get_ephemerals(state, asker, &from.get()?, out),
        OpCode::Sync => from.get::<PathRequest<'_>>()?.path.put(out),
        OpCode::WhoAmI => who_am_i(asker, out),
        OpCode::MultiRead => multi_read::put(state, asker, body, out)?,
        OpCode::AddWatch => watches::add(state, asker, &from.get()?, out)?,
        OpCode::CheckWatches => watches::check(state, asker, &from.get()?)?,
        OpCode::RemoveWatches => watches::remove(state, asker, &from.get()?)?,
        _ => return Err(ErrorCode::Unimplemented.into()),
    }
    Ok(())
}

fn may(state: &State, asker: Asker<'_>, list: &AclList, perm: i32) -> bool {
    state.options.skip_acl || asker.ids.may(list, perm)
}

/// A node that exists and that the asker may read.
fn readable(state: &State, asker: Asker<'_>, client_path: Option<&str>) -> Result<NodeId, ErrorCode> {
    let client_path = client_path.ok_or(ErrorCode::MarshallingError)?;
    let id = state.tree.find(path::internal(client_path)).ok_or(ErrorCode::NoNode)?;
    let list = state.acls.get(state.tree.get(id).acl);
    if may(state, asker, list, perms::READ) { Ok(id) } else { Err(ErrorCode::NoAuth) }
}

fn watch(state: &State, asker: Asker<'_>, request: &PathWatch<'_>, table: Table) -> Result<(), ErrorCode> {
    match request.path.as_deref().filter(|_| request.watch) {
        Some(path) if !state.watches().lock().add(asker.conn, path, &[table], Mode::Standard) => Err(TOO_MANY_WATCHES),
        _ => Ok(()),
    }
}

fn exists(state: &State, asker: Asker<'_>, request: &PathWatch<'_>, out: &mut Vec<u8>) -> Result<(), ErrorCode> {
    let path = request.path.as_deref().ok_or(ErrorCode::MarshallingError)?;
    if path.contains('\0') {
        return Err(ErrorCode::BadArguments);
    }
    let found = readable(state, asker, Some(path));
    if found != Err(ErrorCode::NoAuth) {
        watch(state, asker, request, Table::Data)?;
    }
    state.stat_of(found?).put(out);
    Ok(())
}

fn get_data(state: &State, asker: Asker<'_>, request: &PathWatch<'_>, out: &mut Vec<u8>) -> Result<(), ErrorCode> {
    let id = readable(state, asker, request.path.as_deref())?;
    watch(state, asker, request, Table::Data)?;
    put_buffer(out, state.tree.get(id).data());
    state.stat_of(id).put(out);
    Ok(())
}

fn get_children(
    state: &State,
    asker: Asker<'_>,
    op: OpCode,
    request: &PathWatch<'_>,
    out: &mut Vec<u8>,
) -> Result<(), ErrorCode> {
    let id = readable(state, asker, request.path.as_deref())?;
    watch(state, asker, request, Table::Child)?;
    put_children(state, id, out)?;
    if op == OpCode::GetChildren2 {
        state.stat_of(id).put(out);
    }
    Ok(())
}

fn put_children(state: &State, parent: NodeId, out: &mut Vec<u8>) -> Result<(), ErrorCode> {
    // A name takes five bytes or more; what cannot fit is not even begun.
    if REPLY_BYTES_MAX / 5 < state.tree.get(parent).children as usize {
        return Err(ErrorCode::MarshallingError);
    }
    state.tree.put_children(parent, out);
    Ok(())
}

fn get_acl(state: &State, asker: Asker<'_>, request: &PathRequest<'_>, out: &mut Vec<u8>) -> Result<(), ErrorCode> {
    let client_path = request.path.as_deref().ok_or(ErrorCode::MarshallingError)?;
    let id = state.tree.find(path::internal(client_path)).ok_or(ErrorCode::NoNode)?;
    let list = state.acls.get(state.tree.get(id).acl);
    if !may(state, asker, list, perms::READ | perms::ADMIN) {
        return Err(ErrorCode::NoAuth);
    }
    if may(state, asker, list, perms::ADMIN) {
        out.extend_from_slice(list.encoded());
    } else {
        put_acls(out, &list.entries.iter().map(masked).collect::<Vec<_>>());
    }
    state.stat_of(id).put(out);
    Ok(())
}

/// An entry without the hash that would help to guess a password.
fn masked(acl: &Acl) -> Acl {
    match acl.id.split_once(':') {
        Some((user, _)) if &*acl.scheme == "digest" => Acl::new(acl.perms, &acl.scheme, &format!("{user}:x")),
        _ => acl.clone(),
    }
}

fn get_all_children_number(
    state: &State,
    asker: Asker<'_>,
    request: &PathRequest<'_>,
    out: &mut Vec<u8>,
) -> Result<(), ErrorCode> {
    let id = readable(state, asker, request.path.as_deref())?;
    // Compat: under its alias "" the root counts itself.
    let alias = usize::from(request.path.as_deref() == Some(""));
    i32::try_from(state.tree.count_below(id) + alias).unwrap_or(i32::MAX).put(out);
    Ok(())
}

fn get_ephemerals(state: &State, asker: Asker<'_>, request: &PathRequest<'_>, out: &mut Vec<u8>) {
    let prefix = request.path.as_deref().unwrap_or_default();
    let is_blank = |c: char| c <= ' ';
    let everything = matches!(prefix.trim_matches(is_blank), "" | "/");
    let paths = state.ephemerals_of(asker.session).filter(|path| everything || path.starts_with(prefix));
    let paths: Vec<String> = paths.collect();
    put_count(out, paths.len());
    paths.iter().for_each(|path| put_text(out, path));
}

fn who_am_i(asker: Asker<'_>, out: &mut Vec<u8>) {
    put_count(out, asker.ids.iter().count());
    for identity in asker.ids.iter() {
        put_text(out, &identity.scheme);
        put_text(out, user_name(identity));
    }
}
