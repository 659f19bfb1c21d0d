//! Framing of the records in a transaction log.
//!
//! ```text
//! checksum i64 (Adler-32 of the record, zero-extended) | length i32 | record | 0x42
//! ```
//! The server that creates a transaction frames it once; log thread, applier and peers share those bytes.

use crate::jute::{Jute, Reader};

pub const END_BYTE: u8 = 0x42;
/// Checksum and length before the record.
pub const HEAD_BYTES: usize = 12;
/// Bytes of a frame in addition to its record.
pub const OVERHEAD_BYTES: usize = HEAD_BYTES + 1;

/// Starts a frame at the end of `out`. Pass the returned mark to [`end_log_frame`].
pub fn begin_log_frame(out: &mut Vec<u8>) -> usize {
    out.extend_from_slice(&[0; HEAD_BYTES]);
    out.len()
}

/// Completes the frame whose record starts at `mark`.
///
/// # Panics
/// If the record exceeds the 2 GiB that a length can express.
pub fn end_log_frame(out: &mut Vec<u8>, mark: usize) {
    let length = i32::try_from(out.len() - mark).expect("a record stays below 2 GiB");
    let checksum = i64::from(simd_adler32::adler32(&&out[mark..]));
    out[mark - HEAD_BYTES..mark - 4].copy_from_slice(&checksum.to_be_bytes());
    out[mark - 4..mark].copy_from_slice(&length.to_be_bytes());
    out.push(END_BYTE);
}

/// Result of reading one frame of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framed<'a> {
    /// The record of an intact frame.
    Record(&'a [u8]),
    /// The bytes end within the frame.
    Short,
    /// A negative or otherwise impossible length.
    BadLength(i32),
    /// The end byte is not [`END_BYTE`].
    BadEnd(u8),
    /// The checksum does not match the record.
    BadChecksum,
}

/// Reads and verifies the frame at the start of `bytes`.
pub fn read_log_frame(bytes: &[u8]) -> Framed<'_> {
    let mut from = Reader::from_disk(bytes);
    let (Ok(checksum), Ok(length)) = (i64::get(&mut from), i32::get(&mut from)) else { return Framed::Short };
    let Some(size) = usize::try_from(length).ok().filter(|size| 0 < *size) else { return Framed::BadLength(length) };
    let Some((record, rest)) = from.rest().split_at_checked(size) else { return Framed::Short };
    match rest.first() {
        None => Framed::Short,
        Some(&END_BYTE) if i64::from(simd_adler32::adler32(&record)) == checksum => Framed::Record(record),
        Some(&END_BYTE) => Framed::BadChecksum,
        Some(&other) => Framed::BadEnd(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_round_trip_and_damage_is_classified() {
        let mut out = vec![9];
        let mark = begin_log_frame(&mut out);
        out.extend_from_slice(b"record");
        end_log_frame(&mut out, mark);
        let frame = &mut out[1..];
        assert_eq!(read_log_frame(frame), Framed::Record(b"record"));
        assert_eq!(read_log_frame(&frame[..frame.len() - 1]), Framed::Short);
        assert_eq!(read_log_frame(&frame[..11]), Framed::Short);
        frame[14] ^= 1;
        assert_eq!(read_log_frame(frame), Framed::BadChecksum);
        frame[18] = 0x43;
        assert_eq!(read_log_frame(frame), Framed::BadEnd(0x43));
        frame[8] = 0xff;
        assert!(matches!(read_log_frame(frame), Framed::BadLength(_)));
    }
}
