//! Applying transactions: the only code that changes the state. What an operation does is in its file of `ops/`.
//!
//! Applying never fails. A record repeats a write that succeeded when it was logged, perhaps over a tree that already
//! contains later changes (a fuzzy snapshot); the rules in this module make the result the same as without them. A
//! change that does not fit the tree is skipped or overrides the tree, and is reported as a conflict.

use crate::index::PathHash;
use crate::node::NodeId;
use crate::path;
use crate::pending::NodeHints;
use crate::watch::{EventSink, FiredEvent, WatchKind, WatcherId};
use crate::{AclList, State};
use ox_proto::event::EventType;
use ox_proto::txn::{Record, Txn, TxnHeader};
use ox_proto::{Stat, Zxid};
use std::convert::Infallible;
use std::sync::Arc;

/// The result of a transaction, as far as the reply needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Applied {
    /// The reply has no body, or the transaction changed nothing.
    Nothing,
    /// The node's Stat after the change.
    Stat(Stat),
    /// The results of the elements of a multi.
    Multi(Vec<Applied>),
}

/// The result of a transaction, and how well it matched the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApplyOutcome {
    pub applied: Applied,
    /// The tree was not in the state that the transaction was prepared for. Expected over a fuzzy snapshot only.
    pub conflict: bool,
    /// The transaction carries a digest that differs from the tree's.
    pub digest_differs: bool,
}

/// The application of one transaction.
pub(crate) struct Applier<'s, E> {
    pub(crate) state: &'s mut State,
    hints: &'s mut NodeHints,
    /// Watches fire only if there is a sink.
    pub(crate) events: Option<&'s mut E>,
    pub(crate) zxid: Zxid,
    pub(crate) time_ms: i64,
    pub(crate) conflict: bool,
}

impl State {
    /// Applies a committed transaction and passes the events of its watches to `events`.
    pub fn apply(&mut self, record: &Record<'_>, hints: &mut NodeHints, events: &mut impl EventSink) -> ApplyOutcome {
        self.apply_to(record, hints, Some(events))
    }

    /// Applies a transaction from the log, without watches.
    pub fn replay(&mut self, record: &Record<'_>) -> ApplyOutcome {
        self.apply_to(record, &mut NodeHints::default(), None::<&mut Infallible>)
    }

    fn apply_to(
        &mut self,
        record: &Record<'_>,
        hints: &mut NodeHints,
        events: Option<&mut impl EventSink>,
    ) -> ApplyOutcome {
        let header = &record.header;
        let (zxid, time_ms) = (header.zxid, header.time_ms);
        let mut applier = Applier { state: self, hints, events, zxid, time_ms, conflict: false };
        let applied = applier.txn(header, &record.txn);
        let conflict = applier.conflict;
        self.last_zxid = self.last_zxid.max(zxid);
        self.note_digest();
        let comparable = |digest: &ox_proto::txn::TxnDigest| digest.version == ox_proto::txn::DIGEST_VERSION;
        let digest_differs = self.tree.digest_enabled()
            && record.digest.filter(comparable).is_some_and(|digest| digest.tree_digest != self.digest());
        ApplyOutcome { applied, conflict, digest_differs }
    }

    /// Removes the ephemeral nodes of sessions that do not exist, as a standalone server does at start. Returns the
    /// number of removed nodes.
    pub fn remove_dead_sessions_nodes(&mut self) -> usize {
        let dead: Vec<_> = self.dead_owners().collect();
        let zxid = self.last_zxid;
        let mut removed = 0;
        for session in dead {
            let paths: Vec<String> = self.ephemerals_of(session).collect();
            removed += paths.len();
            let hints = &mut NodeHints::default();
            let events = None::<&mut Infallible>;
            let mut applier = Applier { state: self, hints, events, zxid, time_ms: 0, conflict: false };
            paths.iter().for_each(|path| applier.delete(path));
        }
        removed
    }
}

impl<E: EventSink> Applier<'_, E> {
    /// Finds the next node to change, first at the position where prepare found it.
    pub(crate) fn find(&mut self, hash: PathHash, node_path: &str) -> Option<NodeId> {
        let hint = self.hints.next(hash).filter(|id| self.state.tree.is_node_at(*id, node_path));
        hint.or_else(|| self.state.tree.find_hashed(hash, node_path))
    }

    pub(crate) fn find_path(&mut self, node_path: &str) -> Option<NodeId> {
        self.find(self.state.tree.hash(node_path), node_path)
    }

    pub(crate) fn txn(&mut self, header: &TxnHeader, txn: &Txn<'_>) -> Applied {
        match txn {
            Txn::CreateSession { timeout_ms } => self.create_session(header.session, *timeout_ms),
            Txn::CloseSession { paths } => self.close_session(header.session, paths.as_deref()),
            Txn::Error { .. } | Txn::Check { .. } => return Applied::Nothing,
            Txn::Create(create) => return self.create(header.session, create),
            Txn::Delete { path } | Txn::DeleteContainer { path } => self.delete(path::internal(path)),
            Txn::SetData { path, data, version } | Txn::Reconfig { path, data, version } => {
                return self.set_data(path::internal(path), *data, *version);
            }
            Txn::SetAcl { path, acl, version } => return self.set_acl(path::internal(path), *acl, *version),
            Txn::Multi(elements) => return self.multi(header, elements),
        }
        Applied::Nothing
    }

    pub(crate) fn fire(&mut self, watch_kind: WatchKind, kind: EventType, id: NodeId, client_path: &str) {
        if self.events.is_some() && !self.state.watches_mut().is_empty() {
            let mut found = Vec::new(); // allocates only if there is a watcher
            self.state.watches_mut().collect(watch_kind, client_path, &mut found);
            if !found.is_empty() {
                let readers = self.state.readers(self.state.tree.get(id).acl);
                self.send(&found, kind, client_path, readers);
            }
        }
    }

    pub(crate) fn send(&mut self, to: &[WatcherId], kind: EventType, path: &str, readers: Option<Arc<AclList>>) {
        if let (Some(events), false) = (&mut self.events, to.is_empty()) {
            self.state.fired.record(kind, to.len());
            events.event(to, &FiredEvent { zxid: self.zxid, kind, path, readers });
        }
    }
}
