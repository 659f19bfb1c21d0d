//! The end of a session: its ephemeral nodes go in the same transaction.

use super::delete::remove;
use super::fits_a_record;
use crate::path;
use crate::pending::View;
use ox_proto::txn::Txn;
use std::borrow::Cow;

/// Appends the body; returns whether the record may carry a digest.
pub(super) fn prepare(view: &mut View<'_>, out: &mut Vec<u8>) -> bool {
    let paths = view.ephemerals();
    for path in &paths {
        let node = view.node(path).expect("listed because it is there");
        let parent = path::split(path).and_then(|(parent, _)| view.node(parent));
        remove(view, &node, parent);
    }
    view.close_session();
    let bytes = 4 + paths.iter().map(|path| 4 + path.len()).sum::<usize>();
    // K145: a list that no reader with default limits accepts is left out; the tree knows the nodes as well.
    // Without a list there must be no digest either, which would be mistaken for one.
    let listed = view.state.options().close_session_txn && fits_a_record(view, bytes);
    let paths = listed.then(|| paths.iter().map(|path| Cow::Borrowed(path.as_str())).collect());
    Txn::CloseSession { paths }.put(out);
    listed
}
