//! A server for tests with an AdminServer on a free port.

use ox_admin::AdminServer;
use ox_config::{AdminConfig, Config};
use ox_server::{Build, TestServer};
use ox_testkit::{HttpReply, RawClient, http};
use std::net::SocketAddr;

pub(crate) struct Harness {
    pub(crate) server: TestServer,
    admin: AdminServer,
}

impl Harness {
    pub(crate) fn new() -> Self {
        Self::with(|_| (), |_| ())
    }

    /// Adapts the settings of the server and of the AdminServer.
    pub(crate) fn with(server: impl FnOnce(&mut Config), admin: impl FnOnce(&mut AdminConfig)) -> Self {
        let server = TestServer::start(server).unwrap();
        let this = Self { admin: start(admin), server };
        this.admin.set_server(Some(this.server.handle()));
        this
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.admin.address().unwrap()
    }

    /// Restarts the server below the AdminServer.
    pub(crate) fn restart(&mut self) {
        self.admin.set_server(None);
        self.server.restart().unwrap();
        self.admin.set_server(Some(self.server.handle()));
    }

    pub(crate) fn client(&self) -> RawClient {
        RawClient::open(self.server.address(), 30_000)
    }

    pub(crate) fn get(&self, path: &str) -> HttpReply {
        self.send("GET", path, &[])
    }

    pub(crate) fn send(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> HttpReply {
        http(self.address(), method, path, headers, b"").unwrap()
    }
}

/// An AdminServer without a server.
pub(crate) fn start(change: impl FnOnce(&mut AdminConfig)) -> AdminServer {
    let mut config = Config::default_standalone();
    let admin = config.admin.as_mut().unwrap();
    admin.listen.port = 0;
    admin.is_required = true;
    change(admin);
    AdminServer::start(Build::UNKNOWN, &config).unwrap().unwrap()
}
