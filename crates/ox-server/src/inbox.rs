//! What the replica thread has to do: one queue for everybody, and a thread that is woken only when it sleeps.
//!
//! How much may wait here is bounded by whoever fills it (`totals.rs`): connections are not read while too much is
//! on its way.

use crate::log_writer::Report;
use crate::peers::{PeerEvent, LatestVote};
use ox_proto::{ServerId, Zxid};
use ox_replica::{Replica, Submission};
use ox_store::Space;
use ox_tree::State;
use parking_lot::{Condvar, Mutex};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// A look at the replica, from its own thread.
pub(crate) type ReplicaQuery = Box<dyn FnOnce(&Replica, &State) + Send>;

/// Everything that has come in since the last look.
#[derive(Default)]
pub(crate) struct Input {
    pub(crate) submissions: Vec<Submission>,
    /// When the first of them came.
    pub(crate) submitted_at: Option<Instant>,
    pub(crate) durable: Option<Zxid>,
    pub(crate) snapshot_due: Option<Zxid>,
    pub(crate) space: Option<Space>,
    pub(crate) queries: Vec<ReplicaQuery>,
    /// What the disk of a member has finished.
    pub(crate) reports: Vec<Report>,
    /// The version of the newest configuration whose files are written.
    pub(crate) config_stored: Option<i64>,
    /// What other servers say.
    pub(crate) peers: Vec<PeerEvent>,
    /// The newest that each has said on the election port.
    pub(crate) votes: BTreeMap<ServerId, LatestVote>,
    woken: bool,
}

impl Input {
    fn is_empty(&self) -> bool {
        !self.woken
            && self.submissions.is_empty()
            && self.durable.is_none()
            && self.snapshot_due.is_none()
            && self.space.is_none()
            && self.queries.is_empty()
            && self.reports.is_empty()
            && self.config_stored.is_none()
            && self.peers.is_empty()
            && self.votes.is_empty()
    }

    /// What servers say takes the place of what they said before; but for a configuration, if they tell none now.
    pub(crate) fn add_votes(&mut self, votes: BTreeMap<ServerId, LatestVote>) {
        for (server, LatestVote { note, config }) in votes {
            let before = self.votes.remove(&server).and_then(|votes| votes.config);
            self.votes.insert(server, LatestVote { note, config: config.or(before) });
        }
    }
}

#[derive(Default)]
pub(crate) struct Inbox {
    input: Mutex<Input>,
    arrived: Condvar,
}

impl Inbox {
    /// Changes the input and wakes the replica.
    pub(crate) fn put(&self, change: impl FnOnce(&mut Input)) {
        let mut input = self.input.lock();
        change(&mut input);
        drop(input);
        self.arrived.notify_one(); // costs nothing while nobody waits
    }

    pub(crate) fn submit(&self, submission: Submission) {
        self.put(|input| {
            input.submitted_at.get_or_insert_with(Instant::now);
            input.submissions.push(submission);
        });
    }

    pub(crate) fn wake(&self) {
        self.put(|input| input.woken = true);
    }

    /// Everything that has come in; waits for something, but not longer than `patience`.
    pub(crate) fn take(&self, timeout: Duration) -> Input {
        let mut input = self.input.lock();
        if input.is_empty() && !timeout.is_zero() {
            self.arrived.wait_for(&mut input, timeout);
        }
        std::mem::take(&mut input)
    }
}
