//! What is known about the connections to other servers.

use ox_proto::ServerId;
use std::collections::BTreeMap;

/// The election connection to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// Being tried: it is not known whether the server is there.
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
    /// A server that is gone stays so while it is tried again: the next election must not wait for it.
    pub(super) fn set(&mut self, server: ServerId, link: Link) {
        if link != Link::Trying || !self.is_down(server) {
            self.0.insert(server, link);
        }
    }

    pub(super) fn is_down(&self, server: ServerId) -> bool {
        self.0.get(&server) == Some(&Link::Down)
    }
}
