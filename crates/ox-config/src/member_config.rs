//! Settings that only members of an ensemble have.

use ox_proto::ensemble::{Addresses, ChangeRules, Ensemble, Role};
use ox_proto::{ServerId, Zxid};
use std::path::PathBuf;

use crate::config::{long_not_negative, not_negative};
use crate::quorum_sasl::QuorumSaslConfig;
use crate::quorum_tls::QuorumTlsConfig;
use crate::settings::Settings;

/// Minimum time in LOOKING state before a server becomes read-only, as in Apache.
const READ_ONLY_AFTER_MS: i64 = 2000;

/// Settings of an ensemble member.
#[derive(Clone, Debug, PartialEq)]
pub struct MemberConfig {
    /// The id in `myid`.
    pub server: ServerId,
    /// The configuration that the server starts with.
    pub ensemble: Ensemble,
    /// A proposed configuration that was not committed yet.
    pub proposed: Option<Ensemble>,
    pub files: MemberFiles,
    /// Set if TLS is possible between servers.
    pub tls: Option<QuorumTlsConfig>,
    /// Set if SASL is enabled between servers.
    pub sasl: Option<QuorumSaslConfig>,
    pub change_rules: ChangeRules,
    /// Time limit for connecting and synchronising.
    pub init_ticks: i64,
    /// Time limit for a silent peer.
    pub sync_ticks: i64,
    /// Timeout for opening a connection.
    pub cnx_timeout_ms: i64,
    /// Time for a new election connection to send its hello.
    pub handshake_ms: i64,
    /// Bind quorum and election ports on all interfaces.
    pub listen_on_all_ips: bool,
    /// Minimum delay between election notifications.
    pub notification_min_ms: i64,
    /// Maximum delay between election notifications.
    pub notification_max_ms: i64,
    /// Committed transactions kept in memory to synchronise learners.
    pub commit_log_count: usize,
    /// Port on which followers serve observers.
    pub observer_master_port: Option<u16>,
    /// Time to connect to the leader.
    pub connect_ms: i64,
    /// Delay between two attempts to connect.
    pub connect_pause_ms: i64,
    /// Maximum random delay before an observer reconnects.
    pub reconnect_delay_ms: u64,
    /// Maximum delay before an observer that lost its leader searches for another.
    pub observer_rest_ms: i64,
    /// When a new leader steps down because supporters are LOOKING again.
    pub epoch_wait_ms: Option<i64>,
    /// Maximum concurrent snapshot synchronisations of observers.
    pub snap_syncs_max: usize,
    /// Maximum concurrent diff synchronisations of observers.
    pub diff_syncs_max: usize,
    /// Always synchronise learners by snapshot.
    pub always_snap: bool,
    /// Whether the leader accepts client connections.
    pub leader_serves: bool,
    /// Attempts to bind the election port; 0 means unlimited.
    pub bind_attempts: u32,
    /// TCP keep-alive on election connections.
    pub keep_alive: bool,
    /// TCP_NODELAY on a learner's socket to the leader.
    pub learner_nodelay: bool,
    /// TCP_NODELAY on the leader's sockets to learners.
    pub leader_nodelay: bool,
    /// New sessions are local to their server.
    pub local_sessions: bool,
    /// Upgrade local sessions to global ones when needed.
    pub local_sessions_upgrading: bool,
    /// Time without a leader after which the server becomes read-only; `None` means never.
    pub read_only_after_ms: Option<i64>,
    /// Time after the loss of the leader during which new connections are held.
    pub park_limit_ms: i64,
    /// Maximum size of the on-disk log sent to a learner, relative to the snapshot; negative disables it.
    pub snapshot_size_factor: f64,
    /// Maximum number of transactions per epoch.
    pub epoch_txns: u32,
    /// Measure the acknowledgement latency of every n-th proposal; 0 disables it.
    pub acks_timed_every: u32,
}

/// Files that hold the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberFiles {
    /// Path of `zoo.cfg` as given.
    pub config: PathBuf,
    /// The members are in a dynamic configuration file.
    pub has_dynamic_file: bool,
}

/// The configurations that a server starts with.
pub(crate) struct Members {
    pub(crate) ensemble: Ensemble,
    pub(crate) proposed: Option<Ensemble>,
    pub(crate) addresses: Addresses,
}

impl MemberConfig {
    pub(crate) fn new(settings: &Settings, server: ServerId, members: Members) -> Self {
        let Members { ensemble, proposed, addresses } = members;
        let long = |key: &str| i64::from(settings.int(key));
        let (tick_ms, sync_ticks) = (long("tickTime"), i64::from(settings.optional_int("syncLimit").unwrap_or(0)));
        let handshake_ms = Some(long("quorumCnxnTimeoutMs")).filter(|ms| 0 < *ms).unwrap_or(tick_ms * sync_ticks);
        let init_ticks = i64::from(settings.optional_int("initLimit").unwrap_or(0));
        Self {
            server,
            ensemble,
            proposed,
            files: MemberFiles {
                config: settings.place().file().unwrap_or_default().into(),
                has_dynamic_file: settings.line("dynamicConfigFile").is_some(),
            },
            tls: QuorumTlsConfig::from_checked(settings),
            sasl: None, // the caller reads its file
            change_rules: ChangeRules { addresses, standalone_enabled: settings.flag("standaloneEnabled") },
            init_ticks,
            sync_ticks,
            cnx_timeout_ms: long("cnxTimeout").max(1),
            handshake_ms: handshake_ms.max(1),
            listen_on_all_ips: settings.flag("quorumListenOnAllIPs"),
            notification_min_ms: long("fastleader.minNotificationInterval").max(1),
            notification_max_ms: long("fastleader.maxNotificationInterval").max(1),
            observer_master_port: u16::try_from(settings.int("observerMasterPort")).ok().filter(|port| *port != 0),
            connect_ms: tick_ms
                * Some(long("connectToLearnerMasterLimit")).filter(|ticks| 0 < *ticks).unwrap_or(init_ticks),
            connect_pause_ms: long("leaderConnectDelayDuringRetryMs").max(0),
            reconnect_delay_ms: long_not_negative(settings.long("observer.reconnectDelayMs")),
            observer_rest_ms: settings.long("observer.election.DelayMs").clamp(0, i64::from(i32::MAX)),
            epoch_wait_ms: Some(long("leader.maxTimeToWaitForEpoch")).filter(|ms| 0 <= *ms),
            snap_syncs_max: not_negative(settings.int("leader.maxConcurrentSnapSyncs")) as usize,
            diff_syncs_max: not_negative(settings.int("leader.maxConcurrentDiffSyncs")) as usize,
            always_snap: settings.flag("forceSnapshotSync"),
            leader_serves: !settings.flag("leaderServes"),
            bind_attempts: not_negative(settings.int("electionPortBindRetry")),
            keep_alive: settings.flag("tcpKeepAlive"),
            learner_nodelay: settings.flag("follower.nodelay"),
            leader_nodelay: settings.flag("leader.nodelay"),
            local_sessions: settings.flag("localSessionsEnabled"),
            local_sessions_upgrading: settings.flag("localSessionsUpgradingEnabled"),
            read_only_after_ms: settings.flag("readonlymode.enabled").then_some(tick_ms.max(READ_ONLY_AFTER_MS)),
            park_limit_ms: long("oxkeeper.parkLimitMs").max(0),
            snapshot_size_factor: snapshot_size_factor(settings),
            epoch_txns: epoch_txns(settings.optional_long("testingonly.initialZxid")),
            acks_timed_every: not_negative(settings.int("leader.ackLoggingFrequency")),
            commit_log_count: usize::try_from(settings.int("commitLogCount")).unwrap_or(0).max(500),
        }
    }

    /// Role in the configuration that the server starts with.
    pub fn role(&self) -> Role {
        self.ensemble.members().get(&self.server).map_or(Role::Participant, |member| member.role)
    }
}

/// Number of zxids after a counter that starts at `initial`, of which only the low 32 bits count.
fn epoch_txns(initial: Option<i64>) -> u32 {
    let initial = initial.map_or(0, |zxid| Zxid(zxid).counter());
    (u32::MAX - 1).saturating_sub(initial)
}

/// As in Apache, a factor above 1 is replaced by the default.
fn snapshot_size_factor(settings: &Settings) -> f64 {
    const DEFAULT: f64 = 0.33;
    Some(settings.double("snapshotSizeFactor")).filter(|factor| *factor <= 1.0).unwrap_or(DEFAULT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn initial_zxid_shortens_epoch() {
        assert_eq!(epoch_txns(None), 0xffff_fffe);
        assert_eq!(epoch_txns(Some(0xffff_fffa)), 4);
        assert_eq!(epoch_txns(Some(0x7_ffff_fffa)), 4);
        assert_eq!(epoch_txns(Some(-1)), 0);
    }
}
