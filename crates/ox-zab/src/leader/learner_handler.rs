//! The leader's state of one learner (`LearnerHandler`): its stage, ACKs, pings and outgoing stream. `leader.rs`
//! handles its packets.

use crate::learner_stream::LearnerStream;
use crate::message::LearnerKind;
use crate::timing::{Timing, Wait};
use ox_proto::ServerId;
use ox_proto::Zxid;
use std::collections::VecDeque;

/// How far a learner has joined. Stages advance only, except that a reconfiguration sends `ReadingLog` back to
/// `EpochAcked`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    AwaitHello,
    /// The leader's epoch is not known or not durable yet.
    HelloReceived,
    LeaderInfoSent,
    /// Waits until its synchronisation can start.
    EpochAcked,
    /// The on-disk log is searched for a DIFF.
    ReadingLog,
    /// Is being sent its history.
    Syncing,
    /// Has acknowledged NEWLEADER; waits until the leader is established.
    Synced,
    /// Is sent UPTODATE and takes part in the broadcast.
    Active,
}

/// Since when the oldest outstanding ACK is awaited; none if nothing is outstanding.
pub(super) type AckWait = Option<Wait>;

#[derive(Debug)]
pub(super) struct LearnerHandler {
    pub(super) server: ServerId,
    pub(super) kind: LearnerKind,
    pub(super) stage: Stage,
    /// The learner's last transaction, from its ACKEPOCH.
    pub(super) last: Zxid,
    pub(super) gets_snapshot: bool,
    /// What the learner's ACK of NEWLEADER acknowledges.
    pub(super) synced_to: Zxid,
    /// The highest proposal acknowledged before NEWLEADER.
    pub(super) early_ack: Zxid,
    pub(super) acked: Zxid,
    pub(super) last_received: Wait,
    pub(super) ack_wait: AckWait,
    /// The learner has sent a packet after receiving UPTODATE. Before that it replies to nothing.
    pub(super) has_replied: bool,
    pub(super) stream: LearnerStream,
    /// Ping rounds without a reply.
    pub(super) pings: VecDeque<u64>,
    /// The last ping round that the learner replied to.
    pub(super) pong_round: u64,
}

impl LearnerHandler {
    pub(super) fn new(now_ms: i64, window_bytes: usize) -> Self {
        Self {
            server: ServerId(i64::MIN),
            kind: LearnerKind::Observer,
            stage: Stage::AwaitHello,
            last: Zxid::ZERO,
            gets_snapshot: false,
            synced_to: Zxid::ZERO,
            early_ack: Zxid::ZERO,
            acked: Zxid::ZERO,
            last_received: Wait::new(now_ms),
            ack_wait: None,
            has_replied: false,
            stream: LearnerStream::new(window_bytes),
            pings: VecDeque::new(),
            pong_round: 0,
        }
    }

    /// Whether new transactions are sent to this learner.
    pub(super) fn receives_broadcast(&self) -> bool {
        Stage::Syncing <= self.stage
    }

    /// While a learner receives history it replies to nothing, so bytes that it accepts count as a sign of life.
    pub(super) fn is_receiving_history(&self) -> bool {
        self.stage == Stage::Syncing || (self.stage == Stage::Active && !self.has_replied)
    }

    /// How long the learner may be silent.
    pub(super) fn timeout_ms(&self, timing: &Timing) -> i64 {
        if Stage::Synced <= self.stage { timing.sync_ms() } else { timing.init_ms() }
    }

    /// The process did not run: packets of the learner may not have been read yet.
    pub(super) fn on_pause(&mut self, now_ms: i64, timing: &Timing) {
        self.last_received.on_pause(now_ms, self.timeout_ms(timing), timing);
        self.ack_wait.iter_mut().for_each(|wait| wait.on_pause(now_ms, timing.sync_ms(), timing));
    }

    /// The ACK timeout of a learner begins with its first packet after UPTODATE.
    pub(super) fn on_received(&mut self, now_ms: i64) {
        self.last_received = Wait::new(now_ms);
        if self.stream.is_up_to_date() && !std::mem::replace(&mut self.has_replied, true) {
            self.ack_wait = self.ack_wait.map(|_| Wait::new(now_ms));
        }
    }

    /// The learner has acknowledged up to `zxid`. The timeout for the remaining proposals starts again.
    pub(super) fn on_acked(&mut self, zxid: Zxid, now_ms: i64) {
        if self.acked < zxid {
            self.acked = zxid;
            self.ack_wait = (zxid < self.stream.proposed()).then_some(Wait::new(now_ms));
        }
    }

    /// Starts the ACK timeout if the link was handed proposals.
    pub(super) fn on_pumped(&mut self, now_ms: i64) {
        if self.ack_wait.is_none() && self.acked < self.stream.proposed() {
            self.ack_wait = Some(Wait::new(now_ms));
        }
    }

    pub(super) fn is_follower(&self) -> bool {
        self.kind == LearnerKind::Follower
    }
}
