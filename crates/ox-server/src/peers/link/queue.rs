//! Length and waiting time of a learner's output queue, for `mntr`.
//!
//! Packets are queued and sent in batches. The metrics are those of a queue that each packet leaves on its own, as in
//! Apache.

use crate::metrics::{Metrics, Percentiles, Summary};
use ox_proto::ServerId;
use ox_tree::MetricSummary;
use std::sync::Arc;
use std::time::Instant;

/// One packet of this many is timed.
const TIMED_EVERY: u64 = 1_000;

/// The queued packets of a link.
pub(super) struct Queue {
    metrics: Arc<Metrics>,
    /// Metrics of the learner, once its hello has arrived.
    learner_metrics: Option<(Arc<Summary>, Arc<Percentiles>)>,
    queued: u64,
    /// All packets ever queued.
    pushed: u64,
}

/// Consecutive packets in the queue.
#[derive(Debug)]
pub(super) struct Batch {
    packets: u64,
    /// When it was queued, if one of its packets is timed.
    since: Option<Instant>,
}

impl Queue {
    pub(super) fn new(metrics: Arc<Metrics>) -> Self {
        Self { metrics, learner_metrics: None, queued: 0, pushed: 0 }
    }

    /// Sets the learner that the hello names.
    pub(super) fn set_learner(&mut self, server: ServerId) {
        let Metrics { learner_handler_qp_size: size, learner_handler_qp_time_ms: time, .. } = &*self.metrics;
        self.learner_metrics = size.of(server).zip(time.of(server));
    }

    pub(super) fn push(&mut self, packets: u64) -> Batch {
        let next_timed = self.pushed.next_multiple_of(TIMED_EVERY);
        self.pushed += packets;
        self.queued += packets;
        Batch { packets, since: (next_timed < self.pushed && self.learner_metrics.is_some()).then(Instant::now) }
    }

    pub(super) fn pop(&mut self, batch: &Batch) {
        let Batch { packets: count, since } = *batch;
        self.queued -= count;
        let Some((size, time)) = self.learner_metrics.as_ref().filter(|_| 0 < count) else { return };
        // The first packet leaves all others behind in the queue, the last one only those of later batches.
        let [count_signed, left] = [count, self.queued].map(u64::cast_signed);
        let sum = count_signed * left + count_signed * (count_signed - 1) / 2;
        size.merge(&MetricSummary { count, sum, min: left, max: left + count_signed - 1 });
        if let Some(since) = since {
            time.note(i64::try_from(since.elapsed().as_millis()).unwrap_or(i64::MAX), 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Reading;

    #[test]
    fn each_packet_leaves_the_queue_on_its_own() {
        let metrics = Arc::new(Metrics::default());
        let mut queue = Queue::new(Arc::clone(&metrics));
        let unknown = queue.push(7);
        queue.pop(&unknown); // before the hello
        queue.set_learner(ServerId(3));
        let batches = [queue.push(3), queue.push(1), queue.push(988), queue.push(2)];
        assert_eq!(batches.each_ref().map(|batch| batch.since.is_some()), [false, false, false, true]);
        let mut sizes = MetricSummary::default();
        for left in (0..994).rev() {
            sizes.record(left);
        }
        batches.iter().for_each(|batch| queue.pop(batch));
        assert_eq!(metrics.learner_handler_qp_size.of(ServerId(3)).unwrap().totals(), sizes);
        let reading = metrics.learner_handler_qp_time_ms.of(ServerId(3)).unwrap().reading();
        assert!(matches!(reading, Reading::Percentiles(MetricSummary { count: 1, .. }, _)));
    }
}
