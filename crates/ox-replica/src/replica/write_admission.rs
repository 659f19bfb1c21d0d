//! How much the disk still takes.
//!
//! Space is measured now and then; in between the replica counts what it hands over, so that a fast writer cannot
//! fill the disk between two looks.
//!
//! In an ensemble it is the leader's disk that decides about a write. A leader without room refuses those of its learners'
//! clients by error transactions, because only a transaction finds its way back to the client; and it gives its
//! office up if others can lead (`ox-zab/src/room.rs`). A learner logs what its leader proposes for as long as it can.

use super::Replica;
use crate::clock::Now;
use crate::limits::{ENDS_BYTES, REFUSED_MS};
use ox_proto::multi::MultiOp;
use ox_proto::txn::Txn;
use ox_proto::{ErrorCode, OpCode, Reader};

/// Which writes the disk has room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writes {
    /// All.
    All,
    /// Those that make room: deletes, alone or as a multi of nothing else but checks, and whatever ends sessions.
    /// New sessions begin, because who wants to delete needs one.
    Freeing,
    /// None but the end of sessions.
    None,
}

impl Writes {
    pub(super) fn allow(self, op: OpCode, body: &[u8]) -> bool {
        match self {
            Self::All => true,
            Self::Freeing => op == OpCode::Delete || (op == OpCode::Multi && only_deletes(body)),
            Self::None => false,
        }
    }
}

/// Whether a multi deletes and does nothing else.
fn only_deletes(body: &[u8]) -> bool {
    let (mut from, mut deletes) = (Reader::new(body), 0);
    loop {
        match MultiOp::next(&mut from) {
            Ok(Some(MultiOp::Delete(_))) => deletes += 1,
            Ok(Some(MultiOp::Check(_))) => (),
            Ok(None) => return 0 < deletes,
            Ok(Some(_)) | Err(_) => return false,
        }
    }
}

/// Bytes that may still be logged.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LogRoom {
    /// What is left above the reserve, negative when the reserve is being used; `None` before the first look.
    left_bytes: Option<i64>,
    reserve_bytes: i64,
    /// Until then the leader is not asked for what it has just refused.
    leader_refuses_until_ms: Option<i64>,
}

impl Replica {
    /// The disk has so many bytes left, and should keep `reserve_bytes` of them: writes are refused before they
    /// are used up, and accepted when there is space again. A member may be told before it starts.
    pub fn on_space(&mut self, now: Now, free_bytes: u64, reserve_bytes: u64) {
        let load = self.load();
        self.log_room.measured(free_bytes, reserve_bytes, load.bytes);
        let is_low = self.writes() != Writes::All;
        self.peer(now, |peer, now_ms, out| peer.on_disk_pressure(now_ms, is_low, out));
    }

    /// Which writes are accepted.
    pub fn writes(&self) -> Writes {
        self.log_room.writes()
    }
}

impl LogRoom {
    /// Takes a new measurement; `unwritten_bytes` may not be on the disk yet.
    pub(super) fn measured(&mut self, free_bytes: u64, reserve_bytes: u64, unwritten_bytes: usize) {
        let signed = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
        self.reserve_bytes = signed(reserve_bytes);
        self.left_bytes = Some(signed(free_bytes).saturating_sub(self.reserve_bytes) - signed(unwritten_bytes as u64));
    }

    /// Counts a record.
    pub(super) fn spend(&mut self, bytes: usize) {
        if let Some(left) = &mut self.left_bytes {
            *left = left.saturating_sub_unsigned(bytes as u64);
        }
    }

    /// A learner's client gets this answer from the leader.
    pub(super) fn heard(&mut self, now: Now, txn: &Txn<'_>) {
        if matches!(txn, Txn::Error { err } if *err == ErrorCode::ThrottledOp.code()) {
            self.leader_refuses_until_ms = Some(now.mono_ms + REFUSED_MS);
        }
    }

    /// Whether a learner's leader has said a moment ago that it has no room for such a write.
    pub(super) fn leader_refuses(&self, now: Now, op: OpCode, body: &[u8]) -> bool {
        let has_just_refused = self.leader_refuses_until_ms.is_some_and(|until_ms| now.mono_ms < until_ms);
        has_just_refused && op != OpCode::CloseSession && !Writes::Freeing.allow(op, body)
    }

    /// Another leader may have room.
    pub(super) fn forget_leader(&mut self) {
        self.leader_refuses_until_ms = None;
    }

    /// The last quarter of the reserve, or what is enough of it, is for nothing but the end of sessions.
    pub(super) fn writes(&self) -> Writes {
        match self.left_bytes {
            Some(left) if left < (self.reserve_bytes / 4).min(ENDS_BYTES) - self.reserve_bytes => Writes::None,
            Some(left) if left < 0 => Writes::Freeing,
            _ => Writes::All,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn k153_what_frees_space_is_served_longest() {
        let mut room = LogRoom::default();
        assert_eq!(room.writes(), Writes::All);
        room.measured(1100, 1000, 50);
        assert_eq!(room.writes(), Writes::All);
        room.spend(51);
        assert_eq!(room.writes(), Writes::Freeing);
        assert!(Writes::Freeing.allow(OpCode::Delete, &[]) && !Writes::Freeing.allow(OpCode::SetData, &[]));
        room.spend(750);
        assert_eq!(room.writes(), Writes::None);
        assert!(!Writes::None.allow(OpCode::Delete, &[]));
        room.measured(5000, 1000, 0);
        assert_eq!(room.writes(), Writes::All);
    }
}
