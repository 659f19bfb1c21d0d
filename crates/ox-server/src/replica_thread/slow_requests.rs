//! Log lines about slow writes, with the time in each stage.
//!
//! | field | from, to |
//! |---|---|
//! | `queue_ms` | an I/O thread has handed the request over, the replica thread has prepared it (or sent it to the leader) |
//! | `log_ms` | the transaction is durable on this server |
//! | `commit_ms` | it is committed and applied, and the reply is handed to the I/O thread |
//!
//! Sending the reply is not included: how fast a client reads is its own matter, and to measure it, each reply would have
//! to be found again in the output of its connection, which is a stream of bytes.

use crate::limits::LOG_LINES_BURST;
use crate::log_limit::LogLimit;
use ox_proto::{OpCode, Zxid};
use ox_replica::{SlowWrite, SlowWrites};
use std::collections::VecDeque;

/// Fsyncs whose time is remembered: more than a write can wait for.
const FSYNCS_MAX: usize = 1024;

pub(super) struct SlowRequests {
    lines: LogLimit,
    /// Up to which zxid the log was durable at which time, oldest first.
    fsyncs: VecDeque<(Zxid, i64)>,
}

impl SlowRequests {
    pub(super) fn new() -> Self {
        Self { lines: LogLimit::new(LOG_LINES_BURST), fsyncs: VecDeque::new() }
    }

    pub(super) fn on_durable(&mut self, zxid: Zxid, now_ms: i64) {
        if self.fsyncs.len() == FSYNCS_MAX {
            self.fsyncs.pop_front();
        }
        self.fsyncs.push_back((zxid, now_ms));
    }

    pub(super) fn log(&mut self, slow: &mut SlowWrites, now_ms: i64) {
        if slow.is_empty() {
            return;
        }
        let (writes, more) = slow.take();
        self.lines.suppress(more);
        for write in writes {
            let Some(suppressed) = self.lines.allow(now_ms) else { continue };
            let Stages { queue_ms, log_ms, commit_ms } = self.stages(&write);
            let SlowWrite { session, cxid, zxid, op, path, submitted_ms, applied_ms, .. } = write;
            let (operation, total_ms) = (op.map_or("unknown", OpCode::name), applied_ms - submitted_ms);
            tracing::warn!(
                operation, path, %session, cxid, %zxid, total_ms, queue_ms, log_ms, commit_ms, suppressed, "slow request"
            );
        }
    }

    fn stages(&self, write: &SlowWrite) -> Stages {
        let at = self.fsyncs.partition_point(|(zxid, _)| *zxid < write.zxid);
        let durable_ms = self.fsyncs.get(at).map(|(_, at_ms)| (*at_ms).max(write.prepared_ms));
        Stages {
            queue_ms: write.prepared_ms - write.submitted_ms,
            log_ms: durable_ms.map(|at_ms| at_ms - write.prepared_ms),
            commit_ms: write.applied_ms - durable_ms.unwrap_or(write.prepared_ms),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stages {
    queue_ms: i64,
    /// `None` on an observer, which applies before its log is durable.
    log_ms: Option<i64>,
    commit_ms: i64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use ox_proto::SessionId;

    fn write(zxid: i64) -> SlowWrite {
        SlowWrite {
            session: SessionId(1),
            cxid: 1,
            zxid: Zxid(zxid),
            op: Some(OpCode::Create),
            path: Some("/a".to_owned()),
            submitted_ms: 100,
            prepared_ms: 130,
            applied_ms: 1130,
        }
    }

    #[test]
    fn time_is_divided_into_stages() {
        let mut slow = SlowRequests::new();
        [(4, 90), (7, 830), (9, 900)].into_iter().for_each(|(zxid, at)| slow.on_durable(Zxid(zxid), at));
        let expected = Stages { queue_ms: 30, log_ms: Some(700), commit_ms: 300 };
        assert_eq!([slow.stages(&write(5)), slow.stages(&write(7))], [expected; 2]);
        assert_eq!(slow.stages(&write(8)), Stages { log_ms: Some(770), commit_ms: 230, ..expected });
        assert_eq!(slow.stages(&write(10)), Stages { log_ms: None, commit_ms: 1000, ..expected }, "not durable yet");
        (0..5000).for_each(|zxid| slow.on_durable(Zxid(10 + zxid), 1000));
        assert_eq!(slow.fsyncs.len(), FSYNCS_MAX);
    }
}
