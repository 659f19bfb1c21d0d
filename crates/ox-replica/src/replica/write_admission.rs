//! Admission of writes by free disk space.
//!
//! Free space is measured at intervals. In between, the replica subtracts what it logs, so that a fast writer cannot
//! fill the disk between two measurements.
//!
//! In an ensemble, the leader's disk decides. A leader whose disk is low refuses writes of its learners' clients by
//! error transactions, because only a transaction reaches those clients; and it steps down if another server can lead
//! (`ox-zab/src/disk_pressure.rs`). A learner logs what its leader proposes for as long as it can.

use super::Replica;
use crate::clock::Now;
use crate::limits::{CLOSE_SESSION_BYTES, REFUSED_MS};
use ox_proto::multi::MultiOp;
use ox_proto::txn::Txn;
use ox_proto::{ErrorCode, OpCode, Reader};

/// Which writes are accepted with the free disk space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteAdmission {
    All,
    /// Writes that free space: delete, also in a multi of deletes and checks only, and closeSession. createSession is
    /// accepted too, because a client needs a session to delete.
    Freeing,
    /// Only the closing of sessions.
    None,
}

impl WriteAdmission {
    pub(super) fn allow(self, op: OpCode, body: &[u8]) -> bool {
        match self {
            Self::All => true,
            Self::Freeing => op == OpCode::Delete || (op == OpCode::Multi && only_deletes(body)),
            Self::None => false,
        }
    }
}

/// Whether a multi consists of deletes and checks, with at least one delete.
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

/// Free space for the log.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LogSpace {
    /// Bytes left above the reserve, negative while the reserve is used; none before the first measurement.
    left_bytes: Option<i64>,
    reserve_bytes: i64,
    /// Until then, this learner refuses what its leader has just refused.
    leader_refuses_until_ms: Option<i64>,
}

impl Replica {
    /// The driver has measured free space.
    pub(super) fn on_space(&mut self, now: Now, free_bytes: u64, reserve_bytes: u64) {
        let load = self.load();
        self.log_space.on_measured(free_bytes, reserve_bytes, load.bytes);
        let is_low = self.log_space.writes() != WriteAdmission::All;
        self.step_peer(now, ox_zab::Input::DiskLow(is_low));
    }
}

impl LogSpace {
    /// Records a measurement. `unwritten_bytes` may not be on the disk yet.
    pub(super) fn on_measured(&mut self, free_bytes: u64, reserve_bytes: u64, unwritten_bytes: usize) {
        let signed = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
        self.reserve_bytes = signed(reserve_bytes);
        self.left_bytes = Some(signed(free_bytes).saturating_sub(self.reserve_bytes) - signed(unwritten_bytes as u64));
    }

    /// Subtracts the size of a record.
    pub(super) fn spend(&mut self, bytes: usize) {
        if let Some(left) = &mut self.left_bytes {
            *left = left.saturating_sub_unsigned(bytes as u64);
        }
    }

    /// The leader's reply to a write of this learner's client.
    pub(super) fn on_reply(&mut self, now: Now, txn: &Txn<'_>) {
        if matches!(txn, Txn::Error { err } if *err == ErrorCode::ThrottledOp.code()) {
            self.leader_refuses_until_ms = Some(now.mono_ms + REFUSED_MS);
        }
    }

    /// Whether the leader has refused such a write a moment ago.
    pub(super) fn leader_refuses(&self, now: Now, op: OpCode, body: &[u8]) -> bool {
        let has_just_refused = self.leader_refuses_until_ms.is_some_and(|until_ms| now.mono_ms < until_ms);
        has_just_refused && op != OpCode::CloseSession && !WriteAdmission::Freeing.allow(op, body)
    }

    /// Another leader may have more space.
    pub(super) fn forget_leader(&mut self) {
        self.leader_refuses_until_ms = None;
    }

    /// The last quarter of the reserve, at most [`CLOSE_SESSION_BYTES`], is for closing sessions only.
    pub(super) fn writes(&self) -> WriteAdmission {
        match self.left_bytes {
            Some(left) if left < (self.reserve_bytes / 4).min(CLOSE_SESSION_BYTES) - self.reserve_bytes => {
                WriteAdmission::None
            }
            Some(left) if left < 0 => WriteAdmission::Freeing,
            _ => WriteAdmission::All,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn k153_writes_that_free_space_are_accepted_longest() {
        let mut space = LogSpace::default();
        assert_eq!(space.writes(), WriteAdmission::All);
        space.on_measured(1100, 1000, 50);
        assert_eq!(space.writes(), WriteAdmission::All);
        space.spend(51);
        assert_eq!(space.writes(), WriteAdmission::Freeing);
        assert!(
            WriteAdmission::Freeing.allow(OpCode::Delete, &[]) && !WriteAdmission::Freeing.allow(OpCode::SetData, &[])
        );
        space.spend(750);
        assert_eq!(space.writes(), WriteAdmission::None);
        assert!(!WriteAdmission::None.allow(OpCode::Delete, &[]));
        space.on_measured(5000, 1000, 0);
        assert_eq!(space.writes(), WriteAdmission::All);
    }
}
