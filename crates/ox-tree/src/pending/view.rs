//! What one write is prepared against: the state, what is on its way, and who asks.

use crate::State;
use crate::acl_table::AclList;
use crate::auth::Identities;
use crate::index::PathHash;
use crate::node::{NodeId, node_digest, prefix_crc};
use crate::path;
use crate::pending::{Pending, Projected, SessionChange};
use crate::quota::OverQuota;
use ox_proto::stat::StatPersisted;
use ox_proto::{ErrorCode, RawAcls, SessionId, Zxid};
use std::sync::Arc;

/// A new node before it is projected.
pub(crate) struct NewProjected<'a> {
    /// Path in the tree's form.
    pub(crate) path: &'a str,
    pub(crate) hash: PathHash,
    pub(crate) data: Option<&'a [u8]>,
    pub(crate) acl: RawAcls<'a>,
}

/// What a write is prepared against: state, overlay, and who asks for it.
pub struct View<'a> {
    pub(crate) state: &'a State,
    pending: &'a mut Pending,
    pub(crate) ids: &'a Identities,
    /// The transaction in the making.
    pub(crate) zxid: Zxid,
    pub(crate) time_ms: i64,
    pub(crate) session: SessionId,
    session_ok: Result<(), ErrorCode>,
    ephemerals_ok: Result<(), ErrorCode>,
    over_quota: Option<OverQuota>,
}

/// The stamp of a transaction in the making.
#[derive(Clone, Copy, Debug)]
pub struct Stamp {
    /// Its place in the order.
    pub zxid: Zxid,
    /// Wall clock.
    pub time_ms: i64,
    /// Who writes.
    pub session: SessionId,
}

impl<'a> View<'a> {
    /// A view for one write.
    pub fn new(state: &'a State, pending: &'a mut Pending, ids: &'a Identities, stamp: Stamp) -> Self {
        if pending.changes.is_empty() {
            pending.digest = state.tree.digest();
        }
        let alive = stamp.session == SessionId::NONE || !pending.is_closing(stamp.session);
        let session_ok = if alive { Ok(()) } else { Err(ErrorCode::SessionExpired) };
        let Stamp { zxid, time_ms, session } = stamp;
        Self { state, pending, ids, zxid, time_ms, session, session_ok, ephemerals_ok: Ok(()), over_quota: None }
    }

    /// Makes every check of the session fail with `code`, at the place in the order of checks where it belongs:
    /// the caller knows of sessions that have moved.
    pub fn fail_session(&mut self, code: ErrorCode) {
        self.session_ok = Err(code);
    }

    /// Makes every ephemeral node fail with `code`, before anything else is looked at: the caller knows that the session
    /// may not have any.
    pub fn fail_ephemerals(&mut self, code: ErrorCode) {
        self.ephemerals_ok = Err(code);
    }

    pub(crate) fn note_over_quota(&mut self, over: OverQuota) {
        self.over_quota = Some(over);
    }

    /// The limit that the write passed, if it did: the one it was refused for, or else the last one.
    pub fn take_over_quota(&mut self) -> Option<OverQuota> {
        self.over_quota.take()
    }

    /// Refuses a write of a session that is being closed.
    pub(crate) fn check_session(&self) -> Result<(), ErrorCode> {
        self.session_ok
    }

    /// Refuses an ephemeral node where the session may not have any.
    pub(crate) fn check_ephemerals(&self) -> Result<(), ErrorCode> {
        self.ephemerals_ok
    }

    /// Refuses an ephemeral node of a session that is not part of the replicated state: nobody would remove it.
    pub(crate) fn check_global_session(&self) -> Result<(), ErrorCode> {
        let is_known = match self.pending.session_change(self.session) {
            Some(change) => change == SessionChange::Begins,
            None => self.state.has_session(self.session),
        };
        if is_known { Ok(()) } else { Err(ErrorCode::SessionExpired) }
    }

    /// Refuses what the list does not grant.
    pub(crate) fn check_acl(&self, node: &Projected, perm: i32) -> Result<(), ErrorCode> {
        let allowed = self.state.options.skip_acl || self.ids.may(&node.acl, perm);
        if allowed { Ok(()) } else { Err(ErrorCode::NoAuth) }
    }

    /// The tree's digest after everything prepared so far.
    pub fn digest(&self) -> i64 {
        self.pending.digest.cast_signed()
    }

    /// Finds a node by its path in the tree's form.
    pub(crate) fn node(&self, node_path: &str) -> Option<Projected> {
        self.node_at(self.state.tree.hash(node_path), node_path)
    }

    fn node_at(&self, hash: PathHash, node_path: &str) -> Option<Projected> {
        if let Some(changed) = self.pending.changes.find(hash) {
            return changed.cloned();
        }
        let id = self.state.tree.find_hashed(hash, node_path)?;
        let node = self.state.tree.get(id);
        Some(Projected {
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

    /// A node that must exist.
    pub(crate) fn existing(&self, node_path: &str) -> Result<Projected, ErrorCode> {
        self.node(node_path).ok_or(ErrorCode::NoNode)
    }

    /// The place of a node that must not exist.
    pub(crate) fn vacant(&self, node_path: &str) -> Result<PathHash, ErrorCode> {
        let hash = self.state.tree.hash(node_path);
        let exists = match self.pending.changes.find(hash) {
            Some(changed) => changed.is_some(),
            None => self.state.tree.find_hashed(hash, node_path).is_some(),
        };
        if exists { Err(ErrorCode::NodeExists) } else { Ok(hash) }
    }

    /// Projects a new node.
    pub(crate) fn create(&mut self, new: &NewProjected<'_>, stat: StatPersisted) {
        let &NewProjected { path, hash, data, acl } = new;
        let acl = match self.state.acls.find(acl) {
            Some(list) => Arc::clone(list),
            None => Arc::new(AclList::new(acl.to_stored())),
        };
        if self.state.is_ephemeral(stat.ephemeral_owner) {
            self.pending.ephemerals.push_back((self.zxid, self.session, path.to_owned()));
        }
        let in_digest = path::in_digest(path);
        let node = Projected {
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

    /// Projects new data of a node.
    pub(crate) fn set_data(&mut self, node_path: &str, mut node: Projected, data: Option<&[u8]>) {
        node.data_length = data.map_or(0, <[u8]>::len);
        if self.state.options.digest_enabled && node.in_digest {
            node.prefix_crc = prefix_crc(node_path, data);
        }
        self.change(node);
    }

    /// Projects changed counters of a node; its digest follows.
    pub(crate) fn change(&mut self, mut node: Projected) {
        if self.state.options.digest_enabled && node.in_digest {
            let new = node_digest(node.prefix_crc, &node.stat);
            let old = std::mem::replace(&mut node.digest, new);
            self.pending.digest = self.pending.digest.wrapping_sub(u64::from(old)).wrapping_add(u64::from(new));
        }
        self.pending.changes.push(self.zxid, node.hash, node.id, Some(node));
    }

    /// Projects that a node is gone.
    pub(crate) fn delete(&mut self, node: &Projected) {
        self.pending.digest = self.pending.digest.wrapping_sub(u64::from(node.digest));
        self.pending.changes.push(self.zxid, node.hash, node.id, None);
    }

    /// Projects that the session is there.
    pub(crate) fn open_session(&mut self) {
        self.change_session(SessionChange::Begins);
    }

    /// Projects that the session is closed.
    pub(crate) fn close_session(&mut self) {
        self.change_session(SessionChange::Ends);
    }

    fn change_session(&mut self, change: SessionChange) {
        self.pending.sessions.insert(self.session, (self.zxid, change));
        self.pending.session_changes.push_back((self.zxid, self.session));
    }

    /// The session's ephemeral nodes, those on their way included, sorted.
    pub(crate) fn ephemerals(&self) -> Vec<String> {
        let owned = |path: &String| self.node(path).is_some_and(|node| node.stat.ephemeral_owner == self.session.0);
        let on_their_way = self.pending.ephemerals.iter().filter(|(_, session, _)| *session == self.session);
        let mut paths: Vec<String> = self.state.ephemerals_of(self.session).collect();
        paths.extend(on_their_way.map(|(_, _, path)| path.clone()));
        paths.retain(owned);
        paths.sort_unstable();
        paths.dedup();
        paths
    }

    /// A point to come back to when the transaction fails after all.
    pub(crate) fn mark(&self) -> u64 {
        self.pending.digest
    }

    /// Takes back everything this transaction projected.
    pub(crate) fn roll_back(&mut self, mark: u64) {
        let zxid = self.zxid;
        self.pending.changes.take_back(zxid);
        while self.pending.ephemerals.pop_back_if(|(changed, ..)| *changed == zxid).is_some() {}
        self.pending.digest = mark;
    }
}
