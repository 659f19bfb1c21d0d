//! What the words thread has to do.

use super::Word;
use crate::limits::WORDS_WAITING_MAX;
use ox_tree::ConnId;
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::time::Duration;

/// One thing to do.
pub(super) enum Asked {
    Word(ConnId, Word),
    GoOn(ConnId),
    GiveUp(ConnId),
}

#[derive(Default)]
struct Inner {
    asked: VecDeque<Asked>,
    words: usize,
}

/// Bounded: words by a limit, and of the other two a connection that asked a word sends one at a time.
#[derive(Default)]
pub(super) struct Queue {
    inner: Mutex<Inner>,
    arrived: Condvar,
}

impl Queue {
    /// False when too many words wait already.
    pub(super) fn put(&self, asked: Asked) -> bool {
        let mut inner = self.inner.lock();
        if matches!(asked, Asked::Word(..)) {
            if WORDS_WAITING_MAX <= inner.words {
                return false;
            }
            inner.words += 1;
        }
        inner.asked.push_back(asked);
        drop(inner);
        self.arrived.notify_one();
        true
    }

    /// The next one; `None` when none came in time.
    pub(super) fn take(&self, patience: Duration) -> Option<Asked> {
        let mut inner = self.inner.lock();
        if inner.asked.is_empty() {
            self.arrived.wait_for(&mut inner, patience);
        }
        let asked = inner.asked.pop_front()?;
        inner.words -= usize::from(matches!(asked, Asked::Word(..)));
        Some(asked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::four_letter::COMMANDS;

    #[test]
    fn only_words_are_refused() {
        let (queue, conn) = (Queue::default(), ConnId::new(0, 1, 1));
        let word = Word { command: &COMMANDS[0], mask: 0 };
        assert!((0..WORDS_WAITING_MAX).all(|_| queue.put(Asked::Word(conn, word))));
        assert!(!queue.put(Asked::Word(conn, word)));
        assert!(queue.put(Asked::GoOn(conn)) && queue.put(Asked::GiveUp(conn)));
        assert!(matches!(queue.take(Duration::ZERO), Some(Asked::Word(..))));
        assert!(queue.put(Asked::Word(conn, word)));
    }
}
