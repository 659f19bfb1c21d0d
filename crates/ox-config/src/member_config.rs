//! What a member of an ensemble needs to know beside what every server does.

use ox_proto::ensemble::{Addresses, ChangeRules, Ensemble, Role};
use ox_proto::{ServerId, Zxid};
use std::path::PathBuf;

use crate::config::{long_not_negative, not_negative};
use crate::settings::Settings;

/// A leader is looked for at least so long before clients may read, as in Apache.
const READ_ONLY_AFTER_MS: i64 = 2000;

/// Settings of a member.
#[derive(Clone, Debug, PartialEq)]
pub struct MemberConfig {
    /// Its number (`myid`).
    pub server: ServerId,
    /// All members.
    pub ensemble: Ensemble,
    /// Members that have been proposed in their place.
    pub proposed: Option<Ensemble>,
    /// Where the members, and what becomes of them, are written.
    pub files: MemberFiles,
    /// Which changes of the members are possible.
    pub change_rules: ChangeRules,
    /// Ticks for connecting and catching up.
    pub init_ticks: i64,
    /// Ticks of silence.
    pub sync_ticks: i64,
    /// Time for a connection to open.
    pub cnx_timeout_ms: i64,
    /// Time for a server to say who it is.
    pub handshake_ms: i64,
    /// Bind quorum and election ports on every interface.
    pub listen_on_all_ips: bool,
    /// Shortest wait between election notifications.
    pub notification_first_ms: i64,
    /// Longest wait between election notifications.
    pub notification_longest_ms: i64,
    /// Committed transactions kept in memory for learners.
    pub commit_log_count: usize,
    /// The port on which followers serve observers.
    pub observer_master_port: Option<u16>,
    /// Time to reach the leader.
    pub connect_ms: i64,
    /// Time between two attempts.
    pub connect_pause_ms: i64,
    /// The longest pause before an observer connects.
    pub reconnect_delay_ms: u64,
    /// The longest pause before an observer that has lost its leader looks for another.
    pub observer_rest_ms: i64,
    /// When a new leader that waits for others gives up because they look for one again.
    pub epoch_wait_ms: Option<i64>,
    /// Observers that get a snapshot at a time.
    pub snap_syncs_max: usize,
    /// Observers that get a diff at a time.
    pub diff_syncs_max: usize,
    /// Learners always get a snapshot.
    pub always_snap: bool,
    /// A leader serves clients.
    pub leader_serves: bool,
    /// Attempts to bind the election port; 0 is without end.
    pub bind_attempts: u32,
    /// Keep-alive on election connections.
    pub keep_alive: bool,
    /// What a learner writes to its leader leaves at once.
    pub learner_nodelay: bool,
    /// What a leader writes to its learners leaves at once.
    pub leader_nodelay: bool,
    /// New sessions are known to their server only.
    pub local_sessions: bool,
    /// Such a session becomes global when it needs to.
    pub local_sessions_upgrading: bool,
    /// How long a leader is looked for before clients may read; none is for ever.
    pub read_only_after_ms: Option<i64>,
    /// How long after the loss of the leader new connections wait for the next one.
    pub park_limit_ms: i64,
    /// The largest stored log, relative to the snapshot, that a learner is sent; negative is none.
    pub snapshot_size_factor: f64,
    /// Transactions of an epoch, at most.
    pub epoch_txns: u32,
    /// One proposal in so many has its acknowledgements timed; 0 is none.
    pub acks_timed_every: u32,
}

/// Where members stand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberFiles {
    /// The configuration file.
    pub config: PathBuf,
    /// They stand in a file of their own.
    pub has_own: bool,
}

/// The members that a server starts with.
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
                has_own: settings.line("dynamicConfigFile").is_some(),
            },
            change_rules: ChangeRules { addresses, standalone_enabled: settings.flag("standaloneEnabled") },
            init_ticks,
            sync_ticks,
            cnx_timeout_ms: long("cnxTimeout").max(1),
            handshake_ms: handshake_ms.max(1),
            listen_on_all_ips: settings.flag("quorumListenOnAllIPs"),
            notification_first_ms: long("fastleader.minNotificationInterval").max(1),
            notification_longest_ms: long("fastleader.maxNotificationInterval").max(1),
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

    /// Whether it votes.
    pub fn role(&self) -> Role {
        self.ensemble.members().get(&self.server).map_or(Role::Participant, |member| member.role)
    }
}

/// So many follow a counter that begins at `initial`, of which only the lower half counts.
fn epoch_txns(initial: Option<i64>) -> u32 {
    let initial = initial.map_or(0, |zxid| Zxid(zxid).counter());
    (u32::MAX - 1).saturating_sub(initial)
}

/// A part that is more than the whole counts as the default, as for Apache.
fn snapshot_size_factor(settings: &Settings) -> f64 {
    const DEFAULT: f64 = 0.33;
    Some(settings.double("snapshotSizeFactor")).filter(|factor| *factor <= 1.0).unwrap_or(DEFAULT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_epoch_ends_as_early_as_it_would_have_begun_late() {
        assert_eq!(epoch_txns(None), 0xffff_fffe);
        assert_eq!(epoch_txns(Some(0xffff_fffa)), 4);
        assert_eq!(epoch_txns(Some(0x7_ffff_fffa)), 4);
        assert_eq!(epoch_txns(Some(-1)), 0);
    }
}
