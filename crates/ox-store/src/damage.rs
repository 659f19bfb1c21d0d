//! What a log's end means: clean, torn or corrupt.
//!
//! At the first place where no intact frame starts, the bytes that follow decide (`o` is that place, `e` where the
//! next intact frame starts or the damaged one would end):
//!
//! ```text
//! all zero, or nothing                                                   clean
//! not the signature of an append that never reached its sync             corrupt
//! the marker says that bytes behind o had been synced                    corrupt
//! no intact frame follows                                                torn
//! there is a marker, so everything behind it was one unsynced batch      torn
//! Apache's reader ends here too, and at most one batch follows           in doubt
//! anything else                                                          corrupt
//! ```
//! The signature: an append goes into zeros, and each sector of it is either on the disk or still zero. So at
//! least one sector has its part inside `[o, e)` all zero; or, behind a write that stopped short, nothing at all
//! follows and the end of the frame was never written. A record whose checksum fits up to where the zeros begin is
//! complete, and only its length was changed: that is no tear.
//!
//! Torn bytes were never acknowledged and are cut. Corrupt ones may have been, so nothing is done to them. What is in
//! doubt is cut by a standalone server, as Apache would; an ensemble member leaves it, and asks the others.

use crate::disk::{DiskFile, read_full};
use crate::error::{Damage, Error, IoContext};
use crate::limits::{APACHE_RECORD_BYTES_MAX, READ_CHUNK_BYTES, SEARCH_EFFORT};
use ox_proto::log_frame::{END_BYTE, Framed, HEAD_BYTES, OVERHEAD_BYTES, read_log_frame};
use ox_proto::txn::Record;
use ox_proto::{DecodeError, Zxid};
use std::path::Path;

const SECTOR_BYTES: u64 = 512;

/// What was found where reading stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// Only zeros follow, or nothing.
    Clean,
    /// Something else.
    Damaged(Damaged),
}

/// Facts about a damaged place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Damaged {
    /// Where no intact frame starts.
    pub(crate) offset: u64,
    /// The next intact frame and its zxid.
    pub(crate) next: Option<(u64, Zxid)>,
    /// Intact frames that follow, counted up to one more than the largest batch.
    pub(crate) intact_after: usize,
    /// The last of them that was counted.
    pub(crate) last_after: Option<Zxid>,
    /// At least one sector never arrived, or the end of the frame was never written.
    pub(crate) looks_torn: bool,
    /// Apache takes this place for the end of the file.
    pub(crate) ends_for_apache: bool,
    /// A frame whose checksum fits but whose record cannot be decoded: it arrived whole, so it is not torn.
    pub(crate) undecodable: Option<DecodeError>,
    /// End of what is not zero.
    pub(crate) used_end: u64,
}

/// How a damaged last log is to be treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Cut it.
    Torn,
    /// Most likely torn.
    InDoubt,
    /// Refuse it.
    Corrupt,
}

/// Looks at the rest of a log from `offset` on, behind the intact record `last_good`.
pub(crate) fn inspect(
    file: &dyn DiskFile,
    path: &Path,
    offset: u64,
    last_good: Zxid,
    batch_max: usize,
) -> Result<Stop, Error> {
    let length = file.len().context("measure", path)?;
    if is_zero(file, offset, length).context("read", path)? {
        return Ok(Stop::Clean);
    }
    let mut rest = vec![0; usize::try_from(length - offset).unwrap_or(usize::MAX)];
    let count = read_full(file, &mut rest, offset).context("read", path)?;
    rest.truncate(count);
    Ok(Stop::Damaged(judge_bytes(&rest, offset, last_good, batch_max)))
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

fn judge_bytes(rest: &[u8], offset: u64, last_good: Zxid, batch_max: usize) -> Damaged {
    let used = rest.iter().rposition(|byte| *byte != 0).map_or(0, |at| at + 1);
    let mut search = Search { bytes: &rest[..used], last: last_good, effort: SEARCH_EFFORT * (used as u64 + 4096) };
    let first = search.next_from(1);
    let (mut intact_after, mut last_after, mut at) = (0, None, first);
    while let Some((_, end, zxid)) = at.filter(|_| intact_after <= batch_max) {
        (intact_after, last_after, search.last) = (intact_after + 1, Some(zxid), zxid);
        at = search.next_from(end);
    }
    if search.effort == 0 {
        intact_after = intact_after.max(batch_max + 1); // unknown, so the worst
    }
    let announced = announced_end(rest);
    let end = match (first, announced) {
        (Some((start, ..)), _) => start,
        (None, Some(end)) => end.min(rest.len()),
        (None, None) => rest.len(),
    };
    let unfinished = first.is_none() && (used <= HEAD_BYTES || announced.is_some_and(|end| used < end));
    let looks_torn = (has_missing_sector(&rest[..end], offset) || unfinished) && !is_whole(&rest[..used]);
    Damaged {
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

/// Where the frame at the start of `rest` would end, if its length is one that a frame can have.
fn announced_end(rest: &[u8]) -> Option<usize> {
    let length = i32::from_be_bytes(*rest.get(8..)?.first_chunk()?);
    usize::try_from(length).ok().filter(|size| 0 < *size).map(|size| size + OVERHEAD_BYTES)
}

/// A whole frame whose length is wrong.
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

/// True if the part of some sector that lies in `damaged` is all zero. The first four bytes of a frame always are,
/// so a part within them says nothing.
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

/// Looks for intact frames at every byte.
struct Search<'a> {
    bytes: &'a [u8],
    /// Data of a node can itself hold frames of an old log: only newer records are ours.
    last: Zxid,
    /// Bytes that may still be checksummed; 0 means given up.
    effort: u64,
}

impl Search<'_> {
    /// Start, end and zxid of the first intact frame that starts at `from` or later.
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

impl Damaged {
    /// What is said about it.
    pub(crate) fn damage(&self, synced: Option<u64>) -> Damage {
        match (&self.undecodable, synced) {
            (Some(error), _) => Damage::BadRecord(*error),
            (None, Some(synced)) if self.offset < synced => Damage::SyncedBytes { synced },
            _ => Damage::BadFrame { intact_after: self.intact_after },
        }
    }

    /// The ruling for the last log. `synced` is the position in a marker that names this
    /// file.
    pub(crate) fn verdict(&self, synced: Option<u64>, batch_max: usize) -> Verdict {
        let was_synced = synced.is_some_and(|position| self.offset < position);
        if !self.looks_torn || was_synced || self.undecodable.is_some() {
            return Verdict::Corrupt;
        }
        let one_batch = self.ends_for_apache && self.intact_after <= batch_max;
        match self.next.is_none() || synced.is_some() {
            true => Verdict::Torn,
            false if one_batch => Verdict::InDoubt,
            false => Verdict::Corrupt,
        }
    }
}

#[cfg(test)]
mod tests;
