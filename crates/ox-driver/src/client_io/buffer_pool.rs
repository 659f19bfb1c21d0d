//! Buffers shared by the connections of a thread, so that an idle connection holds none.

use super::limits::{POOLED_BUFFER_BYTES_MAX, POOLED_BYTES_MAX};

#[derive(Debug, Default)]
pub(super) struct BufferPool {
    free: Vec<Vec<u8>>,
    /// Bytes of all free buffers.
    free_bytes: usize,
    /// The fewest buffers that were free since the last trim.
    idle: usize,
}

impl BufferPool {
    /// Gives `buffer` a pooled allocation if it has none.
    pub(super) fn lend(&mut self, buffer: &mut Vec<u8>) {
        if buffer.capacity() == 0
            && let Some(pooled) = self.free.pop()
        {
            self.free_bytes -= pooled.capacity();
            self.idle = self.idle.min(self.free.len());
            *buffer = pooled;
        }
    }

    /// Returns the allocation of an empty buffer to the pool.
    pub(super) fn take_back(&mut self, buffer: &mut Vec<u8>) {
        if buffer.is_empty() && buffer.capacity() != 0 {
            let buffer = std::mem::take(buffer);
            let bytes = buffer.capacity();
            if bytes <= POOLED_BUFFER_BYTES_MAX && self.free_bytes + bytes <= POOLED_BYTES_MAX {
                self.free_bytes += bytes;
                self.free.push(buffer);
            }
        }
    }

    /// Frees the buffers that were not used since the last call.
    pub(super) fn trim(&mut self) {
        let freed = self.free.drain(self.free.len() - self.idle..);
        self.free_bytes -= freed.map(|buffer| buffer.capacity()).sum::<usize>();
        self.idle = self.free.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_unused_between_two_trims_are_freed() {
        let mut pool = BufferPool::default();
        (0..10).for_each(|_| pool.take_back(&mut Vec::with_capacity(10)));
        pool.trim();
        let mut lent = [Vec::new(), Vec::new()];
        lent.iter_mut().for_each(|buffer| pool.lend(buffer));
        assert!(lent.iter().all(|buffer| buffer.capacity() == 10));
        lent.iter_mut().for_each(|buffer| pool.take_back(buffer));
        pool.trim();
        assert_eq!(pool.free.len(), 2);
        pool.trim();
        pool.trim();
        assert_eq!(pool.free.len(), 0);
    }

    #[test]
    fn pool_keeps_no_more_bytes_than_its_limit() {
        let mut pool = BufferPool::default();
        let fitting = POOLED_BYTES_MAX / POOLED_BUFFER_BYTES_MAX;
        (0..=fitting).for_each(|_| pool.take_back(&mut Vec::with_capacity(POOLED_BUFFER_BYTES_MAX)));
        assert_eq!((pool.free.len(), pool.free_bytes), (fitting, POOLED_BYTES_MAX));

        pool.lend(&mut Vec::new());
        pool.take_back(&mut Vec::with_capacity(POOLED_BUFFER_BYTES_MAX + 1));
        assert_eq!(pool.free.len(), fitting - 1, "a larger buffer is returned to the allocator");

        pool.trim();
        pool.trim();
        assert_eq!((pool.free.len(), pool.free_bytes), (0, 0));
    }
}
