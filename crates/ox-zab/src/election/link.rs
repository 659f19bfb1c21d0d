//! What is known about the connections to other servers.

use ox_proto::ServerId;
use std::collections::BTreeMap;

/// The election connection to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// Being tried: nobody knows whether the server is there.
    Trying,
    /// The server can be heard.
    Up,
    /// The server refused, or is gone.
    Down,
}

/// All of them; a server that nobody has tried to reach may be there.
#[derive(Debug, Default)]
pub(super) struct Links(BTreeMap<ServerId, Link>);

impl Links {
    pub(super) fn set(&mut self, server: ServerId, link: Link) {
        self.0.insert(server, link);
    }

    pub(super) fn is_down(&self, server: ServerId) -> bool {
        self.0.get(&server) == Some(&Link::Down)
    }
}
