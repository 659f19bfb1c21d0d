//! Quorum packets between a leader and its learners.
//!
//! ```text
//! kind i32 | zxid i64 | data (length i32, bytes) | identities (count i32, each: scheme, id)
//! ```
//! A packet has no outer length: it ends with its last identity. [`PacketReader`] finds that end while reading each
//! byte once, however the packet arrives. The bytes after a SNAP packet, up to the end of the snapshot, are not
//! packets.

use super::identities::RawIds;
use crate::Zxid;
use crate::jute::{DecodeError, Jute, Reader, put_buffer};

macro_rules! packet_kinds {
    ($($(#[$doc:meta])* $name:ident = $code:literal, $text:literal;)*) => {
        /// Packet types of Apache's `Leader`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum PacketKind {
            $($(#[$doc])* $name,)*
            /// From a newer version; ignored on established links.
            Unknown(i32),
        }

        impl PacketKind {
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// The value on the wire.
            pub fn code(self) -> i32 {
                match self {
                    $(Self::$name => $code,)*
                    Self::Unknown(code) => code,
                }
            }

            /// ZooKeeper's name of the type.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                    Self::Unknown(_) => "UNKNOWN",
                }
            }
        }

        impl From<i32> for PacketKind {
            fn from(code: i32) -> Self {
                match code {
                    $($code => Self::$name,)*
                    other => Self::Unknown(other),
                }
            }
        }
    };
}

packet_kinds! {
    /// Learner to leader: forwards a client's request.
    Request = 1, "REQUEST";
    /// Leader to follower: proposes a transaction.
    Proposal = 2, "PROPOSAL";
    /// Learner to leader: the transaction is on disk.
    Ack = 3, "ACK";
    /// Leader to follower: a quorum has the transaction on disk.
    Commit = 4, "COMMIT";
    /// Leader to learner, and back with the sessions touched since the last one.
    Ping = 5, "PING";
    /// Learner to leader: a client resumes a session; and back, whether the session exists.
    Revalidate = 6, "REVALIDATE";
    /// Leader to learner: a forwarded sync is complete.
    Sync = 7, "SYNC";
    /// Leader to observer: a committed transaction.
    Inform = 8, "INFORM";
    /// Leader to follower: commits a reconfiguration.
    CommitAndActivate = 9, "COMMITANDACTIVATE";
    /// Leader to learner: synchronisation is complete.
    NewLeader = 10, "NEWLEADER";
    /// First packet of a follower.
    FollowerInfo = 11, "FOLLOWERINFO";
    /// Leader to learner: may serve clients.
    UpToDate = 12, "UPTODATE";
    /// Synchronisation by transactions follows.
    Diff = 13, "DIFF";
    /// The learner must truncate its log.
    Trunc = 14, "TRUNC";
    /// Synchronisation by a snapshot follows.
    Snap = 15, "SNAP";
    /// First packet of an observer.
    ObserverInfo = 16, "OBSERVERINFO";
    /// Leader to learner: the epoch it proposes.
    LeaderInfo = 17, "LEADERINFO";
    /// Learner to leader: accepted the epoch.
    AckEpoch = 18, "ACKEPOCH";
    /// Leader to observer: a committed reconfiguration.
    InformAndActivate = 19, "INFORMANDACTIVATE";
}

/// One packet. Null and empty data are distinct, and so are null and empty identities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    pub kind: PacketKind,
    /// Meaning depends on the kind.
    pub zxid: Zxid,
    /// Depends on the kind; decoded by [`super::payload`].
    pub data: Option<&'a [u8]>,
    /// Identities of the client whose request is forwarded.
    pub ids: RawIds<'a>,
}

impl<'a> Jute<'a> for Packet<'a> {
    fn get(from: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { kind: from.get::<i32>()?.into(), zxid: from.get()?, data: from.get()?, ids: from.get()? })
    }
    fn put(&self, out: &mut Vec<u8>) {
        self.kind.code().put(out);
        self.zxid.put(out);
        put_buffer(out, self.data);
        self.ids.put(out);
    }
}

/// Why the connection must be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PacketError {
    /// A negative length other than -1.
    #[error("unreasonable length {0} in a packet")]
    BadLength(i32),
    /// The packet exceeds the limit.
    #[error("packet of at least {announced} bytes is too large (limit {limit})")]
    TooLarge {
        /// Lower bound of the packet's size.
        announced: usize,
        /// The largest packet accepted.
        limit: usize,
    },
}

/// Bytes before the data: kind, zxid, data length.
const HEAD_BYTES: usize = 16;
/// Bytes of a length or count.
const LENGTH_BYTES: usize = 4;

/// Splits a stream into packets. Remembers how much of the packet at the start of the buffer has been measured, so a
/// packet that arrives in many pieces costs no more than one that arrives whole.
#[derive(Clone, Debug, Default)]
pub struct PacketReader {
    ids: Option<IdsLeft>,
}

/// Offset of the next string of the identities, and the number of strings left.
#[derive(Clone, Copy, Debug)]
struct IdsLeft {
    at: usize,
    texts: usize,
}

impl PacketReader {
    /// Decodes the packet at the start of `bytes`; returns it with its length, or `None` while it is incomplete. The
    /// caller then appends bytes and calls again; after a packet it first removes that packet's bytes. Lengths are
    /// checked before the bytes that they announce arrive: a complete packet has at most `limit` bytes.
    pub fn next<'a>(&mut self, bytes: &'a [u8], limit: usize) -> Result<Option<(Packet<'a>, usize)>, PacketError> {
        let Some(end) = self.measure(bytes, limit)? else { return Ok(None) };
        self.ids = None;
        let packet = bytes.get(..end).and_then(|packet| Packet::get(&mut Reader::new(packet)).ok());
        Ok(packet.map(|packet| (packet, end)))
    }

    fn measure(&mut self, bytes: &[u8], limit: usize) -> Result<Option<usize>, PacketError> {
        let mut left = match self.ids {
            Some(left) => left,
            None => match ids_left(bytes, limit)? {
                Some(left) => left,
                None => return Ok(None),
            },
        };
        while 0 < left.texts {
            self.ids = Some(left);
            let Some(length) = length_at(bytes, left.at)? else { return Ok(None) };
            left = IdsLeft { at: left.at + LENGTH_BYTES + length, texts: left.texts - 1 };
            left.check(limit)?;
            if bytes.len() < left.at {
                return Ok(None);
            }
        }
        Ok(Some(left.at))
    }
}

impl IdsLeft {
    fn check(self, limit: usize) -> Result<(), PacketError> {
        let announced = self.at.saturating_add(self.texts.saturating_mul(LENGTH_BYTES));
        if announced <= limit { Ok(()) } else { Err(PacketError::TooLarge { announced, limit }) }
    }
}

/// `None` while the count of identities is incomplete.
fn ids_left(bytes: &[u8], limit: usize) -> Result<Option<IdsLeft>, PacketError> {
    let Some(data_length) = length_at(bytes, HEAD_BYTES - LENGTH_BYTES)? else { return Ok(None) };
    let count_at = HEAD_BYTES + data_length;
    IdsLeft { at: count_at + LENGTH_BYTES, texts: 0 }.check(limit)?;
    let Some(count) = int_at(bytes, count_at) else { return Ok(None) };
    // Compat: like null, any other negative count means no entries (test `negative_id_count_means_no_ids`).
    let texts = usize::try_from(count).unwrap_or(0).saturating_mul(2);
    let left = IdsLeft { at: count_at + LENGTH_BYTES, texts };
    left.check(limit).map(|()| Some(left))
}

fn int_at(bytes: &[u8], at: usize) -> Option<i32> {
    bytes.get(at..)?.first_chunk().copied().map(i32::from_be_bytes)
}

/// `None` while the length is incomplete; null counts as 0.
fn length_at(bytes: &[u8], at: usize) -> Result<Option<usize>, PacketError> {
    match int_at(bytes, at) {
        None => Ok(None),
        Some(-1) => Ok(Some(0)),
        Some(length) => usize::try_from(length).map(Some).map_err(|_| PacketError::BadLength(length)),
    }
}

/// Appends a packet without data: COMMIT, ACK, the leader's PING and others that carry only a zxid.
pub fn put_bare(out: &mut Vec<u8>, kind: PacketKind, zxid: Zxid) {
    let mut packet = [0xff; HEAD_BYTES + LENGTH_BYTES];
    packet[..4].copy_from_slice(&kind.code().to_be_bytes());
    packet[4..12].copy_from_slice(&zxid.0.to_be_bytes());
    out.extend_from_slice(&packet);
}

/// Appends a packet with the given data: PROPOSAL and INFORM.
pub fn put_with_data(out: &mut Vec<u8>, kind: PacketKind, zxid: Zxid, data: &[u8]) {
    Packet { kind, zxid, data: Some(data), ids: RawIds::NULL }.put(out);
}

/// Starts a packet; the caller appends its data and passes the returned mark to [`end_packet`].
pub fn begin_packet(out: &mut Vec<u8>, kind: PacketKind, zxid: Zxid) -> usize {
    kind.code().put(out);
    zxid.put(out);
    out.extend_from_slice(&[0; LENGTH_BYTES]);
    out.len()
}

/// Ends the packet whose data starts at `mark`.
///
/// # Panics
/// If the data exceeds the 2 GiB that a length can express.
pub fn end_packet(out: &mut Vec<u8>, mark: usize, ids: RawIds<'_>) {
    let length = i32::try_from(out.len() - mark).expect("a packet stays below 2 GiB");
    out[mark - LENGTH_BYTES..mark].copy_from_slice(&length.to_be_bytes());
    ids.put(out);
}

#[cfg(test)]
mod tests;
