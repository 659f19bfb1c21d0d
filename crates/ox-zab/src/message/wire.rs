//! Encodes messages as packets and decodes them. Called where links are read and written, in `ox-server/src/peers`.

use super::{EncodedTxn, LearnerKind, Message, Request};
use crate::epoch::Epoch;
use bytes::Bytes;
use ox_proto::quorum::identities::RawIds;
use ox_proto::quorum::packet::{Packet, PacketKind, begin_packet, end_packet, put_bare, put_with_data};
use ox_proto::quorum::payload::{
    self, AckEpoch, Activation, LeaderInfo, LearnerInfo, PROTOCOL_VERSION, Revalidate, Revalidated,
};
use ox_proto::{DecodeError, Jute, Zxid};

/// Apache's zxid of packets that concern no transaction.
const NO_ZXID: Zxid = Zxid(-1);

/// Which end sent a packet: PING and REVALIDATE have different contents in each direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sender {
    Leader,
    Learner,
}

impl Message {
    /// Appends the packet. The caller sends the snapshot after [`Message::Snap`].
    pub fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::Hello { server, kind, accepted, config_version } => {
                let kind = match kind {
                    LearnerKind::Follower => PacketKind::FollowerInfo,
                    LearnerKind::Observer => PacketKind::ObserverInfo,
                };
                let info = LearnerInfo {
                    server: *server,
                    protocol_version: Some(PROTOCOL_VERSION),
                    config_version: Some(*config_version),
                };
                put(out, kind, accepted.start(), &info);
            }
            Self::LeaderInfo(epoch) => {
                put(out, PacketKind::LeaderInfo, epoch.start(), &LeaderInfo { protocol_version: PROTOCOL_VERSION });
            }
            Self::AckEpoch { last, current } => {
                let counted = current.and_then(|Epoch(epoch)| i32::try_from(epoch).ok());
                let current_epoch = counted.unwrap_or(AckEpoch::NOT_COUNTED);
                put(out, PacketKind::AckEpoch, *last, &AckEpoch { current_epoch });
            }
            Self::Diff(zxid) => put_bare(out, PacketKind::Diff, *zxid),
            Self::Trunc(zxid) => put_bare(out, PacketKind::Trunc, *zxid),
            Self::Snap(zxid) => put_bare(out, PacketKind::Snap, *zxid),
            Self::Proposal(txn) => put_with_data(out, PacketKind::Proposal, txn.zxid, &txn.record),
            Self::Commit(zxid) => put_bare(out, PacketKind::Commit, *zxid),
            Self::Commits(run) => run.iter().for_each(|zxid| put_bare(out, PacketKind::Commit, zxid)),
            Self::Inform(txn) => put_with_data(out, PacketKind::Inform, txn.zxid, &txn.record),
            Self::CommitAndActivate(zxid, leader) => {
                put(out, PacketKind::CommitAndActivate, *zxid, &Activation { leader: *leader, record: &[] });
            }
            Self::InformAndActivate(txn, leader) => {
                put(out, PacketKind::InformAndActivate, txn.zxid, &Activation { leader: *leader, record: &txn.record });
            }
            Self::NewLeader { epoch, config } => put_with_data(out, PacketKind::NewLeader, epoch.start(), config),
            Self::UpToDate => put_bare(out, PacketKind::UpToDate, NO_ZXID),
            Self::Ack(zxid) => put_bare(out, PacketKind::Ack, *zxid),
            Self::Acks(run) => run.iter().for_each(|zxid| put_bare(out, PacketKind::Ack, zxid)),
            Self::Ping(zxid) => put_bare(out, PacketKind::Ping, *zxid),
            Self::Pong(zxid, touched) => put_with_data(out, PacketKind::Ping, *zxid, touched),
            Self::Revalidate(session, timeout_ms) => {
                let asked = Revalidate { session: *session, timeout_ms: *timeout_ms };
                put(out, PacketKind::Revalidate, NO_ZXID, &asked);
            }
            Self::Revalidated(session, valid) => {
                put(out, PacketKind::Revalidate, NO_ZXID, &Revalidated { session: *session, valid: *valid });
            }
            Self::Request(request) => request.put(out),
            Self::Sync => put_bare(out, PacketKind::Sync, Zxid::ZERO),
            Self::Other(_) => (),
        }
    }

    /// Decodes a packet sent by `side`. Data is not copied: it shares the memory of `chunk`, which contains the packet.
    pub fn read(packet: &Packet<'_>, chunk: &Bytes, side: Sender) -> Result<Self, DecodeError> {
        let Packet { kind, zxid, data, ids } = *packet;
        let bytes = || Ok(chunk.slice_ref(data.ok_or(DecodeError::Null)?));
        let txn = || Ok(EncodedTxn { zxid, record: bytes()? });
        let hello = |kind| {
            let info: LearnerInfo = payload::read(data)?;
            let (server, accepted) = (info.server, Epoch::of(zxid));
            // A learner that does not report a protocol version is too old for this protocol.
            info.protocol_version.filter(|version| PROTOCOL_VERSION <= *version).ok_or(DecodeError::Truncated)?;
            Ok(Self::Hello { server, kind, accepted, config_version: info.config_version.unwrap_or(0) })
        };
        Ok(match (kind, side) {
            (PacketKind::FollowerInfo, Sender::Learner) => hello(LearnerKind::Follower)?,
            (PacketKind::ObserverInfo, Sender::Learner) => hello(LearnerKind::Observer)?,
            (PacketKind::LeaderInfo, Sender::Leader) => {
                payload::read::<LeaderInfo>(data)?;
                Self::LeaderInfo(Epoch::of(zxid))
            }
            (PacketKind::AckEpoch, Sender::Learner) => {
                let AckEpoch { current_epoch } = payload::read(data)?;
                let counted = Some(current_epoch).filter(|epoch| *epoch != AckEpoch::NOT_COUNTED);
                Self::AckEpoch { last: zxid, current: counted.map(|epoch| Epoch(i64::from(epoch))) }
            }
            (PacketKind::Diff, Sender::Leader) => Self::Diff(zxid),
            (PacketKind::Trunc, Sender::Leader) => Self::Trunc(zxid),
            (PacketKind::Snap, Sender::Leader) => Self::Snap(zxid),
            (PacketKind::Proposal, Sender::Leader) => Self::Proposal(txn()?),
            (PacketKind::Commit, Sender::Leader) => Self::Commit(zxid),
            (PacketKind::CommitAndActivate, Sender::Leader) => {
                let Activation { leader, .. } = payload::read(data)?;
                Self::CommitAndActivate(zxid, leader)
            }
            (PacketKind::InformAndActivate, Sender::Leader) => {
                let Activation { leader, record } = payload::read(data)?;
                Self::InformAndActivate(EncodedTxn { zxid, record: chunk.slice_ref(record) }, leader)
            }
            (PacketKind::Inform, Sender::Leader) => Self::Inform(txn()?),
            (PacketKind::NewLeader, Sender::Leader) => {
                let config = data.map_or_else(Bytes::new, |config| chunk.slice_ref(config));
                Self::NewLeader { epoch: Epoch::of(zxid), config }
            }
            (PacketKind::UpToDate, Sender::Leader) => Self::UpToDate,
            (PacketKind::Ack, Sender::Learner) => Self::Ack(zxid),
            (PacketKind::Ping, Sender::Leader) => Self::Ping(zxid),
            (PacketKind::Ping, Sender::Learner) => Self::Pong(zxid, bytes()?),
            (PacketKind::Revalidate, Sender::Learner) => {
                let Revalidate { session, timeout_ms } = payload::read(data)?;
                Self::Revalidate(session, timeout_ms)
            }
            (PacketKind::Revalidate, Sender::Leader) => {
                let Revalidated { session, valid } = payload::read(data)?;
                Self::Revalidated(session, valid)
            }
            (PacketKind::Request, Sender::Learner) => {
                let payload::ForwardedRequest { session, cxid, op, body } = payload::read(data)?;
                let (body, ids) = (chunk.slice_ref(body), chunk.slice_ref(ids.bytes()));
                Self::Request(Request { session, cxid, op, body, ids })
            }
            (PacketKind::Sync, Sender::Leader) => Self::Sync,
            (other, _) => Self::Other(other.code()),
        })
    }
}

impl Request {
    fn put(&self, out: &mut Vec<u8>) {
        let Self { session, cxid, op, body, ids } = self;
        let mark = begin_packet(out, PacketKind::Request, NO_ZXID);
        payload::ForwardedRequest { session: *session, cxid: *cxid, op: *op, body }.put(out);
        end_packet(out, mark, RawIds::from_encoded(ids).unwrap_or(RawIds::EMPTY));
    }
}

fn put<'a>(out: &mut Vec<u8>, kind: PacketKind, zxid: Zxid, data: &impl Jute<'a>) {
    let mark = begin_packet(out, kind, zxid);
    data.put(out);
    end_packet(out, mark, RawIds::NULL);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::ZxidRange;
    use ox_proto::quorum::packet::PacketReader;
    use ox_proto::{ServerId, SessionId};

    fn check(message: &Message, side: Sender) {
        let mut bytes = Vec::new();
        message.put(&mut bytes);
        let chunk = Bytes::from(bytes);
        let (packet, length) = PacketReader::default().next(&chunk, 1 << 20).unwrap().unwrap();
        assert_eq!(length, chunk.len());
        assert_eq!(Message::read(&packet, &chunk, side).as_ref(), Ok(message));
    }

    #[test]
    fn messages_survive_encoding() {
        let txn = EncodedTxn { zxid: Zxid::new(3, 4), record: Bytes::from_static(b"record") };
        let (zxid, session) = (Zxid::new(3, 4), SessionId(0x0100_0000_0000_0007));
        let config = Bytes::from_static(b"version=0");
        for message in [
            Message::LeaderInfo(Epoch(3)),
            Message::Diff(zxid),
            Message::Trunc(zxid),
            Message::Snap(zxid),
            Message::Proposal(txn.clone()),
            Message::Commit(zxid),
            Message::Inform(txn.clone()),
            Message::CommitAndActivate(zxid, ServerId(7)),
            Message::InformAndActivate(txn, ServerId(7)),
            Message::NewLeader { epoch: Epoch(3), config },
            Message::UpToDate,
            Message::Ping(zxid),
            Message::Revalidated(session, true),
            Message::Sync,
        ] {
            check(&message, Sender::Leader);
        }
        let (server, accepted) = (ServerId(5), Epoch(2));
        let (body, ids) = (Bytes::from_static(b"body"), Bytes::copy_from_slice(RawIds::EMPTY.bytes()));
        for message in [
            Message::Hello { server, kind: LearnerKind::Follower, accepted, config_version: 7 },
            Message::Hello { server, kind: LearnerKind::Observer, accepted, config_version: 0 },
            Message::AckEpoch { last: zxid, current: Some(Epoch(2)) },
            Message::AckEpoch { last: zxid, current: None },
            Message::Ack(zxid),
            Message::Pong(zxid, Bytes::new()),
            Message::Revalidate(session, 6000),
            Message::Request(Request { session, cxid: 9, op: 1, body, ids }),
        ] {
            check(&message, Sender::Learner);
        }
    }

    /// A run is encoded as single packets, which Apache understands, and merged again by the receiver.
    #[test]
    fn zxid_range_is_encoded_as_single_packets() {
        let zxid = |counter| Zxid::new(3, counter);
        let run = ZxidRange { first: zxid(4), last: zxid(6) };
        for (message, side) in [(Message::Commits(run), Sender::Leader), (Message::Acks(run), Sender::Learner)] {
            let (mut bytes, mut single) = (Vec::new(), Vec::new());
            message.put(&mut bytes);
            for zxid in run.iter() {
                let one = if side == Sender::Leader { Message::Commit(zxid) } else { Message::Ack(zxid) };
                one.put(&mut single);
            }
            assert_eq!(bytes, single);
            let chunk = Bytes::from(bytes);
            let (mut reader, mut at, mut heard) = (PacketReader::default(), 0, Vec::<Message>::new());
            while let Some((packet, length)) = reader.next(&chunk[at..], 1 << 20).unwrap() {
                let next = Message::read(&packet, &chunk, side).unwrap();
                if !heard.last_mut().is_some_and(|last| last.join(&next)) {
                    heard.push(next);
                }
                at += length;
            }
            assert_eq!(heard, [message]);
        }
    }

    #[test]
    fn only_consecutive_messages_are_merged() {
        let zxid = |epoch, counter| Zxid::new(epoch, counter);
        for (message, next) in [
            (Message::Commit(zxid(3, 4)), Message::Commit(zxid(3, 6))),
            (Message::Commit(zxid(3, 4)), Message::Commit(zxid(3, 4))),
            (Message::Commit(zxid(3, 4)), Message::Ack(zxid(3, 5))),
            // An ACK of the epoch's first zxid acknowledges the initial history, not a transaction.
            (Message::Ack(zxid(3, 0)), Message::Ack(zxid(3, 1))),
            (Message::Ack(zxid(3, u32::MAX)), Message::Ack(zxid(4, 0))),
            (Message::Ack(Zxid(i64::MAX)), Message::Ack(Zxid(1))),
            (Message::Acks(ZxidRange { first: zxid(3, 4), last: zxid(3, 5) }), Message::Ack(zxid(3, 7))),
        ] {
            assert!(!message.clone().join(&next), "{message:?} {next:?}");
        }
    }
}
