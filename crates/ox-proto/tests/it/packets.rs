//! Packets of the quorum port.

use crate::capture::{Message, Port, Stream, shown_config, streams};
use ox_proto::quorum::payload::{
    AckEpoch, Activation, ForwardedRequest, LeaderInfo, LearnerInfo, Revalidate, Revalidated, Touch, Touches, read,
};
use ox_proto::quorum::{Packet, PacketKind, PacketReader, packet};
use ox_proto::txn::{Record, Txn, TxnHeader};
use ox_proto::{Jute, OpCode};
use std::collections::BTreeMap;

const LIMIT: usize = ox_proto::limits::PACKET_DATA_BYTES_MAX_DEFAULT;

fn is_packet(message: &Message) -> bool {
    !message.text.starts_with("QuorumAuthPacket") && !message.text.contains("SNAPSHOT raw")
}

#[test]
fn every_quorum_packet_round_trips() {
    let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
    for message in streams(Port::Learner).iter().flat_map(|stream| &stream.messages) {
        let Message { place, direction, text, bytes } = message;
        if !is_packet(message) {
            *counts.entry("other").or_default() += 1;
            continue;
        }
        let (packet, length) = PacketReader::default().next(bytes, LIMIT).unwrap().unwrap();
        let mut written = Vec::new();
        packet.put(&mut written);
        assert_eq!((length, &written), (bytes.len(), bytes), "{place}");
        let (shown, whole) = shown(&packet, direction);
        let ids = format!(" authinfo={}", shown_ids(&packet));
        if whole {
            assert_eq!(*text, shown + &ids, "{place}");
        } else {
            assert!(text.starts_with(&shown) && text.ends_with(&ids), "{place}: {shown}{ids}");
        }
        *counts.entry(packet.kind.name()).or_default() += 1;
    }
    assert_eq!(counts.values().sum::<u32>(), 1125);
    assert_eq!(PacketKind::ALL.iter().filter(|kind| !counts.contains_key(kind.name())).count(), 0);
    assert_eq!(counts["other"], 4 + 6);
}

/// The packet as the recorder prints it, and whether that is the complete text or only its start.
fn shown(packet: &Packet<'_>, direction: &str) -> (String, bool) {
    use PacketKind as K;
    let Packet { kind, zxid, data, .. } = *packet;
    let head = format!("{} zxid={zxid}", kind.name());
    let from_learner = direction == "C>S";
    let shown = match kind {
        K::Request => shown_request(&decoded(packet)),
        K::Proposal | K::Inform => return (format!("{head} {}", shown_record(packet, data.unwrap())), false),
        K::InformAndActivate => {
            let Activation { leader, record } = decoded(packet);
            return (format!("{head} designatedLeader={leader} {}", shown_record(packet, record)), false);
        }
        K::CommitAndActivate => {
            let Activation { leader, record } = decoded(packet);
            assert!(record.is_empty());
            format!("designatedLeader={leader}")
        }
        K::Ping if from_learner => {
            let touches = decoded::<Touches<'_>>(packet).iter();
            let touches = touches.map(|Touch { session, timeout_ms }| format!("('{session}', {timeout_ms})"));
            format!("touch=[{}]", touches.collect::<Vec<_>>().join(", "))
        }
        K::Revalidate if from_learner => {
            let Revalidate { session, timeout_ms } = decoded(packet);
            format!("session={session} timeout={timeout_ms}")
        }
        K::Revalidate => {
            let Revalidated { session, valid } = decoded(packet);
            format!("session={session} valid={}", if valid { "True" } else { "False" })
        }
        K::NewLeader => shown_config(std::str::from_utf8(data.unwrap()).unwrap()),
        K::FollowerInfo | K::ObserverInfo => {
            let LearnerInfo { server, protocol_version, config_version } = decoded(packet);
            let (protocol, config) = (protocol_version.unwrap(), config_version.unwrap());
            format!("LearnerInfo{{serverid={server} protocolVersion={protocol:#x} configVersion={config:#x}}}")
        }
        K::LeaderInfo => format!("leaderProtocolVersion={:#x}", decoded::<LeaderInfo>(packet).protocol_version),
        K::AckEpoch => format!("currentEpoch={}", decoded::<AckEpoch>(packet).current_epoch),
        K::Ack | K::Commit | K::Ping | K::Sync | K::UpToDate | K::Diff | K::Trunc | K::Snap => {
            let mut written = Vec::new();
            packet::put_bare(&mut written, kind, zxid);
            let mut generic = Vec::new();
            packet.put(&mut generic);
            assert_eq!(written, generic);
            "data=null".to_owned()
        }
        K::Unknown(code) => panic!("kind {code}"),
    };
    (format!("{head} {shown}"), true)
}

/// Decodes the data and checks that it encodes to the same bytes.
fn decoded<'a, T: Jute<'a>>(packet: &Packet<'a>) -> T {
    let payload: T = read(packet.data).unwrap();
    let mut written = Vec::new();
    let mark = packet::begin_packet(&mut written, packet.kind, packet.zxid);
    payload.put(&mut written);
    packet::end_packet(&mut written, mark, packet.ids);
    let mut generic = Vec::new();
    packet.put(&mut generic);
    assert_eq!(written, generic);
    payload
}

fn shown_request(request: &ForwardedRequest<'_>) -> String {
    let ForwardedRequest { session, cxid, op, body } = request;
    let name = OpCode::try_from(*op).unwrap().name();
    let body: String = body.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("session={session} cxid={cxid} type={op}({name}) payload={body}")
}

/// Formats the header of a record and checks that the whole record round-trips.
fn shown_record(packet: &Packet<'_>, bytes: &[u8]) -> String {
    let record = Record::decode(bytes).unwrap();
    let mut written = Vec::new();
    record.put(&mut written);
    assert_eq!(written, bytes);
    if let Txn::Reconfig { data, .. } = &record.txn {
        shown_config(std::str::from_utf8(data.unwrap()).unwrap());
    }
    let TxnHeader { session, cxid, zxid, time_ms, kind } = record.header;
    assert_eq!(zxid, packet.zxid);
    let name = OpCode::try_from(kind).unwrap().name();
    format!("TxnHeader{{clientId={session} cxid={cxid} zxid={zxid} time={time_ms} type={kind}({name})}}")
}

fn shown_ids(packet: &Packet<'_>) -> String {
    if packet.ids.is_null() {
        return "null".to_owned();
    }
    let ids = packet.ids.iter().map(|id| format!("('{}', '{}')", id.scheme.unwrap(), id.id.unwrap()));
    format!("[{}]", ids.collect::<Vec<_>>().join(", "))
}

/// Reads each direction of a stream byte by byte and in large pieces, up to a snapshot or the end.
#[test]
fn stream_in_pieces_yields_the_same_packets() {
    for stream in streams(Port::Learner) {
        for (direction, piece) in [("C>S", 1), ("S>C", 1), ("C>S", 1000), ("S>C", 1000)] {
            check_pieces(&stream, direction, piece);
        }
    }
}

fn check_pieces(stream: &Stream, direction: &str, piece: usize) {
    let messages = stream.directed(direction).skip_while(|message| !is_packet(message));
    let messages: Vec<_> = messages.take_while(|message| is_packet(message)).map(|message| &message.bytes).collect();
    let bytes = messages.iter().flat_map(|message| message.iter().copied()).collect::<Vec<_>>();
    let (mut reader, mut start, mut seen) = (PacketReader::default(), 0, 0);
    for end in (0..bytes.len()).step_by(piece).chain([bytes.len()]) {
        while let Some((_, length)) = reader.next(&bytes[start..end], LIMIT).unwrap() {
            assert_eq!(&bytes[start..start + length], messages[seen]);
            (start, seen) = (start + length, seen + 1);
        }
    }
    assert_eq!((start, seen), (bytes.len(), messages.len()));
}
