//! Transactions that are proposed and not applied, with the log batches that contain their records.

use crate::limits::ENTRY_BYTES;
use crate::log_batch::{LogBatch, OpenBatch};
use crate::submission::Load;
use ox_proto::Zxid;
use ox_proto::txn::{DIGEST_VERSION, TxnDigest, TxnHeader};
use ox_tree::WriteStamp;
use ox_zab::{EncodedTxn, LinkId};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

/// The origin of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Proposer {
    /// A client of this server.
    Client,
    /// This server: session expiry, deletion of containers.
    Server,
    /// A client of a learner.
    Learner(LinkId),
    /// The leader proposed it; the client is found when it is applied.
    Leader,
}

#[derive(Debug)]
pub(super) struct Proposal {
    pub(super) zxid: Zxid,
    /// Range of the record in its log batch.
    pub(super) span: Range<usize>,
    log: u64,
    pub(super) proposer: Proposer,
}

impl Proposal {
    pub(super) fn new(zxid: Zxid, span: Range<usize>, proposer: Proposer) -> Self {
        Self { zxid, span, log: 0, proposer }
    }

    /// Released when the transaction is applied.
    fn load(&self) -> Load {
        Load { requests: usize::from(self.proposer != Proposer::Client), bytes: self.span.len() + ENTRY_BYTES }
    }
}

/// All proposals in order, with the log batches that contain their records.
#[derive(Debug, Default)]
pub(super) struct Proposals {
    queue: VecDeque<Proposal>,
    /// The batch that is being built.
    open: OpenBatch,
    /// Batches that were handed over and contain a record that is not applied.
    handed: VecDeque<Arc<LogBatch>>,
    /// Number of the first of these batches.
    first_log: u64,
    /// A finished batch, for its memory.
    spare: OpenBatch,
    /// Sum over all proposals.
    load: Load,
}

impl Proposals {
    pub(super) fn log_mut(&mut self) -> &mut OpenBatch {
        &mut self.open
    }

    pub(super) fn log_bytes(&self) -> usize {
        self.open.bytes.len()
    }

    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }

    pub(super) fn first_zxid(&self) -> Option<Zxid> {
        self.queue.front().map(|proposal| proposal.zxid)
    }

    /// Appends a proposal whose record is in the open batch.
    pub(super) fn push(&mut self, mut proposal: Proposal) {
        proposal.log = self.open_log();
        self.load += proposal.load();
        self.queue.push_back(proposal);
    }

    pub(super) fn load(&self) -> Load {
        self.load
    }

    /// Number of the open batch.
    fn open_log(&self) -> u64 {
        self.first_log + self.handed.len() as u64
    }

    /// The transactions of the last batch that was handed over.
    pub(super) fn last_handed(&self) -> Vec<EncodedTxn> {
        let Some(batch) = self.handed.back() else { return Vec::new() };
        let log = self.open_log() - 1;
        let first = self.queue.partition_point(|proposal| proposal.log < log);
        let encoded =
            |proposal: &Proposal| EncodedTxn { zxid: proposal.zxid, record: batch.bytes.slice(proposal.span.clone()) };
        self.queue.range(first..).map(encoded).collect()
    }

    /// Drops proposals that were not handed over.
    pub(super) fn drop_open_batch(&mut self) {
        let log = self.open_log();
        self.open = OpenBatch::default();
        while let Some(proposal) = self.queue.pop_back_if(|proposal| proposal.log == log) {
            self.load -= proposal.load();
        }
    }

    /// Drops all proposals. The open batch must be empty.
    pub(super) fn clear(&mut self) {
        while let Some(proposal) = self.queue.pop_back() {
            self.load -= proposal.load();
        }
    }

    pub(super) fn take_log(&mut self) -> Option<Arc<LogBatch>> {
        if self.open.is_empty() {
            return None;
        }
        let next = std::mem::take(&mut self.spare);
        let batch = Arc::new(std::mem::replace(&mut self.open, next).finish()?);
        self.handed.push_back(Arc::clone(&batch));
        Some(batch)
    }

    /// Removes the first proposal; returns it with its batch.
    pub(super) fn pop(&mut self) -> Option<(Proposal, Arc<LogBatch>)> {
        let proposal = self.queue.pop_front()?;
        self.load -= proposal.load();
        while self.first_log < proposal.log {
            if let Some(spare) = self.handed.pop_front().and_then(Arc::into_inner).and_then(OpenBatch::reuse) {
                self.spare = spare;
            }
            self.first_log += 1;
        }
        let batch = self.handed.front().expect("only durable records are applied");
        Some((proposal, Arc::clone(batch)))
    }
}

/// The header of a record that is being prepared; its kind is known afterwards.
pub(super) fn header(stamp: WriteStamp, cxid: i32) -> TxnHeader {
    TxnHeader { session: stamp.session, cxid, zxid: stamp.zxid, time_ms: stamp.time_ms, kind: 0 }
}

pub(super) fn digest(tree_digest: i64) -> TxnDigest {
    TxnDigest { version: DIGEST_VERSION, tree_digest }
}
