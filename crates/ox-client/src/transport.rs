//! The byte stream to a server, plain or TLS.
//!
//! SASL needs no transport: its tokens are requests, sent after the handshake and before the credentials.

use crate::connect_failure::ConnectCause;
use crate::limits::{ADDRESSES_MAX, FOUR_LETTER_BYTES_MAX};
use crate::server_list::ServerAddress;
#[cfg(feature = "security")]
use crate::tls::TlsDialer;
use rand::seq::SliceRandom;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;
#[cfg(feature = "security")]
use tokio_rustls::client::TlsStream;

/// The first two bytes of an alert of TLS, which a server sends to a client that does not speak TLS.
pub(crate) const TLS_ALERT: [u8; 2] = [0x15, 0x03];

/// An open connection to a server.
#[derive(Debug)]
pub(crate) enum Transport {
    Plain(TcpStream),
    #[cfg(feature = "security")]
    Tls {
        /// In a box, because a stream with TLS is more than a kilobyte large.
        stream: Box<TlsStream<TcpStream>>,
        /// Whether the client has a certificate.
        has_certificate: bool,
    },
}

/// How the client opens connections.
#[derive(Debug, Default)]
pub(crate) struct Dialer {
    #[cfg(feature = "security")]
    pub(crate) tls: Option<TlsDialer>,
}

impl Dialer {
    /// Resolves the host name and tries its addresses in random order, all within `limit`.
    pub(crate) async fn dial(&self, server: &ServerAddress, limit: Duration) -> Result<Transport, ConnectCause> {
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
                    match self.secure(server, stream, share).await {
                        Ok(transport) => return Ok(transport),
                        Err(cause) => failed = cause,
                    }
                }
                Err(error) => failed = error.into(),
            }
        }
        Err(failed)
    }

    #[cfg(not(feature = "security"))]
    async fn secure(&self, _: &ServerAddress, stream: TcpStream, _: Duration) -> Result<Transport, ConnectCause> {
        Ok(Transport::Plain(stream))
    }

    /// Performs the TLS handshake, if the client uses TLS.
    #[cfg(feature = "security")]
    async fn secure(
        &self,
        server: &ServerAddress,
        stream: TcpStream,
        limit: Duration,
    ) -> Result<Transport, ConnectCause> {
        match &self.tls {
            None => Ok(Transport::Plain(stream)),
            Some(tls) => match timeout(limit, tls.connect(server, stream)).await {
                Ok(connected) => {
                    let (stream, has_certificate) = connected?;
                    Ok(Transport::Tls { stream: Box::new(stream), has_certificate })
                }
                Err(_) => Err(ConnectCause::NoReply),
            },
        }
    }

    /// Sends a four-letter command and returns the reply.
    pub(crate) async fn four_letter(
        &self,
        server: &ServerAddress,
        command: &str,
        limit: Duration,
    ) -> Result<String, ConnectCause> {
        let exchange = async {
            let mut stream = self.dial(server, limit).await?;
            stream.write_all(command.as_bytes()).await?;
            stream.flush().await?;
            let mut reply = Vec::new();
            match stream.take(FOUR_LETTER_BYTES_MAX).read_to_end(&mut reply).await {
                // Some servers end TLS without saying so; what they sent before is complete.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof && !reply.is_empty() => (),
                read => drop(read?),
            }
            match reply.starts_with(&TLS_ALERT) {
                true => Err(ConnectCause::ServerSpeaksTls),
                false => Ok(String::from_utf8_lossy(&reply).into_owned()),
            }
        };
        timeout(limit, exchange).await.unwrap_or(Err(ConnectCause::NoReply))
    }
}

impl Transport {
    /// The cause of an error before the session, if it is one of TLS.
    pub(crate) fn tls_cause(&self, error: &io::Error) -> Option<ConnectCause> {
        match self {
            Self::Plain(_) => {
                let _ = error;
                None
            }
            #[cfg(feature = "security")]
            Self::Tls { has_certificate, .. } => {
                use crate::tls_failure::TlsFailure;
                // In TLS 1.3 a server refuses a certificate after the client's side of the handshake has ended.
                let of_library = TlsFailure::of_library(error, *has_certificate);
                let failure = of_library.or_else(|| (!has_certificate).then_some(TlsFailure::ClosedWithoutCertificate));
                failure.map(ConnectCause::Tls)
            }
        }
    }
}

impl AsyncRead for Transport {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(cx, buf),
            #[cfg(feature = "security")]
            Self::Tls { stream, .. } => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Transport {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(cx, buf),
            #[cfg(feature = "security")]
            Self::Tls { stream, .. } => Pin::new(stream).poll_write(cx, buf),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(cx),
            #[cfg(feature = "security")]
            Self::Tls { stream, .. } => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            #[cfg(feature = "security")]
            Self::Tls { stream, .. } => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
