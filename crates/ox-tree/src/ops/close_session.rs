//! closeSession: deletes the ephemeral nodes of the session in the same transaction.

use super::delete::remove;
use super::fits_record;
use crate::path;
use crate::pending::PendingView;
use ox_proto::txn::Txn;
use std::borrow::Cow;

/// Appends the body. Returns whether the record may carry a digest.
pub(super) fn prepare(view: &mut PendingView<'_>, out: &mut Vec<u8>) -> bool {
    let paths = view.ephemerals();
    for path in &paths {
        let node = view.node(path).expect("every listed node exists");
        let parent = path::split(path).and_then(|(parent, _)| view.node(parent));
        remove(view, &node, parent);
    }
    view.close_session();
    let bytes = 4 + paths.iter().map(|path| 4 + path.len()).sum::<usize>();
    // A list that no reader with default limits accepts is left out, since the tree knows the session's nodes (K145).
    // Without the list the record must not carry a digest, because a reader would decode it as the list.
    let listed = view.state.options().close_session_txn && fits_record(view, bytes);
    let paths = listed.then(|| paths.iter().map(|path| Cow::Borrowed(path.as_str())).collect());
    Txn::CloseSession { paths }.put(out);
    listed
}
