//! Newtypes for ids: zxid, session id, server id.

use crate::jute::{DecodeError, Jute, Reader};
use std::fmt;

/// A transaction id: epoch in the high 32 bits, counter in the low 32. Compared as a signed number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Zxid(pub i64);

impl Zxid {
    /// Precedes the first transaction.
    pub const ZERO: Self = Self(0);

    pub fn new(epoch: u32, counter: u32) -> Self {
        Self((u64::from(epoch) << 32 | u64::from(counter)).cast_signed())
    }

    /// The epoch of the leader that proposed the transaction.
    pub fn epoch(self) -> u32 {
        (self.0.cast_unsigned() >> 32) as u32
    }

    /// The position within the epoch.
    #[expect(clippy::cast_possible_truncation, reason = "the low half is the counter")]
    pub fn counter(self) -> u32 {
        self.0.cast_unsigned() as u32
    }

    /// The next zxid of the same epoch; `None` if the counter would overflow.
    pub fn next(self) -> Option<Self> {
        Some(Self::new(self.epoch(), self.counter().checked_add(1)?))
    }

    /// Whether `self` may directly follow `last` in a log (R3). On a standalone server the counter overflows into the
    /// epoch.
    pub fn follows(self, last: Self) -> bool {
        last.0.checked_add(1) == Some(self.0) || (last.epoch() < self.epoch() && self.counter() == 1)
    }
}

impl fmt::Display for Zxid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// A session id, compared and printed as in Java.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub i64);

impl SessionId {
    /// Sent by a client to request a new session.
    pub const NONE: Self = Self(0);

    /// The server that created the session: the top byte of the id.
    pub fn server(self) -> u8 {
        self.0.to_be_bytes()[0]
    }

    /// The first id that `server` hands out when its clock shows `now_ms`: server id in the top byte, then 40 bits of
    /// the clock, then a 16-bit counter from 0.
    pub fn first(server: u8, now_ms: i64) -> Self {
        let clock = (now_ms.cast_unsigned() << 24) >> 8;
        let id = (clock | u64::from(server) << 56).cast_signed();
        // Compat: this value marks container nodes and is not a session id.
        Self(if id == i64::MIN { id + 1 } else { id })
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// A server's id in the ensemble (`myid`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerId(pub i64);

impl ServerId {
    /// Whether a server may have this id. The protocol uses negative ids and the highest one to mean "no server".
    pub fn is_valid(self) -> bool {
        (0..i64::MAX).contains(&self.0)
    }
}

impl fmt::Display for ServerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

macro_rules! jute_i64 {
    ($name:ident) => {
        impl<'a> Jute<'a> for $name {
            fn get(from: &mut Reader<'a>) -> Result<Self, DecodeError> {
                from.get().map(Self)
            }
            fn put(&self, out: &mut Vec<u8>) {
                self.0.put(out);
            }
        }
    };
}
jute_i64!(Zxid);
jute_i64!(SessionId);
jute_i64!(ServerId);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zxid_follows_within_epoch_and_into_next() {
        assert!(Zxid::new(0, 1).follows(Zxid::ZERO));
        assert!(Zxid::new(2, 6).follows(Zxid::new(2, 5)));
        assert!(Zxid::new(4, 1).follows(Zxid::new(2, 5)));
        assert!(!Zxid::new(2, 7).follows(Zxid::new(2, 5)));
        assert!(!Zxid::new(3, 2).follows(Zxid::new(2, 5)));
        assert!(!Zxid::new(2, 5).follows(Zxid::new(2, 5)));
        assert_eq!(Zxid::new(2, u32::MAX).next(), None);
    }

    #[test]
    fn session_id_holds_server_clock_and_counter() {
        assert_eq!(SessionId::first(1, 0xd_7c70).0, 0x0100_000d_7c70_0000);
        assert_eq!(SessionId::first(1, 0).0, 0x0100_0000_0000_0000);
        assert_eq!(SessionId::first(0x80, 0).0, i64::MIN + 1);
    }
}
