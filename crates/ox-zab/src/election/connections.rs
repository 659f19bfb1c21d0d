//! State of the election connections.

use ox_proto::ServerId;
use std::collections::BTreeMap;

/// The election connection to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElectionConnection {
    /// In progress: the server may be up.
    Connecting,
    Up,
    /// The server refused the connection, or closed it.
    Down,
}

/// A server without an entry may be up.
#[derive(Debug, Default)]
pub(super) struct ElectionConnections(BTreeMap<ServerId, ElectionConnection>);

impl ElectionConnections {
    /// A server that is down stays down while a new connection is in progress, so that the next election does not wait
    /// for it.
    pub(super) fn set(&mut self, server: ServerId, link: ElectionConnection) {
        if link != ElectionConnection::Connecting || !self.is_down(server) {
            self.0.insert(server, link);
        }
    }

    pub(super) fn is_up(&self, server: ServerId) -> bool {
        self.0.get(&server) == Some(&ElectionConnection::Up)
    }

    pub(super) fn is_down(&self, server: ServerId) -> bool {
        self.0.get(&server) == Some(&ElectionConnection::Down)
    }
}
