//! The listeners of the client ports.

use crate::io::connection_table::{ClientPort, Refused};
use crate::shared::Shared;
use mio::net::{TcpListener, TcpStream};
use socket2::{Domain, Protocol, Socket, TcpKeepalive, Type};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Backlog where the configuration sets none. Java's default of 50 is too small when many clients reconnect together.
const BACKLOG_DEFAULT: i32 = 1024;

/// Binds a client port. Without an address it listens on every interface, for IPv4 and IPv6.
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
    socket.set_tcp_nodelay(true)?; // accepted sockets inherit it on Linux
    socket.bind(&address.into())?;
    socket.listen(backlog)?;
    Ok(TcpListener::from_std(socket.into()))
}

/// Result of one `accept` call.
pub(super) enum AcceptOutcome {
    /// A connection within the limits, which is counted from now on.
    Admitted(TcpStream, SocketAddr),
    /// A connection beyond a limit, which is closed.
    Refused(SocketAddr, Refused),
    /// A connection that was reset before it was accepted.
    Aborted,
    /// No connection is pending.
    Empty,
}

/// Accepts one connection. An error means that the kernel has no resources for another one.
pub(super) fn accept(listener: &TcpListener, port: ClientPort, shared: &Shared) -> io::Result<AcceptOutcome> {
    let (stream, address) = match listener.accept() {
        Ok(accepted) => accepted,
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(AcceptOutcome::Empty),
        Err(error) if is_transient(&error) => return Ok(AcceptOutcome::Aborted),
        Err(error) => return Err(error),
    };
    let address = SocketAddr::new(address.ip().to_canonical(), address.port());
    let limits = shared.live();
    match shared.connections.admit(port, address.ip(), limits.max_cnxns, limits.max_client_cnxns) {
        Ok(()) => {
            // A socket that refuses an option is already dead; the next read reports that.
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

/// Whether an error concerns the pending connection and not the listener.
fn is_transient(error: &io::Error) -> bool {
    use io::ErrorKind as K;
    matches!(error.kind(), K::ConnectionAborted | K::ConnectionReset | K::Interrupted | K::TimedOut)
}
