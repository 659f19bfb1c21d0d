use super::super::identities::put_ids;
use super::*;
use proptest::prelude::*;

fn next(bytes: &[u8], limit: usize) -> Result<Option<(Packet<'_>, usize)>, PacketError> {
    PacketReader::default().next(bytes, limit)
}

#[test]
fn kinds_round_trip() {
    for &kind in PacketKind::ALL {
        assert_eq!(PacketKind::from(kind.code()), kind);
    }
    assert_eq!(PacketKind::from(20), PacketKind::Unknown(20));
    assert_eq!(PacketKind::Unknown(-5).code(), -5);
}

#[test]
fn all_writers_produce_equal_bytes() {
    let mut out = Vec::new();
    put_bare(&mut out, PacketKind::Commit, Zxid(7));
    Packet { kind: PacketKind::Commit, zxid: Zxid(7), data: None, ids: RawIds::NULL }.put(&mut out);
    assert_eq!(out[..20], out[20..]);
    out.clear();
    put_with_data(&mut out, PacketKind::Inform, Zxid(7), b"txn");
    let mark = begin_packet(&mut out, PacketKind::Inform, Zxid(7));
    out.extend_from_slice(b"txn");
    end_packet(&mut out, mark, RawIds::NULL);
    assert_eq!(out[..23], out[23..]);
}

#[test]
fn hostile_length_is_refused_before_data_arrives() {
    let head = |length: i32| [&[0; 12][..], &length.to_be_bytes()].concat();
    assert_eq!(next(&head(-2), 100), Err(PacketError::BadLength(-2)));
    assert_eq!(next(&head(80), 100), Ok(None));
    assert_eq!(next(&head(81), 100), Err(PacketError::TooLarge { announced: 101, limit: 100 }));
    assert!(matches!(next(&head(i32::MAX), 100), Err(PacketError::TooLarge { .. })));
    assert_eq!(next(&head(0)[..15], 10), Ok(None));
    let counted = |count: i32| [head(-1), count.to_be_bytes().to_vec()].concat();
    assert_eq!(next(&counted(10), 100), Ok(None));
    assert_eq!(next(&counted(11), 100), Err(PacketError::TooLarge { announced: 108, limit: 100 }));
    assert!(matches!(next(&counted(i32::MAX), 100), Err(PacketError::TooLarge { .. })));
    let text = |length: i32| [counted(1), length.to_be_bytes().to_vec()].concat();
    assert_eq!(next(&text(72), 100), Ok(None));
    assert_eq!(next(&text(73), 100), Err(PacketError::TooLarge { announced: 101, limit: 100 }));
    assert_eq!(next(&text(-3), 100), Err(PacketError::BadLength(-3)));
}

#[test]
fn negative_id_count_means_no_ids() {
    let mut bytes = Vec::new();
    put_bare(&mut bytes, PacketKind::Ack, Zxid(1));
    bytes[16..].copy_from_slice(&(-7_i32).to_be_bytes());
    let (packet, length) = next(&bytes, 20).unwrap().unwrap();
    assert_eq!((length, packet.ids.is_null(), packet.ids.iter().count()), (20, false, 0));
}

/// A reader that gets fewer bytes than before waits and does not panic.
#[test]
fn shrinking_buffer_does_not_panic() {
    let mut bytes = Vec::new();
    let mark = begin_packet(&mut bytes, PacketKind::Request, Zxid(-1));
    let mut ids = Vec::new();
    put_ids(&mut ids, [("ip", "1.2.3.4"); 3].into_iter());
    end_packet(&mut bytes, mark, RawIds::from_encoded(&ids).unwrap());
    let mut reader = PacketReader::default();
    assert_eq!(reader.next(&bytes[..bytes.len() - 1], 1000), Ok(None));
    assert_eq!(reader.next(&bytes[..5], 1000), Ok(None));
    assert!(reader.next(&bytes, 1000).unwrap().is_some());
}

#[derive(Clone, Debug)]
struct Owned {
    kind: i32,
    zxid: i64,
    data: Option<Vec<u8>>,
    ids: Option<Vec<(String, String)>>,
}

fn owned() -> impl Strategy<Value = Owned> {
    let data = proptest::option::of(proptest::collection::vec(any::<u8>(), 0..40));
    let ids = proptest::option::of(proptest::collection::vec(("[a-z]{0,3}", "\\PC{0,4}"), 0..4));
    (-1..25, any::<i64>(), data, ids).prop_map(|(kind, zxid, data, ids)| Owned { kind, zxid, data, ids })
}

fn encode(packets: &[Owned]) -> Vec<u8> {
    let mut out = Vec::new();
    for Owned { kind, zxid, data, ids } in packets {
        let mut list = RawIds::NULL.bytes().to_vec();
        if let Some(ids) = ids {
            list.clear();
            put_ids(&mut list, ids.iter().map(|(scheme, id)| (&**scheme, &**id)));
        }
        let ids = RawIds::from_encoded(&list).unwrap();
        Packet { kind: (*kind).into(), zxid: Zxid(*zxid), data: data.as_deref(), ids }.put(&mut out);
    }
    out
}

/// Feeds the stream in pieces; returns all packets re-encoded, and the bytes left over.
fn drive(
    stream: &[u8],
    mut pieces: impl Iterator<Item = usize>,
    limit: usize,
) -> Result<(Vec<Vec<u8>>, usize), PacketError> {
    let (mut reader, mut start, mut end, mut packets) = (PacketReader::default(), 0, 0, Vec::new());
    loop {
        while let Some((packet, length)) = reader.next(&stream[start..end], limit)? {
            let mut bytes = Vec::new();
            packet.put(&mut bytes);
            assert_eq!(bytes, stream[start..start + length]);
            packets.push(bytes);
            start += length;
        }
        if end == stream.len() {
            return Ok((packets, end - start));
        }
        end = stream.len().min(end + pieces.next().unwrap_or(stream.len()));
    }
}

proptest! {
    #[test]
    fn any_split_gives_the_same_packets(
        packets in proptest::collection::vec(owned(), 1..5),
        pieces in proptest::collection::vec(1_usize..30, 0..60),
    ) {
        let stream = encode(&packets);
        let (whole, left) = drive(&stream, std::iter::empty(), 1000).unwrap();
        prop_assert_eq!((whole.len(), left), (packets.len(), 0));
        prop_assert_eq!(drive(&stream, pieces.into_iter(), 1000).unwrap(), (whole, 0));
    }

    #[test]
    fn any_bytes_give_packets_or_an_error(
        bytes in proptest::collection::vec(prop_oneof![3 => Just(0_u8), 1 => any::<u8>()], 0..200),
        pieces in proptest::collection::vec(1_usize..30, 0..60),
        limit in 0_usize..300,
    ) {
        let whole = drive(&bytes, std::iter::empty(), limit);
        prop_assert_eq!(drive(&bytes, pieces.into_iter(), limit), whole);
    }
}
