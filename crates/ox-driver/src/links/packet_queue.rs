//! Length and waiting time of a learner's output queue, for `mntr`.
//!
//! Packets are queued and sent in batches. The metrics are those of a queue that each packet leaves on its own, as in
//! Apache.

use ox_proto::ServerId;
use ox_tree::MetricSummary;
use std::time::Duration;

/// One packet of this many is timed.
const TIMED_EVERY: u64 = 1_000;

/// The queued packets of a link.
#[derive(Debug, Default)]
pub(super) struct PacketQueue {
    /// The learner, once its hello has arrived.
    learner: Option<ServerId>,
    queued: u64,
    /// All packets ever queued.
    pushed: u64,
}

/// Consecutive packets in the queue.
#[derive(Debug)]
pub(super) struct PacketBatch {
    packets: u64,
    /// When it was queued, if one of its packets is timed.
    since: Option<Duration>,
}

/// Packets that have left the queue of a learner.
#[derive(Debug, PartialEq, Eq)]
pub struct Dequeued {
    pub learner: ServerId,
    /// The packets that were in the queue after each of them.
    pub sizes: MetricSummary,
    /// How long one of them was queued, if it was timed.
    pub waited: Option<Duration>,
}

impl PacketQueue {
    /// Sets the learner that the hello names.
    pub(super) fn set_learner(&mut self, server: ServerId) {
        self.learner = Some(server);
    }

    pub(super) fn push(&mut self, now: Duration, packets: u64) -> PacketBatch {
        let next_timed = self.pushed.next_multiple_of(TIMED_EVERY);
        self.pushed += packets;
        self.queued += packets;
        PacketBatch { packets, since: (next_timed < self.pushed && self.learner.is_some()).then_some(now) }
    }

    pub(super) fn pop(&mut self, now: Duration, batch: &PacketBatch) -> Option<Dequeued> {
        let PacketBatch { packets: count, since } = *batch;
        self.queued -= count;
        let learner = self.learner.filter(|_| 0 < count)?;
        // The first packet leaves all others behind in the queue, the last one only those of later batches.
        let [count_signed, left] = [count, self.queued].map(u64::cast_signed);
        let sum = count_signed * left + count_signed * (count_signed - 1) / 2;
        let sizes = MetricSummary { count, sum, min: left, max: left + count_signed - 1 };
        Some(Dequeued { learner, sizes, waited: since.map(|since| now.saturating_sub(since)) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_packet_leaves_the_queue_on_its_own() {
        let (mut queue, [queued_at, now]) = (PacketQueue::default(), [5, 12].map(Duration::from_millis));
        let unknown = queue.push(queued_at, 7);
        assert_eq!(queue.pop(now, &unknown), None, "before the hello");
        queue.set_learner(ServerId(3));
        let batches = [3, 1, 988, 2].map(|packets| queue.push(queued_at, packets));
        let (mut left, mut waits) = (994, Vec::new());
        for batch in &batches {
            let mut sizes = MetricSummary::default();
            for _ in 0..batch.packets {
                left -= 1;
                sizes.record(left);
            }
            let dequeued = queue.pop(now, batch).expect("the learner is known");
            assert_eq!((dequeued.learner, dequeued.sizes), (ServerId(3), sizes));
            waits.push(dequeued.waited);
        }
        assert_eq!(waits, [None, None, None, Some(Duration::from_millis(7))]);
    }
}
