use super::*;
use ox_proto::SessionId;
use ox_proto::log_frame::{begin_log_frame, end_log_frame};
use ox_proto::txn::{Txn, TxnHeader};

/// A frame that sets `data` on some node.
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

fn verdict(rest: &[u8], synced: Option<u64>) -> Verdict {
    judge_bytes(rest, 512, Zxid(7), 1000).verdict(synced, 1000)
}

#[test]
fn a_cut_at_any_byte_is_torn() {
    let whole = frames(&[600]);
    for length in 1..whole.len() {
        assert_eq!(verdict(&whole[..length], None), Verdict::Torn, "cut at {length}");
    }
}

#[test]
fn a_write_that_stopped_at_any_byte_is_torn() {
    let whole = frames(&[600]);
    for length in 1..whole.len() {
        let mut bytes = whole[..length].to_vec();
        bytes.resize(4096, 0);
        if bytes[..whole.len()] != whole[..] && bytes.iter().any(|byte| *byte != 0) {
            assert_eq!(verdict(&bytes, None), Verdict::Torn, "stopped at {length}");
        }
    }
}

#[test]
fn a_whole_record_with_a_changed_length_is_corrupt() {
    for bit in 0..32 {
        let mut bytes = frames(&[600]);
        bytes[8 + bit / 8] ^= 0x80 >> (bit % 8);
        assert_eq!(verdict(&bytes, None), Verdict::Corrupt, "bit {bit}, no padding");
        bytes.resize(1 << 20, 0);
        assert_eq!(verdict(&bytes, None), Verdict::Corrupt, "bit {bit}, padding");
    }
}

#[test]
fn a_missing_sector_is_torn_and_a_flipped_bit_is_not() {
    let mut torn = frames(&[2000]);
    torn[512..1024].fill(0);
    assert_eq!(verdict(&torn, None), Verdict::Torn);
    let mut flipped = frames(&[2000]);
    flipped[700] ^= 1;
    assert_eq!(verdict(&flipped, None), Verdict::Corrupt);
}

#[test]
fn a_hole_with_frames_behind_it_needs_the_marker() {
    let mut bytes = frames(&[2000, 10, 10]);
    bytes[512..1024].fill(0);
    let found = judge_bytes(&bytes, 512, Zxid(7), 1000);
    assert_eq!((found.intact_after, found.last_after), (2, Some(Zxid(10))));
    assert_eq!(found.verdict(None, 1000), Verdict::Corrupt);
    assert_eq!(found.verdict(Some(512), 1000), Verdict::Torn);
    assert_eq!(found.verdict(Some(513), 1000), Verdict::Corrupt, "those bytes had been synced");
}

#[test]
fn where_apache_ends_the_file_one_batch_may_follow() {
    let mut bytes = frames(&[600, 600, 10, 10]);
    bytes[512..1024].fill(0); // the first frame's end and the second's beginning
    let found = judge_bytes(&bytes, 512, Zxid(7), 1000);
    assert!(found.ends_for_apache);
    assert_eq!((found.intact_after, found.last_after), (2, Some(Zxid(11))));
    assert_eq!(found.verdict(None, 1000), Verdict::InDoubt);
    assert_eq!(found.verdict(None, 1), Verdict::Corrupt, "more than a batch");
}

#[test]
fn frames_inside_data_do_not_count_when_old() {
    let mut data = Vec::new();
    put_frame(&mut data, 5, b"old");
    data.resize(700, 1);
    let mut bytes = Vec::new();
    put_frame(&mut bytes, 8, &data);
    bytes[14] ^= 1;
    assert_eq!(judge_bytes(&bytes, 512, Zxid(7), 1000).next, None);
    assert!(judge_bytes(&bytes, 512, Zxid(4), 1000).next.is_some());
}

#[test]
fn an_intact_frame_that_means_nothing_is_never_torn() {
    let mut bytes = Vec::new();
    let mark = begin_log_frame(&mut bytes);
    bytes.extend_from_slice(&[0; 1200]); // a header of zeros and type 0
    end_log_frame(&mut bytes, mark);
    assert_eq!(verdict(&bytes, None), Verdict::Corrupt);
}

#[test]
fn the_search_gives_up_on_a_file_made_of_heads() {
    // Every 16th byte starts a head that announces everything up to the last byte.
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
    let found = judge_bytes(&bytes, 512, Zxid(7), 10);
    assert_eq!((found.next, found.intact_after), (None, 11));
}
