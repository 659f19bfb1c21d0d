//! The listening socket.

use crate::register::Refused;
use crate::shared::Shared;
use mio::net::{TcpListener, TcpStream};
use socket2::{Domain, Protocol, Socket, TcpKeepalive, Type};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Java's default backlog.
const BACKLOG_DEFAULT: i32 = 50;

/// Binds the client port. Without an address it listens on every interface, IPv4 and IPv6 alike.
pub(crate) fn bind(address: Option<IpAddr>, port: u16, backlog: i32) -> io::Result<TcpListener> {
    let backlog = if backlog <= 0 { BACKLOG_DEFAULT.max(1024) } else { backlog };
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
    socket.bind(&address.into())?;
    socket.listen(backlog)?;
    Ok(TcpListener::from_std(socket.into()))
}

/// Accepts one connection that the limits allow. `None` when nobody is waiting.
pub(super) fn accept(listener: &TcpListener, shared: &Shared) -> io::Result<Option<(TcpStream, SocketAddr)>> {
    loop {
        let (stream, address) = match listener.accept() {
            Ok(accepted) => accepted,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(error) => return Err(error),
        };
        let address = SocketAddr::new(address.ip().to_canonical(), address.port());
        let limits = &shared.config.limits;
        match shared.register.admit(address.ip(), limits.max_cnxns, limits.max_client_cnxns) {
            Ok(()) => {
                // A socket that refuses an option is already dead; reading it will tell.
                let _ = stream.set_nodelay(true);
                if shared.config.client_tcp_keep_alive {
                    let _ = socket2::SockRef::from(&stream).set_tcp_keepalive(&TcpKeepalive::new());
                }
                return Ok(Some((stream, address)));
            }
            Err(reason) => {
                shared.metrics.connection_rejected.add(1);
                let max = if reason == Refused::Address { limits.max_client_cnxns } else { limits.max_cnxns };
                tracing::warn!(?reason, "Too many connections from /{} - max is {max}", address.ip());
            }
        }
    }
}
