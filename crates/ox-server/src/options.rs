//! Settings of the replica, the tree, the store and the I/O threads, derived from the configuration.

use crate::io::client_sasl::conn_auth;
use crate::limits::{
    GLOBAL_OUTSTANDING_DEFAULT, MEMORY_BUDGET_DIVISOR, MEMORY_BUDGET_MAX, MEMORY_BUDGET_MIN, REQUESTS_IN_FLIGHT_MAX,
};
use crate::status::os_info;
use ox_config::{Config, MemberConfig};
use ox_driver::client_io::{ClientIoSettings, ClientIoSizes, GlobalLimits};
use ox_proto::ensemble::ChangeRules;
use ox_replica::{AdmissionLimits, ConnSettings, LocalSessions, MemoryBudget, ReplicaSettings};
use ox_store::StoreOptions;
use ox_tree::TreeOptions;
use ox_tree::auth::{DigestHash, SchemeSettings, SuperDigest};

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
        audits: config.audit.enabled,
        epoch_txns: config.member.as_ref().map_or(u32::MAX, |member| member.epoch_txns),
    }
}

pub(crate) fn client_io_settings(config: &Config, thread: u8) -> ClientIoSettings {
    let throttle = &config.request_throttle;
    ClientIoSettings {
        thread,
        conn: ConnSettings {
            min_timeout_ms: config.min_session_timeout_ms,
            max_timeout_ms: config.max_session_timeout_ms,
            throttled_op_wait_ms: i64::from(throttle.throttled_op_wait_ms),
            drop_late: throttle.drop_stale && throttle.stale_latency_check,
            syncs_travel: config.member.is_some(),
            auth: conn_auth(config),
        },
        frame_bytes_max: config.limits.jute_max_buffer_bytes as usize,
        sessionless_timeout_ms: i64::from(config.sessionless_timeout_ms),
        stall_time_ms: i64::from(throttle.stall_time_ms),
        tick_ms: i32::try_from(config.tick_ms).unwrap_or(i32::MAX),
        sizes: ClientIoSizes::default(),
    }
}

/// The limits on all clients together.
pub(crate) fn global_limits(config: &Config) -> GlobalLimits {
    let limits = &config.limits;
    let requests_max = match limits.global_outstanding {
        GLOBAL_OUTSTANDING_DEFAULT => REQUESTS_IN_FLIGHT_MAX,
        configured => configured as usize,
    };
    let throttle_max = config.request_throttle.max_requests as usize;
    let memory = || os_info::memory().map(|memory| memory.limit);
    let budget_bytes = limits.memory_budget_bytes.unwrap_or_else(|| default_budget(memory()));
    let budget = MemoryBudget::new(usize::try_from(budget_bytes).unwrap_or(usize::MAX));
    GlobalLimits::new(
        AdmissionLimits { budget, requests_max, throttle_max: (throttle_max != 0).then_some(throttle_max) },
        limits.large_request_threshold_bytes.map(|bytes| bytes as usize),
        limits.large_request_max_bytes as usize,
    )
}

fn default_budget(memory_bytes: Option<u64>) -> u64 {
    memory_bytes.map_or(0, |bytes| bytes / MEMORY_BUDGET_DIVISOR).clamp(MEMORY_BUDGET_MIN, MEMORY_BUDGET_MAX)
}

fn local_sessions(member: &MemberConfig) -> LocalSessions {
    match (member.local_sessions, member.local_sessions_upgrading) {
        (false, _) => LocalSessions::Off,
        (true, false) => LocalSessions::Stay,
        (true, true) => LocalSessions::Upgrade,
    }
}

fn scheme_settings(config: &Config) -> SchemeSettings {
    use ox_config::DigestHashSetting as Asked;
    let auth = &config.auth;
    SchemeSettings {
        digest: auth.digest_scheme_enabled,
        digest_hash: match auth.digest_hash {
            Asked::Sha1 => DigestHash::Sha1,
            Asked::Sha256 => DigestHash::Sha256,
            Asked::Sha384 => DigestHash::Sha384,
            Asked::Sha512 => DigestHash::Sha512,
            Asked::Sha3_256 => DigestHash::Sha3_256,
            Asked::Sha3_512 => DigestHash::Sha3_512,
        },
        super_digest: auth.super_digest.as_ref().map(|digest| SuperDigest::new(digest.reveal().to_owned())),
        key: auth.key_scheme_enabled,
        x509: auth.x509_scheme_enabled,
        sasl: auth.sasl_scheme_enabled,
        any_sasl_user: config.sasl.any_user.clone(),
        ensemble: auth.ensemble_scheme_enabled,
        ensemble_names: auth.ensemble_names.clone(),
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
        schemes: scheme_settings(config),
        reconfig_enabled: config.reconfig_enabled,
        record_bytes_max: limits.jute_max_buffer_bytes.saturating_add(limits.jute_extra_bytes) as usize,
        watches_per_address_max: limits.watches_per_address as usize,
        counts_watches: config.metrics_paths,
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
    use ox_replica::{Admission, Load};

    #[test]
    fn store_options_tell_recovery_the_largest_batch() {
        let mut config = Config::default_standalone();
        for (configured, batch_max) in [(1000, 1000), (5, 5), (0, UNLIMITED)] {
            config.storage.max_batch_size = configured;
            assert_eq!(store_options(&config).batch_max, batch_max);
        }
    }

    #[test]
    fn default_budget_follows_memory_within_bounds() {
        let (mib, gib) = (1 << 20, 1 << 30);
        assert_eq!(default_budget(None), 64 * mib);
        let budgets = [256 * mib, 4 * gib, 64 * gib].map(|memory| default_budget(Some(memory)));
        assert_eq!(budgets, [64 * mib, 512 * mib, gib]);
    }

    #[test]
    fn configured_limits_bound_requests_in_flight() {
        let check = |change: fn(&mut Config), requests: usize, expected: Admission| {
            let mut config = Config::default_standalone();
            change(&mut config);
            let admission = global_limits(&config).admission(Load { requests, bytes: 0 });
            assert_eq!(admission, expected, "{requests} requests");
        };
        check(|_| (), REQUESTS_IN_FLIGHT_MAX, Admission::Open);
        check(|_| (), REQUESTS_IN_FLIGHT_MAX + 1, Admission::OnePerConnection);
        check(|config| config.limits.global_outstanding = 10, 10, Admission::Open);
        check(|config| config.limits.global_outstanding = 10, 11, Admission::OnePerConnection);
        check(|config| config.request_throttle.max_requests = 2, 1, Admission::Open);
        check(|config| config.request_throttle.max_requests = 2, 2, Admission::Closed);
    }
}
