//! Transactions between being logged and being applied.

use crate::limits::ITEM_BYTES;
use crate::log_batch::{LogBatch, Making};
use crate::submission::Load;
use ox_proto::Zxid;
use ox_zab::{EncodedTxn, LinkId};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

/// Who asked for a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Maker {
    /// A client of this server.
    Own,
    /// This server: expiry, removal of containers.
    Server,
    /// A client of a learner.
    Learner(LinkId),
    /// The leader sent it; whose it is turns out when it is applied.
    Leader,
}

#[derive(Debug)]
pub(super) struct Proposal {
    pub(super) zxid: Zxid,
    /// Where the record stands in its log batch.
    pub(super) span: Range<usize>,
    log: u64,
    pub(super) maker: Maker,
    /// What is let go of when it is applied.
    load: Load,
}

impl Proposal {
    pub(super) fn new(zxid: Zxid, span: Range<usize>, maker: Maker) -> Self {
        let requests = usize::from(maker != Maker::Own);
        let load = Load { requests, bytes: span.len() + ITEM_BYTES };
        Self { zxid, span, log: 0, maker, load }
    }
}

/// All proposals in order, with the log batches that hold their records.
#[derive(Debug, Default)]
pub(super) struct Proposals {
    queue: VecDeque<Proposal>,
    /// The batch in the making.
    making: Making,
    /// Batches handed over, as long as one of their records is not applied.
    handed: VecDeque<Arc<LogBatch>>,
    /// Number of the first batch handed over.
    first_log: u64,
    /// A batch that is done with, for its memory.
    spare: Making,
    /// What all of them hold.
    load: Load,
}

impl Proposals {
    pub(super) fn log_mut(&mut self) -> &mut Making {
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

    /// Appends a proposal whose record is in the batch in the making.
    pub(super) fn push(&mut self, mut proposal: Proposal) {
        proposal.log = self.making_log();
        self.load += proposal.load;
        self.queue.push_back(proposal);
    }

    /// What is on its way.
    pub(super) fn load(&self) -> Load {
        self.load
    }

    /// Number of the batch in the making.
    fn making_log(&self) -> u64 {
        self.first_log + self.handed.len() as u64
    }

    /// The transactions of the batch that was handed over last.
    pub(super) fn last_handed(&self) -> impl Iterator<Item = EncodedTxn> {
        let (last, log) = (self.handed.back(), self.making_log() - 1);
        let first = self.queue.partition_point(|proposal| proposal.log < log);
        self.queue.range(first..).filter_map(move |proposal| {
            Some(EncodedTxn { zxid: proposal.zxid, record: last?.bytes.slice(proposal.span.clone()) })
        })
    }

    /// Forgets what has not been handed over.
    pub(super) fn drop_making(&mut self) {
        let log = self.making_log();
        self.making = Making::default();
        while let Some(proposal) = self.queue.pop_back_if(|proposal| proposal.log == log) {
            self.load -= proposal.load;
        }
    }

    /// Forgets all. Nothing is in the making.
    pub(super) fn clear(&mut self) {
        while let Some(proposal) = self.queue.pop_back() {
            self.load -= proposal.load;
        }
    }

    pub(super) fn take_log(&mut self) -> Option<Arc<LogBatch>> {
        if self.making.is_empty() {
            return None;
        }
        let next = std::mem::take(&mut self.spare);
        let batch = Arc::new(std::mem::replace(&mut self.making, next).finish()?);
        self.handed.push_back(Arc::clone(&batch));
        Some(batch)
    }

    /// Takes the first proposal and the batch its record is in.
    pub(super) fn pop(&mut self) -> Option<(Proposal, Arc<LogBatch>)> {
        let proposal = self.queue.pop_front()?;
        self.load -= proposal.load;
        while self.first_log < proposal.log {
            if let Some(spare) = self.handed.pop_front().and_then(Arc::into_inner).and_then(Making::reuse) {
                self.spare = spare;
            }
            self.first_log += 1;
        }
        let batch = self.handed.front().expect("only durable records are applied");
        Some((proposal, Arc::clone(batch)))
    }
}
