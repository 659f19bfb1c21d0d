//! Restoring a snapshot on a standalone server: all of its data is replaced while it runs.
//!
//! ```text
//! Restore ──> no role, connections closed ──> LogJob::Install ──> Done(Installed) ──> the role of a leader begins
//!             what was proposed is dropped     snapshot durable     new QuorumPeer     sessions have their full timeout
//! ```
//! Writes without a reply may or may not be in the old history; their clients see a lost connection. Clients that
//! reconnect have seen zxids that the restored state may not contain ([`State::set_replaced`]).

use super::{Replica, Role};
use crate::clock::Now;
use crate::effects::{LogJob, ReplicaEffect, ReplicaEffects};
use crate::sessions_per_address::SessionsPerAddress;
use ox_proto::Zxid;
use ox_tree::State;
use ox_zab::QuorumPeer;

impl Replica {
    pub(super) fn on_restore(&mut self, now: Now, mut restored: Box<State>, state: &State, out: &mut ReplicaEffects) {
        if self.has_peers || self.role == Role::None {
            return; // a member, or another snapshot is being restored
        }
        restored.set_replaced(state);
        self.leave(now, state, &mut out.outboxes);
        self.proposals.clear();
        self.addresses = SessionsPerAddress::new(self.addresses.max());
        out.push(ReplicaEffect::Disk(LogJob::Install(restored)));
    }

    /// The restored state, which ends with this transaction, is durable.
    pub(super) fn on_restored(&mut self, last: Zxid) {
        *self.peer = QuorumPeer::standalone(self.me, last);
        self.peer_effects.clear();
        self.last_proposed_zxid = last;
        self.begins_at = Some((Role::Leader, last));
    }
}
