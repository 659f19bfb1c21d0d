//! What a client suite runs on: a server, a proxy before it, and a control port to disturb both.
//!
//! The control port takes one command per line and answers `ok` or `error: ...` when the command has taken effect:
//!
//! | command | effect |
//! |---|---|
//! | `drop` | cuts the connections through the proxy |
//! | `block`, `open` | cuts them and refuses new ones; lets them pass again |
//! | `restart` | kills the server (SIGKILL) and starts it again on its data |
//! | `stop`, `start` | the two halves of it |
//!
//! The last three need a server that xtask started.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use anyhow::{Context, Result, bail};

use super::proxy::Proxy;
use super::servers::{ServerUnderTest, four_letter_command};

/// A server with proxy and control port. A server that xtask started ends with it.
#[derive(Debug)]
pub(crate) struct Stage {
    server: SocketAddr,
    control: SocketAddr,
    hands: Hands,
}

/// What control commands work on.
#[derive(Clone, Debug)]
struct Hands {
    proxy: Proxy,
    own: Arc<Mutex<Option<ServerUnderTest>>>,
}

impl Stage {
    /// Around a server that xtask started and may restart.
    pub(crate) fn own(server: ServerUnderTest) -> Result<Stage> {
        Stage::new(server.address(), Some(server))
    }

    /// Around a server that somebody else runs.
    pub(crate) fn external(server: SocketAddr) -> Result<Stage> {
        four_letter_command(server, "srvr").with_context(|| format!("no ZooKeeper answers at {server}"))?;
        Stage::new(server, None)
    }

    fn new(server: SocketAddr, own: Option<ServerUnderTest>) -> Result<Stage> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("listen for control commands")?;
        let control = listener.local_addr()?;
        let hands = Hands { proxy: Proxy::start(server)?, own: Arc::new(Mutex::new(own)) };
        let serving = hands.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let hands = serving.clone();
                // A client that goes away mid-command has no one left to answer to.
                thread::spawn(move || hands.serve(stream).ok());
            }
        });
        Ok(Stage { server, control, hands })
    }

    /// What a suite gets as its arguments: server, proxy, control port.
    pub(crate) fn arguments(&self) -> [String; 3] {
        [self.server, self.hands.proxy.address(), self.control].map(|address| address.to_string())
    }

    /// Undoes what a suite may have left behind. Says so when the server did not survive the suite.
    pub(crate) fn recover(&self) -> Result<()> {
        self.hands.proxy.open();
        let mut own = self.hands.lock();
        let Some(server) = own.as_mut() else {
            return Ok(());
        };
        if server.is_running() && server.four_letter_command("srvr").is_ok() {
            return Ok(());
        }
        let log = server.log_tail();
        server.restart()?;
        bail!("the server did not survive; it was started again\n{log}");
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        // The control threads live on and share the server, so it must be taken from them to end.
        self.hands.lock().take();
    }
}

impl Hands {
    fn serve(&self, stream: TcpStream) -> Result<()> {
        let mut answers = stream.try_clone()?;
        for line in BufReader::new(stream).lines() {
            let answer = match self.execute(line?.trim()) {
                Ok(()) => "ok\n".to_owned(),
                Err(e) => format!("error: {}\n", format!("{e:#}").replace('\n', " ")),
            };
            answers.write_all(answer.as_bytes())?;
        }
        Ok(())
    }

    fn execute(&self, command: &str) -> Result<()> {
        match command {
            "drop" => self.proxy.drop_all(),
            "block" => self.proxy.block(),
            "open" => self.proxy.open(),
            "restart" => self.with_server(ServerUnderTest::restart)?,
            "stop" => self.with_server(ServerUnderTest::kill)?,
            "start" => self.with_server(ServerUnderTest::relaunch)?,
            unknown => bail!("unknown command `{unknown}`"),
        }
        Ok(())
    }

    /// Does something to the server while no connection comes through the proxy: Apache never answers, nor closes, one
    /// that reaches it between opening its port and loading its data.
    fn with_server(&self, action: impl FnOnce(&mut ServerUnderTest) -> Result<()>) -> Result<()> {
        let mut own = self.lock();
        let Some(server) = own.as_mut() else {
            bail!("not our server");
        };
        self.proxy.block();
        let done = action(server);
        self.proxy.open();
        done
    }

    fn lock(&self) -> MutexGuard<'_, Option<ServerUnderTest>> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
