//! Memory of requests in flight: a submission is held until the last of its requests is replied to. Also the limit on
//! the bytes of replies that one step creates.

use super::Replica;
use super::pending_requests::Reply;
use crate::admission::SMALL_BYTES;
use crate::submission::{ClientInput, Load, Submission};
use ox_tree::{State, read};
use std::collections::VecDeque;
use std::sync::{Arc, Weak};

/// Submissions in use that one call checks; later calls check the others.
const CHECKED_MAX: usize = 64;

/// Submissions with a request that waits for a write or a sync.
#[derive(Debug, Default)]
pub(super) struct HeldSubmissions {
    queue: VecDeque<(Weak<Submission>, Load)>,
    load: Load,
}

impl HeldSubmissions {
    /// Counts a submission until its last request is done. The caller holds one reference itself.
    pub(super) fn hold(&mut self, submission: &Arc<Submission>) {
        let waiting = Arc::strong_count(submission) - 1;
        if 0 < waiting {
            let load = Load { requests: waiting, ..submission.load() };
            self.load += load;
            self.queue.push_back((Arc::downgrade(submission), load));
        }
    }

    /// The memory still held. A submission may be done before an earlier one with a request that waits for a sync.
    pub(super) fn load(&mut self) -> Load {
        let mut in_use = 0;
        for _ in 0..self.queue.len() {
            let Some((submission, load)) = self.queue.pop_front_if(|_| in_use < CHECKED_MAX) else { break };
            if submission.strong_count() == 0 {
                self.load -= load;
            } else {
                in_use += 1;
                self.queue.push_back((submission, load));
            }
        }
        self.load
    }
}

impl Replica {
    /// Requests in flight and their memory: proposed and not applied, waiting for a write, or waiting for a sync.
    pub fn load(&mut self) -> Load {
        let mut load = self.proposals.load();
        load += self.pending_writes.load();
        load += self.held.load();
        load
    }

    /// Whether a read must be refused, because its reply is large and earlier ones have used up the limit. It cannot
    /// wait, because later writes change what it has to return; so its connection is closed.
    pub(super) fn lacks_memory_for(&self, what: &Reply, state: &State) -> bool {
        let Reply::Entry(submission, at) = what else { return false };
        let entry = &submission.entries[*at];
        let ClientInput::Request { op, .. } = entry.input else { return false };
        self.replies_left == 0 && SMALL_BYTES < read::reply_bytes(state, op, &submission.bytes[entry.span.clone()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ConnId;

    #[test]
    fn submission_is_counted_until_its_last_request_is_done() {
        let mut held = HeldSubmissions::default();
        let mut submission = Submission::default();
        (0..2).for_each(|_| submission.push(ConnId::new(0, 0, 1), ClientInput::Reply, &[0; 1000]));
        let submission = Arc::new(submission);
        held.hold(&submission);
        assert_eq!(held.load(), Load::default(), "none of its requests waits");
        let waiting = [Arc::clone(&submission), Arc::clone(&submission)];
        held.hold(&submission);
        let load = submission.load();
        drop(submission);
        let [first, last] = waiting;
        assert_eq!(held.load(), load);
        drop(first);
        assert_eq!(held.load(), load);
        drop(last);
        assert_eq!(held.load(), Load::default());
    }

    #[test]
    fn submission_is_released_before_an_earlier_one_that_still_waits() {
        let mut held = HeldSubmissions::default();
        let mut submit = |count| {
            let hold = |_| {
                let mut submission = Submission::default();
                submission.push(ConnId::new(0, 0, 1), ClientInput::Reply, &[0; 1000]);
                let submission = Arc::new(submission);
                let waiting = Arc::clone(&submission);
                held.hold(&submission);
                waiting
            };
            (0..count).map(hold).collect::<Vec<_>>()
        };
        let (earlier, later) = (submit(3 * CHECKED_MAX), submit(100));
        let in_use: usize = earlier.iter().map(|submission| submission.load().bytes).sum();
        drop(later);
        for _ in 0..3 {
            held.load();
        }
        assert_eq!((held.load().bytes, held.queue.len()), (in_use, earlier.len()));
    }
}
