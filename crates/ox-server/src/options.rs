//! Settings of the replica, the tree and the store, derived from the configuration.

use ox_config::{Config, MemberConfig};
use ox_proto::ensemble::ChangeRules;
use ox_replica::{LocalSessions, ReplicaSettings};
use ox_store::StoreOptions;
use ox_tree::TreeOptions;

/// More records than a log file can hold.
const UNLIMITED: usize = 1 << 30;

pub(crate) fn replica_settings(config: &Config, threads: usize, session_clock_ms: i64) -> ReplicaSettings {
    let containers = &config.containers;
    ReplicaSettings {
        tick_ms: i32::try_from(config.tick_ms).unwrap_or(i32::MAX),
        server: 1, // session ids of a standalone server contain 1, as Apache's do
        session_clock_ms,
        threads,
        sweep_interval_ms: i64::from(containers.check_interval_ms),
        sweep_per_minute: i64::from(containers.max_per_minute),
        change_rules: ChangeRules::default(),
        sweep_never_used_ms: containers.max_never_used_ms.map_or(0, |ms| i64::try_from(ms).unwrap_or(i64::MAX)),
        local_sessions: config.member.as_ref().map_or(LocalSessions::Off, local_sessions),
        leader_serves: config.member.as_ref().is_none_or(|member| member.leader_serves),
        read_only_after_ms: config.member.as_ref().and_then(|member| member.read_only_after_ms),
        park_limit_ms: config.member.as_ref().map_or(0, |member| member.park_limit_ms),
        sessions_per_address: config.limits.sessions_per_address as usize,
        epoch_txns: config.member.as_ref().map_or(u32::MAX, |member| member.epoch_txns),
    }
}

fn local_sessions(member: &MemberConfig) -> LocalSessions {
    match (member.local_sessions, member.local_sessions_upgrading) {
        (false, _) => LocalSessions::Off,
        (true, false) => LocalSessions::Stay,
        (true, true) => LocalSessions::Upgrade,
    }
}

pub(crate) fn tree_options(config: &Config, hash_seed: u64) -> TreeOptions {
    let limits = &config.limits;
    TreeOptions {
        digest_enabled: config.storage.digest_enabled,
        extended_types: config.extended_types,
        emulate_353_ttl: config.emulate_353_ttl,
        enforce_quota: config.enforce_quota,
        skip_acl: config.auth.skip_acl,
        close_session_txn: config.storage.close_session_txn,
        super_digest: config.auth.super_digest.as_ref().map(|digest| digest.reveal().to_owned()),
        digest_scheme: config.auth.digest_scheme_enabled,
        key_scheme: config.auth.key_scheme_enabled,
        reconfig_enabled: config.reconfig_enabled,
        record_bytes_max: limits.jute_max_buffer_bytes.saturating_add(limits.jute_extra_bytes) as usize,
        watches_per_address_max: limits.watches_per_address as usize,
        hash_seed,
    }
}

pub(crate) fn store_options(config: &Config) -> StoreOptions {
    use ox_config::{CompressionSetting as Asked, TornTailSetting as AskedTail};
    use ox_store::names::Compression;
    let storage = &config.storage;
    let mut options = StoreOptions::new(&config.data_dir);
    options.log_dir = (config.data_log_dir != config.data_dir).then(|| config.data_log_dir.clone());
    options.create_dirs = storage.datadir_autocreate;
    options.log = ox_store::LogOptions {
        preallocate_bytes: storage.pre_alloc_bytes,
        snap_count: storage.snap_count,
        snap_bytes: storage.snap_size_limit_bytes,
        roll_bytes: storage.txn_log_size_limit_bytes,
        force_sync: storage.force_sync,
    };
    options.compression = match storage.snapshot_compression {
        Asked::None => Compression::None,
        Asked::Gzip => Compression::Gz,
        Asked::Snappy => Compression::Snappy,
    };
    options.write_last_zxid = storage.serialize_last_zxid;
    options.trust_empty = storage.trust_empty;
    options.torn_tail = match config.recovery.torn_tail {
        AskedTail::Truncate => ox_store::TornTail::Truncate,
        AskedTail::Refuse => ox_store::TornTail::Refuse,
    };
    options.allow_gaps = config.recovery.allow_gaps;
    options.batch_max = if storage.max_batch_size == 0 { UNLIMITED } else { storage.max_batch_size as usize };
    options.now_ms = crate::clock::wall_ms();
    options
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn store_options_tell_recovery_the_largest_batch() {
        let mut config = Config::default_standalone();
        for (configured, batch_max) in [(1000, 1000), (5, 5), (0, UNLIMITED)] {
            config.storage.max_batch_size = configured;
            assert_eq!(store_options(&config).batch_max, batch_max);
        }
    }
}
