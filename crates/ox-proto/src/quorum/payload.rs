//! The data of packets, by kind. [`read`] reads any of them; bytes behind what is expected are ignored, as by Apache.
//!
//! | packet | data |
//! |---|---|
//! | REQUEST | [`Request`] |
//! | PROPOSAL, INFORM | a transaction record ([`crate::txn`]) |
//! | PING, from a learner | [`Touches`] |
//! | REVALIDATE | [`Revalidate`], and back [`Revalidated`] |
//! | COMMITANDACTIVATE, INFORMANDACTIVATE | [`Activation`] |
//! | NEWLEADER | the ensemble's text; none, or a single byte, of leaders before 3.5 |
//! | FOLLOWERINFO, OBSERVERINFO | [`LearnerInfo`] |
//! | LEADERINFO | [`LeaderInfo`] |
//! | ACKEPOCH | [`AckEpoch`] |

use crate::jute::{DecodeError, Jute, Reader, jute};
use crate::{ServerId, SessionId};

/// The version of the protocol that all servers since 3.4 speak.
pub const PROTOCOL_VERSION: i32 = 0x1_0000;

/// Reads the data of a packet.
pub fn read<'a, T: Jute<'a>>(data: Option<&'a [u8]>) -> Result<T, DecodeError> {
    Reader::new(data.ok_or(DecodeError::Null)?).get()
}

/// Who a learner is. Servers before 3.5 leave out the last field, those before 3.4 the last two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LearnerInfo {
    /// Its number.
    pub server: ServerId,
    /// The protocol that it speaks.
    pub protocol_version: Option<i32>,
    /// The version of its committed ensemble; only behind a protocol version.
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
    /// The leader's protocol; its epoch is the packet's zxid.
    #[derive(Copy)]
    LeaderInfo {
        /// [`PROTOCOL_VERSION`].
        protocol_version: i32,
    }
}

jute! {
    /// A learner's answer to the epoch; its last zxid is the packet's.
    #[derive(Copy)]
    AckEpoch {
        /// The epoch of its history, or [`AckEpoch::NOT_COUNTED`].
        current_epoch: i32,
    }
}

impl AckEpoch {
    /// In place of the epoch: it was promised before, the learner must not be counted.
    pub const NOT_COUNTED: i32 = -1;
}

/// A request of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// Whose.
    pub session: SessionId,
    /// The client's number of the request.
    pub cxid: i32,
    /// What is asked for; [`crate::OpCode`] knows most.
    pub op: i32,
    /// The request as the client sent it, without its header.
    pub body: &'a [u8],
}

impl<'a> Jute<'a> for Request<'a> {
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
    /// A session that was alive.
    #[derive(Copy)]
    Touch {
        /// Which.
        session: SessionId,
        /// Its timeout.
        timeout_ms: i32,
    }
}

/// Bytes of a [`Touch`].
const TOUCH_BYTES: usize = 12;

/// The sessions that were alive since the last PING.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touches<'a>(&'a [u8]);

impl<'a> Touches<'a> {
    /// One by one.
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
    /// A learner asks for a session that has come to it.
    #[derive(Copy)]
    Revalidate {
        /// Which.
        session: SessionId,
        /// Its timeout.
        timeout_ms: i32,
    }
}

jute! {
    /// The leader's answer.
    #[derive(Copy)]
    Revalidated {
        /// Which.
        session: SessionId,
        /// Whether it exists.
        valid: bool,
    }
}

/// A reconfiguration is committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Activation<'a> {
    /// Who leads from now on.
    pub leader: ServerId,
    /// The transaction, for observers; nothing for followers, which have it.
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
        assert_eq!(shortest::<Request<'_>>(bytes), 16);
        assert_eq!(shortest::<Revalidate>(bytes), 12);
        assert_eq!(shortest::<Revalidated>(bytes), 9);
        assert_eq!(shortest::<Activation<'_>>(bytes), 8);
        assert_eq!(shortest::<Touches<'_>>(bytes), 0);
    }

    #[test]
    fn learner_info_of_all_ages() {
        let bytes: Vec<u8> = (0..24).collect();
        for (length, written) in [(8, 8), (11, 8), (12, 12), (19, 12), (20, 20), (24, 20)] {
            let info: LearnerInfo = read(Some(&bytes[..length])).unwrap();
            let mut out = Vec::new();
            info.put(&mut out);
            assert_eq!(out, bytes[..written]);
        }
    }

    #[test]
    fn touches_are_whole() {
        let touches =
            [Touch { session: SessionId(-1), timeout_ms: 6000 }, Touch { session: SessionId(2), timeout_ms: -5 }];
        let mut data = Vec::new();
        touches.iter().for_each(|touch| touch.put(&mut data));
        assert_eq!(read::<Touches<'_>>(Some(&data)).unwrap().iter().collect::<Vec<_>>(), touches);
        assert_eq!(read::<Touches<'_>>(Some(&data[..13])), Err(DecodeError::Truncated));
    }
}
