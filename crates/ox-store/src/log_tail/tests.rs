use super::*;
use ox_proto::SessionId;
use ox_proto::log_frame::{begin_log_frame, end_log_frame};
use ox_proto::txn::{Txn, TxnHeader};

/// A frame with a setData record.
fn put_frame(out: &mut Vec<u8>, zxid: i64, data: &[u8]) {
    let mark = begin_log_frame(out);
    let txn = Txn::SetData { path: "/n".into(), data: Some(data), version: 1 };
    let header = TxnHeader { session: SessionId(1), cxid: 1, zxid: Zxid(zxid), time_ms: 1, kind: txn.kind().code() };
    Record { header, txn, digest: None }.put(out);
    end_log_frame(out, mark);
}

fn frames(sizes: &[usize]) -> Vec<u8> {
    let mut out = Vec::new();
    for (index, size) in sizes.iter().enumerate() {
        put_frame(&mut out, 8 + i64::try_from(index).unwrap(), &vec![0xaa; *size]);
    }
    out
}

fn verdict(rest: &[u8], synced: Option<u64>) -> TailVerdict {
    examine_bytes(rest, 512, Zxid(7), 1000).verdict(synced, 1000)
}

#[test]
fn truncation_at_any_byte_is_torn() {
    let whole = frames(&[600]);
    for length in 1..whole.len() {
        assert_eq!(verdict(&whole[..length], None), TailVerdict::Torn, "cut at {length}");
    }
}

#[test]
fn short_write_at_any_byte_is_torn() {
    let whole = frames(&[600]);
    for length in 1..whole.len() {
        let mut bytes = whole[..length].to_vec();
        bytes.resize(4096, 0);
        if bytes[..whole.len()] != whole[..] && bytes.iter().any(|byte| *byte != 0) {
            assert_eq!(verdict(&bytes, None), TailVerdict::Torn, "stopped at {length}");
        }
    }
}

#[test]
fn complete_record_with_wrong_length_is_corrupt() {
    for bit in 0..32 {
        let mut bytes = frames(&[600]);
        bytes[8 + bit / 8] ^= 0x80 >> (bit % 8);
        assert_eq!(verdict(&bytes, None), TailVerdict::Corrupt, "bit {bit}, no padding");
        bytes.resize(1 << 20, 0);
        assert_eq!(verdict(&bytes, None), TailVerdict::Corrupt, "bit {bit}, padding");
    }
}

#[test]
fn missing_sector_is_torn_and_flipped_bit_is_corrupt() {
    let mut torn = frames(&[2000]);
    torn[512..1024].fill(0);
    assert_eq!(verdict(&torn, None), TailVerdict::Torn);
    let mut flipped = frames(&[2000]);
    flipped[700] ^= 1;
    assert_eq!(verdict(&flipped, None), TailVerdict::Corrupt);
}

#[test]
fn gap_before_intact_frames_is_torn_only_with_a_marker() {
    let mut bytes = frames(&[2000, 10, 10]);
    bytes[512..1024].fill(0);
    let found = examine_bytes(&bytes, 512, Zxid(7), 1000);
    assert_eq!((found.intact_after, found.last_after), (2, Some(Zxid(10))));
    assert_eq!(found.verdict(None, 1000), TailVerdict::Corrupt);
    assert_eq!(found.verdict(Some(512), 1000), TailVerdict::Torn);
    assert_eq!(found.verdict(Some(513), 1000), TailVerdict::Corrupt, "those bytes had been synced");
}

#[test]
fn one_batch_may_follow_where_apache_stops_reading() {
    let mut bytes = frames(&[600, 600, 10, 10]);
    bytes[512..1024].fill(0); // the end of the first frame and the beginning of the second
    let found = examine_bytes(&bytes, 512, Zxid(7), 1000);
    assert!(found.ends_for_apache);
    assert_eq!((found.intact_after, found.last_after), (2, Some(Zxid(11))));
    assert_eq!(found.verdict(None, 1000), TailVerdict::InDoubt);
    assert_eq!(found.verdict(None, 1), TailVerdict::Corrupt, "more than a batch");
}

#[test]
fn old_frames_inside_data_do_not_count() {
    let mut data = Vec::new();
    put_frame(&mut data, 5, b"old");
    data.resize(700, 1);
    let mut bytes = Vec::new();
    put_frame(&mut bytes, 8, &data);
    bytes[14] ^= 1;
    assert_eq!(examine_bytes(&bytes, 512, Zxid(7), 1000).next, None);
    assert!(examine_bytes(&bytes, 512, Zxid(4), 1000).next.is_some());
}

#[test]
fn intact_frame_that_cannot_be_decoded_is_never_torn() {
    let mut bytes = Vec::new();
    let mark = begin_log_frame(&mut bytes);
    bytes.extend_from_slice(&[0; 1200]); // a zero header with type 0
    end_log_frame(&mut bytes, mark);
    assert_eq!(verdict(&bytes, None), TailVerdict::Corrupt);
}

#[test]
fn search_is_abandoned_in_a_file_of_overlapping_heads() {
    // Every 16th byte starts a head that announces a frame up to the last byte.
    let mut bytes = Vec::new();
    let size = 1 << 20;
    while bytes.len() < size {
        let left = i32::try_from(size - bytes.len() - OVERHEAD_BYTES + 16).unwrap();
        bytes.extend_from_slice(&[0, 0, 0, 0, 1, 1, 1, 1]);
        bytes.extend_from_slice(&left.to_be_bytes());
        bytes.extend_from_slice(&[9; 4]);
    }
    bytes.resize(size + 16, 1);
    bytes[size + 15] = END_BYTE;
    let found = examine_bytes(&bytes, 512, Zxid(7), 10);
    assert_eq!((found.next, found.intact_after), (None, 11));
}
