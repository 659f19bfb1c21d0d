//! The log lines at start that operators and their tools search for.
//!
//! Lines about the environment and the settings have a target of their own, so that only those see them who want them.

use crate::limits::{IDENTIFY_MS, IDENTIFY_SECURED_MS};
use crate::shared::Shared;
use crate::status::four_letter::{UNKNOWN, environment};
use crate::status::java_text;
use crate::status::version::Build;
use ox_config::{Config, FourLetterWhitelist, MemberConfig};
use ox_proto::Zxid;
use ox_proto::ensemble::Address;
use ox_proto::txn::TxnDigest;
use ox_store::log_tail::TailVerdict;
use ox_store::{DroppedTail, RecoveryReport};
use std::net::SocketAddr;
use tracing::{error, info, warn};

/// The target of lines about environment and settings, which Apache logs at every start.
pub const SETTINGS_LOG_TARGET: &str = "ox_server::settings";

/// Logs a line about environment or settings.
macro_rules! setting {
    ($($arguments:tt)*) => { info!(target: SETTINGS_LOG_TARGET, $($arguments)*) };
}

/// Logs the settings, before the data is read.
pub(crate) fn starting(build: Build, config: &Config) {
    let (storage, autopurge, limits) = (&config.storage, &config.autopurge, &config.limits);
    setting!("tickTime set to {}", config.tick_ms);
    setting!("minSessionTimeout set to {}", config.min_session_timeout_ms);
    setting!("maxSessionTimeout set to {}", config.max_session_timeout_ms);
    if let Some(member) = &config.member {
        setting!("initLimit set to {}", member.init_ticks);
        setting!("syncLimit set to {}", member.sync_ticks);
    }
    setting!("autopurge.snapRetainCount set to {}", autopurge.snap_retain_count);
    setting!("autopurge.purgeInterval set to {}", interval(autopurge.interval_ms));
    if autopurge.interval_ms.is_none() {
        setting!("Purge task is not scheduled.");
    }
    for (name, value) in environment(build).into_iter().filter(|(_, value)| value != UNKNOWN) {
        setting!("Server environment:{name}={value}");
    }
    setting!("zookeeper.snapshot.trust.empty : {}", storage.trust_empty);
    setting!("zookeeper.digest.enabled = {}", storage.digest_enabled);
    setting!("zookeeper.closeSessionTxn.enabled = {}", storage.close_session_txn);
    setting!("zookeeper.serializeLastProcessedZxid.enabled = {}", storage.serialize_last_zxid);
    setting!("zookeeper.flushDelay = {} ms", storage.flush_delay_ms);
    setting!("zookeeper.maxWriteQueuePollTime = {} ms", storage.max_write_queue_poll_ms);
    setting!("zookeeper.maxBatchSize={}", storage.max_batch_size);
    setting!(
        max_client_cnxns = limits.max_client_cnxns,
        max_cnxns = limits.max_cnxns,
        jute_max_buffer = limits.jute_max_buffer_bytes,
        "client limits"
    );
    setting!("ACL digest algorithm is: {}", config.auth.digest_hash.name());
    setting!("zookeeper.DigestAuthenticationProvider.enabled = {}", config.auth.digest_scheme_enabled);
    setting!("ZooKeeper audit is {}.", if config.audit.enabled { "enabled" } else { "disabled" });
    match &config.four_letter_whitelist {
        FourLetterWhitelist::All => setting!(commands = "all", "four-letter commands enabled"),
        FourLetterWhitelist::Only(commands) => setting!(?commands, "four-letter commands enabled"),
    }
}

/// Logs the election port of a member.
pub(crate) fn listening(member: &MemberConfig, binds: &[Address]) {
    let (server, role) = (member.server, member.role().name());
    info!("Starting quorum peer, myid={server}");
    let is_negotiated = member.tls.is_some() || member.sasl.is_some();
    let longest_ms = if is_negotiated { IDENTIFY_SECURED_MS } else { IDENTIFY_MS };
    info!("Using {}ms as the quorum cnxn socket timeout", member.handshake_ms.min(longest_ms));
    let tls = member.tls.as_ref();
    if tls.is_some_and(|tls| tls.dials_tls) {
        info!("Using TLS encrypted quorum communication");
    } else {
        info!("Using insecure (non-TLS) quorum communication");
    }
    if tls.is_some_and(|tls| tls.accepts_plain) {
        info!("Port unification enabled");
    } else {
        info!("Port unification disabled");
    }
    match &member.sasl {
        None => info!("QuorumPeer communication is not secured! (SASL auth disabled)"),
        Some(sasl) => {
            let (required, authenticates) = (sasl.is_required, sasl.authenticates);
            info!(required, authenticates, "SASL is enabled between servers");
        }
    }
    let binds: Vec<String> = binds.iter().map(ToString::to_string).collect();
    info!("{server} is accepting connections now, my election bind port: {}", binds.join("|"));
    let (voters, observers) = (member.ensemble.voters().count(), member.ensemble.observers().count());
    info!(role, voters, observers, "ensemble configuration");
}

/// Logs the result of recovery.
pub(crate) fn recovered(report: &RecoveryReport, total_ms: i64) {
    for rejected in &report.rejected {
        warn!(file = %rejected.path.display(), reason = %rejected.reason, "snapshot skipped");
    }
    report.warnings.iter().for_each(|warning| warn!("{warning}"));
    if let Some(dropped) = &report.dropped {
        log_dropped(dropped);
    }
    if report.digest_mismatches != 0 {
        let (count, first) = (report.digest_mismatches, report.first_digest_mismatch);
        error!(count, ?first, "digest mismatch: the tree differs from the digests in the files");
    }
    if report.conflicts != 0 {
        error!(count = report.conflicts, "log replay conflict: transactions did not match the tree");
    }
    if let Some(first) = report.unresolved_acls.first() {
        let count = report.unresolved_acls.len();
        error!(count, ?first, "access control lists missing in the files; only the super user can access these nodes");
    }
    if report.removed_ephemerals != 0 {
        info!(count = report.removed_ephemerals, "removed ephemeral nodes of closed sessions");
    }
    if let Some(snapshot) = &report.snapshot {
        info!(took_ms = report.snapshot_took.as_millis(), "Reading snapshot {}", snapshot.display());
        match report.snapshot_digest.filter(|(zxid, _)| Zxid::ZERO < *zxid) {
            Some((zxid, TxnDigest { version, tree_digest })) => info!(
                "The digest in the snapshot has digest version of {version}, with zxid as {zxid}, and digest value as \
                 {tree_digest}"
            ),
            None => info!("The digest value is empty in snapshot"),
        }
    }
    info!("{} txns loaded in {} ms", report.replayed, report.replay_took.as_millis());
    info!("Snapshot loaded in {total_ms} ms, highest zxid is {}, digest is {}", report.last_zxid, report.digest);
}

fn log_dropped(dropped: &DroppedTail) {
    let DroppedTail { is_copied, verdict, path, offset, after, last, saved_as } = dropped;
    let (file, last) = (path.display(), last.map(tracing::field::display));
    let saved_as = saved_as.as_ref().map(|path| tracing::field::display(path.display()));
    let text = match verdict {
        _ if *is_copied => {
            "incomplete end of the log truncated: it is a copy, and the original may have acknowledged more"
        }
        TailVerdict::Torn => "torn log tail truncated; its transactions were never acknowledged",
        TailVerdict::InDoubt => "torn log tail truncated; its transactions were most likely never acknowledged",
        TailVerdict::Corrupt => {
            "damaged end of the log given up because of oxkeeper.recovery.allowGaps; its transactions may have been \
             acknowledged"
        }
    };
    warn!(%file, offset, %after, last, saved_as, "{text}");
}

/// Logs the addresses of the client ports, once clients can connect.
pub(crate) fn serving(shared: &Shared, io_threads: usize, addresses: [Option<SocketAddr>; 2]) {
    let (config, dirs) = (&shared.config, shared.store.dirs());
    info!(
        "Created server with tickTime {} ms minSessionTimeout {} ms maxSessionTimeout {} ms \
         clientPortListenBacklog {} dataLogdir {} snapdir {}",
        config.tick_ms,
        config.min_session_timeout_ms,
        config.max_session_timeout_ms,
        config.listen_backlog,
        dirs.logs.display(),
        dirs.snapshots.display(),
    );
    info!(io_threads, sessionless_timeout_ms = config.sessionless_timeout_ms, "client I/O threads set up");
    for address in addresses.into_iter().flatten() {
        info!("binding to port {}", java_text::address(address));
    }
    // A member serves clients only after an election; `LEADING`, `FOLLOWING` or `OBSERVING` announces that.
    if config.member.is_none() {
        info!("PrepRequestProcessor (sid:0) started, reconfigEnabled={}", config.reconfig_enabled);
    }
    let containers = &config.containers;
    setting!(
        "Using checkIntervalMs={} maxPerMinute={} maxNeverUsedIntervalMs={}",
        containers.check_interval_ms,
        containers.max_per_minute,
        containers.max_never_used_ms.unwrap_or(0),
    );
}

/// An interval in hours, as it is configured, or in milliseconds if it is shorter.
fn interval(ms: Option<u64>) -> String {
    match ms.unwrap_or(0) {
        ms if ms % 3_600_000 == 0 => (ms / 3_600_000).to_string(),
        ms => format!("{ms}ms"),
    }
}
