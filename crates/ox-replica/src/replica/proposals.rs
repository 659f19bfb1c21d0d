//! Writes between being prepared and being applied, and what waits behind them.

use crate::limits::ITEM_BYTES;
use crate::log_batch::LogBatch;
use crate::sessions::Touch;
use crate::submission::{Load, Submission};
use ox_proto::{ErrorCode, Zxid};
use ox_tree::ConnId;
use ox_tree::auth::Identities;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

/// Who gets the answer.
#[derive(Debug)]
pub(super) enum Origin {
    /// A connection's request.
    Request(ConnId),
    /// A handshake.
    Connect { conn: ConnId, timeout_ms: i32, read_only: Option<bool>, touch: Touch },
    /// Nobody: expiry, removal of containers.
    Server,
}

impl Origin {
    pub(super) fn conn(&self) -> Option<ConnId> {
        match self {
            Self::Request(conn) | Self::Connect { conn, .. } => Some(*conn),
            Self::Server => None,
        }
    }
}

/// A request that is answered in its turn, with what its connection had proven when it came.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) conn: ConnId,
    pub(super) ids: Arc<Identities>,
    pub(super) what: What,
}

#[derive(Debug)]
pub(super) enum What {
    /// An item of a submission.
    Item(Arc<Submission>, usize),
    /// A refusal that took no zxid.
    Refused(i32, ErrorCode),
}

#[derive(Debug)]
pub(super) struct Proposal {
    pub(super) zxid: Zxid,
    /// Where the record stands in its log batch.
    pub(super) span: Range<usize>,
    log: u64,
    pub(super) origin: Origin,
    /// What the same connection sent after it.
    pub(super) waiting: Vec<Waiting>,
    /// What is let go of when it is applied.
    load: Load,
}

impl Proposal {
    pub(super) fn new(zxid: Zxid, span: Range<usize>, origin: Origin) -> Self {
        Self { zxid, span, log: 0, origin, waiting: Vec::new(), load: Load::default() }
    }
}

/// All proposals in order, with the log batches that hold their records.
#[derive(Debug, Default)]
pub(super) struct Proposals {
    queue: VecDeque<Proposal>,
    /// Number of the first proposal in the queue.
    first: u64,
    /// The batch in the making.
    making: LogBatch,
    /// Batches handed over, as long as one of their records is not applied.
    handed: VecDeque<Arc<LogBatch>>,
    /// Number of the first batch handed over.
    first_log: u64,
    /// A batch that is done with, for its memory.
    spare: LogBatch,
    /// What all of them hold.
    load: Load,
}

impl Proposals {
    pub(super) fn log_mut(&mut self) -> &mut LogBatch {
        &mut self.making
    }

    pub(super) fn log_bytes(&self) -> usize {
        self.making.bytes.len()
    }

    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }

    pub(super) fn first_zxid(&self) -> Option<Zxid> {
        self.queue.front().map(|proposal| proposal.zxid)
    }

    /// Appends a proposal whose record is in the batch in the making. Returns its number.
    pub(super) fn push(&mut self, mut proposal: Proposal) -> u64 {
        proposal.log = self.first_log + self.handed.len() as u64;
        let load = Load { requests: 1, bytes: proposal.span.len() + ITEM_BYTES };
        proposal.load = load;
        self.load += load;
        self.queue.push_back(proposal);
        self.first + self.queue.len() as u64 - 1
    }

    /// Counts requests that wait behind proposals made so far. They are gone when the last one is.
    pub(super) fn hold(&mut self, load: Load) {
        if let Some(last) = self.queue.back_mut() {
            last.load += load;
            self.load += load;
        }
    }

    /// What is on its way.
    pub(super) fn load(&self) -> Load {
        self.load
    }

    /// Whether a proposal is still on its way.
    pub(super) fn has(&self, number: u64) -> bool {
        self.first <= number && number - self.first < self.queue.len() as u64
    }

    /// A proposal that is still on its way.
    pub(super) fn get_mut(&mut self, number: u64) -> Option<&mut Proposal> {
        let at = usize::try_from(number.checked_sub(self.first)?).ok()?;
        self.queue.get_mut(at)
    }

    pub(super) fn take_log(&mut self) -> Option<Arc<LogBatch>> {
        if self.making.records == 0 {
            return None;
        }
        let next = std::mem::take(&mut self.spare);
        let batch = Arc::new(std::mem::replace(&mut self.making, next));
        self.handed.push_back(Arc::clone(&batch));
        Some(batch)
    }

    /// Takes the first proposal and the batch its record is in.
    pub(super) fn pop(&mut self) -> Option<(Proposal, Arc<LogBatch>)> {
        let proposal = self.queue.pop_front()?;
        self.load -= proposal.load;
        self.first += 1;
        while self.first_log < proposal.log {
            if let Some(mut done) = self.handed.pop_front().and_then(Arc::into_inner) {
                done.clear();
                self.spare = done;
            }
            self.first_log += 1;
        }
        let batch = self.handed.front().expect("only durable records are applied");
        Some((proposal, Arc::clone(batch)))
    }
}
