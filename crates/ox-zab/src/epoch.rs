//! Terms of leaders.

use ox_proto::Zxid;
use std::fmt;

/// A leader's term. -1 stands for none: the directory of a server that has nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Epoch(pub i64);

impl Epoch {
    /// Before the first leader.
    pub const ZERO: Self = Self(0);

    /// The point where its history begins: behind everything of earlier epochs, before its first transaction.
    pub fn start(self) -> Zxid {
        Zxid(self.0 << 32)
    }

    /// The transaction behind `last`; none when the numbers of its epoch are used up, and another one has to begin.
    // Compat: Apache's leaders end before the last number too.
    pub fn next_zxid(last: Zxid) -> Option<Zxid> {
        last.next().filter(|next| next.counter() != u32::MAX)
    }

    /// The epoch of a transaction.
    pub fn of(zxid: Zxid) -> Self {
        Self(zxid.0 >> 32)
    }

    /// The last one that transactions can be numbered in.
    pub const LAST: Self = Self(i32::MAX as i64);

    /// The one after it.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The two epochs that a server's disk remembers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Epochs {
    /// The highest that it promised to follow.
    pub accepted: Epoch,
    /// Of the last leader whose whole history it holds.
    pub current: Epoch,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn k085_the_last_number_of_an_epoch_is_not_used() {
        assert_eq!(Epoch::next_zxid(Zxid::new(2, 0)), Some(Zxid::new(2, 1)));
        assert_eq!(Epoch::next_zxid(Zxid::new(2, u32::MAX - 2)), Some(Zxid::new(2, u32::MAX - 1)));
        assert_eq!(Epoch::next_zxid(Zxid::new(2, u32::MAX - 1)), None);
    }
}
