//! Settings of logs, snapshots, recovery and the sweep over containers.

use crate::config::{long_not_negative, not_negative};
use crate::diagnostic::Notice;
use crate::settings::Settings;

/// Files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Storage {
    /// Snapshot after a random number of transactions in (n/2, n]; at least 2.
    pub snap_count: u32,
    /// Snapshot after as much log, randomised alike; `None` is off.
    pub snap_size_limit_bytes: Option<u64>,
    /// Begin a new log file after this much; `None` is off.
    pub txn_log_size_limit_bytes: Option<u64>,
    /// Step in which a log file grows; 0 is no step.
    pub pre_alloc_bytes: u64,
    /// Whether the log is synced before a write is answered.
    pub force_sync: bool,
    /// Sync of the log that is worth a warning; may be negative, then every one is.
    pub fsync_warning_ms: i64,
    /// Time to gather writes before a sync.
    pub flush_delay_ms: u64,
    /// Time to wait for one more write while gathering.
    pub max_write_queue_poll_ms: u64,
    /// Most writes per sync; 0 is no limit.
    pub max_batch_size: u32,
    /// Compression of new snapshots.
    pub snapshot_compression: Compression,
    /// Start from logs without a snapshot.
    pub trust_empty: bool,
    /// Create missing data directories.
    pub datadir_autocreate: bool,
    /// Members that have nothing may begin a history together.
    pub db_autocreate: bool,
    /// Keep a digest of the tree in transactions and snapshots.
    pub digest_enabled: bool,
    /// List the ephemeral nodes in the transaction that closes a session.
    pub close_session_txn: bool,
    /// Write the last zxid at the end of a snapshot.
    pub serialize_last_zxid: bool,
}

/// Compression of snapshot files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// Plain file.
    None,
    /// Suffix `.gz`.
    Gzip,
    /// Suffix `.snappy`.
    Snappy,
}

/// What to do about damaged files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovery {
    /// A torn last record whose checksum fails.
    pub torn_tail: TornTail,
    /// Replay logs with gaps between zxids.
    pub allow_gaps: bool,
    /// A member's history that is damaged or in doubt.
    pub on_damage: OnDamage,
}

/// What a member does about a history that is damaged or in doubt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnDamage {
    /// Start without it and get it from the others.
    Quarantine,
    /// Do not start.
    Exit,
    /// Use it where it is only in doubt.
    Accept,
}

/// What to do with a torn last record whose checksum fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TornTail {
    /// Cut it off.
    Truncate,
    /// Refuse to start.
    Refuse,
}

/// The sweep over containers and nodes with a time to live.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Containers {
    /// Time between sweeps, at least 1.
    pub check_interval_ms: u32,
    /// Most deletions per minute.
    pub max_per_minute: u32,
    /// Age at which a container that never had a child is deleted; `None` is never.
    pub max_never_used_ms: Option<u64>,
}

impl Storage {
    pub(crate) fn from_checked(settings: &Settings, notices: &mut Vec<Notice>) -> Storage {
        let flush_delay_ms = settings.long("flushDelay");
        let poll_ms = settings.optional_long("maxWriteQueuePollTime").unwrap_or(flush_delay_ms / 3);
        let pre_alloc_kib = settings.long("preAllocSize");
        Storage {
            snap_count: snap_count(settings, notices),
            snap_size_limit_bytes: bytes_of_kib(settings.long("snapSizeLimitInKb")),
            txn_log_size_limit_bytes: bytes_of_kib(settings.long("txnLogSizeLimitInKb")),
            pre_alloc_bytes: bytes_of_kib(pre_alloc_kib).unwrap_or(0),
            force_sync: !settings.flag("forceSync"),
            fsync_warning_ms: settings.long("fsync.warningthresholdms"),
            flush_delay_ms: long_not_negative(flush_delay_ms),
            max_write_queue_poll_ms: long_not_negative(poll_ms),
            max_batch_size: not_negative(settings.int("maxBatchSize")),
            snapshot_compression: compression(settings, notices),
            trust_empty: settings.flag("snapshot.trust.empty"),
            datadir_autocreate: settings.flag("datadir.autocreate"),
            db_autocreate: settings.flag("db.autocreate"),
            digest_enabled: settings.flag("digest.enabled"),
            close_session_txn: settings.flag("closeSessionTxn.enabled"),
            serialize_last_zxid: settings.flag("serializeLastProcessedZxid.enabled"),
        }
    }
}

fn snap_count(settings: &Settings, notices: &mut Vec<Notice>) -> u32 {
    let count = settings.int("snapCount");
    if count < 2 {
        let text = "SnapCount should be 2 or more. Now, snapCount is reset to 2";
        notices.push(Notice::warn(settings.place_of("snapCount"), text));
    }
    not_negative(count.max(2))
}

fn compression(settings: &Settings, notices: &mut Vec<Notice>) -> Compression {
    let key = "snapshot.compression.method";
    let text = settings.text(key).unwrap_or_default();
    match text.to_ascii_lowercase().as_str() {
        "gz" => Compression::Gzip,
        "snappy" => Compression::Snappy,
        "" => Compression::None,
        _ => {
            let text = format!("{key}: {text} is neither gz nor snappy; snapshots are not compressed");
            notices.push(Notice::warn(settings.place_of(key), text));
            Compression::None
        }
    }
}

/// `None` for a size of zero or less, which turns a limit off.
fn bytes_of_kib(kib: i64) -> Option<u64> {
    u64::try_from(kib).ok().filter(|kib| 0 < *kib).map(|kib| kib.saturating_mul(1024))
}

impl Recovery {
    pub(crate) fn from_checked(settings: &Settings) -> Recovery {
        Recovery {
            torn_tail: match settings.text("oxkeeper.txnlog.tornTail").as_deref() {
                Some("refuse") => TornTail::Refuse,
                _ => TornTail::Truncate,
            },
            allow_gaps: settings.flag("oxkeeper.recovery.allowGaps"),
            on_damage: match settings.text("oxkeeper.recovery.onDamage").as_deref() {
                Some("exit") => OnDamage::Exit,
                Some("accept") => OnDamage::Accept,
                _ => OnDamage::Quarantine,
            },
        }
    }
}

impl Containers {
    pub(crate) fn from_checked(settings: &Settings) -> Containers {
        let never_used_ms = settings.long("znode.container.maxNeverUsedIntervalMs");
        Containers {
            check_interval_ms: not_negative(settings.int("znode.container.checkIntervalMs")),
            max_per_minute: not_negative(settings.int("znode.container.maxPerMinute")),
            max_never_used_ms: u64::try_from(never_used_ms).ok().filter(|ms| 0 < *ms),
        }
    }
}
