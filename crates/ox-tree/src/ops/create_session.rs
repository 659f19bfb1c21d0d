//! createSession: a session becomes part of the replicated state.

use crate::apply::Applier;
use crate::pending::PendingView;
use crate::watch::EventSink;
use ox_proto::SessionId;
use ox_proto::txn::Txn;

/// Prepares the createSession of the view's session. Its ephemeral creates may follow immediately.
pub fn prepare_create_session(view: &mut PendingView<'_>, timeout_ms: i32, out: &mut Vec<u8>) {
    view.open_session();
    Txn::CreateSession { timeout_ms }.put(out);
}

impl<E: EventSink> Applier<'_, E> {
    pub(crate) fn create_session(&mut self, session: SessionId, timeout_ms: i32) {
        self.state.open_session(session, timeout_ms);
    }
}
