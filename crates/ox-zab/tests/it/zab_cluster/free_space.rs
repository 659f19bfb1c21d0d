//! Disks that are nearly full: a leader with such a disk refuses writes.

use super::ZabCluster;
use ox_zab::{Input, Leader, ServerId};

impl ZabCluster {
    pub(crate) fn set_low(&mut self, id: i64, is_low: bool) {
        let id = ServerId(id);
        self.servers.get_mut(&id).unwrap().is_low = is_low;
        self.step(id, Input::DiskLow(is_low));
    }

    /// The established leader, if there is one.
    pub(crate) fn leader(&self) -> Option<i64> {
        let leads = |id: &&ServerId| {
            let process = self.servers[id].process.as_ref();
            process.and_then(|process| process.peer.role().leader()).is_some_and(Leader::is_established)
        };
        self.servers.keys().find(leads).map(|id| id.0)
    }
}
