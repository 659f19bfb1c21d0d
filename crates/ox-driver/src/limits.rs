//! Bounds of the loops.

use std::time::Duration;

/// Bytes of the log after which an fsync runs although more batches wait. The health of a disk is judged by completed
/// fsyncs, so they must happen now and then, and an fsync of this many bytes costs little compared to writing them.
pub(crate) const FSYNC_BATCH_BYTES: usize = 16 << 20;

/// Pause after a snapshot, as a multiple of its duration.
pub(crate) const SNAPSHOT_REST: u32 = 4;
/// The first pause after a failed snapshot. It doubles up to [`SNAPSHOT_RETRY_MAX`].
pub(crate) const SNAPSHOT_RETRY: Duration = Duration::from_secs(2);
pub(crate) const SNAPSHOT_RETRY_MAX: Duration = Duration::from_secs(600);

/// Bytes of replies that are posted before all submissions are processed: about what one submission holds.
pub(crate) const POSTED_BYTES_MAX: usize = 1 << 20;
