//! The protocols between servers.

use ox_proto::ensemble::{Address, Addresses, Ensemble};
use ox_proto::quorum::identities::put_ids;
use ox_proto::quorum::payload::{self, Activation, ForwardedRequest, LearnerInfo, Revalidate, Revalidated, Touches};
use ox_proto::quorum::{
    AuthPacket, AuthStatus, Hello, HelloVersion, Notification, Packet, PacketKind, PacketReader, PeerState, RawIds,
    hello, notification, packet,
};
use ox_proto::{Jute, ServerId, SessionId, Zxid};

/// Maximum packet size, low enough for inputs to reach it.
const LIMIT: usize = 0x8000;

const CONFIGS: [&str; 4] = [
    "server.1=127.0.0.1:2888:3888:participant;0.0.0.0:2181\nserver.2=b:2888:3888:observer\nversion=100000004",
    "server.1=a:1:2|b:3:4:participant;[::1]:5\nserver.2=[fe80::1%3]:1:2\nversion=0",
    "server.1=a:1:2\nserver.2=b:1:2\nserver.3=c:1:2\ngroup.1=1:2\ngroup.2=3\nweight.1=2\nweight.3=0\nversion=f",
    "! x\nserver.\\u0031 = a\\:1:\\\n  2:OBSERVER ;5\nserver.2\tb:1:2\n",
];

pub(super) fn packet_corpus() -> Vec<Vec<u8>> {
    let mut ids = Vec::new();
    put_ids(&mut ids, [("ip", "127.0.0.1"), ("digest", "bob:secret")].into_iter());
    let ids = RawIds::from_encoded(&ids).expect("just written");
    let mut out = Vec::new();
    let mut corpus = Vec::new();
    let mut add = |kind, ids, put: &dyn Fn(&mut Vec<u8>)| {
        let start = out.len();
        let mark = packet::begin_packet(&mut out, kind, Zxid(0x1_0000_0001));
        put(&mut out);
        packet::end_packet(&mut out, mark, ids);
        packet::put_bare(&mut out, PacketKind::Commit, Zxid(-1));
        corpus.push(out[start..].to_vec());
    };
    let info = LearnerInfo { server: ServerId(1), protocol_version: Some(0x1_0000), config_version: Some(5) };
    let request = ForwardedRequest { session: SessionId(7), cxid: 1, op: 9, body: b"\0\0\0\x02/a" };
    add(PacketKind::FollowerInfo, RawIds::NULL, &|out| info.put(out));
    add(PacketKind::Request, ids, &|out| request.put(out));
    add(PacketKind::Request, RawIds::EMPTY, &|out| request.put(out));
    add(PacketKind::Ping, RawIds::NULL, &|out| (0..24).for_each(|byte| out.push(byte)));
    add(PacketKind::InformAndActivate, RawIds::NULL, &|out| {
        Activation { leader: ServerId(2), record: b"txn" }.put(out)
    });
    add(PacketKind::NewLeader, RawIds::NULL, &|out| out.extend_from_slice(CONFIGS[0].as_bytes()));
    add(PacketKind::Unknown(77), ids, &|_| ());
    corpus.push(out);
    corpus
}

/// Packets do not depend on chunking, and each encodes to the bytes it was decoded from.
pub(super) fn run_packets(input: &[u8]) {
    let mut whole = Vec::new();
    let (mut reader, mut start) = (PacketReader::default(), 0);
    while let Ok(Some((packet, length))) = reader.next(&input[start..], LIMIT) {
        let mut written = Vec::new();
        packet.put(&mut written);
        assert_eq!(written, input[start..start + length]);
        read_payload(&packet);
        start += length;
        whole.push(start);
    }
    let mut pieces = Vec::new();
    let (mut reader, mut start) = (PacketReader::default(), 0);
    for end in 0..=input.len().min(4 * LIMIT) {
        match reader.next(&input[start..end], LIMIT) {
            Ok(Some((_, length))) => {
                start += length;
                assert_eq!(start, end, "a packet is seen with its last byte");
                pieces.push(start);
            }
            Ok(None) => (),
            Err(_) => break,
        }
    }
    assert!(whole.starts_with(&pieces) && (4 * LIMIT < input.len() || whole == pieces));
}

fn read_payload(packet: &Packet<'_>) {
    let data = packet.data;
    let _ = payload::read::<LearnerInfo>(data);
    let _ = payload::read::<ForwardedRequest<'_>>(data);
    let _ = payload::read::<Revalidate>(data);
    let _ = payload::read::<Revalidated>(data);
    let _ = payload::read::<Activation<'_>>(data);
    if let Ok(touches) = payload::read::<Touches<'_>>(data) {
        assert_eq!(Some(touches.iter().count() * 12), data.map(<[u8]>::len));
    }
    packet.ids.iter().for_each(drop);
}

pub(super) fn hello_corpus() -> Vec<Vec<u8>> {
    let addresses = vec![Address::new("127.0.0.1", 3888), Address::new("::1", 3889)];
    let hellos = [
        Hello { version: HelloVersion::Bare, server: ServerId(3), addresses: Vec::new() },
        Hello { version: HelloVersion::V1, server: ServerId(3), addresses: addresses[..1].to_vec() },
        Hello { version: HelloVersion::V2, server: ServerId(3), addresses },
    ];
    let write = |hello: &Hello| {
        let mut out = Vec::new();
        hello.put(&mut out).expect("short lists fit");
        out
    };
    hellos.iter().map(write).collect()
}

/// A decoded hello encodes to bytes that decode to the same.
pub(super) fn run_hello(input: &[u8]) {
    let Ok(Some((read, used))) = hello::next(input) else { return };
    assert!(used <= input.len() && hello::next(&input[..used - 1]) == Ok(None));
    let again = Hello { version: if used == 8 { HelloVersion::Bare } else { HelloVersion::V2 }, ..read };
    let mut written = Vec::new();
    if again.put(&mut written).is_ok() {
        let (third, used) = hello::next(&written).expect("encoded hellos decode").expect("and are complete");
        assert_eq!((third.server, used), (again.server, written.len()));
        assert!(third.addresses.iter().zip(&again.addresses).all(|(one, other)| one.is_same(other)));
    }
}

pub(super) fn notification_corpus() -> Vec<Vec<u8>> {
    let vote = Notification {
        state: PeerState::Looking,
        leader: ServerId(2),
        zxid: Zxid(0x1_0000_0005),
        round: 3,
        peer_epoch: 1,
    };
    let mut whole = Vec::new();
    vote.put(CONFIGS[0], &mut whole);
    let older = [28_u8, 36, 40].map(|length| [&[0, 0, 0, length], &whole[4..4 + usize::from(length)]].concat());
    let mut two = whole.clone();
    vote.put("", &mut two);
    [vec![whole, two], older.to_vec()].concat()
}

/// Decodes frame by frame; votes encode to the bytes they were decoded from.
pub(super) fn run_notifications(mut input: &[u8]) {
    while let Ok(Some((payload, rest))) = notification::split(input) {
        assert!(!payload.is_empty());
        if let Ok(received) = notification::decode(payload) {
            let mut written = Vec::new();
            let config = received.config.as_deref().unwrap_or_default();
            received.notification.put(config, &mut written);
            let again = notification::decode(&written[4..]).expect("encoded notifications decode");
            assert_eq!((again.notification, again.config.as_deref()), (received.notification, Some(config)));
        }
        input = rest;
    }
}

pub(super) fn ensemble_corpus() -> Vec<Vec<u8>> {
    CONFIGS.iter().map(|text| text.as_bytes().to_vec()).collect()
}

/// A printed ensemble parses to the same ensemble and prints the same text.
pub(super) fn run_ensemble(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let Ok(ensemble) = Ensemble::parse(&text, Addresses::Several) else { return };
    let printed = ensemble.to_string();
    let again = Ensemble::parse(&printed, Addresses::Several).expect("printed ensembles parse");
    assert_eq!(again.to_string(), printed);
    assert_eq!(again.version(), ensemble.version());
    let other = again.with_version(i64::from(ensemble.version() == 0)).expect("a good version");
    assert!(ensemble.is_same(&other), "{ensemble:?} {other:?}");
}

pub(super) fn auth_corpus() -> Vec<Vec<u8>> {
    let mut corpus = Vec::new();
    for (status, token) in [
        (AuthStatus::InProgress, Some(Vec::new())),
        (AuthStatus::InProgress, Some(b"realm=\"zk-quorum-sasl-md5\",nonce=\"n\",algorithm=md5-sess".to_vec())),
        (AuthStatus::Success, Some(b"rspauth=0".to_vec())),
        (AuthStatus::Success, None),
        (AuthStatus::Error, Some(Vec::new())),
    ] {
        let mut bytes = Vec::new();
        AuthPacket { status, token }.put(&mut bytes);
        corpus.push(bytes);
    }
    corpus.push(corpus.concat());
    corpus
}

/// Packets of SASL encode to the bytes they were decoded from, and are incomplete at every shorter length.
pub(super) fn run_auth(input: &[u8]) {
    let mut rest = input;
    while let Ok(Some((packet, length))) = AuthPacket::next(rest) {
        let mut written = Vec::new();
        packet.put(&mut written);
        assert_eq!(written, rest[..length]);
        for end in [0, 7, 8, 12, length - 1].into_iter().filter(|end| *end < length) {
            assert_eq!(AuthPacket::next(&rest[..end]), Ok(None));
        }
        rest = &rest[length..];
    }
}
