//! getData: data and Stat of a node.

use super::{Requester, readable, watch};
use crate::State;
use crate::watch::WatchKind;
use ox_proto::jute::put_buffer;
use ox_proto::request::PathWatch;
use ox_proto::{ErrorCode, Jute};

pub(super) fn put(
    state: &State,
    requester: Requester<'_>,
    request: &PathWatch<'_>,
    out: &mut Vec<u8>,
) -> Result<(), ErrorCode> {
    let id = readable(state, requester, request.path.as_deref())?;
    watch(state, requester, request, WatchKind::Data)?;
    put_buffer(out, state.tree.get(id).data());
    state.stat_of(id).put(out);
    Ok(())
}
