//! A client that keeps its session when it changes servers.

use crate::connection::RawConnection;
use crate::packet::{RawHandshake, RawPacket};
use crate::raw_client::{OpenError, RawClient, RawReply};
use crate::tree_walk::{CONFIG, Tree, walk};
use crate::wait::wait_for;
use ox_proto::{Jute, OpCode, SessionId, Stat};
use std::net::SocketAddr;
use std::time::Duration;

/// A client leaves a server that does not reply within this time.
const REPLY_PATIENCE: Duration = Duration::from_secs(4);

const SESSION_MS: i32 = 60_000;

/// A client of several servers. It repeats a request until a reply arrives.
#[derive(Debug)]
pub struct FailoverClient {
    addresses: Vec<SocketAddr>,
    index: usize,
    client: Option<RawClient>,
    handshake: RawHandshake,
}

impl FailoverClient {
    /// Opens a session with any of these servers.
    pub fn new(addresses: Vec<SocketAddr>) -> Self {
        let mut client = Self { addresses, index: 0, client: None, handshake: RawHandshake::new(SESSION_MS) };
        client.connect();
        client
    }

    pub fn session(&self) -> SessionId {
        self.handshake.session
    }

    /// Closes the connection and resumes the session on other servers.
    pub fn move_session_to(&mut self, addresses: Vec<SocketAddr>) {
        (self.index, self.addresses, self.client) = (0, addresses, None);
        self.connect();
    }

    fn connect(&mut self) {
        assert!(self.resume(), "the session {} is lost", self.session());
    }

    /// Connects to the first server that replies. Returns whether the session exists.
    fn resume(&mut self) -> bool {
        let opened = wait_for(|| {
            self.index = (self.index + 1) % self.addresses.len();
            let raw = RawConnection::try_connect(self.addresses[self.index]).ok()?.with_timeout(REPLY_PATIENCE);
            match RawClient::open_over(raw, &self.handshake) {
                Err(OpenError::Connection(_)) => None,
                opened => Some(opened.ok()),
            }
        });
        self.client = opened.unwrap_or_else(|| panic!("no server accepts the session {}", self.session()));
        self.client.iter().for_each(|client| self.handshake = client.handshake());
        self.client.is_some()
    }

    /// Repeats a request until a reply arrives.
    pub fn ask(&mut self, request: impl Fn(RawPacket, i32) -> RawPacket) -> RawReply {
        loop {
            if let Some(client) = &mut self.client {
                if let Ok(reply) = client.try_ask(&request) {
                    self.handshake = client.handshake();
                    return reply;
                }
                self.client = None;
            }
            self.connect();
        }
    }

    pub fn call<'a>(&mut self, op: OpCode, body: &impl Jute<'a>) -> RawReply {
        self.ask(|packet, xid| packet.request(xid, op, body))
    }

    /// Creates a node. It may exist already, if the reply to an earlier attempt was lost.
    pub fn create(&mut self, path: &str, flags: i32) {
        self.create_with(path, b"data", flags);
    }

    pub fn create_with(&mut self, path: &str, data: &[u8], flags: i32) {
        let created = wait_for(|| match self.ask(|packet, xid| packet.create(xid, path, data, flags)).err {
            // The leader's disk is low (throttled op); another server is about to become the leader.
            -127 => None,
            err => Some(err),
        });
        assert!(matches!(created, Some(0 | -110)), "create {path}: error {created:?}");
    }

    /// Sets data of any version. Returns the zxid of the write.
    pub fn set(&mut self, path: &str, data: &[u8]) -> i64 {
        let reply = self.ask(|packet, xid| packet.set(xid, path, data));
        assert_eq!(reply.err, 0, "set {path}");
        reply.zxid
    }

    pub fn children(&mut self, path: &str) -> Vec<String> {
        self.ask(|packet, xid| packet.read(xid, OpCode::GetChildren, path, false)).names()
    }

    /// Waits until the server has applied all earlier writes. Keeps the session alive, too.
    pub fn sync(&mut self) {
        assert_eq!(self.ask(|packet, xid| packet.of_path(xid, OpCode::Sync, "/")).err, 0, "sync");
    }

    /// The tree of the connected server, after a sync, without the Stat of the configuration.
    pub fn walk(&mut self) -> Tree {
        self.sync();
        let mut tree = walk(|request| self.ask(request));
        if let Some(config) = tree.get_mut(CONFIG) {
            config.stat = Stat::default();
        }
        tree
    }

    /// Closes the session. It may not exist any more, if the reply to an earlier attempt was lost.
    pub fn close(mut self) {
        while self.client.as_mut().is_none_or(|client| client.try_ask(RawPacket::close).is_err()) && self.resume() {}
    }
}
