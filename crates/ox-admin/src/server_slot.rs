//! The server that the AdminServer shows: none before its data is read, and between two servers of one process.

use ox_server::ServerHandle;
use parking_lot::Mutex;

#[derive(Default)]
pub(crate) struct ServerSlot(Mutex<Option<ServerHandle>>);

impl ServerSlot {
    pub(crate) fn set(&self, server: Option<ServerHandle>) {
        *self.0.lock() = server;
    }

    pub(crate) fn get(&self) -> Option<ServerHandle> {
        self.0.lock().clone()
    }
}
