//! A znode in memory, and the meaning of its owner field.

use ox_proto::stat::StatPersisted;
use ox_proto::{SessionId, Stat, Zxid};
use std::sync::Arc;

/// The position of a node in the slab. Zero is the root.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct NodeId(pub(crate) u32);

impl NodeId {
    pub(crate) const ROOT: Self = Self(0);
    /// Marks the end of a list of children.
    pub(crate) const NONE: Self = Self(u32::MAX);
}

/// The index of a list in the ACL table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct AclId(pub(crate) u32);

/// The kind of a node, as encoded in its stored owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Persistent,
    /// Deleted when its session closes.
    Ephemeral(SessionId),
    /// Deleted by the server some time after its last child.
    Container,
    /// Deleted by the server when it has no children and was not changed for this many milliseconds.
    Ttl(i64),
}

/// The stored owner of containers.
pub(crate) const CONTAINER_OWNER: i64 = i64::MIN;
/// The maximum TTL: 40 bits.
pub(crate) const TTL_MS_MAX: i64 = (1 << 40) - 1;
const TTL_MASK: i64 = 0xff << 56;

/// The stored owner of a TTL node.
pub(crate) fn ttl_owner(ttl_ms: i64) -> i64 {
    TTL_MASK | (ttl_ms & TTL_MS_MAX)
}

impl Kind {
    /// Decodes a stored owner.
    pub(crate) fn of(owner: i64, reads_353_ttl: bool) -> Self {
        match owner {
            0 => Self::Persistent,
            CONTAINER_OWNER => Self::Container,
            _ if owner & !TTL_MS_MAX == TTL_MASK => Self::Ttl(owner & TTL_MS_MAX),
            _ if reads_353_ttl && owner < 0 => Self::Ttl(owner & TTL_MS_MAX),
            _ => Self::Ephemeral(SessionId(owner)),
        }
    }
}

/// A znode. There are millions of them, so the struct is small, and the fields that lookups read are adjacent.
#[derive(Clone, Debug)]
#[repr(C)]
pub(crate) struct Node {
    /// The text, followed by the data. The text is the name until the first child is linked, and the whole path from
    /// then on. So a lookup compares at most two texts at any depth.
    payload: Arc<[u8]>,
    /// The length of the text in the low bits, flags in the top three.
    text_length: u32,
    pub(crate) parent: NodeId,
    pub(crate) acl: AclId,
    pub(crate) children: u32,
    pub(crate) czxid: Zxid,
    pub(crate) mzxid: Zxid,
    pub(crate) pzxid: Zxid,
    pub(crate) ctime: i64,
    pub(crate) mtime: i64,
    pub(crate) owner: i64,
    pub(crate) version: i32,
    pub(crate) cversion: i32,
    pub(crate) aversion: i32,
    pub(crate) first_child: NodeId,
    pub(crate) next: NodeId,
    pub(crate) previous: NodeId,
    /// CRC-32 of path and data. The node's digest continues it over the Stat.
    pub(crate) prefix_crc: u32,
    /// The node's digest; 0 for nodes outside the tree's digest.
    pub(crate) digest: u32,
}

const DATA_IS_NULL: u32 = 1 << 31;
const OUTSIDE_DIGEST: u32 = 1 << 30;
const TEXT_IS_PATH: u32 = 1 << 29;
const FLAGS: u32 = DATA_IS_NULL | OUTSIDE_DIGEST | TEXT_IS_PATH;

impl Node {
    pub(crate) fn new(name: &str, data: Option<&[u8]>, acl: AclId, stat: &StatPersisted) -> Self {
        Self {
            payload: payload(name.as_bytes(), data),
            text_length: text_field(name.len(), data),
            parent: NodeId::NONE,
            acl,
            children: 0,
            czxid: stat.czxid,
            mzxid: stat.mzxid,
            pzxid: stat.pzxid,
            ctime: stat.ctime,
            mtime: stat.mtime,
            owner: stat.ephemeral_owner,
            version: stat.version,
            cversion: stat.cversion,
            aversion: stat.aversion,
            first_child: NodeId::NONE,
            next: NodeId::NONE,
            previous: NodeId::NONE,
            prefix_crc: 0,
            digest: 0,
        }
    }

    /// Replaces the data: in place if the length is unchanged and no frozen view shares the node.
    pub(crate) fn set_data(&mut self, data: Option<&[u8]>) {
        let (text_bytes, bytes) = (self.text_bytes(), data.unwrap_or_default());
        match Arc::get_mut(&mut self.payload) {
            Some(own) if own.len() == text_bytes + bytes.len() => own[text_bytes..].copy_from_slice(bytes),
            _ => self.payload = payload(&self.payload[..text_bytes], data),
        }
        self.text_length = text_field(text_bytes, data) | (self.text_length & (OUTSIDE_DIGEST | TEXT_IS_PATH));
    }

    fn text_bytes(&self) -> usize {
        (self.text_length & !FLAGS) as usize
    }

    /// The path if the node stores it, otherwise the name.
    pub(crate) fn text(&self) -> &[u8] {
        &self.payload[..self.text_bytes()]
    }

    pub(crate) fn stores_path(&self) -> bool {
        self.text_length & TEXT_IS_PATH != 0
    }

    /// Replaces the stored name by the whole path.
    pub(crate) fn store_path(&mut self, path: &str) {
        let new = payload(path.as_bytes(), self.data());
        self.text_length = text_field(path.len(), self.data()) | (self.text_length & OUTSIDE_DIGEST) | TEXT_IS_PATH;
        self.payload = new;
    }

    /// The last element of the path. The bytes are valid UTF-8.
    pub(crate) fn name(&self) -> &[u8] {
        let text = self.text();
        let start =
            if self.stores_path() { text.iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1) } else { 0 };
        &text[start..]
    }

    pub(crate) fn name_text(&self) -> &str {
        std::str::from_utf8(self.name()).expect("names are stored from strings")
    }

    pub(crate) fn data(&self) -> Option<&[u8]> {
        (self.text_length & DATA_IS_NULL == 0).then(|| &self.payload[self.text_bytes()..])
    }

    /// Marks a node inside the reserved subtree, which the tree's digest does not cover.
    pub(crate) fn exclude_from_digest(&mut self) {
        self.text_length |= OUTSIDE_DIGEST;
    }

    pub(crate) fn in_digest(&self) -> bool {
        self.text_length & OUTSIDE_DIGEST == 0
    }

    pub(crate) fn data_length(&self) -> usize {
        self.payload.len() - self.text_bytes()
    }

    pub(crate) fn persisted(&self) -> StatPersisted {
        StatPersisted {
            czxid: self.czxid,
            mzxid: self.mzxid,
            ctime: self.ctime,
            mtime: self.mtime,
            version: self.version,
            cversion: self.cversion,
            aversion: self.aversion,
            ephemeral_owner: self.owner,
            pzxid: self.pzxid,
        }
    }

    pub(crate) fn set_persisted(&mut self, stat: &StatPersisted) {
        self.czxid = stat.czxid;
        self.mzxid = stat.mzxid;
        self.ctime = stat.ctime;
        self.mtime = stat.mtime;
        self.version = stat.version;
        self.cversion = stat.cversion;
        self.aversion = stat.aversion;
        self.owner = stat.ephemeral_owner;
        self.pzxid = stat.pzxid;
    }

    /// The Stat as clients see it.
    pub(crate) fn stat(&self, kind: Kind) -> Stat {
        let children = self.children.cast_signed();
        Stat {
            czxid: self.czxid,
            mzxid: self.mzxid,
            ctime: self.ctime,
            mtime: self.mtime,
            version: self.version,
            cversion: self.cversion.wrapping_mul(2).wrapping_sub(children),
            aversion: self.aversion,
            ephemeral_owner: match kind {
                Kind::Ephemeral(session) => session.0,
                Kind::Persistent | Kind::Container | Kind::Ttl(_) => 0,
            },
            data_length: i32::try_from(self.data_length()).expect("data is smaller than a frame"),
            num_children: children,
            pzxid: self.pzxid,
        }
    }
}

/// Text and data in one allocation.
fn payload(text: &[u8], data: Option<&[u8]>) -> Arc<[u8]> {
    let data = data.unwrap_or_default();
    let mut payload: Arc<[u8]> = std::iter::repeat_n(0, text.len() + data.len()).collect();
    let bytes = Arc::get_mut(&mut payload).expect("not shared yet");
    bytes[..text.len()].copy_from_slice(text);
    bytes[text.len()..].copy_from_slice(data);
    payload
}

fn text_field(length: usize, data: Option<&[u8]>) -> u32 {
    let length = u32::try_from(length).ok().filter(|length| length & FLAGS == 0);
    length.expect("names are validated on input") | if data.is_none() { DATA_IS_NULL } else { 0 }
}

/// The digest of a node: CRC-32 over path, data and Stat.
pub(crate) fn node_digest(prefix_crc: u32, stat: &StatPersisted) -> u32 {
    let mut crc = crc32fast::Hasher::new_with_initial(prefix_crc);
    crc.update(&stat.digest_bytes());
    crc.finalize()
}

/// The part of the digest that depends on path and data only.
pub(crate) fn prefix_crc(path: &str, data: Option<&[u8]>) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(path.as_bytes());
    crc.update(data.unwrap_or_default());
    crc.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_size_is_bounded() {
        assert!(size_of::<Node>() <= 112, "{}", size_of::<Node>());
    }

    #[test]
    fn owner_encodes_the_kind() {
        assert_eq!(Kind::of(0, false), Kind::Persistent);
        assert_eq!(Kind::of(i64::MIN, false), Kind::Container);
        assert_eq!(Kind::of(ttl_owner(7), false), Kind::Ttl(7));
        assert_eq!(Kind::of(ttl_owner(TTL_MS_MAX), false), Kind::Ttl(TTL_MS_MAX));
        assert_eq!(Kind::of(0x0100_0000_0000_0001, false), Kind::Ephemeral(SessionId(0x0100_0000_0000_0001)));
        let with_feature_bits = ttl_owner(7) | 1 << 41;
        assert_eq!(Kind::of(with_feature_bits, false), Kind::Ephemeral(SessionId(with_feature_bits)));
        assert_eq!(Kind::of(i64::MIN | 9, true), Kind::Ttl(9));
    }

    #[test]
    fn null_and_empty_data_are_distinct() {
        let stat = StatPersisted::default();
        let mut node = Node::new("name", None, AclId(0), &stat);
        assert_eq!((node.name_text(), node.data()), ("name", None));
        node.set_data(Some(b""));
        assert_eq!((node.name_text(), node.data()), ("name", Some(&b""[..])));
        node.set_data(Some(b"data"));
        assert_eq!((node.name_text(), node.data(), node.data_length()), ("name", Some(&b"data"[..]), 4));
    }

    #[test]
    fn node_with_stored_path_keeps_its_name() {
        for data in [None, Some(&b""[..]), Some(b"data")] {
            let mut node = Node::new("name", data, AclId(0), &StatPersisted::default());
            node.store_path("/a/name");
            assert_eq!((node.name_text(), node.text(), node.data()), ("name", &b"/a/name"[..], data));
            node.set_data(Some(b"new"));
            assert!(node.stores_path() && node.in_digest());
            assert_eq!((node.name_text(), node.data(), node.data_length()), ("name", Some(&b"new"[..]), 3));
        }
    }
}
