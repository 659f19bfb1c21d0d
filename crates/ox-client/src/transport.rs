//! The byte stream to a server.
//!
//! An enum, so that TLS becomes another variant. SASL needs no transport: its tokens are requests, sent after the
//! handshake and before the credentials.

use crate::connect_failure::ConnectCause;
use crate::limits::ADDRESSES_MAX;
use crate::server_list::ServerAddress;
use rand::seq::SliceRandom;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;

/// An open connection to a server.
#[derive(Debug)]
pub(crate) enum Transport {
    Plain(TcpStream),
}

impl Transport {
    /// Resolves the host name and tries its addresses in random order, all within `limit`.
    pub(crate) async fn dial(server: &ServerAddress, limit: Duration) -> Result<Self, ConnectCause> {
        let found = match timeout(limit, lookup_host((server.host.as_str(), server.port))).await {
            Ok(found) => found.map_err(|_| ConnectCause::UnknownHost)?,
            Err(_) => return Err(ConnectCause::Timeout),
        };
        let mut addresses: Vec<SocketAddr> = found.take(ADDRESSES_MAX).collect();
        addresses.shuffle(&mut rand::rng());
        let share = limit / u32::try_from(addresses.len()).unwrap_or(1).max(1);
        let mut failed = ConnectCause::UnknownHost;
        for address in addresses {
            match timeout(share, TcpStream::connect(address)).await.unwrap_or_else(|late| Err(late.into())) {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    return Ok(Self::Plain(stream));
                }
                Err(error) => failed = error.into(),
            }
        }
        Err(failed)
    }

    /// Sends the four-letter command `isro` to find out whether a server is read-write.
    pub(crate) async fn is_read_write(server: &ServerAddress, limit: Duration) -> io::Result<bool> {
        let mut stream = Self::dial(server, limit).await.map_err(io::Error::other)?;
        stream.write_all(b"isro").await?;
        let mut reply = [0; 2];
        timeout(limit, stream.read_exact(&mut reply)).await??;
        Ok(&reply == b"rw")
    }
}

impl AsyncRead for Transport {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Transport {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(cx, buf),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
