//! The time in session ids, which never repeats at a later start (P37).
//!
//! The session ids of a server begin with the time of its start. If the wall clock was set back since the last start,
//! ids would repeat, and a client that resumes a session that ended long ago would get the session of another client.
//! So each start records a time after all ids that it can assign, and the next start uses that time unless the wall
//! clock is later.
//!
//! `oxk.sessions`: two slots of one sector, big-endian, written in turn, so that a torn write leaves the other.
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 8 | magic `OXKSESS1` |
//! | 8 | 8 | milliseconds: ids of earlier times may have been assigned |
//! | 16 | 8 | Adler-32 of bytes 0 to 15, zero-extended |

use crate::disk::{Disk, OpenMode, read_full};
use crate::error::{IoContext, StoreError};
use std::path::Path;

const NAME: &str = "oxk.sessions";
const MAGIC: &[u8; 8] = b"OXKSESS1";
const SLOT_BYTES: usize = 512;
const FILE_BYTES: usize = 2 * SLOT_BYTES;
/// A millisecond has 65536 ids; four billion sessions between two starts do not occur.
const SPAN_MS: i64 = 1 << 16;

/// The initial time of this start's session ids, durably recorded.
pub(crate) fn advance(disk: &dyn Disk, dir: &Path, now_ms: i64) -> Result<i64, StoreError> {
    let path = dir.join(NAME);
    let file = disk.open(&path, OpenMode::Create).context("open", &path)?;
    let mut bytes = [0; FILE_BYTES];
    let length = read_full(&*file, &mut bytes, 0).context("read", &path)?;
    let noted = [decode(&bytes[..SLOT_BYTES]), decode(&bytes[SLOT_BYTES..])];
    let start_ms = noted.into_iter().flatten().fold(now_ms, i64::max);
    let at = if noted[0] < noted[1] { 0 } else { SLOT_BYTES };
    bytes[at..at + SLOT_BYTES].copy_from_slice(&encode(start_ms.saturating_add(SPAN_MS)));
    // Written in full length at the first start, so that later starts need no disk space.
    let written = if length < FILE_BYTES { 0..FILE_BYTES } else { at..at + SLOT_BYTES };
    file.write_all_at(&bytes[written.clone()], written.start as u64).context("write", &path)?;
    file.sync_data().context("fsync", &path)?;
    disk.sync_dir(dir).context("fsync directory", dir)?;
    Ok(start_ms)
}

fn encode(ms: i64) -> [u8; SLOT_BYTES] {
    let mut slot = [0; SLOT_BYTES];
    slot[..8].copy_from_slice(MAGIC);
    slot[8..16].copy_from_slice(&ms.to_be_bytes());
    let checksum = u64::from(simd_adler32::adler32(&&slot[..16]));
    slot[16..24].copy_from_slice(&checksum.to_be_bytes());
    slot
}

fn decode(slot: &[u8]) -> Option<i64> {
    let ms = slot.get(8..16)?.first_chunk().map(|word| i64::from_be_bytes(*word))?;
    (encode(ms) == *slot).then_some(ms)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::{DiskFault, KeepUnsynced, SimDisk};

    const DIR: &str = "/data";

    fn disk() -> SimDisk {
        let disk = SimDisk::new();
        disk.create_dir_all(Path::new(DIR)).unwrap();
        disk.sync_dir(Path::new("/")).unwrap();
        disk
    }

    #[test]
    fn time_increases_whatever_the_wall_clock() {
        let disk = disk();
        let mut last_ms = i64::MIN;
        for now_ms in [5_000, 5_000, 0, -1, 4_000_000, 100, i64::MAX - 5] {
            let start_ms = advance(&disk, Path::new(DIR), now_ms).unwrap();
            assert!(last_ms < start_ms && now_ms <= start_ms, "{now_ms}: {start_ms} after {last_ms}");
            last_ms = start_ms;
        }
    }

    #[test]
    fn recorded_time_survives_power_cuts_and_failing_calls() {
        for call in 1..=6 {
            for fault in [DiskFault::PowerCut, DiskFault::LostSync] {
                for keep in [KeepUnsynced::Nothing, KeepUnsynced::Everything, KeepUnsynced::Random(call)] {
                    let disk = disk();
                    let before_ms = (0..3).map(|_| advance(&disk, Path::new(DIR), 10).unwrap()).max();
                    disk.set_fault(disk.calls() + call, fault);
                    let during_ms = advance(&disk, Path::new(DIR), 10).ok();
                    disk.power_on(keep);
                    disk.clear_faults();
                    let after_ms = advance(&disk, Path::new(DIR), 10).unwrap();
                    assert!(before_ms.max(during_ms) < Some(after_ms), "{fault:?} at {call}, {keep:?}");
                }
            }
        }
    }
}
