//! The environment of a client suite: a server, a proxy in front of it, and a control port for faults.
//!
//! The control port reads one command per line. It replies `ok` or `error: ...` after the command has taken effect:
//!
//! | command | effect |
//! |---|---|
//! | `drop` | closes the connections through the proxy |
//! | `block` | closes them and refuses new ones |
//! | `open` | ends `block` |
//! | `restart` | kills the server (SIGKILL) and starts it again on its data |
//! | `stop`, `start` | the two halves of `restart` |
//!
//! The last three commands need a server that xtask started.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use anyhow::{Context, Result, bail};
use ox_testkit::{Proxy, ServerUnderTest, four_letter};

/// A server with proxy and control port. Dropping the fixture kills a server that xtask started.
#[derive(Debug)]
pub(crate) struct ServerFixture {
    server: SocketAddr,
    control_port: SocketAddr,
    controls: Controls,
}

/// The objects that control commands act on.
#[derive(Clone, Debug)]
struct Controls {
    proxy: Proxy,
    /// `None` for a server that xtask did not start.
    server: Arc<Mutex<Option<ServerUnderTest>>>,
}

impl ServerFixture {
    /// A fixture for a server that xtask started and may restart.
    pub(crate) fn owned(server: ServerUnderTest) -> Result<Self> {
        Self::new(server.address(), Some(server))
    }

    /// A fixture for a server that xtask started, whose clients use its secure port.
    pub(crate) fn over_tls(server: ServerUnderTest, secure: SocketAddr) -> Result<Self> {
        Self::new(secure, Some(server))
    }

    /// A fixture for a running server that xtask did not start.
    pub(crate) fn external(server: SocketAddr) -> Result<Self> {
        four_letter(server, "srvr").with_context(|| format!("no ZooKeeper server replies at {server}"))?;
        Self::new(server, None)
    }

    fn new(address: SocketAddr, server: Option<ServerUnderTest>) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("listen for control commands")?;
        let control_port = listener.local_addr()?;
        let controls = Controls { proxy: Proxy::start(address), server: Arc::new(Mutex::new(server)) };
        let shared = controls.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let controls = shared.clone();
                // A client that disconnects during a command does not wait for the reply.
                thread::spawn(move || controls.serve(stream).ok());
            }
        });
        Ok(Self { server: address, control_port, controls })
    }

    /// The command line arguments of a suite: server, proxy, control port.
    pub(crate) fn arguments(&self) -> [String; 3] {
        [self.server, self.controls.proxy.address(), self.control_port].map(|address| address.to_string())
    }

    /// Undoes the faults of the last suite. Restarts a server that no longer replies, and returns an error then.
    pub(crate) fn recover(&self) -> Result<()> {
        self.controls.proxy.open();
        let mut server = self.controls.lock();
        let Some(server) = server.as_mut() else {
            return Ok(());
        };
        if server.is_running() && server.four_letter("srvr").is_ok() {
            return Ok(());
        }
        let log = server.log_tail();
        server.restart()?;
        bail!("the server failed during the suite and was restarted\n{log}");
    }
}

impl Drop for ServerFixture {
    fn drop(&mut self) {
        // The control threads keep a reference to the server, so dropping the fixture alone would not kill it.
        self.controls.lock().take();
    }
}

impl Controls {
    fn serve(&self, stream: TcpStream) -> Result<()> {
        let mut replies = stream.try_clone()?;
        for line in BufReader::new(stream).lines() {
            let reply = match self.execute(line?.trim()) {
                Ok(()) => "ok\n".to_owned(),
                Err(e) => format!("error: {}\n", format!("{e:#}").replace('\n', " ")),
            };
            replies.write_all(reply.as_bytes())?;
        }
        Ok(())
    }

    fn execute(&self, command: &str) -> Result<()> {
        match command {
            "drop" => self.proxy.close_all(),
            "block" => self.proxy.block(),
            "open" => self.proxy.open(),
            "restart" => self.with_server(ServerUnderTest::restart)?,
            "stop" => self.with_server(|server| {
                server.kill();
                Ok(())
            })?,
            "start" => self.with_server(ServerUnderTest::start)?,
            unknown => bail!("unknown command `{unknown}`"),
        }
        Ok(())
    }

    /// Runs an action on the server while the proxy is blocked: Apache neither serves nor closes a connection that
    /// arrives between the opening of its port and the loading of its data.
    fn with_server(&self, action: impl FnOnce(&mut ServerUnderTest) -> Result<()>) -> Result<()> {
        let mut server = self.lock();
        let Some(server) = server.as_mut() else {
            bail!("not our server");
        };
        self.proxy.block();
        let result = action(server);
        self.proxy.open();
        result
    }

    fn lock(&self) -> MutexGuard<'_, Option<ServerUnderTest>> {
        self.server.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
