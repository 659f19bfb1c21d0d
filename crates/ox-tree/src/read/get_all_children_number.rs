//! getAllChildrenNumber: the size of a subtree.

use super::{Requester, readable};
use crate::State;
use ox_proto::request::PathRequest;
use ox_proto::{ErrorCode, Jute};

pub(super) fn put(
    state: &State,
    requester: Requester<'_>,
    request: &PathRequest<'_>,
    out: &mut Vec<u8>,
) -> Result<(), ErrorCode> {
    let id = readable(state, requester, request.path.as_deref())?;
    // Compat: under its alias "" the root counts itself.
    let alias = usize::from(request.path.as_deref() == Some(""));
    i32::try_from(state.tree.count_below(id) + alias).unwrap_or(i32::MAX).put(out);
    Ok(())
}
