//! The queue of the replica thread: submissions of the I/O threads, reports of the log thread, events of the peers
//! thread. The replica thread is woken only when it sleeps.
//!
//! Its producers bound it (`ox-driver/src/client_io/global_limits.rs`): connections are not read while too much is in flight.

use crate::peers::{LatestVote, PeerEvent};
use ox_driver::server_log::JobReport;
use ox_proto::{ServerId, Zxid};
use ox_replica::{Replica, Submission};
use ox_store::FreeSpace;
use ox_tree::State;
use parking_lot::{Condvar, Mutex};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// A read of the replica's state that runs on the replica thread.
pub(crate) type ReplicaQuery = Box<dyn FnOnce(&Replica, &State) + Send>;

/// All input since the replica thread last took it.
#[derive(Default)]
pub(crate) struct Input {
    pub(crate) submissions: Vec<Submission>,
    /// When the first submission arrived.
    pub(crate) submitted_at: Option<Instant>,
    pub(crate) durable: Option<Zxid>,
    pub(crate) snapshot_due: Option<Zxid>,
    pub(crate) space: Option<FreeSpace>,
    pub(crate) queries: Vec<ReplicaQuery>,
    /// Finished disk jobs of a member's log thread.
    pub(crate) reports: Vec<JobReport>,
    /// Version of the newest configuration whose files are written.
    pub(crate) config_stored: Option<i64>,
    /// Events of the connections to other servers.
    pub(crate) peers: Vec<PeerEvent>,
    /// The newest notification of each server.
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

    /// Newer notifications replace older ones. A configuration is kept if the newer notification has none.
    pub(crate) fn add_votes(&mut self, votes: BTreeMap<ServerId, LatestVote>) {
        for (server, latest) in votes {
            let before = self.votes.remove(&server).and_then(|votes| votes.config);
            self.votes.insert(server, LatestVote { config: latest.config.or(before), ..latest });
        }
    }
}

#[derive(Default)]
pub(crate) struct Inbox {
    input: Mutex<Input>,
    arrived: Condvar,
}

impl Inbox {
    /// Changes the input and wakes the replica thread.
    pub(crate) fn put(&self, change: impl FnOnce(&mut Input)) {
        let mut input = self.input.lock();
        change(&mut input);
        drop(input);
        self.arrived.notify_one(); // costs nothing while no thread waits
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

    /// Takes all input; waits for `timeout` at most if there is none.
    pub(crate) fn take(&self, timeout: Duration) -> Input {
        let mut input = self.input.lock();
        if input.is_empty() && !timeout.is_zero() {
            self.arrived.wait_for(&mut input, timeout);
        }
        std::mem::take(&mut input)
    }
}
