//! A TCP proxy in front of a server, so that any client can lose its connection on command.
//!
//! Bytes pass unchanged. [`Proxy::drop_all`] cuts every connection; [`Proxy::block`] also refuses new ones until
//! [`Proxy::open`]: to the client the network is gone while the server, and the session on it, lives on.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use anyhow::{Context, Result};

/// A running proxy. Its threads live as long as the process.
#[derive(Clone, Debug)]
pub(crate) struct Proxy {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    blocked: bool,
    next_id: u64,
    /// Client and server side of each open connection.
    open: BTreeMap<u64, [TcpStream; 2]>,
}

impl Proxy {
    /// Listens on a free port of 127.0.0.1 and passes connections on to `upstream`.
    pub(crate) fn start(upstream: SocketAddr) -> Result<Proxy> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("listen for the proxy")?;
        let proxy = Proxy { address: listener.local_addr()?, state: Arc::default() };
        let accepting = proxy.clone();
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                // A connection that cannot be set up is a connection refused, which is what its client sees.
                accepting.connect(client, upstream).ok();
            }
        });
        Ok(proxy)
    }

    /// Where clients connect.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Cuts all open connections.
    pub(crate) fn drop_all(&self) {
        self.lock().cut();
    }

    /// Cuts all open connections and refuses new ones.
    pub(crate) fn block(&self) {
        let mut state = self.lock();
        state.blocked = true;
        state.cut();
    }

    /// Lets connections pass again.
    pub(crate) fn open(&self) {
        self.lock().blocked = false;
    }

    fn connect(&self, client: TcpStream, upstream: SocketAddr) -> Result<()> {
        if self.lock().blocked {
            return Ok(());
        }
        let server = TcpStream::connect(upstream)?;
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        let ends = [client.try_clone()?, server.try_clone()?];
        let mut state = self.lock();
        if state.blocked {
            return Ok(());
        }
        let id = state.next_id;
        state.next_id += 1;
        state.open.insert(id, ends);
        drop(state);
        self.pump(id, client.try_clone()?, server.try_clone()?);
        self.pump(id, server, client);
        Ok(())
    }

    /// Copies one direction until either end closes, then closes both.
    fn pump(&self, id: u64, mut from: TcpStream, mut to: TcpStream) {
        let proxy = self.clone();
        thread::spawn(move || {
            let mut buffer = vec![0; 64 * 1024];
            while let Ok(n @ 1..) = from.read(&mut buffer) {
                if to.write_all(&buffer[..n]).is_err() {
                    break;
                }
            }
            if let Some(ends) = proxy.lock().open.remove(&id) {
                shut(&ends);
            }
        });
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn cut(&mut self) {
        std::mem::take(&mut self.open).values().for_each(shut);
    }
}

fn shut(ends: &[TcpStream; 2]) {
    for end in ends {
        // An error means that the other side has closed it already.
        end.shutdown(Shutdown::Both).ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that sends back what it gets.
    fn echo() -> SocketAddr {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                thread::spawn(move || {
                    let mut byte = [0];
                    while let Ok(1) = stream.read(&mut byte) {
                        stream.write_all(&byte).unwrap();
                    }
                });
            }
        });
        address
    }

    /// Whether a byte sent on the stream comes back.
    fn answers(stream: &mut TcpStream) -> bool {
        let mut byte = [0];
        stream.write_all(b"x").is_ok() && stream.read_exact(&mut byte).is_ok()
    }

    #[test]
    fn passes_bytes_until_cut() {
        let proxy = Proxy::start(echo()).unwrap();
        let mut first = TcpStream::connect(proxy.address()).unwrap();
        assert!(answers(&mut first));
        proxy.drop_all();
        assert!(!answers(&mut first));
        let mut second = TcpStream::connect(proxy.address()).unwrap();
        assert!(answers(&mut second));
    }

    #[test]
    fn refuses_while_blocked() {
        let proxy = Proxy::start(echo()).unwrap();
        proxy.block();
        let mut refused = TcpStream::connect(proxy.address()).unwrap();
        assert!(!answers(&mut refused));
        proxy.open();
        let mut accepted = TcpStream::connect(proxy.address()).unwrap();
        assert!(answers(&mut accepted));
    }
}
