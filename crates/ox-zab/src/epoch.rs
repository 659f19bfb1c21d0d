//! Epochs: the numbers of leaderships.

use ox_proto::Zxid;
use std::fmt;

/// The number of a leadership. -1 means none: the server is empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Epoch(pub i64);

impl Epoch {
    pub const ZERO: Self = Self(0);

    /// The zxid before the first transaction of this epoch.
    pub fn start(self) -> Zxid {
        Zxid(self.0 << 32)
    }

    /// The zxid after `last`. None if the counter is exhausted, so that a new epoch is needed.
    // Compat: Apache's leader too gives up its epoch before the last counter value.
    pub fn next_zxid(last: Zxid) -> Option<Zxid> {
        last.next().filter(|next| next.counter() != u32::MAX)
    }

    pub fn of(zxid: Zxid) -> Self {
        Self(zxid.0 >> 32)
    }

    /// The highest epoch that fits into a zxid.
    pub const LAST: Self = Self(i32::MAX as i64);

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

/// The two epochs that a server stores on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Epochs {
    /// The highest epoch that the server has accepted from a leader (`acceptedEpoch`).
    pub accepted: Epoch,
    /// The epoch whose history the server holds (`currentEpoch`).
    pub current: Epoch,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn k085_last_counter_of_epoch_is_not_used() {
        assert_eq!(Epoch::next_zxid(Zxid::new(2, 0)), Some(Zxid::new(2, 1)));
        assert_eq!(Epoch::next_zxid(Zxid::new(2, u32::MAX - 2)), Some(Zxid::new(2, u32::MAX - 1)));
        assert_eq!(Epoch::next_zxid(Zxid::new(2, u32::MAX - 1)), None);
    }
}
