//! Sockets of identified connections to other servers, as the loops of `ox-driver` use them.

use crate::io::stream::{Stream, StreamRead};
use ox_driver::sockets::{SocketRead, SocketWrite, Sockets};
use socket2::{SockRef, TcpKeepalive};
use std::net::IpAddr;
use std::time::Duration;

pub(super) struct PeerSocket {
    pub(super) stream: Stream,
    /// Address of the remote end, if that has dialled.
    pub(super) from: Option<IpAddr>,
}

impl PeerSocket {
    /// Has the kernel probe the remote end after `silence`, and at that interval.
    pub(super) fn probe_after(&self, silence: Duration) {
        let probes = TcpKeepalive::new().with_time(silence).with_interval(silence);
        let _ = SockRef::from(self.stream.tcp()).set_tcp_keepalive(&probes);
    }
}

/// The sockets of one thread.
#[derive(Default)]
pub(super) struct PeerSockets {
    /// Ciphertext that is being decrypted. Empty without TLS.
    scratch: Vec<u8>,
}

impl Sockets for PeerSockets {
    type Socket = PeerSocket;

    fn receive(&mut self, socket: &mut PeerSocket, buffer: &mut [u8]) -> SocketRead {
        match socket.stream.receive(buffer, &mut self.scratch) {
            // Many records without data: no server sends that, and no event would announce the rest.
            StreamRead { read: SocketRead::Nothing, is_unfinished: true } => SocketRead::End,
            StreamRead { read, .. } => read,
        }
    }

    fn send(&mut self, socket: &mut PeerSocket, bytes: &[u8]) -> SocketWrite {
        let written = socket.stream.send(bytes);
        if written == SocketWrite::Bytes(0) { SocketWrite::Broken } else { written }
    }

    fn close(&mut self, mut socket: PeerSocket) {
        socket.stream.end_output();
    }
}
