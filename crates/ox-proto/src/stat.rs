//! A node's metadata, in replies and on disk.

use crate::Zxid;
use crate::jute::{DecodeError, Jute, Reader, jute};

/// The metadata that replies carry: always 68 bytes, in field order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stat {
    /// Transaction that created the node.
    pub czxid: Zxid,
    /// Transaction that last changed the data.
    pub mzxid: Zxid,
    /// Creation time, milliseconds since 1970.
    pub ctime: i64,
    /// Time of the last data change, milliseconds since 1970.
    pub mtime: i64,
    /// Number of data changes.
    pub version: i32,
    /// Number of child changes: twice the creations minus the current children.
    pub cversion: i32,
    /// Number of ACL changes.
    pub aversion: i32,
    /// Session that owns an ephemeral node, else 0.
    pub ephemeral_owner: i64,
    /// Bytes of data; 0 for null.
    pub data_length: i32,
    /// Number of current children.
    pub num_children: i32,
    /// Transaction that last changed the set of children.
    pub pzxid: Zxid,
}

impl<'a> Jute<'a> for Stat {
    fn get(from: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            czxid: from.get()?,
            mzxid: from.get()?,
            ctime: from.get()?,
            mtime: from.get()?,
            version: from.get()?,
            cversion: from.get()?,
            aversion: from.get()?,
            ephemeral_owner: from.get()?,
            data_length: from.get()?,
            num_children: from.get()?,
            pzxid: from.get()?,
        })
    }

    // Nearly every reply carries a Stat: append it in one piece rather than field by field.
    fn put(&self, out: &mut Vec<u8>) {
        let mut bytes = [0; 68];
        bytes[0..8].copy_from_slice(&self.czxid.0.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.mzxid.0.to_be_bytes());
        bytes[16..24].copy_from_slice(&self.ctime.to_be_bytes());
        bytes[24..32].copy_from_slice(&self.mtime.to_be_bytes());
        bytes[32..36].copy_from_slice(&self.version.to_be_bytes());
        bytes[36..40].copy_from_slice(&self.cversion.to_be_bytes());
        bytes[40..44].copy_from_slice(&self.aversion.to_be_bytes());
        bytes[44..52].copy_from_slice(&self.ephemeral_owner.to_be_bytes());
        bytes[52..56].copy_from_slice(&self.data_length.to_be_bytes());
        bytes[56..60].copy_from_slice(&self.num_children.to_be_bytes());
        bytes[60..68].copy_from_slice(&self.pzxid.0.to_be_bytes());
        out.extend_from_slice(&bytes);
    }
}

jute! {
    /// The metadata stored with a node: 60 bytes. `cversion` counts creations only; `ephemeral_owner` also encodes
    /// containers and TTL nodes.
    #[derive(Copy, Default)]
    StatPersisted {
        /// Transaction that created the node.
        czxid: Zxid,
        /// Transaction that last changed the data.
        mzxid: Zxid,
        /// Creation time, milliseconds since 1970.
        ctime: i64,
        /// Time of the last data change, milliseconds since 1970.
        mtime: i64,
        /// Number of data changes.
        version: i32,
        /// Number of children ever created.
        cversion: i32,
        /// Number of ACL changes.
        aversion: i32,
        /// Owner session, or the encoded node type.
        ephemeral_owner: i64,
        /// Transaction that last changed the set of children.
        pzxid: Zxid,
    }
}

impl StatPersisted {
    /// The 60 bytes that the node digest covers; their order is not that of the record.
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

    #[test]
    fn sizes_are_fixed() {
        let mut out = Vec::new();
        Stat::default().put(&mut out);
        assert_eq!(out.len(), 68);
        out.clear();
        StatPersisted::default().put(&mut out);
        assert_eq!(out.len(), 60);
    }

    #[test]
    fn stats_round_trip() {
        let stat = Stat {
            czxid: Zxid(1),
            mzxid: Zxid(2),
            ctime: 3,
            mtime: 4,
            version: 5,
            cversion: 6,
            aversion: 7,
            ephemeral_owner: 8,
            data_length: 9,
            num_children: 10,
            pzxid: Zxid(11),
        };
        let mut out = Vec::new();
        stat.put(&mut out);
        assert_eq!(Reader::new(&out).get::<Stat>(), Ok(stat));
        assert_eq!(
            out.iter().filter(|byte| **byte != 0).copied().collect::<Vec<_>>(),
            [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]
        );
    }
}
