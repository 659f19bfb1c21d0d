//! Buffers that go around among the connections of a thread, so that an idle one holds none.

use crate::limits::{POOLED_BUFFER_BYTES, POOLED_BUFFERS_MAX};

#[derive(Debug, Default)]
pub(super) struct Pool(Vec<Vec<u8>>);

impl Pool {
    /// Gives `buffer` some room if it has none.
    pub(super) fn lend(&mut self, buffer: &mut Vec<u8>) {
        if buffer.capacity() == 0
            && let Some(pooled) = self.0.pop()
        {
            *buffer = pooled;
        }
    }

    /// Takes the room of an empty buffer back.
    pub(super) fn take_back(&mut self, buffer: &mut Vec<u8>) {
        if buffer.is_empty() && buffer.capacity() != 0 {
            let buffer = std::mem::take(buffer);
            if self.0.len() < POOLED_BUFFERS_MAX && buffer.capacity() <= POOLED_BUFFER_BYTES {
                self.0.push(buffer);
            }
        }
    }
}
