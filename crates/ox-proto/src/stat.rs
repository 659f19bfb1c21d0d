//! A node's metadata, as clients see it and as it is stored.

use crate::Zxid;
use crate::jute::jute;

jute! {
    /// What clients get with a node: always 68 bytes.
    #[derive(Copy, Default)]
    Stat {
        /// Transaction that created the node.
        czxid: Zxid,
        /// Transaction that last changed the data.
        mzxid: Zxid,
        /// Creation time, milliseconds since 1970.
        ctime: i64,
        /// Time of the last data change.
        mtime: i64,
        /// Number of data changes.
        version: i32,
        /// Number of child changes: twice the creations minus the children that are there.
        cversion: i32,
        /// Number of ACL changes.
        aversion: i32,
        /// Session that owns an ephemeral node, else 0.
        ephemeral_owner: i64,
        /// Bytes of data, 0 for null.
        data_length: i32,
        /// Children that are there.
        num_children: i32,
        /// Transaction that last changed the list of children.
        pzxid: Zxid,
    }
}

jute! {
    /// What is stored with a node: 60 bytes. `cversion` counts creations only; `ephemeral_owner` also encodes
    /// containers and TTL nodes.
    #[derive(Copy, Default)]
    StatPersisted {
        /// Transaction that created the node.
        czxid: Zxid,
        /// Transaction that last changed the data.
        mzxid: Zxid,
        /// Creation time, milliseconds since 1970.
        ctime: i64,
        /// Time of the last data change.
        mtime: i64,
        /// Number of data changes.
        version: i32,
        /// Number of children ever created.
        cversion: i32,
        /// Number of ACL changes.
        aversion: i32,
        /// Owner session or encoded node kind.
        ephemeral_owner: i64,
        /// Transaction that last changed the list of children.
        pzxid: Zxid,
    }
}

impl StatPersisted {
    /// The 60 bytes that enter the node digest; their order is not the stored one.
    pub fn digest_bytes(&self) -> [u8; 60] {
        let mut bytes = [0; 60];
        bytes[0..8].copy_from_slice(&self.czxid.0.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.mzxid.0.to_be_bytes());
        bytes[16..24].copy_from_slice(&self.pzxid.0.to_be_bytes());
        bytes[24..32].copy_from_slice(&self.ctime.to_be_bytes());
        bytes[32..40].copy_from_slice(&self.mtime.to_be_bytes());
        bytes[40..44].copy_from_slice(&self.version.to_be_bytes());
        bytes[44..48].copy_from_slice(&self.cversion.to_be_bytes());
        bytes[48..52].copy_from_slice(&self.aversion.to_be_bytes());
        bytes[52..60].copy_from_slice(&self.ephemeral_owner.to_be_bytes());
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Jute;

    #[test]
    fn sizes_are_fixed() {
        let mut out = Vec::new();
        Stat::default().put(&mut out);
        assert_eq!(out.len(), 68);
        out.clear();
        StatPersisted::default().put(&mut out);
        assert_eq!(out.len(), 60);
    }
}
