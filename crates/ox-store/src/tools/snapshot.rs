//! One snapshot: read as a start reads it, with its counts and its digest.

use crate::disk::Disk;
use crate::error::Error;
use crate::names::SnapshotFile;
use crate::recovery::load;
use crate::snapshot::Contents;
use ox_proto::Zxid;
use ox_proto::txn::DIGEST_VERSION;
use ox_tree::{FrozenView, TreeOptions};
use std::convert::Infallible;

/// What a good snapshot holds.
#[derive(Clone, Debug)]
pub struct SnapshotCheck {
    /// Counts, and what the file says about itself.
    pub contents: Contents,
    /// Bytes of data of all nodes.
    pub data_bytes: u64,
    /// Ephemeral nodes.
    pub ephemerals: usize,
    /// Different access control lists.
    pub acls: usize,
    /// Parts of transactions up to here may be contained; later than the name says for one that Apache has written
    /// while it served.
    pub reach: Zxid,
    /// Digest of the tree as it was read.
    pub digest: i64,
    /// What the stored digest says about that.
    pub stored_digest: StoredDigest,
    /// Nodes whose access control list is not in the file.
    pub unresolved: Vec<String>,
    /// Ephemeral nodes whose session is not in the file.
    pub dead_owners: usize,
}

/// How the stored digest compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoredDigest {
    /// There is none.
    None,
    /// It is that of the tree.
    Fits,
    /// It is not: the writer was wrong, or the file was changed with its checksums.
    Differs(i64),
    /// It is that of a later moment; the logs lead there.
    Later(Zxid),
}

/// Reads a snapshot with every check of a start.
pub fn check_snapshot(disk: &dyn Disk, file: &SnapshotFile) -> Result<SnapshotCheck, Error> {
    let loaded = load(disk, file, &TreeOptions::default())?;
    let state = &loaded.state;
    let digest = state.digest();
    let stored_digest = match loaded.contents.trailer.digest.filter(|(_, digest)| digest.version == DIGEST_VERSION) {
        None => StoredDigest::None,
        Some((zxid, _)) if zxid != file.last => StoredDigest::Later(zxid),
        // Compat: a new directory's snapshot says 0 and is never compared.
        Some((Zxid::ZERO, _)) => StoredDigest::None,
        Some((_, stored)) if stored.tree_digest == digest => StoredDigest::Fits,
        Some((_, stored)) => StoredDigest::Differs(stored.tree_digest),
    };
    let mut data_bytes = 0;
    let Ok(()) = state.freeze().for_each_node(|node| -> Result<(), Infallible> {
        data_bytes += node.data.map_or(0, <[u8]>::len) as u64;
        Ok(())
    });
    Ok(SnapshotCheck {
        contents: loaded.contents,
        data_bytes,
        ephemerals: state.ephemeral_count(),
        acls: state.acl_count(),
        reach: loaded.reach.0,
        digest,
        stored_digest,
        unresolved: loaded.unresolved,
        dead_owners: state.dead_owners().count(),
    })
}

/// The tree of a snapshot, read as a start reads it.
pub fn load_tree(disk: &dyn Disk, file: &SnapshotFile) -> Result<FrozenView, Error> {
    Ok(load(disk, file, &TreeOptions::default())?.state.freeze())
}
