//! One node of the model.

use ox_proto::{Acl, SessionId, Stat, Zxid};
use std::collections::BTreeSet;
use std::sync::Arc;

/// What keeps a node alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    None,
    Session(SessionId),
    Container,
    Ttl(i64),
}

#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) data: Option<Vec<u8>>,
    pub(crate) acl: Arc<[Acl]>,
    pub(crate) czxid: Zxid,
    pub(crate) mzxid: Zxid,
    pub(crate) pzxid: Zxid,
    pub(crate) ctime: i64,
    pub(crate) mtime: i64,
    pub(crate) version: i32,
    pub(crate) created: i32,
    pub(crate) aversion: i32,
    pub(crate) owner: Owner,
    pub(crate) children: BTreeSet<String>,
}

impl Node {
    pub(crate) fn new(data: Option<Vec<u8>>, acl: Arc<[Acl]>, zxid: Zxid, time_ms: i64, owner: Owner) -> Self {
        Self {
            data,
            acl,
            czxid: zxid,
            mzxid: zxid,
            pzxid: zxid,
            ctime: time_ms,
            mtime: time_ms,
            version: 0,
            created: 0,
            aversion: 0,
            owner,
            children: BTreeSet::new(),
        }
    }

    pub(crate) fn stat(&self) -> Stat {
        let number = |count: usize| i32::try_from(count).unwrap_or(i32::MAX);
        let num_children = number(self.children.len());
        Stat {
            czxid: self.czxid,
            mzxid: self.mzxid,
            ctime: self.ctime,
            mtime: self.mtime,
            version: self.version,
            cversion: self.created.wrapping_mul(2).wrapping_sub(num_children),
            aversion: self.aversion,
            ephemeral_owner: if let Owner::Session(session) = self.owner { session.0 } else { 0 },
            data_length: number(self.data.as_ref().map_or(0, Vec::len)),
            num_children,
            pzxid: self.pzxid,
        }
    }
}

/// The map key of a path: the root has two names.
pub(crate) fn key(path: &str) -> &str {
    if path.is_empty() { "/" } else { path }
}
