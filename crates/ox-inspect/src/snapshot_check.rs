//! Checking one snapshot as a start does.

use ox_proto::Zxid;
use ox_proto::txn::DIGEST_VERSION;
use ox_store::disk::Disk;
use ox_store::names::SnapshotFile;
use ox_store::snapshot::SnapshotContents;
use ox_store::{StoreError, load_snapshot};
use ox_tree::{FrozenView, TreeOptions};
use std::convert::Infallible;

/// A summary of an intact snapshot.
#[derive(Clone, Debug)]
pub struct SnapshotCheck {
    /// Counts and trailer of the file.
    pub contents: SnapshotContents,
    /// The bytes of data of all nodes.
    pub data_bytes: u64,
    pub ephemerals: usize,
    /// The number of distinct ACLs.
    pub acls: usize,
    /// Parts of transactions up to here may be contained. Above the zxid in the name if Apache wrote the snapshot while
    /// it applied transactions.
    pub reach: Zxid,
    /// The digest of the loaded tree.
    pub digest: i64,
    /// How the stored digest compares with it.
    pub stored_digest: StoredDigest,
    /// Nodes whose ACL is not in the file.
    pub unresolved: Vec<String>,
    /// The number of ephemeral nodes whose session is not in the file.
    pub dead_owners: usize,
}

/// The comparison of the stored digest with the tree's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoredDigest {
    None,
    Fits,
    /// It differs: the writer had a fault, or the file was changed together with its checksums.
    Differs(i64),
    /// It was computed at a later zxid, which the logs lead to.
    Later(Zxid),
}

/// Reads and validates a snapshot as a start does.
pub fn check_snapshot(disk: &dyn Disk, file: &SnapshotFile) -> Result<SnapshotCheck, StoreError> {
    let loaded = load_snapshot(disk, file, &TreeOptions::default())?;
    let state = &loaded.state;
    let digest = state.digest();
    let stored_digest = match loaded.contents.trailer.digest.filter(|(_, digest)| digest.version == DIGEST_VERSION) {
        None => StoredDigest::None,
        Some((zxid, _)) if zxid != file.last => StoredDigest::Later(zxid),
        // Compat: the first snapshot of a directory has digest 0, which is never compared.
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

/// Loads the tree of a snapshot.
pub fn load_tree(disk: &dyn Disk, file: &SnapshotFile) -> Result<FrozenView, StoreError> {
    Ok(load_snapshot(disk, file, &TreeOptions::default())?.state.freeze())
}
