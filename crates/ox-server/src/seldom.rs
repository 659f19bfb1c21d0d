//! Warnings that strangers can provoke, without letting them fill the disk with them.

/// Shortest time between two warnings of a kind.
const EVERY_MS: i64 = 1000;

/// Lets one warning through now and then, and counts the others.
#[derive(Debug)]
pub(crate) struct Seldom {
    next_ms: i64,
    held_back: u64,
}

impl Seldom {
    pub(crate) fn new() -> Self {
        Self { next_ms: 0, held_back: 0 }
    }

    /// Counts some that are not worth to be said one by one.
    pub(crate) fn hold_back(&mut self, count: u64) {
        self.held_back += count;
    }

    /// How many were held back before this one, which may be said; `None` when it may not.
    pub(crate) fn may_say(&mut self, now_ms: i64) -> Option<u64> {
        if now_ms < self.next_ms {
            self.held_back += 1;
            return None;
        }
        self.next_ms = now_ms + EVERY_MS;
        Some(std::mem::take(&mut self.held_back))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn k164_strangers_do_not_fill_the_log() {
        let mut seldom = Seldom::new();
        let said: Vec<_> = (0..2500).filter_map(|now_ms| seldom.may_say(now_ms)).collect();
        assert_eq!(said, [0, 999, 999]);
    }
}
