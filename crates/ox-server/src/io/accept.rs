//! The listening socket.

use crate::connections::Refused;
use crate::shared::Shared;
use mio::net::{TcpListener, TcpStream};
use socket2::{Domain, Protocol, Socket, TcpKeepalive, Type};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Connections that may wait to be accepted while nothing else is asked for. Java's 50 is too few for a crowd that
/// reconnects at once.
const BACKLOG_DEFAULT: i32 = 1024;

/// Binds the client port. Without an address it listens on every interface, IPv4 and IPv6 alike.
pub(crate) fn bind(address: Option<IpAddr>, port: u16, backlog: i32) -> io::Result<TcpListener> {
    let backlog = if backlog <= 0 { BACKLOG_DEFAULT } else { backlog };
    match address {
        Some(ip) => listen(SocketAddr::new(ip, port), backlog),
        None => listen(SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), port), backlog)
            .or_else(|_| listen(SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), port), backlog)),
    }
}

fn listen(address: SocketAddr, backlog: i32) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    if address.is_ipv6() && address.ip().is_unspecified() {
        socket.set_only_v6(false)?;
    }
    socket.set_nonblocking(true)?;
    socket.set_tcp_nodelay(true)?; // on Linux the connections inherit it
    socket.bind(&address.into())?;
    socket.listen(backlog)?;
    Ok(TcpListener::from_std(socket.into()))
}

/// What became of one look at the listener.
pub(super) enum AcceptOutcome {
    /// A connection that the limits allow; it is counted.
    Admitted(TcpStream, SocketAddr),
    /// One that they do not. It is closed.
    Refused(SocketAddr, Refused),
    /// One that went before it was answered.
    Aborted,
    /// Nobody is waiting.
    Empty,
}

/// Accepts one connection. An error means that the system has no room for any.
pub(super) fn accept(listener: &TcpListener, shared: &Shared) -> io::Result<AcceptOutcome> {
    let (stream, address) = match listener.accept() {
        Ok(accepted) => accepted,
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(AcceptOutcome::Empty),
        Err(error) if is_transient(&error) => return Ok(AcceptOutcome::Aborted),
        Err(error) => return Err(error),
    };
    let address = SocketAddr::new(address.ip().to_canonical(), address.port());
    let limits = &shared.config.limits;
    match shared.connections.admit(address.ip(), limits.max_cnxns, limits.max_client_cnxns) {
        Ok(()) => {
            // A socket that refuses an option is already dead; reading it will tell.
            #[cfg(not(target_os = "linux"))]
            let _ = stream.set_nodelay(true);
            if shared.config.client_tcp_keep_alive {
                let _ = socket2::SockRef::from(&stream).set_tcp_keepalive(&TcpKeepalive::new());
            }
            Ok(AcceptOutcome::Admitted(stream, address))
        }
        Err(reason) => Ok(AcceptOutcome::Refused(address, reason)),
    }
}

/// Errors of the connection that was waiting, not of the listener.
fn is_transient(error: &io::Error) -> bool {
    use io::ErrorKind as K;
    matches!(error.kind(), K::ConnectionAborted | K::ConnectionReset | K::Interrupted | K::TimedOut)
}
