//! A client that keeps its session wherever it goes.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use ox_proto::request::{CreateRequest, PathRequest, SetDataRequest};
use ox_proto::{Jute, OpCode, RawAcls, SessionId, Zxid};

use crate::interop::tree_walk::{Tree, walk};
use crate::interop::wire::{Reply, SessionHandle, SessionRefused, WireClient};

/// Longer than any election takes.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Between two attempts to connect.
const POLL: Duration = Duration::from_millis(20);
/// What each server sets for itself.
pub(super) const CONFIG: &str = "/zookeeper/config";

pub(super) struct FailoverClient {
    addresses: Vec<SocketAddr>,
    index: usize,
    client: Option<WireClient>,
    session_handle: Option<SessionHandle>,
}

impl FailoverClient {
    /// Opens a session with the first of these that takes it.
    pub(super) fn new(addresses: Vec<SocketAddr>) -> Result<Self> {
        let mut client = Self { index: addresses.len() - 1, addresses, client: None, session_handle: None };
        client.connect()?;
        Ok(client)
    }

    pub(super) fn session(&self) -> SessionId {
        self.session_handle.as_ref().map_or(SessionId::NONE, |session_handle| session_handle.session)
    }

    /// Takes the session to other servers.
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
                Err(e) if e.is::<SessionRefused>() => bail!("{address} says that session {} is gone", self.session()),
                Err(e) if until < Instant::now() => return Err(e.context("nobody takes the session")),
                Err(_) => std::thread::sleep(POLL),
            }
        }
    }

    /// Asks until somebody answers.
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

    /// Creates a node; it may be there because an earlier attempt was not answered.
    pub(super) fn create(&mut self, path: &str, flags: i32) -> Result<()> {
        self.create_with(path, b"data", flags)
    }

    pub(super) fn create_with(&mut self, path: &str, data: &[u8], flags: i32) -> Result<()> {
        let body = CreateRequest { path: Some(path.into()), data: Some(data), acl: RawAcls::OPEN, flags };
        let until = Instant::now() + TIMEOUT;
        loop {
            match self.call(OpCode::Create, &body)?.header.err {
                0 | -110 => return Ok(()),
                // Whoever leads has no room, and others are about to.
                -127 if Instant::now() < until => std::thread::sleep(POLL),
                err => bail!("create {path}: error {err}"),
            }
        }
    }

    /// Returns the transaction that it became.
    pub(super) fn set(&mut self, path: &str, data: &[u8]) -> Result<Zxid> {
        let body = SetDataRequest { path: Some(path.into()), data: Some(data), version: -1 };
        let reply = self.call(OpCode::SetData, &body)?;
        reply.body()?;
        Ok(reply.header.zxid)
    }

    /// Says that it is there.
    pub(super) fn touch(&mut self) -> Result<()> {
        self.call(OpCode::Sync, &PathRequest { path: Some("/".into()) })?.body().map(drop)
    }

    /// Everything that was acknowledged anywhere, as this server shows it.
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
