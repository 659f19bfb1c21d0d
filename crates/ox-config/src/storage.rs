//! Settings of logs, snapshots, recovery and the container manager.

use crate::config::{long_not_negative, not_negative};
use crate::diagnostic::Diagnostic;
use crate::settings::Settings;

const ALLOW_GAPS: &str = "oxkeeper.recovery.allowGaps";

/// Transaction log and snapshots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Storage {
    /// Take a snapshot after a random number of transactions in (n/2, n]; at least 2.
    pub snap_count: u32,
    /// Take a snapshot after this much log, randomised in the same way; `None` disables it.
    pub snap_size_limit_bytes: Option<u64>,
    /// Start a new log file after this much; `None` disables it.
    pub txn_log_size_limit_bytes: Option<u64>,
    /// Step by which log files are preallocated; 0 disables it.
    pub pre_alloc_bytes: u64,
    /// Whether the log is fsynced before a write is acknowledged.
    pub force_sync: bool,
    /// Duration of an fsync that is logged as a warning; if negative, every fsync is.
    pub fsync_warning_ms: i64,
    /// Time to collect writes before an fsync.
    pub flush_delay_ms: u64,
    /// Time to wait for one more write while collecting.
    pub max_write_queue_poll_ms: u64,
    /// Maximum writes per fsync; 0 means no limit.
    pub max_batch_size: u32,
    pub snapshot_compression: CompressionSetting,
    /// Start from logs without a snapshot.
    pub trust_empty: bool,
    /// Create missing data directories.
    pub datadir_autocreate: bool,
    /// Empty members may bootstrap together.
    pub db_autocreate: bool,
    /// Maintain a digest of the tree in transactions and snapshots.
    pub digest_enabled: bool,
    /// List the ephemeral nodes in the transaction that closes a session.
    pub close_session_txn: bool,
    /// Write the last processed zxid at the end of a snapshot.
    pub serialize_last_zxid: bool,
}

/// Compression of snapshot files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompressionSetting {
    None,
    Gzip,
    Snappy,
}

/// Treatment of damaged files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovery {
    /// Treatment of a torn last record whose checksum fails.
    pub torn_tail: TornTailSetting,
    /// Replay logs with gaps between zxids.
    pub allow_gaps: bool,
    /// Treatment of a member's log that is damaged or in doubt.
    pub on_damage: OnDamageSetting,
}

/// What a member does with a log that is damaged or in doubt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnDamageSetting {
    /// Join without the local data and synchronise from the leader.
    Quarantine,
    Exit,
    /// Use data that is only in doubt.
    Accept,
}

/// How to treat a torn last record whose checksum fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TornTailSetting {
    Truncate,
    Refuse,
}

/// Deletion of empty containers and expired TTL nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Containers {
    /// Time between searches, at least 1.
    pub check_interval_ms: u32,
    pub max_per_minute: u32,
    /// Age at which a container that never had a child is deleted; `None` disables it.
    pub max_never_used_ms: Option<u64>,
}

impl Storage {
    pub(crate) fn from_checked(settings: &Settings, diagnostics: &mut Vec<Diagnostic>) -> Storage {
        let flush_delay_ms = settings.long("flushDelay");
        let poll_ms = settings.optional_long("maxWriteQueuePollTime").unwrap_or(flush_delay_ms / 3);
        let pre_alloc_kib = settings.long("preAllocSize");
        Storage {
            snap_count: snap_count(settings, diagnostics),
            snap_size_limit_bytes: bytes_of_kib(settings.long("snapSizeLimitInKb")),
            txn_log_size_limit_bytes: bytes_of_kib(settings.long("txnLogSizeLimitInKb")),
            pre_alloc_bytes: bytes_of_kib(pre_alloc_kib).unwrap_or(0),
            force_sync: !settings.flag("forceSync"),
            fsync_warning_ms: settings.long("fsync.warningthresholdms"),
            flush_delay_ms: long_not_negative(flush_delay_ms),
            max_write_queue_poll_ms: long_not_negative(poll_ms),
            max_batch_size: not_negative(settings.int("maxBatchSize")),
            snapshot_compression: compression(settings, diagnostics),
            trust_empty: settings.flag("snapshot.trust.empty"),
            datadir_autocreate: settings.flag("datadir.autocreate"),
            db_autocreate: settings.flag("db.autocreate"),
            digest_enabled: settings.flag("digest.enabled"),
            close_session_txn: settings.flag("closeSessionTxn.enabled"),
            serialize_last_zxid: settings.flag("serializeLastProcessedZxid.enabled"),
        }
    }
}

fn snap_count(settings: &Settings, diagnostics: &mut Vec<Diagnostic>) -> u32 {
    let count = settings.int("snapCount");
    if count < 2 {
        let text = "SnapCount should be 2 or more. Now, snapCount is reset to 2";
        diagnostics.push(Diagnostic::warn(settings.place_of("snapCount"), text));
    }
    not_negative(count.max(2))
}

fn compression(settings: &Settings, diagnostics: &mut Vec<Diagnostic>) -> CompressionSetting {
    let key = "snapshot.compression.method";
    let text = settings.text(key).unwrap_or_default();
    match text.to_ascii_lowercase().as_str() {
        "gz" => CompressionSetting::Gzip,
        "snappy" => CompressionSetting::Snappy,
        "" => CompressionSetting::None,
        _ => {
            let text = format!("{key}: {text} is neither gz nor snappy; snapshots are not compressed");
            diagnostics.push(Diagnostic::warn(settings.place_of(key), text));
            CompressionSetting::None
        }
    }
}

/// `None` for 0 or less, which disables the limit.
fn bytes_of_kib(kib: i64) -> Option<u64> {
    u64::try_from(kib).ok().filter(|kib| 0 < *kib).map(|kib| kib.saturating_mul(1024))
}

impl Recovery {
    pub(crate) fn from_checked(settings: &Settings, diagnostics: &mut Vec<Diagnostic>) -> Recovery {
        let allow_gaps = settings.flag(ALLOW_GAPS);
        if allow_gaps {
            let text = format!(
                "{ALLOW_GAPS}=true: the server starts even if transactions are missing, and gives them up; remove it once \
                 the server has started"
            );
            diagnostics.push(Diagnostic::warn(settings.place_of(ALLOW_GAPS), text));
        }
        Recovery {
            torn_tail: match settings.text("oxkeeper.txnlog.tornTail").as_deref() {
                Some("refuse") => TornTailSetting::Refuse,
                _ => TornTailSetting::Truncate,
            },
            allow_gaps,
            on_damage: match settings.text("oxkeeper.recovery.onDamage").as_deref() {
                Some("exit") => OnDamageSetting::Exit,
                Some("accept") => OnDamageSetting::Accept,
                _ => OnDamageSetting::Quarantine,
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
