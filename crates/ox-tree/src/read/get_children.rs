//! getChildren and getChildren2: the names of the children.

use super::{Requester, readable, watch};
use crate::State;
use crate::limits::REPLY_BYTES_MAX;
use crate::node::NodeId;
use crate::watch::WatchKind;
use ox_proto::request::PathWatch;
use ox_proto::{ErrorCode, Jute, OpCode};

pub(super) fn put(
    state: &State,
    requester: Requester<'_>,
    op: OpCode,
    request: &PathWatch<'_>,
    out: &mut Vec<u8>,
) -> Result<(), ErrorCode> {
    let id = readable(state, requester, request.path.as_deref())?;
    watch(state, requester, request, WatchKind::Child)?;
    put_children(state, id, out)?;
    if op == OpCode::GetChildren2 {
        state.stat_of(id).put(out);
    }
    Ok(())
}

pub(super) fn put_children(state: &State, parent: NodeId, out: &mut Vec<u8>) -> Result<(), ErrorCode> {
    // A name takes at least five bytes: refuse early a list that cannot fit.
    if REPLY_BYTES_MAX / 5 < state.tree.get(parent).children as usize {
        return Err(ErrorCode::MarshallingError);
    }
    state.tree.put_children(parent, out);
    Ok(())
}
