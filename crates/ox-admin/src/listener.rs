//! Accepts connections and serves requests on them.

use crate::host_header::HostCheck;
use crate::limits::{ACCEPT_PAUSE, BACKLOG, HEAD_BYTES_MAX, HEAD_TIMEOUT, HEADERS_MAX};
use crate::open_connections::{OpenConnections, PlaceGuard};
use crate::reply;
use crate::routes::Peer;
use crate::server_slot::ServerSlot;
use crate::timed_stream::TimedStream;
use crate::tls::{ListenerTls, Transport, subject};
use axum::Router;
use axum::http::header::{HOST, STRICT_TRANSPORT_SECURITY};
use axum::http::{HeaderValue, Request, StatusCode};
use hyper::body::Incoming;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use ox_config::ListenAddress;
use ox_tls::FirstByte;
use socket2::{Domain, Protocol, Socket, Type};
use std::convert::Infallible;
use std::io;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

/// Binds an address; clients are refused until [`Listener::run`].
pub(crate) fn bind(address: &ListenAddress) -> io::Result<StdListener> {
    let unknown = || io::Error::new(io::ErrorKind::NotFound, format!("unknown host {}", address.host));
    let address = SocketAddr::new(address.ip.ok_or_else(unknown)?, address.port);
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// One port and what it serves.
#[derive(Clone)]
pub(crate) struct Listener {
    pub(crate) transport: Transport,
    pub(crate) router: Router,
    /// Set on the port of the AdminServer.
    pub(crate) hosts: Option<Arc<HostCheck>>,
    pub(crate) idle_timeout: Duration,
    pub(crate) connections: Arc<OpenConnections>,
    pub(crate) server: Arc<ServerSlot>,
}

impl Listener {
    /// Accepts connections until the runtime ends.
    pub(crate) async fn run(self, listener: StdListener) {
        let listener = match TcpListener::from_std(listener) {
            Ok(listener) => listener,
            Err(error) => return tracing::error!(%error, "cannot accept HTTP connections"),
        };
        if let Transport::Tls(tls) | Transport::Unified(tls) = &self.transport {
            tokio::spawn(Arc::clone(tls).reload_forever());
        }
        let this = Arc::new(self);
        loop {
            match listener.accept().await {
                Ok((stream, address)) => {
                    // Dropping the stream closes it: every other connection executes a command.
                    if let Some(guard) = this.connections.take() {
                        let place = Arc::clone(&guard.place);
                        let task = tokio::spawn(Arc::clone(&this).serve(stream, address, guard));
                        place.set_task(task.abort_handle());
                    }
                }
                Err(error) => {
                    tracing::debug!(%error, "cannot accept an HTTP connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    /// Serves the requests of one connection.
    async fn serve(self: Arc<Self>, stream: TcpStream, address: SocketAddr, guard: PlaceGuard) {
        let _ = stream.set_nodelay(true);
        let tls = match &self.transport {
            Transport::Plain => None,
            Transport::Tls(tls) => Some(tls),
            Transport::Unified(tls) => {
                let Ok(Ok(first)) = timeout(HEAD_TIMEOUT, first_byte(&stream)).await else { return };
                if first == FirstByte::Plain {
                    self.server.get().iter().for_each(ox_server::ServerHandle::note_insecure_admin_connection);
                }
                (first == FirstByte::Tls).then_some(tls)
            }
        };
        let place = &guard;
        match tls {
            None => self.serve_http(stream, Peer { address, certificate_subject: None }, place, false).await,
            Some(tls) => self.serve_tls(tls, stream, address, place).await,
        }
    }

    async fn serve_tls(&self, tls: &ListenerTls, stream: TcpStream, address: SocketAddr, place: &PlaceGuard) {
        match timeout(HEAD_TIMEOUT, tls.acceptor().accept(stream)).await {
            Ok(Ok(stream)) => {
                let certificate_subject = subject(stream.get_ref().1);
                self.serve_http(stream, Peer { address, certificate_subject }, place, true).await;
            }
            Ok(Err(error)) => tracing::debug!(%address, %error, "TLS handshake of an HTTP client failed"),
            Err(_) => tracing::debug!(%address, "TLS handshake of an HTTP client took too long"),
        }
    }

    pub(crate) async fn serve_http<S>(&self, stream: S, peer: Peer, place: &PlaceGuard, is_secure: bool)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let stream = TimedStream::new(stream, self.idle_timeout, Arc::clone(&place.place));
        let router = TowerToHyperService::new(self.router.clone());
        let service = service_fn(|mut request: Request<Incoming>| {
            let is_refused = self.hosts.as_ref().is_some_and(|hosts| !hosts.allows(host(&request)));
            request.extensions_mut().insert(peer.clone());
            let (router, place) = (router.clone(), Arc::clone(&place.place));
            async move {
                if is_refused {
                    return Ok::<_, Infallible>(reply::text(StatusCode::MISDIRECTED_REQUEST, HOST_REFUSED));
                }
                place.set_busy(true);
                let called = router.call(request).await;
                place.set_busy(false);
                let Ok(mut reply) = called;
                if is_secure {
                    reply.headers_mut().insert(STRICT_TRANSPORT_SECURITY, HeaderValue::from_static(HSTS));
                }
                Ok(reply)
            }
        });
        let mut builder = hyper::server::conn::http1::Builder::new();
        builder.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT.min(self.idle_timeout));
        // A client may close its side when it has sent its request, as `nc -N` does.
        builder.max_buf_size(HEAD_BYTES_MAX).max_headers(HEADERS_MAX).half_close(true);
        if let Err(error) = builder.serve_connection(TokioIo::new(stream), service).await {
            tracing::debug!(address = %peer.address, %error, "HTTP connection closed");
        }
    }
}

const HSTS: &str = "max-age=86400; includeSubDomains";
const HOST_REFUSED: &str = "the Host header names another machine; oxkeeper.admin.allowedHosts adds names\n";

/// The host that a request names, in its header or in its absolute path.
fn host<B>(request: &Request<B>) -> Option<&[u8]> {
    let header = request.headers().get(HOST).map(HeaderValue::as_bytes);
    header.or_else(|| request.uri().host().map(str::as_bytes))
}

async fn first_byte(stream: &TcpStream) -> io::Result<FirstByte> {
    let mut first = [0];
    match stream.peek(&mut first).await? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(FirstByte::classify(first[0])),
    }
}
