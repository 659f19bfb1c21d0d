//! The end of a log: clean, torn or corrupt.
//!
//! At the first offset without an intact frame, the bytes that follow decide (`o` is that offset, `e` the start of the
//! next intact frame, or the announced end of the damaged one):
//!
//! ```text
//! only zeros, or nothing                                                  clean
//! not the signature of an interrupted append                              corrupt
//! the marker shows that bytes after o were synced                         corrupt
//! no intact frame follows                                                 torn
//! there is a marker, so everything after its position was one batch       torn
//! Apache's reader stops here too, and at most one batch follows           in doubt
//! anything else                                                           corrupt
//! ```
//! The signature: an append overwrites zeros, and each of its sectors is either on disk or still zero. So at least one
//! sector is zero in its part of `[o, e)`; or, after a short write, the end of the frame was never written and nothing
//! follows. A record whose checksum matches up to where the zeros begin is complete, and only its length was changed:
//! it is not torn.
//!
//! A torn tail was never acknowledged and is truncated. A corrupt one may have been, so it is left untouched. In case
//! of doubt, a standalone server truncates it, as Apache does; an ensemble member does not, because the other members
//! have the records.

use crate::disk::{DiskFile, read_full};
use crate::error::{Damage, IoContext, StoreError};
use crate::limits::{APACHE_RECORD_BYTES_MAX, READ_CHUNK_BYTES, SEARCH_EFFORT};
use ox_proto::log_frame::{END_BYTE, Framed, HEAD_BYTES, OVERHEAD_BYTES, read_log_frame};
use ox_proto::txn::Record;
use ox_proto::{DecodeError, Zxid};
use std::path::Path;

const SECTOR_BYTES: u64 = 512;

/// The state of a log after its last intact frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TailState {
    /// Only zeros follow, or nothing.
    Clean,
    Damaged(DamagedTail),
}

/// What is known about a damaged part of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedTail {
    /// The first offset without an intact frame.
    pub offset: u64,
    /// Offset and zxid of the next intact frame.
    pub next: Option<(u64, Zxid)>,
    /// The number of intact frames that follow, counted up to one more than the largest batch.
    pub(crate) intact_after: usize,
    /// The zxid of the last counted frame.
    pub(crate) last_after: Option<Zxid>,
    /// A sector is missing, or the end of the frame was never written.
    pub(crate) looks_torn: bool,
    /// Apache treats this offset as the end of the file.
    pub ends_for_apache: bool,
    /// A frame with a valid checksum whose record cannot be decoded. It was written completely, so it is not torn.
    pub(crate) undecodable: Option<DecodeError>,
    /// The end of the last byte that is not zero.
    pub used_end: u64,
}

/// How recovery treats the damaged end of the last log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TailVerdict {
    /// Never acknowledged: truncate it.
    Torn,
    /// Most likely never acknowledged.
    InDoubt,
    /// Possibly acknowledged: refuse it.
    Corrupt,
}

/// Examines a log from `offset` on; `last_good` is the last intact record before.
pub fn examine(
    file: &dyn DiskFile,
    path: &Path,
    offset: u64,
    last_good: Zxid,
    batch_max: usize,
) -> Result<TailState, StoreError> {
    let length = file.len().context("stat", path)?;
    if is_zero(file, offset, length).context("read", path)? {
        return Ok(TailState::Clean);
    }
    let mut rest = vec![0; usize::try_from(length - offset).unwrap_or(usize::MAX)];
    let count = read_full(file, &mut rest, offset).context("read", path)?;
    rest.truncate(count);
    Ok(TailState::Damaged(examine_bytes(&rest, offset, last_good, batch_max)))
}

fn is_zero(file: &dyn DiskFile, mut offset: u64, length: u64) -> std::io::Result<bool> {
    let zeros = vec![0; READ_CHUNK_BYTES.min(usize::try_from(length.saturating_sub(offset)).unwrap_or(usize::MAX))];
    let mut chunk = zeros.clone();
    while let Some(data) = file.next_data(offset)?.filter(|data| *data < length) {
        offset = data;
        let count = read_full(file, &mut chunk, offset)?;
        if chunk[..count] != zeros[..count] {
            return Ok(false);
        }
        if count == 0 {
            break;
        }
        offset += count as u64;
    }
    Ok(true)
}

fn examine_bytes(rest: &[u8], offset: u64, last_good: Zxid, batch_max: usize) -> DamagedTail {
    let used = rest.iter().rposition(|byte| *byte != 0).map_or(0, |at| at + 1);
    let mut search = Search { bytes: &rest[..used], last: last_good, effort: SEARCH_EFFORT * (used as u64 + 4096) };
    let first = search.next_from(1);
    let (mut intact_after, mut last_after, mut at) = (0, None, first);
    while let Some((_, end, zxid)) = at.filter(|_| intact_after <= batch_max) {
        (intact_after, last_after, search.last) = (intact_after + 1, Some(zxid), zxid);
        at = search.next_from(end);
    }
    if search.effort == 0 {
        intact_after = intact_after.max(batch_max + 1); // unknown, so assume the worst
    }
    let announced = announced_end(rest);
    let end = match (first, announced) {
        (Some((start, ..)), _) => start,
        (None, Some(end)) => end.min(rest.len()),
        (None, None) => rest.len(),
    };
    let unfinished = first.is_none() && (used <= HEAD_BYTES || announced.is_some_and(|end| used < end));
    let looks_torn = (has_missing_sector(&rest[..end], offset) || unfinished) && !is_whole(&rest[..used]);
    DamagedTail {
        offset,
        next: first.map(|(start, _, zxid)| (offset + start as u64, zxid)),
        intact_after,
        last_after,
        looks_torn,
        ends_for_apache: ends_for_apache(rest),
        undecodable: undecodable(rest),
        used_end: offset + used as u64,
    }
}

/// The end of the frame at the start of `rest`, if its announced length is possible.
fn announced_end(rest: &[u8]) -> Option<usize> {
    let length = i32::from_be_bytes(*rest.get(8..)?.first_chunk()?);
    usize::try_from(length).ok().filter(|size| 0 < *size).map(|size| size + OVERHEAD_BYTES)
}

/// Whether `used` is a complete frame with a wrong length.
fn is_whole(used: &[u8]) -> bool {
    let Some((head, [record @ .., END_BYTE])) = used.split_first_chunk::<HEAD_BYTES>() else { return false };
    let checksum = head.first_chunk().map_or(0, |word| i64::from_be_bytes(*word));
    !record.is_empty() && i64::from(simd_adler32::adler32(&record)) == checksum
}

fn undecodable(rest: &[u8]) -> Option<DecodeError> {
    match read_log_frame(rest) {
        Framed::Record(record) => Record::decode(record).err(),
        Framed::Short | Framed::BadLength(_) | Framed::BadEnd(_) | Framed::BadChecksum => None,
    }
}

fn ends_for_apache(rest: &[u8]) -> bool {
    let Some(head) = rest.first_chunk::<HEAD_BYTES>() else { return true };
    let length = head.last_chunk().map_or(0, |word| i32::from_be_bytes(*word));
    let readable = (0..=APACHE_RECORD_BYTES_MAX).contains(&length);
    readable && matches!(read_log_frame(rest), Framed::Short | Framed::BadLength(0) | Framed::BadEnd(_))
}

/// Whether a sector is zero in its part of `damaged`. The first four bytes of every frame are zero, so a part within
/// them does not count.
fn has_missing_sector(damaged: &[u8], offset: u64) -> bool {
    let mut at = 0;
    while at < damaged.len() {
        let to_boundary = SECTOR_BYTES - (offset + at as u64) % SECTOR_BYTES;
        let end = (at + usize::try_from(to_boundary).unwrap_or(usize::MAX)).min(damaged.len());
        if 4 < end && damaged[at..end].iter().all(|byte| *byte == 0) {
            return true;
        }
        at = end;
    }
    false
}

/// A search for intact frames at every byte.
struct Search<'a> {
    bytes: &'a [u8],
    /// Node data may contain frames of an old log: only records with a higher zxid count.
    last: Zxid,
    /// The number of bytes that may still be checksummed; 0 means that the search was abandoned.
    effort: u64,
}

impl Search<'_> {
    /// Start, end and zxid of the first intact frame at or after `from`.
    fn next_from(&mut self, from: usize) -> Option<(usize, usize, Zxid)> {
        (from..self.bytes.len()).find_map(|at| self.frame_at(at))
    }

    fn frame_at(&mut self, at: usize) -> Option<(usize, usize, Zxid)> {
        let bytes = &self.bytes[at..];
        if !bytes.starts_with(&[0; 4]) {
            return None;
        }
        let end = announced_end(bytes)?;
        if bytes.get(end - 1) != Some(&END_BYTE) {
            return None;
        }
        self.effort = self.effort.saturating_sub(end as u64);
        if self.effort == 0 {
            return None;
        }
        let Framed::Record(record) = read_log_frame(bytes) else { return None };
        let zxid = Record::decode(record).ok()?.header.zxid;
        (self.last < zxid).then_some((at, at + end, zxid))
    }
}

impl DamagedTail {
    /// The description of the damage in error messages.
    pub fn damage(&self, synced: Option<u64>) -> Damage {
        match (&self.undecodable, synced) {
            (Some(error), _) => Damage::BadRecord(*error),
            (None, Some(synced)) if self.offset < synced => Damage::SyncedBytes { synced },
            _ => Damage::BadFrame { intact_after: self.intact_after },
        }
    }

    /// The treatment as the end of the last log. `synced` is the position in a marker that names this file.
    pub fn verdict(&self, synced: Option<u64>, batch_max: usize) -> TailVerdict {
        let was_synced = synced.is_some_and(|position| self.offset < position);
        if !self.looks_torn || was_synced || self.undecodable.is_some() {
            return TailVerdict::Corrupt;
        }
        let one_batch = self.ends_for_apache && self.intact_after <= batch_max;
        match self.next.is_none() || synced.is_some() {
            true => TailVerdict::Torn,
            false if one_batch => TailVerdict::InDoubt,
            false => TailVerdict::Corrupt,
        }
    }
}

#[cfg(test)]
mod tests;
