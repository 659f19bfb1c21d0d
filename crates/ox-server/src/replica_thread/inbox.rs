//! The queue of the replica thread, and its wake-up: what arrives for the replica loop
//! (`ox-driver/src/replica_loop/replica_inbox.rs`), and reads of status commands. The replica thread is woken only when
//! it sleeps.

use ox_driver::replica_loop::ReplicaInbox;
use ox_replica::{Replica, Submission};
use ox_tree::State;
use parking_lot::{Condvar, Mutex};
use std::time::{Duration, Instant};

/// A read of the replica's state that runs on the replica thread.
pub(crate) type ReplicaQuery = Box<dyn FnOnce(&Replica, &State) + Send>;

/// All input since the replica thread last took it.
#[derive(Default)]
pub(crate) struct Input {
    pub(crate) replica: ReplicaInbox,
    /// When the first submission arrived.
    pub(crate) submitted_at: Option<Instant>,
    pub(crate) queries: Vec<ReplicaQuery>,
    woken: bool,
}

impl Input {
    fn is_empty(&self) -> bool {
        !self.woken && self.queries.is_empty() && self.replica.is_empty()
    }
}

#[derive(Default)]
pub(crate) struct Inbox {
    input: Mutex<Input>,
    arrived: Condvar,
}

impl Inbox {
    fn change(&self, change: impl FnOnce(&mut Input)) {
        let mut input = self.input.lock();
        change(&mut input);
        drop(input);
        self.arrived.notify_one(); // costs nothing while no thread waits
    }

    /// Changes the input and wakes the replica thread.
    pub(crate) fn put(&self, change: impl FnOnce(&mut ReplicaInbox)) {
        self.change(|input| change(&mut input.replica));
    }

    pub(crate) fn submit(&self, submission: Submission) {
        self.change(|input| {
            input.submitted_at.get_or_insert_with(Instant::now);
            input.replica.submissions.push(submission);
        });
    }

    pub(crate) fn query(&self, query: impl FnOnce(&Replica, &State) + Send + 'static) {
        self.change(|input| input.queries.push(Box::new(query)));
    }

    pub(crate) fn wake(&self) {
        self.change(|input| input.woken = true);
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
