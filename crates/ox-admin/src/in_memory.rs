//! The AdminServer without sockets, for fuzzing: the bytes of a connection in, the bytes of its replies out.

use crate::admin_server::listener_of;
use crate::listener::Listener;
use crate::routes::Peer;
use ox_config::Config;
use ox_server::ServerHandle;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};
use tokio::runtime::Runtime;

/// Bytes in flight in one direction.
const PIPE_BYTES: usize = 16 << 10;

/// Serves one connection at a time with the code of the real listeners.
pub struct InMemoryAdmin {
    listener: Arc<Listener>,
    runtime: Runtime,
}

impl InMemoryAdmin {
    /// `None` if the configuration disables the AdminServer.
    pub fn new(config: &Config, server: ServerHandle) -> io::Result<Option<Self>> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let listener = config.admin.as_ref().map(|admin| listener_of(config, admin, server));
        Ok(listener.map(|listener| Self { listener: Arc::new(listener), runtime }))
    }

    /// What a client receives that sends these bytes, and nothing more.
    pub fn connection(&self, sent: &[u8]) -> Vec<u8> {
        let listener = Arc::clone(&self.listener);
        let sent = sent.to_vec();
        self.runtime.block_on(async move {
            let Some(guard) = listener.connections.take() else { return Vec::new() };
            let (client, server) = duplex(PIPE_BYTES);
            let peer = Peer { address: SocketAddr::from((Ipv4Addr::LOCALHOST, 1)), certificate_subject: None };
            let (mut from_server, mut to_server) = tokio::io::split(client);
            tokio::spawn(async move {
                let _ = to_server.write_all(&sent).await; // fails when the server has closed the connection
                let _ = to_server.shutdown().await;
            });
            tokio::spawn(async move { listener.serve_http(server, peer, &guard, false).await });
            let mut received = Vec::new();
            let _ = from_server.read_to_end(&mut received).await; // the same
            received
        })
    }
}
