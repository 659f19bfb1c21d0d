//! Snapshots: the complete state in one file.
//!
//! The uncompressed stream is Apache's version 2; all numbers are big-endian:
//!
//! | part | content |
//! |---|---|
//! | header | magic `ZKSN`, int version 2, long dbid -1 |
//! | sessions | int count, then { long id; int timeout } |
//! | ACLs | int count, then { long id; vector of ACL } |
//! | nodes | { string path; buffer data; long ACL id; 60 bytes Stat }, parents first, the root's path empty |
//! | end of nodes | string "/" |
//! | seal | { long adler32; string "/" }, 13 bytes |
//! | digest, optional | { long zxid; int version; long digest } and a seal, 33 bytes |
//! | last zxid, optional | { long zxid } and a seal, 21 bytes |
//!
//! Each seal covers all bytes before it, including earlier seals. The optional parts have no tag: the number of bytes
//! after the first seal determines which are present. [`read`] validates everything; [`write`](mod@write) renames a
//! file to its final name only after it was synced and read back.

pub(crate) mod body;
mod chunks;
pub(crate) mod compress;
pub mod read;
pub mod stream;
pub mod write;

use ox_proto::txn::TxnDigest;
use ox_proto::{DecodeError, Zxid};
use std::io;

/// `ZKSN`, the magic number of snapshots.
pub const SNAPSHOT_MAGIC: u32 = 0x5a4b_534e;
/// The only version of the format.
pub const SNAPSHOT_VERSION: u32 = 2;
/// Terminates the nodes and each seal.
const END_MARK: &str = "/";

/// The optional parts after the nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SnapshotTrailer {
    /// The tree's digest, and the last transaction applied when it was computed.
    pub digest: Option<(Zxid, TxnDigest)>,
    /// The last transaction that may be contained, wholly or in part.
    pub last_zxid: Option<Zxid>,
}

/// A summary of a snapshot that was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SnapshotContents {
    pub sessions: u64,
    /// The count includes the root.
    pub nodes: u64,
    /// The size of the uncompressed stream.
    pub bytes: u64,
    pub trailer: SnapshotTrailer,
}

/// Why a snapshot cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// The file cannot be read or decompressed.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The file is not a snapshot.
    #[error("wrong magic number {0:#x}")]
    BadMagic(u32),
    #[error("unknown format version {0}")]
    BadVersion(u32),
    /// A field cannot be decoded.
    #[error("at byte {offset}: {source}")]
    Decode {
        /// In the uncompressed stream.
        offset: u64,
        source: DecodeError,
    },
    /// A checksum does not match the bytes before it.
    #[error("the checksum at byte {offset} does not match")]
    BadSeal {
        /// In the uncompressed stream.
        offset: u64,
    },
    /// The bytes after the first seal are not a known trailer.
    #[error("{0} unknown bytes after the nodes")]
    BadTrailer(usize),
    /// The last zxid in the trailer is below the zxid in the name.
    #[error("named {name}, but it ends at {last}")]
    Misnamed { name: Zxid, last: Zxid },
    /// A stream from a leader does not end with the signature.
    #[error("the stream does not end with the signature")]
    BadSignature,
    /// The snapshot was written with `serializeLastProcessedZxid.enabled=false`, and without a digest.
    #[error("the snapshot does not contain its last zxid")]
    NoZxid,
    /// The nodes do not form a tree.
    #[error("{0}")]
    Content(String),
}
