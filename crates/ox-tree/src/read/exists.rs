//! exists: the Stat of a node, and a watch that also waits for its creation.

use super::{Requester, readable, watch};
use crate::State;
use crate::watch::WatchKind;
use ox_proto::request::PathWatch;
use ox_proto::{ErrorCode, Jute};

pub(super) fn put(
    state: &State,
    requester: Requester<'_>,
    request: &PathWatch<'_>,
    out: &mut Vec<u8>,
) -> Result<(), ErrorCode> {
    let path = request.path.as_deref().ok_or(ErrorCode::MarshallingError)?;
    if path.contains('\0') {
        return Err(ErrorCode::BadArguments);
    }
    let found = readable(state, requester, Some(path));
    if found != Err(ErrorCode::NoAuth) {
        watch(state, requester, request, WatchKind::Data)?;
    }
    state.stat_of(found?).put(out);
    Ok(())
}
