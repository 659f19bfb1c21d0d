//! A leader's end of the link to one learner.

use crate::learner_stream::LearnerStream;
use crate::message::LearnerKind;
use crate::timing::{Timing, Wait};
use ox_proto::ServerId;
use ox_proto::Zxid;
use std::collections::VecDeque;

/// How far a learner has come. Only forward.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    /// Has not introduced itself.
    Unknown,
    /// Waits for the epoch.
    Introduced,
    /// Was told the epoch.
    Asked,
    /// Has promised the epoch; waits for the history.
    Promised,
    /// Its history is looked for in the stored log.
    LookingUp,
    /// Gets the history.
    Syncing,
    /// Has the history; waits for the others.
    Synced,
    /// Takes part.
    Active,
}

/// For a disk to acknowledge something, while something is outstanding.
pub(super) type Awaited = Option<Wait>;

#[derive(Debug)]
pub(super) struct Link {
    pub(super) server: ServerId,
    pub(super) kind: LearnerKind,
    pub(super) stage: Stage,
    /// The end of its history when it came.
    pub(super) last: Zxid,
    /// Whether it gets the state, while it gets the history.
    pub(super) gets_state: bool,
    /// What it has once it acknowledges the history.
    pub(super) synced_to: Zxid,
    /// What it acknowledged before the history was.
    pub(super) early_ack: Zxid,
    /// The last proposal that it has acknowledged.
    pub(super) acked: Zxid,
    pub(super) silence: Wait,
    pub(super) awaited: Awaited,
    /// It has sent a packet since UPTODATE left, and has received that. Until then it replies to nothing.
    pub(super) has_begun: bool,
    pub(super) stream: LearnerStream,
    /// Rounds of pings that it has not answered.
    pub(super) pings: VecDeque<u64>,
    /// The last one that it has.
    pub(super) answered: u64,
}

impl Link {
    pub(super) fn new(now_ms: i64, window_bytes: usize) -> Self {
        Self {
            server: ServerId(i64::MIN),
            kind: LearnerKind::Observer,
            stage: Stage::Unknown,
            last: Zxid::ZERO,
            gets_state: false,
            synced_to: Zxid::ZERO,
            early_ack: Zxid::ZERO,
            acked: Zxid::ZERO,
            silence: Wait::new(now_ms),
            awaited: None,
            has_begun: false,
            stream: LearnerStream::new(window_bytes),
            pings: VecDeque::new(),
            answered: 0,
        }
    }

    /// Whether it hears of everything new.
    pub(super) fn is_told(&self) -> bool {
        Stage::Syncing <= self.stage
    }

    /// Whether it receives history and replies to nothing: what it is sent shows that it is there.
    pub(super) fn is_given_history(&self) -> bool {
        self.stage == Stage::Syncing || (self.stage == Stage::Active && !self.has_begun)
    }

    /// How long it may be silent.
    pub(super) fn patience_ms(&self, timing: &Timing) -> i64 {
        if Stage::Synced <= self.stage { timing.sync_ms() } else { timing.init_ms() }
    }

    /// The process did not run: what it has sent meanwhile is read before it is judged.
    pub(super) fn on_pause(&mut self, now_ms: i64, timing: &Timing) {
        self.silence.on_pause(now_ms, self.patience_ms(timing), timing);
        self.awaited.iter_mut().for_each(|wait| wait.on_pause(now_ms, timing.sync_ms(), timing));
    }

    /// The first packet of a learner that takes part: everything outstanding counts from now on.
    pub(super) fn has_sent(&mut self, now_ms: i64) {
        self.silence = Wait::new(now_ms);
        if self.stream.is_up_to_date() && !std::mem::replace(&mut self.has_begun, true) {
            self.awaited = self.awaited.map(|_| Wait::new(now_ms));
        }
    }

    /// It has acknowledged everything up to `zxid`: the rest may take as long again.
    pub(super) fn has_acked(&mut self, zxid: Zxid, now_ms: i64) {
        if self.acked < zxid {
            self.acked = zxid;
            self.awaited = (zxid < self.stream.proposed()).then_some(Wait::new(now_ms));
        }
    }

    /// Proposals may have been handed over.
    pub(super) fn has_pumped(&mut self, now_ms: i64) {
        if self.awaited.is_none() && self.acked < self.stream.proposed() {
            self.awaited = Some(Wait::new(now_ms));
        }
    }

    pub(super) fn is_follower(&self) -> bool {
        self.kind == LearnerKind::Follower
    }
}
