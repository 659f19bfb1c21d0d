//! Sockets as the loops use them, for clients and for other servers.
//!
//! A socket is what a connection sends and receives plaintext by; the host decides which layers are below it.

/// Nonblocking sockets. No call waits, and reads and writes may end at any byte.
pub trait Sockets {
    type Socket;

    /// Reads into `buffer`, which is not empty. If it is not filled, the host announces further bytes. The end of the
    /// stream may have been announced before.
    fn receive(&mut self, socket: &mut Self::Socket, buffer: &mut [u8]) -> SocketRead;

    /// Writes a prefix of `bytes`, which are not empty. If not all are written, the host announces free space.
    fn send(&mut self, socket: &mut Self::Socket, bytes: &[u8]) -> SocketWrite;

    fn close(&mut self, socket: Self::Socket);
}

/// Result of one read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketRead {
    /// Number of bytes received, at least one.
    Bytes(usize),
    /// The socket has no bytes at present.
    Nothing,
    /// End of the stream, or an error.
    End,
}

/// Result of one write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketWrite {
    /// Number of bytes that the socket has taken, at least one.
    Bytes(usize),
    /// The socket is full.
    Full,
    Broken,
}

/// The stream has ended, or the socket is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broken;

/// Appends input to `input`, up to about `max` bytes in it, by way of `buffer`. False if there may be more.
pub fn read_available<S: Sockets>(
    input: &mut Vec<u8>,
    max: usize,
    buffer: &mut [u8],
    sockets: &mut S,
    socket: &mut S::Socket,
) -> Result<bool, Broken> {
    while input.len() < max {
        match sockets.receive(socket, buffer) {
            SocketRead::Bytes(count) => input.extend_from_slice(&buffer[..count]),
            SocketRead::Nothing => return Ok(true),
            SocketRead::End => return Err(Broken),
        }
    }
    Ok(false)
}
