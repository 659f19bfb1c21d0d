//! A client that reconnects to any of several servers and keeps its session.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use ox_proto::request::{CreateRequest, PathRequest, SetDataRequest};
use ox_proto::{Jute, OpCode, RawAcls, SessionId, Zxid};

use crate::interop::tree_walk::{Tree, walk};
use crate::interop::wire::{Reply, SessionHandle, SessionRefused, WireClient};

/// Longer than any election takes.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Interval between attempts to connect.
const POLL: Duration = Duration::from_millis(20);
/// The node whose Stat differs between servers.
pub(super) const CONFIG: &str = "/zookeeper/config";

pub(super) struct FailoverClient {
    addresses: Vec<SocketAddr>,
    index: usize,
    client: Option<WireClient>,
    session_handle: Option<SessionHandle>,
}

impl FailoverClient {
    /// Opens a session with the first server that accepts it.
    pub(super) fn new(addresses: Vec<SocketAddr>) -> Result<Self> {
        let mut client = Self { index: addresses.len() - 1, addresses, client: None, session_handle: None };
        client.connect()?;
        Ok(client)
    }

    pub(super) fn session(&self) -> SessionId {
        self.session_handle.as_ref().map_or(SessionId::NONE, |session_handle| session_handle.session)
    }

    /// Closes the connection and resumes the session on other servers.
    pub(super) fn move_session_to(&mut self, addresses: Vec<SocketAddr>) -> Result<()> {
        (self.index, self.addresses, self.client) = (addresses.len() - 1, addresses, None);
        self.connect()
    }

    fn connect(&mut self) -> Result<()> {
        let until = Instant::now() + TIMEOUT;
        loop {
            self.index = (self.index + 1) % self.addresses.len();
            let address = self.addresses[self.index];
            let opened = match &self.session_handle {
                Some(session_handle) => WireClient::resume(address, session_handle),
                None => WireClient::connect(address),
            };
            match opened {
                Ok(client) => {
                    self.session_handle = Some(client.session_handle());
                    self.client = Some(client);
                    return Ok(());
                }
                Err(e) if e.is::<SessionRefused>() => {
                    bail!("{address} reports that session {} has expired", self.session())
                }
                Err(e) if until < Instant::now() => return Err(e.context("no server accepts the session")),
                Err(_) => std::thread::sleep(POLL),
            }
        }
    }

    /// Sends a request, again after each lost connection, until a reply arrives.
    pub(super) fn call<'a>(&mut self, op: OpCode, body: &impl Jute<'a>) -> Result<Reply> {
        loop {
            if let Some(client) = &mut self.client {
                if let Ok(reply) = client.call(op, body) {
                    self.session_handle = Some(client.session_handle());
                    return Ok(reply);
                }
                self.client = None;
            }
            self.connect()?;
        }
    }

    /// Creates a node. It may exist already, if the reply to an earlier attempt was lost.
    pub(super) fn create(&mut self, path: &str, flags: i32) -> Result<()> {
        self.create_with(path, b"data", flags)
    }

    pub(super) fn create_with(&mut self, path: &str, data: &[u8], flags: i32) -> Result<()> {
        let body = CreateRequest { path: Some(path.into()), data: Some(data), acl: RawAcls::OPEN, flags };
        let until = Instant::now() + TIMEOUT;
        loop {
            match self.call(OpCode::Create, &body)?.header.err {
                0 | -110 => return Ok(()),
                // The leader's disk is low (throttled op); another server is about to become the leader.
                -127 if Instant::now() < until => std::thread::sleep(POLL),
                err => bail!("create {path}: error {err}"),
            }
        }
    }

    /// Sets data of any version. Returns the zxid of the write.
    pub(super) fn set(&mut self, path: &str, data: &[u8]) -> Result<Zxid> {
        let body = SetDataRequest { path: Some(path.into()), data: Some(data), version: -1 };
        let reply = self.call(OpCode::SetData, &body)?;
        reply.body()?;
        Ok(reply.header.zxid)
    }

    /// Keeps the session alive with a sync.
    pub(super) fn touch(&mut self) -> Result<()> {
        self.call(OpCode::Sync, &PathRequest { path: Some("/".into()) })?.body().map(drop)
    }

    /// The tree of the connected server, after a sync.
    pub(super) fn walk(&mut self) -> Result<Tree> {
        self.call(OpCode::Sync, &PathRequest { path: Some("/".into()) })?.body()?;
        let Some(client) = &mut self.client else { bail!("no connection") };
        let mut tree = walk(client)?;
        if let Some(config) = tree.get_mut(CONFIG) {
            config.stat = ox_proto::Stat::default();
        }
        Ok(tree)
    }

    pub(super) fn close(self) -> Result<()> {
        self.client.map_or(Ok(()), WireClient::close)
    }
}
