//! Limits and step sizes, each with its reason.

use std::time::Duration;

/// The size of reads from logs and snapshots: large enough that the cost of the system call does not matter, small
/// enough for the processor's cache.
pub(crate) const READ_CHUNK_BYTES: usize = 1 << 20;

/// A snapshot of at least this size is read by a separate thread while the caller builds the tree. Smaller ones would
/// not gain from it, and simulations remain single-threaded.
pub(crate) const READ_THREAD_FROM_BYTES: u64 = 8 << 20;

/// The size of the buffer in which a snapshot is encoded before it is checksummed, compressed and written.
pub(crate) const WRITE_CHUNK_BYTES: usize = 256 << 10;

/// A snapshot is synced whenever this many bytes were written, so that an fsync of the log never waits for more than
/// these, in the file system's journal or in the disk's queue.
pub(crate) const SNAPSHOT_SYNC_BYTES: u64 = 1 << 20;

/// The free space is checked whenever a snapshot has grown by this much: a snapshot may fail, the log must not.
pub(crate) const SNAPSHOT_LOOK_BYTES: u64 = 1 << 20;

/// A log is filled with zeros this far ahead of its records. Overwriting allocated blocks changes no metadata, so most
/// fsyncs are one write to the disk instead of two or three.
pub(crate) const FILL_AHEAD_BYTES: u64 = 1 << 20;

/// Larger batches are written without filling ahead, because their own bytes dominate the cost of the fsync.
pub(crate) const FILL_UNDER_BYTES_MAX: usize = 128 << 10;

/// The interval at which a purge that waits for a snapshot checks whether it should stop.
pub(crate) const STOP_NOTICED: Duration = Duration::from_millis(100);

/// The low-water mark is at most this fraction of the volume, so that a small volume remains usable.
pub(crate) const LOW_WATER_PART: u64 = 20;

/// The reserve for a member's epochs and `oxk.*` files: four times both epoch files, which take a block of 4 KiB each
/// while they are replaced.
pub(crate) const EPOCHS_RESERVE_BYTES: u64 = 64 << 10;

/// The maximum size of the data after the first seal of a snapshot. The known trailers have 54 bytes; a digest of
/// version 1 may be a string of some length.
pub(crate) const TRAILER_BYTES_MAX: usize = 4 << 10;

/// How many bytes the search for intact frames after damage may checksum, as a multiple of the bytes searched. Real
/// files need about one. A file crafted to look like overlapping frames could need as many as it has bytes; it is
/// treated as corrupt instead.
pub(crate) const SEARCH_EFFORT: u64 = 64;

/// Apache refuses longer records, unless `jute.maxbuffer` is raised, instead of treating them as the end of the log.
pub(crate) const APACHE_RECORD_BYTES_MAX: i32 = 2_097_150;

/// The maximum size of a compressed chunk in a snappy stream. The writer uses 32 KiB; Apache refuses 512 MiB.
pub(crate) const SNAPPY_CHUNK_BYTES_MAX: usize = 512 << 20;

/// How often replay may restart its search for repeated records at the first log. A series that was written twice needs
/// one restart.
pub(crate) const LOOKBACK_STARTS_MAX: u32 = 64;

/// The maximum size of the epoch files and `oxk.*` files, which have a few bytes.
pub(crate) const SMALL_FILE_BYTES_MAX: usize = 4 << 10;

/// The maximum size of the recent transactions that a member keeps from its replay for learners: enough for 500 of any
/// usual size, and no second copy of a database of large nodes.
pub(crate) const RECENT_TXNS_BYTES_MAX: usize = 64 << 20;

/// The maximum size of a configuration file that a reconfiguration can edit.
pub(crate) const CONFIG_FILE_BYTES_MAX: u64 = 1 << 20;
