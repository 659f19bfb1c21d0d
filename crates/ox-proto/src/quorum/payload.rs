//! Packet data by packet kind, decoded by [`read`]. Trailing bytes are ignored, as in Apache.
//!
//! | packet | data |
//! |---|---|
//! | REQUEST | [`ForwardedRequest`] |
//! | PROPOSAL, INFORM | a transaction record ([`crate::txn`]) |
//! | PING, from a learner | [`Touches`] |
//! | REVALIDATE | [`Revalidate`]; reply [`Revalidated`] |
//! | COMMITANDACTIVATE, INFORMANDACTIVATE | [`Activation`] |
//! | NEWLEADER | the ensemble's text; null or a single byte from leaders before 3.5 |
//! | FOLLOWERINFO, OBSERVERINFO | [`LearnerInfo`] |
//! | LEADERINFO | [`LeaderInfo`] |
//! | ACKEPOCH | [`AckEpoch`] |

use crate::jute::{DecodeError, Jute, Reader, jute};
use crate::{ServerId, SessionId};

/// The protocol version of all servers since 3.4.
pub const PROTOCOL_VERSION: i32 = 0x1_0000;

/// Decodes the data of a packet; null is an error.
pub fn read<'a, T: Jute<'a>>(data: Option<&'a [u8]>) -> Result<T, DecodeError> {
    Reader::new(data.ok_or(DecodeError::Null)?).get()
}

/// A learner's first message. Servers before 3.5 omit the last field, those before 3.4 the last two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LearnerInfo {
    pub server: ServerId,
    pub protocol_version: Option<i32>,
    /// Version of the learner's committed configuration; requires a protocol version.
    pub config_version: Option<i64>,
}

impl<'a> Jute<'a> for LearnerInfo {
    fn get(from: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let server = from.get()?;
        let protocol_version = from.get().ok();
        Ok(Self { server, protocol_version, config_version: protocol_version.and_then(|_| from.get().ok()) })
    }
    fn put(&self, out: &mut Vec<u8>) {
        self.server.put(out);
        if let Some(version) = self.protocol_version {
            version.put(out);
            self.config_version.iter().for_each(|version| version.put(out));
        }
    }
}

jute! {
    /// The leader's protocol version; the packet's zxid carries the epoch.
    #[derive(Copy)]
    LeaderInfo {
        /// [`PROTOCOL_VERSION`], unless the leader is newer.
        protocol_version: i32,
    }
}

jute! {
    /// A learner's reply to LEADERINFO; the packet's zxid is the learner's last zxid.
    #[derive(Copy)]
    AckEpoch {
        /// Epoch of the learner's log, or [`AckEpoch::NOT_COUNTED`].
        current_epoch: i32,
    }
}

impl AckEpoch {
    /// Sent instead of the epoch if the learner had accepted it before; the leader must not count this reply.
    pub const NOT_COUNTED: i32 = -1;
}

/// A client's request, forwarded to the leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForwardedRequest<'a> {
    pub session: SessionId,
    pub cxid: i32,
    /// Not necessarily one of [`crate::OpCode`].
    pub op: i32,
    /// The request without its header, as the client sent it.
    pub body: &'a [u8],
}

impl<'a> Jute<'a> for ForwardedRequest<'a> {
    fn get(from: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { session: from.get()?, cxid: from.get()?, op: from.get()?, body: rest(from)? })
    }
    fn put(&self, out: &mut Vec<u8>) {
        self.session.put(out);
        self.cxid.put(out);
        self.op.put(out);
        out.extend_from_slice(self.body);
    }
}

jute! {
    /// A session that a client used.
    #[derive(Copy)]
    Touch {
        session: SessionId,
        timeout_ms: i32,
    }
}

const TOUCH_BYTES: usize = 12;

/// Sessions used since the last PING.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touches<'a>(&'a [u8]);

impl<'a> Touches<'a> {
    pub fn iter(self) -> impl Iterator<Item = Touch> {
        let touches = self.0.chunks_exact(TOUCH_BYTES);
        touches.filter_map(|touch| Reader::new(touch).get().ok())
    }
}

impl<'a> Jute<'a> for Touches<'a> {
    fn get(from: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let touches = rest(from)?;
        if touches.len().is_multiple_of(TOUCH_BYTES) { Ok(Self(touches)) } else { Err(DecodeError::Truncated) }
    }
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.0);
    }
}

jute! {
    /// A client resumed this session at a learner.
    #[derive(Copy)]
    Revalidate {
        session: SessionId,
        timeout_ms: i32,
    }
}

jute! {
    /// The leader's reply to REVALIDATE.
    #[derive(Copy)]
    Revalidated {
        session: SessionId,
        /// Whether the session exists.
        valid: bool,
    }
}

/// Data of a committed reconfiguration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Activation<'a> {
    /// The leader under the new configuration.
    pub leader: ServerId,
    /// The transaction, for observers; empty for followers, which already have it.
    pub record: &'a [u8],
}

impl<'a> Jute<'a> for Activation<'a> {
    fn get(from: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { leader: from.get()?, record: rest(from)? })
    }
    fn put(&self, out: &mut Vec<u8>) {
        self.leader.put(out);
        out.extend_from_slice(self.record);
    }
}

fn rest<'a>(from: &mut Reader<'a>) -> Result<&'a [u8], DecodeError> {
    from.take(from.rest().len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shortest<'a, T: Jute<'a>>(bytes: &'a [u8]) -> usize {
        assert_eq!(read::<T>(None).err(), Some(DecodeError::Null));
        (0..).find(|length| read::<T>(Some(&bytes[..*length])).is_ok()).unwrap()
    }

    #[test]
    fn null_and_short_data_are_errors() {
        let bytes = &[7; 40];
        assert_eq!(shortest::<LearnerInfo>(bytes), 8);
        assert_eq!(shortest::<LeaderInfo>(bytes), 4);
        assert_eq!(shortest::<AckEpoch>(bytes), 4);
        assert_eq!(shortest::<ForwardedRequest<'_>>(bytes), 16);
        assert_eq!(shortest::<Revalidate>(bytes), 12);
        assert_eq!(shortest::<Revalidated>(bytes), 9);
        assert_eq!(shortest::<Activation<'_>>(bytes), 8);
        assert_eq!(shortest::<Touches<'_>>(bytes), 0);
    }

    #[test]
    fn learner_info_of_all_versions_is_decoded() {
        let bytes: Vec<u8> = (0..24).collect();
        for (length, written) in [(8, 8), (11, 8), (12, 12), (19, 12), (20, 20), (24, 20)] {
            let info: LearnerInfo = read(Some(&bytes[..length])).unwrap();
            let mut out = Vec::new();
            info.put(&mut out);
            assert_eq!(out, bytes[..written]);
        }
    }

    #[test]
    fn incomplete_touch_is_an_error() {
        let touches =
            [Touch { session: SessionId(-1), timeout_ms: 6000 }, Touch { session: SessionId(2), timeout_ms: -5 }];
        let mut data = Vec::new();
        touches.iter().for_each(|touch| touch.put(&mut data));
        assert_eq!(read::<Touches<'_>>(Some(&data)).unwrap().iter().collect::<Vec<_>>(), touches);
        assert_eq!(read::<Touches<'_>>(Some(&data[..13])), Err(DecodeError::Truncated));
    }
}
