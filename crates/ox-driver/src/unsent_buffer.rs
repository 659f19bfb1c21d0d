//! Bytes that a socket has not accepted yet.

use crate::sockets::{Broken, SocketWrite, Sockets};
use std::collections::VecDeque;

/// Small pieces are joined up to this size, so that one call sends them.
const JOINED_BYTES_MAX: usize = 64 << 10;

#[derive(Debug, Default)]
pub struct UnsentBuffer {
    /// None of them is empty, or sent completely.
    buffers: VecDeque<Vec<u8>>,
    /// Bytes of the first buffer that are sent.
    sent: usize,
    bytes: usize,
}

impl UnsentBuffer {
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub fn push(&mut self, bytes: Vec<u8>) {
        self.bytes += bytes.len();
        match self.buffers.back_mut() {
            Some(last) if last.len() + bytes.len() <= JOINED_BYTES_MAX => last.extend_from_slice(&bytes),
            _ if bytes.is_empty() => (),
            _ => self.buffers.push_back(bytes),
        }
    }

    /// Sends what the socket accepts, `max` bytes and a little more at most. Returns the number of bytes: less than
    /// `max` if the socket accepts no more.
    pub fn flush<S: Sockets>(&mut self, max: usize, sockets: &mut S, socket: &mut S::Socket) -> Result<usize, Broken> {
        let mut total = 0;
        while total < max
            && let Some(first) = self.buffers.front()
        {
            match sockets.send(socket, &first[self.sent..]) {
                SocketWrite::Bytes(count) => {
                    total += count;
                    self.forget(count);
                }
                SocketWrite::Full => break,
                SocketWrite::Broken => return Err(Broken),
            }
        }
        Ok(total)
    }

    fn forget(&mut self, count: usize) {
        self.bytes -= count;
        self.sent += count;
        if let Some(first) = self.buffers.pop_front_if(|first| first.len() <= self.sent) {
            self.sent -= first.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sockets::SocketRead;

    /// Notes the size of each write, and accepts `space` bytes.
    struct Recorder {
        space: usize,
        writes: Vec<usize>,
    }

    impl Sockets for Recorder {
        type Socket = Vec<u8>;

        fn receive(&mut self, _socket: &mut Vec<u8>, _buffer: &mut [u8]) -> SocketRead {
            SocketRead::Nothing
        }

        fn send(&mut self, socket: &mut Vec<u8>, bytes: &[u8]) -> SocketWrite {
            let count = bytes.len().min(self.space);
            self.space -= count;
            self.writes.push(count);
            socket.extend_from_slice(&bytes[..count]);
            if count == 0 { SocketWrite::Full } else { SocketWrite::Bytes(count) }
        }

        fn close(&mut self, _socket: Vec<u8>) {}
    }

    #[test]
    fn small_pieces_are_sent_together_and_large_ones_are_not_copied() {
        let (mut unsent, mut sent) = (UnsentBuffer::default(), Vec::new());
        let mut sockets = Recorder { space: 5, writes: Vec::new() };
        let pieces = [vec![1; 3], Vec::new(), vec![2; 4], vec![3; JOINED_BYTES_MAX], vec![4; 2]];
        pieces.iter().for_each(|piece| unsent.push(piece.clone()));
        assert!(unsent.flush(usize::MAX, &mut sockets, &mut sent).is_ok_and(|count| count == 5));
        assert_eq!(sockets.writes, [5, 0]);
        sockets = Recorder { space: usize::MAX, writes: Vec::new() };
        assert!(unsent.flush(1, &mut sockets, &mut sent).is_ok_and(|count| count == 2), "a bounded call");
        assert!(unsent.flush(usize::MAX, &mut sockets, &mut sent).is_ok());
        assert_eq!(sockets.writes, [2, JOINED_BYTES_MAX, 2]);
        assert_eq!((sent, unsent.bytes()), (pieces.concat(), 0));
    }
}
