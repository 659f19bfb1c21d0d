//! One node of the model.

use ox_proto::stat::StatPersisted;
use ox_proto::{Acl, SessionId, Stat, Zxid};
use std::collections::BTreeSet;
use std::sync::Arc;

/// What keeps a node alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    None,
    Session(SessionId),
    Container,
    Ttl(i64),
}

#[derive(Clone, Debug)]
pub struct Node {
    pub data: Option<Vec<u8>>,
    /// `None` is the null list of the built-in nodes, which permits everything.
    pub acl: Option<Arc<[Acl]>>,
    pub czxid: Zxid,
    pub mzxid: Zxid,
    pub pzxid: Zxid,
    pub ctime: i64,
    pub mtime: i64,
    pub version: i32,
    /// The number of children ever created: cversion in files.
    pub created: i32,
    pub aversion: i32,
    pub owner: Owner,
    pub(super) children: BTreeSet<String>,
}

impl Node {
    pub(super) fn new(data: Option<Vec<u8>>, acl: Option<Arc<[Acl]>>, zxid: Zxid, time_ms: i64, owner: Owner) -> Self {
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

    pub fn children(&self) -> impl Iterator<Item = &str> {
        self.children.iter().map(String::as_str)
    }

    pub(super) fn data_length(&self) -> i64 {
        length(self.data.as_deref())
    }

    /// Who may read it, for permission checks.
    pub(super) fn readers(&self) -> Arc<[Acl]> {
        self.acl.clone().unwrap_or_default()
    }

    /// The ACL that getACL returns.
    pub(super) fn shown_acl(&self) -> Vec<Acl> {
        self.acl.as_ref().map_or_else(|| vec![Acl::new(31, "world", "anyone")], |acl| acl.to_vec())
    }

    /// The stat in snapshots.
    pub fn persisted(&self) -> StatPersisted {
        let &Self { czxid, mzxid, pzxid, ctime, mtime, version, aversion, .. } = self;
        let ephemeral_owner = match self.owner {
            Owner::None => 0,
            Owner::Session(session) => session.0,
            Owner::Container => i64::MIN,
            Owner::Ttl(ttl_ms) => (0xff << 56) | ttl_ms,
        };
        let cversion = self.created;
        StatPersisted { czxid, mzxid, ctime, mtime, version, cversion, aversion, ephemeral_owner, pzxid }
    }

    pub fn stat(&self) -> Stat {
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
pub(super) fn key(path: &str) -> &str {
    if path.is_empty() { "/" } else { path }
}

pub(super) fn length(data: Option<&[u8]>) -> i64 {
    data.map_or(0, |data| i64::try_from(data.len()).unwrap_or(i64::MAX))
}
