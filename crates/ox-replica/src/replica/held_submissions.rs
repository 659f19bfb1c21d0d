//! Submissions that stay in memory because requests of them wait, and the replies that waiting requests may have.

use super::Replica;
use super::pending_requests::What;
use crate::admission::SMALL_BYTES;
use crate::submission::{Ask, Load, Submission};
use ox_tree::{State, read};
use std::collections::VecDeque;
use std::sync::{Arc, Weak};

/// Submissions still in use that are looked at in one call: a later call looks at the others.
const LOOKED_AT_MAX: usize = 64;

/// Submissions of which a request still waits for a write or a sync.
#[derive(Debug, Default)]
pub(super) struct HeldSubmissions {
    queue: VecDeque<(Weak<Submission>, Load)>,
    load: Load,
}

impl HeldSubmissions {
    /// Counts a submission until the last of its requests is done with. The caller holds one reference itself.
    pub(super) fn hold(&mut self, submission: &Arc<Submission>) {
        let waiting = Arc::strong_count(submission) - 1;
        if 0 < waiting {
            let load = Load { requests: waiting, ..submission.load() };
            self.load += load;
            self.queue.push_back((Arc::downgrade(submission), load));
        }
    }

    /// What is still held. A submission may be done with before an earlier one, of which a request waits for a sync.
    pub(super) fn load(&mut self) -> Load {
        let mut in_use = 0;
        for _ in 0..self.queue.len() {
            let Some((submission, load)) = self.queue.pop_front_if(|_| in_use < LOOKED_AT_MAX) else { break };
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
    /// Requests in flight, and what they hold: proposed and not applied, waiting for a write, or waiting for a sync.
    pub fn load(&mut self) -> Load {
        let mut load = self.proposals.load();
        load += self.own.load();
        load += self.held.load();
        load
    }

    /// Lets the reads that are answered in one step, or one call of apply, have so many bytes of replies.
    pub fn limit_replies(&mut self, bytes: usize) {
        self.replies_max = bytes;
    }

    /// Whether a read is refused because its reply is large and earlier ones have used up the limit. It cannot wait: the
    /// state that it has to show goes on. So its connection is closed.
    pub(super) fn lacks_memory_for(&self, what: &What, state: &State) -> bool {
        let What::Item(submission, at) = what else { return false };
        let item = &submission.items[*at];
        let Ask::Request { op, .. } = item.ask else { return false };
        self.replies_left == 0 && SMALL_BYTES < read::reply_bytes(state, op, &submission.bytes[item.span.clone()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ox_tree::ConnId;

    #[test]
    fn submission_is_counted_until_its_last_request_is_done() {
        let mut held = HeldSubmissions::default();
        let mut submission = Submission::default();
        (0..2).for_each(|_| submission.push(ConnId::new(0, 0, 1), Ask::Answered, &[0; 1000]));
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
                submission.push(ConnId::new(0, 0, 1), Ask::Answered, &[0; 1000]);
                let submission = Arc::new(submission);
                let waiting = Arc::clone(&submission);
                held.hold(&submission);
                waiting
            };
            (0..count).map(hold).collect::<Vec<_>>()
        };
        let (earlier, later) = (submit(3 * LOOKED_AT_MAX), submit(100));
        let in_use: usize = earlier.iter().map(|submission| submission.load().bytes).sum();
        drop(later);
        for _ in 0..3 {
            held.load();
        }
        assert_eq!((held.load().bytes, held.queue.len()), (in_use, earlier.len()));
    }
}
