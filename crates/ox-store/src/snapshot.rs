//! Snapshots: the whole state in one file.
//!
//! The uncompressed stream, all numbers big-endian, is Apache's version 2:
//!
//! | part | content |
//! |---|---|
//! | header | magic `ZKSN`, int version 2, long dbid -1 |
//! | sessions | int count, then { long id; int timeout } |
//! | lists | int count, then { long id; vector of ACL } |
//! | nodes | { string path; buffer data; long list; 60 bytes stat }, parents first, the root's path empty |
//! | end of nodes | string "/" |
//! | seal | { long adler32; string "/" }, 13 bytes |
//! | digest, optional | { long zxid; int version; long digest } and a seal, 33 bytes |
//! | last zxid, optional | { long zxid } and a seal, 21 bytes |
//!
//! Each seal covers every byte before it, earlier seals included. The optional parts carry no tag: what is left
//! behind the first seal tells which are there. [`read`] checks everything before it calls a snapshot good;
//! [`write`](mod@write) gives a file its name only after it was synced and read back.

pub(crate) mod body;
mod chunks;
pub(crate) mod compress;
pub mod read;
pub mod stream;
pub mod write;

use ox_proto::txn::TxnDigest;
use ox_proto::{DecodeError, Zxid};
use std::io;

/// "ZKSN".
pub const SNAPSHOT_MAGIC: u32 = 0x5a4b_534e;
/// The one version there is.
pub const SNAPSHOT_VERSION: u32 = 2;
/// Ends the nodes and each seal.
const END_MARK: &str = "/";

/// What a snapshot says about itself behind its nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trailer {
    /// Tree digest, and the last transaction applied when it was taken.
    pub digest: Option<(Zxid, TxnDigest)>,
    /// Last transaction that may be contained, wholly or in part.
    pub last_zxid: Option<Zxid>,
}

/// What was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// Number of sessions.
    pub sessions: u64,
    /// Number of nodes, the root included.
    pub nodes: u64,
    /// Size without compression.
    pub bytes: u64,
    /// What follows the nodes.
    pub trailer: Trailer,
}

/// Why a snapshot cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// It cannot be read or decompressed.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// Not a snapshot.
    #[error("wrong magic number {0:#x}")]
    BadMagic(u32),
    /// A format we do not know.
    #[error("unknown format version {0}")]
    BadVersion(u32),
    /// Its structure is broken.
    #[error("at byte {offset}: {source}")]
    Decode {
        /// Where, in the uncompressed stream.
        offset: u64,
        /// What.
        source: DecodeError,
    },
    /// A checksum does not fit what is before it.
    #[error("the checksum at byte {offset} does not fit")]
    BadSeal {
        /// Where, in the uncompressed stream.
        offset: u64,
    },
    /// What follows the first seal is none of the known trailers.
    #[error("{0} unknown bytes behind the nodes")]
    BadTrailer(usize),
    /// Its own last zxid is below that of its name.
    #[error("named {name}, but it ends at {last}")]
    Misnamed {
        /// Zxid in the name.
        name: Zxid,
        /// Zxid in the trailer.
        last: Zxid,
    },
    /// A stream from a leader does not end as it should.
    #[error("the stream does not end with the signature")]
    BadSignature,
    /// The content makes no tree.
    #[error("{0}")]
    Content(String),
}
