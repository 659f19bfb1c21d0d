//! Packets between a leader and its learners.
//!
//! ```text
//! kind i32 | zxid i64 | data (length i32, bytes) | identities (count i32, each: scheme, id)
//! ```
//! There is no outer length: where a packet ends is known when its last identity is there. [`PacketReader`] finds it
//! without looking at any byte twice, however the packet arrives. Everything behind a SNAP packet, up to the end of the
//! snapshot, is not packets.

use super::identities::RawIds;
use crate::Zxid;
use crate::jute::{DecodeError, Jute, Reader, put_buffer};

macro_rules! packet_kinds {
    ($($(#[$doc:meta])* $name:ident = $code:literal, $text:literal;)*) => {
        /// What a packet is about.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum PacketKind {
            $($(#[$doc])* $name,)*
            /// Something newer; established servers ignore it.
            Unknown(i32),
        }

        impl PacketKind {
            /// Every known kind, in table order.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// The number on the wire.
            pub fn code(self) -> i32 {
                match self {
                    $(Self::$name => $code,)*
                    Self::Unknown(code) => code,
                }
            }

            /// ZooKeeper's name of the kind.
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
    /// A learner forwards a request of a client.
    Request = 1, "REQUEST";
    /// The leader proposes a transaction.
    Proposal = 2, "PROPOSAL";
    /// A learner has it on disk.
    Ack = 3, "ACK";
    /// A quorum has it on disk.
    Commit = 4, "COMMIT";
    /// Are you there; and back, with the sessions that were alive.
    Ping = 5, "PING";
    /// A session has moved to a learner; and back, whether it exists.
    Revalidate = 6, "REVALIDATE";
    /// A client's sync has come through.
    Sync = 7, "SYNC";
    /// A committed transaction, for observers.
    Inform = 8, "INFORM";
    /// A commit of a reconfiguration.
    CommitAndActivate = 9, "COMMITANDACTIVATE";
    /// The history is complete.
    NewLeader = 10, "NEWLEADER";
    /// A follower introduces itself.
    FollowerInfo = 11, "FOLLOWERINFO";
    /// Clients may be served.
    UpToDate = 12, "UPTODATE";
    /// The history follows as transactions.
    Diff = 13, "DIFF";
    /// The learner's history is to be cut.
    Trunc = 14, "TRUNC";
    /// The history follows as a snapshot.
    Snap = 15, "SNAP";
    /// An observer introduces itself.
    ObserverInfo = 16, "OBSERVERINFO";
    /// The leader's epoch.
    LeaderInfo = 17, "LEADERINFO";
    /// The learner has promised the epoch.
    AckEpoch = 18, "ACKEPOCH";
    /// A committed reconfiguration, for observers.
    InformAndActivate = 19, "INFORMANDACTIVATE";
}

/// One packet. Null and empty data differ, and so do null and empty identities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// What it is about.
    pub kind: PacketKind,
    /// Depends on the kind.
    pub zxid: Zxid,
    /// Depends on the kind; [`super::payload`] reads it.
    pub data: Option<&'a [u8]>,
    /// Whose request it is.
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

/// A length that ends the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PacketError {
    /// A length is negative (and not -1).
    #[error("unreasonable length {0} in a packet")]
    BadLength(i32),
    /// The packet cannot end within the limit.
    #[error("packet of at least {announced} bytes is too large (limit {limit})")]
    TooLarge {
        /// Bytes that it has at least.
        announced: usize,
        /// The largest packet accepted.
        limit: usize,
    },
}

/// Bytes in front of the data.
const HEAD_BYTES: usize = 16;
/// Bytes of a length or count.
const LENGTH_BYTES: usize = 4;

/// Cuts a stream into packets. It remembers how far the packet at the start of the buffer has been measured, so that
/// one that arrives in many pieces costs no more than one that arrives whole.
#[derive(Clone, Debug, Default)]
pub struct PacketReader {
    ids: Option<IdsLeft>,
}

/// Where the next text of the identities begins, and how many of them there are still.
#[derive(Clone, Copy, Debug)]
struct IdsLeft {
    at: usize,
    texts: usize,
}

impl PacketReader {
    /// The packet at the start of `bytes` and its length, `None` while it is incomplete. The caller then adds bytes at
    /// the end and asks again; after a packet it removes those of the packet first. Lengths are judged before what they
    /// announce arrives: a packet is at most `limit` bytes long, all in all.
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

/// All identities, if their count is there.
fn ids_left(bytes: &[u8], limit: usize) -> Result<Option<IdsLeft>, PacketError> {
    let Some(data_length) = length_at(bytes, HEAD_BYTES - LENGTH_BYTES)? else { return Ok(None) };
    let count_at = HEAD_BYTES + data_length;
    IdsLeft { at: count_at + LENGTH_BYTES, texts: 0 }.check(limit)?;
    let Some(count) = int_at(bytes, count_at) else { return Ok(None) };
    // Compat: like null, any other negative count is a list without entries (test `odd_counts_are_empty`).
    let texts = usize::try_from(count).unwrap_or(0).saturating_mul(2);
    let left = IdsLeft { at: count_at + LENGTH_BYTES, texts };
    left.check(limit).map(|()| Some(left))
}

fn int_at(bytes: &[u8], at: usize) -> Option<i32> {
    bytes.get(at..)?.first_chunk().copied().map(i32::from_be_bytes)
}

/// A length that is there; null is none.
fn length_at(bytes: &[u8], at: usize) -> Result<Option<usize>, PacketError> {
    match int_at(bytes, at) {
        None => Ok(None),
        Some(-1) => Ok(Some(0)),
        Some(length) => usize::try_from(length).map(Some).map_err(|_| PacketError::BadLength(length)),
    }
}

/// Appends a packet without data: COMMIT, ACK, the leader's PING, and whatever else says all with its zxid.
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

/// Starts a packet whose data is appended next; the returned mark goes to [`end_packet`].
pub fn begin_packet(out: &mut Vec<u8>, kind: PacketKind, zxid: Zxid) -> usize {
    kind.code().put(out);
    zxid.put(out);
    out.extend_from_slice(&[0; LENGTH_BYTES]);
    out.len()
}

/// Ends the packet whose data starts at `mark`.
///
/// # Panics
/// When the data is larger than a buffer can be (2 GiB).
pub fn end_packet(out: &mut Vec<u8>, mark: usize, ids: RawIds<'_>) {
    let length = i32::try_from(out.len() - mark).expect("a packet stays below 2 GiB");
    out[mark - LENGTH_BYTES..mark].copy_from_slice(&length.to_be_bytes());
    ids.put(out);
}

#[cfg(test)]
mod tests;
