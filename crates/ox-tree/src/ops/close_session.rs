//! closeSession: deletes the ephemeral nodes of the session in the same transaction.

use super::delete::remove;
use super::fits_record;
use crate::apply::Applier;
use crate::path;
use crate::pending::PendingView;
use crate::watch::EventSink;
use ox_proto::SessionId;
use ox_proto::txn::Txn;
use std::borrow::Cow;

/// Prepares the closeSession of the view's session, which deletes its ephemeral nodes. Returns whether the transaction
/// may carry a digest.
pub fn prepare_close_session(view: &mut PendingView<'_>, out: &mut Vec<u8>) -> bool {
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

impl<E: EventSink> Applier<'_, E> {
    pub(crate) fn close_session(&mut self, session: SessionId, paths: Option<&[Cow<'_, str>]>) {
        for path in paths.into_iter().flatten() {
            self.delete(path::internal(path));
        }
        let mut left: Vec<String> = self.state.ephemerals_of(session).collect();
        left.sort_unstable(); // node ids differ between servers, but the order of events and quota updates must not
        left.iter().for_each(|path| self.delete(path));
        self.state.sessions.remove(&session);
    }
}
