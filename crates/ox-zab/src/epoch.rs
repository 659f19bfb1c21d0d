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

    /// The epoch of a transaction.
    pub fn of(zxid: Zxid) -> Self {
        Self(zxid.0 >> 32)
    }

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
