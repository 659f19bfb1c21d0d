//! Sockets of identified connections to other servers, as the loops of `ox-driver` use them.

use mio::net::TcpStream;
use ox_driver::sockets::{SocketRead, SocketWrite, Sockets};
use socket2::{SockRef, TcpKeepalive};
use std::io::{self, Read, Write};
use std::net::IpAddr;
use std::time::Duration;

pub(super) struct PeerSocket {
    pub(super) stream: TcpStream,
    /// Address of the remote end, if that has dialled.
    pub(super) from: Option<IpAddr>,
}

impl PeerSocket {
    /// Has the kernel probe the remote end after `silence`, and at that interval.
    pub(super) fn probe_after(&self, silence: Duration) {
        let probes = TcpKeepalive::new().with_time(silence).with_interval(silence);
        let _ = SockRef::from(&self.stream).set_tcp_keepalive(&probes);
    }
}

pub(super) struct PeerSockets;

impl Sockets for PeerSockets {
    type Socket = PeerSocket;

    fn receive(&mut self, socket: &mut PeerSocket, buffer: &mut [u8]) -> SocketRead {
        match retry(|| socket.stream.read(buffer)) {
            Ok(0) => SocketRead::End,
            Ok(count) => SocketRead::Bytes(count),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => SocketRead::Nothing,
            Err(error) => {
                tracing::debug!(%error, "cannot receive from another server");
                SocketRead::End
            }
        }
    }

    fn send(&mut self, socket: &mut PeerSocket, bytes: &[u8]) -> SocketWrite {
        match retry(|| socket.stream.write(bytes)) {
            Ok(0) => SocketWrite::Broken,
            Ok(count) => SocketWrite::Bytes(count),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => SocketWrite::Full,
            Err(error) => {
                tracing::debug!(%error, "cannot send to another server");
                SocketWrite::Broken
            }
        }
    }

    fn close(&mut self, socket: PeerSocket) {
        drop(socket);
    }
}

/// Repeats a system call that a signal has interrupted.
fn retry(mut call: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => (),
            result => return result,
        }
    }
}
