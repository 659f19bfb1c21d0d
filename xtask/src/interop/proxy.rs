//! A TCP proxy in front of a server that closes or refuses connections on command.
//!
//! Bytes pass unchanged. [`Proxy::drop_all`] closes every connection; [`Proxy::block`] also refuses new ones until
//! [`Proxy::open`]. For the client the network is down, while the server and its sessions continue.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use anyhow::{Context, Result};

/// A running proxy. Its threads run until the process ends.
#[derive(Clone, Debug)]
pub(crate) struct Proxy {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    blocked: bool,
    next_id: u64,
    /// The sockets to client and server of each open connection.
    open: BTreeMap<u64, [TcpStream; 2]>,
}

impl Proxy {
    /// Listens on a free port of 127.0.0.1 and forwards connections to `upstream`.
    pub(crate) fn start(upstream: SocketAddr) -> Result<Proxy> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("listen for the proxy")?;
        let proxy = Proxy { address: listener.local_addr()?, state: Arc::default() };
        let accepting = proxy.clone();
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                // If the server cannot be reached, the client's connection is closed.
                accepting.connect(client, upstream).ok();
            }
        });
        Ok(proxy)
    }

    /// The address that clients connect to.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Closes all open connections.
    pub(crate) fn drop_all(&self) {
        self.lock().close_all();
    }

    /// Closes all open connections and refuses new ones.
    pub(crate) fn block(&self) {
        let mut state = self.lock();
        state.blocked = true;
        state.close_all();
    }

    /// Accepts connections again after [`Self::block`].
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
        let sockets = [client.try_clone()?, server.try_clone()?];
        let mut state = self.lock();
        if state.blocked {
            return Ok(());
        }
        let id = state.next_id;
        state.next_id += 1;
        state.open.insert(id, sockets);
        drop(state);
        self.pump(id, client.try_clone()?, server.try_clone()?);
        self.pump(id, server, client);
        Ok(())
    }

    /// Copies one direction until either side closes, then closes both sockets.
    fn pump(&self, id: u64, mut from: TcpStream, mut to: TcpStream) {
        let proxy = self.clone();
        thread::spawn(move || {
            let mut buffer = vec![0; 64 * 1024];
            while let Ok(n @ 1..) = from.read(&mut buffer) {
                if to.write_all(&buffer[..n]).is_err() {
                    break;
                }
            }
            if let Some(sockets) = proxy.lock().open.remove(&id) {
                shut_down(&sockets);
            }
        });
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn close_all(&mut self) {
        std::mem::take(&mut self.open).values().for_each(shut_down);
    }
}

fn shut_down(sockets: &[TcpStream; 2]) {
    for socket in sockets {
        // An error means that the connection is closed already.
        socket.shutdown(Shutdown::Both).ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that sends every byte back.
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

    /// Whether the server sends a byte back.
    fn echoes(stream: &mut TcpStream) -> bool {
        let mut byte = [0];
        stream.write_all(b"x").is_ok() && stream.read_exact(&mut byte).is_ok()
    }

    #[test]
    fn connection_forwards_bytes_until_it_is_dropped() {
        let proxy = Proxy::start(echo()).unwrap();
        let mut first = TcpStream::connect(proxy.address()).unwrap();
        assert!(echoes(&mut first));
        proxy.drop_all();
        assert!(!echoes(&mut first));
        let mut second = TcpStream::connect(proxy.address()).unwrap();
        assert!(echoes(&mut second));
    }

    #[test]
    fn blocked_proxy_refuses_connections() {
        let proxy = Proxy::start(echo()).unwrap();
        proxy.block();
        let mut refused = TcpStream::connect(proxy.address()).unwrap();
        assert!(!echoes(&mut refused));
        proxy.open();
        let mut accepted = TcpStream::connect(proxy.address()).unwrap();
        assert!(echoes(&mut accepted));
    }
}
