//! The view that a write is prepared against: the state, its pending changes, and the requester.

use crate::State;
use crate::acl_table::AclList;
use crate::auth::Identities;
use crate::index::PathHash;
use crate::node::{NodeId, node_digest, prefix_crc};
use crate::path;
use crate::pending::{PendingChanges, PendingNode, SessionChange};
use crate::quota::QuotaExceeded;
use ox_proto::stat::StatPersisted;
use ox_proto::{ErrorCode, RawAcls, SessionId, Zxid};
use std::sync::Arc;

/// A node that the write creates.
pub(crate) struct NewPendingNode<'a> {
    /// In the tree's form.
    pub(crate) path: &'a str,
    pub(crate) hash: PathHash,
    pub(crate) data: Option<&'a [u8]>,
    pub(crate) acl: RawAcls<'a>,
}

/// The state with its pending changes, for preparing one write.
pub struct PendingView<'a> {
    pub(crate) state: &'a State,
    pending: &'a mut PendingChanges,
    pub(crate) ids: &'a Identities,
    /// The zxid of the transaction that is prepared.
    pub(crate) zxid: Zxid,
    pub(crate) time_ms: i64,
    pub(crate) session: SessionId,
    session_ok: Result<(), ErrorCode>,
    ephemerals_ok: Result<(), ErrorCode>,
    quota_exceeded: Option<QuotaExceeded>,
}

/// The header fields of the transaction that is prepared.
#[derive(Clone, Copy, Debug)]
pub struct WriteStamp {
    pub zxid: Zxid,
    /// The leader's wall clock.
    pub time_ms: i64,
    pub session: SessionId,
}

impl<'a> PendingView<'a> {
    pub fn new(state: &'a State, pending: &'a mut PendingChanges, ids: &'a Identities, stamp: WriteStamp) -> Self {
        if pending.changes.is_empty() {
            pending.digest = state.tree.digest();
        }
        let alive = stamp.session == SessionId::NONE || !pending.is_closing(stamp.session);
        let session_ok = if alive { Ok(()) } else { Err(ErrorCode::SessionExpired) };
        let WriteStamp { zxid, time_ms, session } = stamp;
        Self { state, pending, ids, zxid, time_ms, session, session_ok, ephemerals_ok: Ok(()), quota_exceeded: None }
    }

    /// Makes the session check fail with `code`, at its place in the order of checks. The caller uses this for sessions
    /// that have moved.
    pub fn fail_session(&mut self, code: ErrorCode) {
        self.session_ok = Err(code);
    }

    /// Makes every create of an ephemeral node fail with `code`, before all other checks. The caller uses this for
    /// sessions that must not own nodes.
    pub fn fail_ephemerals(&mut self, code: ErrorCode) {
        self.ephemerals_ok = Err(code);
    }

    pub(crate) fn note_quota_exceeded(&mut self, over: QuotaExceeded) {
        self.quota_exceeded = Some(over);
    }

    /// The limit that the write exceeded, if any: the one that refused it, otherwise the last one.
    pub fn take_quota_exceeded(&mut self) -> Option<QuotaExceeded> {
        self.quota_exceeded.take()
    }

    /// Refuses a write if a closeSession for its session is in flight.
    pub(crate) fn check_session(&self) -> Result<(), ErrorCode> {
        self.session_ok
    }

    /// Refuses an ephemeral node if the session must not own any.
    pub(crate) fn check_ephemerals(&self) -> Result<(), ErrorCode> {
        self.ephemerals_ok
    }

    /// Refuses an ephemeral node of a session that is not part of the replicated state, because no closeSession would
    /// delete it.
    pub(crate) fn check_global_session(&self) -> Result<(), ErrorCode> {
        let is_known = match self.pending.session_change(self.session) {
            Some(change) => change == SessionChange::Opens,
            None => self.state.has_session(self.session),
        };
        if is_known { Ok(()) } else { Err(ErrorCode::SessionExpired) }
    }

    /// Refuses a write for which the node's ACL does not grant `perm`.
    pub(crate) fn check_acl(&self, node: &PendingNode, perm: i32) -> Result<(), ErrorCode> {
        let allowed = self.state.options.skip_acl || self.ids.may(&self.state.options.schemes, &node.acl, perm);
        if allowed { Ok(()) } else { Err(ErrorCode::NoAuth) }
    }

    /// The tree's digest after all transactions prepared so far.
    pub fn digest(&self) -> i64 {
        self.pending.digest.cast_signed()
    }

    /// Finds a node by its path in the tree's form.
    pub(crate) fn node(&self, node_path: &str) -> Option<PendingNode> {
        self.node_at(self.state.tree.hash(node_path), node_path)
    }

    fn node_at(&self, hash: PathHash, node_path: &str) -> Option<PendingNode> {
        if let Some(changed) = self.pending.changes.find(hash) {
            return changed.cloned();
        }
        let id = self.state.tree.find_hashed(hash, node_path)?;
        let node = self.state.tree.get(id);
        Some(PendingNode {
            hash,
            id,
            stat: node.persisted(),
            sequence: node.cversion,
            children: i64::from(node.children),
            data_length: node.data_length(),
            acl: Arc::clone(self.state.acls.get(node.acl)),
            in_digest: node.in_digest(),
            prefix_crc: node.prefix_crc,
            digest: node.digest,
        })
    }

    /// Finds a node, or refuses with NoNode.
    pub(crate) fn existing(&self, node_path: &str) -> Result<PendingNode, ErrorCode> {
        self.node(node_path).ok_or(ErrorCode::NoNode)
    }

    /// The hash of a path without a node; refuses with NodeExists.
    pub(crate) fn vacant(&self, node_path: &str) -> Result<PathHash, ErrorCode> {
        let hash = self.state.tree.hash(node_path);
        let exists = match self.pending.changes.find(hash) {
            Some(changed) => changed.is_some(),
            None => self.state.tree.find_hashed(hash, node_path).is_some(),
        };
        if exists { Err(ErrorCode::NodeExists) } else { Ok(hash) }
    }

    /// Records a new node.
    pub(crate) fn create(&mut self, new: &NewPendingNode<'_>, stat: StatPersisted) {
        let &NewPendingNode { path, hash, data, acl } = new;
        let acl = match self.state.acls.find(acl) {
            Some(list) => Arc::clone(list),
            None => Arc::new(AclList::new(acl.to_stored())),
        };
        if self.state.is_ephemeral(stat.ephemeral_owner) {
            self.pending.ephemerals.push_back((self.zxid, self.session, path.to_owned()));
        }
        let in_digest = path::in_digest(path);
        let node = PendingNode {
            hash,
            id: NodeId::NONE,
            stat,
            sequence: 0,
            children: 0,
            data_length: 0,
            acl,
            in_digest,
            prefix_crc: 0,
            digest: 0,
        };
        self.set_data(path, node, data);
    }

    /// Records new data of a node.
    pub(crate) fn set_data(&mut self, node_path: &str, mut node: PendingNode, data: Option<&[u8]>) {
        node.data_length = data.map_or(0, <[u8]>::len);
        if self.state.options.digest_enabled && node.in_digest {
            node.prefix_crc = prefix_crc(node_path, data);
        }
        self.change(node);
    }

    /// Records changed counters of a node, and updates its digest.
    pub(crate) fn change(&mut self, mut node: PendingNode) {
        if self.state.options.digest_enabled && node.in_digest {
            let new = node_digest(node.prefix_crc, &node.stat);
            let old = std::mem::replace(&mut node.digest, new);
            self.pending.digest = self.pending.digest.wrapping_sub(u64::from(old)).wrapping_add(u64::from(new));
        }
        self.pending.changes.push(self.zxid, node.hash, node.id, Some(node));
    }

    /// Records the deletion of a node.
    pub(crate) fn delete(&mut self, node: &PendingNode) {
        self.pending.digest = self.pending.digest.wrapping_sub(u64::from(node.digest));
        self.pending.changes.push(self.zxid, node.hash, node.id, None);
    }

    /// Records a createSession of the view's session.
    pub(crate) fn open_session(&mut self) {
        self.change_session(SessionChange::Opens);
    }

    /// Records a closeSession of the view's session.
    pub(crate) fn close_session(&mut self) {
        self.change_session(SessionChange::Closes);
    }

    fn change_session(&mut self, change: SessionChange) {
        self.pending.sessions.insert(self.session, (self.zxid, change));
        self.pending.session_changes.push_back((self.zxid, self.session));
    }

    /// The paths of the session's ephemeral nodes, including those in flight, sorted.
    pub(crate) fn ephemerals(&self) -> Vec<String> {
        let owned = |path: &String| self.node(path).is_some_and(|node| node.stat.ephemeral_owner == self.session.0);
        let in_flight = self.pending.ephemerals.iter().filter(|(_, session, _)| *session == self.session);
        let mut paths: Vec<String> = self.state.ephemerals_of(self.session).collect();
        paths.extend(in_flight.map(|(_, _, path)| path.clone()));
        paths.retain(owned);
        paths.sort_unstable();
        paths.dedup();
        paths
    }

    /// A mark for [`Self::roll_back`].
    pub(crate) fn mark(&self) -> u64 {
        self.pending.digest
    }

    /// Removes all changes of this transaction.
    pub(crate) fn roll_back(&mut self, mark: u64) {
        let zxid = self.zxid;
        self.pending.changes.roll_back(zxid);
        while self.pending.ephemerals.pop_back_if(|(changed, ..)| *changed == zxid).is_some() {}
        self.pending.digest = mark;
    }
}
