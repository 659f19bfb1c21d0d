//! Bounds and step sizes, each with its reason.

use std::time::Duration;

/// Bytes read from a log or snapshot at a time: large enough that the system call disappears beside the work on
/// the bytes, small enough to stay in the processor's cache.
pub(crate) const READ_CHUNK_BYTES: usize = 1 << 20;

/// From this size on a snapshot is read by a thread of its own, beside the one that builds the tree. Smaller ones
/// gain nothing from it, and simulations stay on one thread.
pub(crate) const READ_THREAD_FROM_BYTES: u64 = 8 << 20;

/// Bytes of a snapshot gathered before they are hashed, compressed and written.
pub(crate) const WRITE_CHUNK_BYTES: usize = 256 << 10;

/// A snapshot being written is synced each time this much of it is new, so that the log's own sync never waits
/// for more than this behind it, in the file system's journal or in the disk's queue.
pub(crate) const SNAPSHOT_SYNC_BYTES: u64 = 1 << 20;

/// Each time a snapshot has grown by this much, free space is looked at: a snapshot may fail, the log may not.
pub(crate) const SNAPSHOT_LOOK_BYTES: u64 = 1 << 20;

/// A log is filled with zeros this far ahead of its records: writing into filled space changes no metadata, so
/// most syncs are one write to the disk instead of two or three.
pub(crate) const FILL_AHEAD_BYTES: u64 = 1 << 20;

/// Batches larger than this are written without filling ahead: their own bytes are most of what a sync writes.
pub(crate) const FILL_UNDER_BYTES_MAX: usize = 128 << 10;

/// How soon a purge that waits for a snapshot notices that it should stop.
pub(crate) const STOP_NOTICED: Duration = Duration::from_millis(100);

/// The low-water mark is at most the volume's size divided by this: a small volume is there to be used.
pub(crate) const LOW_WATER_PART: u64 = 20;

/// Set aside for a member's epochs and notes: four times both epochs, which take a block of 4 KiB each while they are
/// replaced.
pub(crate) const EPOCHS_RESERVE_BYTES: u64 = 64 << 10;

/// What may follow the first seal of a snapshot, at most. The known trailers have 54 bytes; a digest of version 1
/// may be a text of some length.
pub(crate) const TRAILER_BYTES_MAX: usize = 4 << 10;

/// Bytes that the search for intact frames behind damage may checksum, as a multiple of the bytes searched. Real
/// files need about one; a file made to look like overlapping frames everywhere would need as many as it has
/// bytes, and is called corrupt instead.
pub(crate) const SEARCH_EFFORT: u64 = 64;

/// Apache refuses longer records unless `jute.maxbuffer` is raised, instead of taking them for the end of the log.
pub(crate) const APACHE_RECORD_BYTES_MAX: i32 = 2_097_150;

/// A compressed chunk of a snappy stream, at most. The writer cuts at 32 KiB; Apache refuses 512 MiB.
pub(crate) const SNAPPY_CHUNK_BYTES_MAX: usize = 512 << 20;

/// How often replay starts to search the logs from the beginning for records that stand there twice. One is enough
/// for a series written twice; a log that needs more than this was made to waste our time.
pub(crate) const LOOKBACK_STARTS_MAX: u32 = 64;

/// Epochs, identity and notes have a few bytes; what is longer is none of them.
pub(crate) const SMALL_FILE_BYTES_MAX: usize = 4 << 10;

/// Bytes of the newest records that a member keeps from its replay for learners, at most: enough for 500 of any usual
/// size, and no second copy of a database made of large ones.
pub(crate) const WINDOW_BYTES_MAX: usize = 64 << 20;

/// The most of a configuration file that is read to be edited.
pub(crate) const CONFIG_FILE_BYTES_MAX: u64 = 1 << 20;
