//! Sessions and ephemeral nodes.

use super::{ServerHandle, ServingMode, Visit};
use crate::limits::LISTING_BATCH_MAX;
use crate::status::four_letter::global_sessions;
use crate::status::server_mode::ServerMode;
use std::collections::BTreeMap;

impl ServerHandle {
    /// The sessions by the time at which they expire (monotonic clock, ms); empty on learners, which do not know it.
    /// `None` if the replica thread does not reply.
    pub fn sessions_by_expiry(&self, mode: ServingMode) -> Option<BTreeMap<i64, Vec<i64>>> {
        let mut by_expiry: BTreeMap<i64, Vec<i64>> = BTreeMap::new();
        if matches!(mode.0, ServerMode::Standalone | ServerMode::Leader(_)) {
            for session in global_sessions(self.shared())? {
                by_expiry.entry(session.expires_ms).or_default().push(session.id.0);
            }
        }
        Some(by_expiry)
    }

    /// Calls `visit` with each ephemeral node and its session, ordered by session.
    pub fn ephemerals(&self, visit: &mut dyn FnMut(i64, &str) -> Visit) {
        let mut after = None;
        loop {
            let nodes = self.shared().state.read().ephemerals_after(after, LISTING_BATCH_MAX);
            let Some((last, _)) = nodes.last() else { return };
            after = Some(*last);
            if nodes.iter().any(|(cursor, path)| visit(cursor.session.0, path) == Visit::Stop) {
                return;
            }
        }
    }
}
