//! Opening of a member's files, and the settings of its quorum peer.

use crate::limits::{LEARNER_WINDOW_BYTES, REQUEST_WINDOW_BYTES};
use crate::options::{store_options, tree_options};
use bytes::Bytes;
use ox_config::{Config, MemberConfig};
use ox_proto::Zxid;
use ox_proto::ensemble::{Addresses, Ensemble};
use ox_store::disk::Disk;
use ox_store::{ConfigFiles, Loaded, MemberLog, MemberOptions, OnDamage, OpenOutcome, OpenedMember, Store};
use ox_tree::State;
use ox_zab::{
    ConfigPair, ElectionSettings, EncodedTxn, Epoch, Epochs, PeerOptions, PeerSettings, QuorumPeer, RecentLog,
    Recovered, Timing,
};
use std::sync::Arc;

/// Bytes of the recent log, whatever `commitLogCount` says.
const HISTORY_BYTES_MAX: usize = 64 << 20;

/// A member's opened files, with the state and the quorum peer that they lead to.
pub(crate) struct Member {
    pub(crate) store: Store,
    pub(crate) log: MemberLog,
    pub(crate) state: State,
    pub(crate) peer: QuorumPeer,
    pub(crate) session_clock_ms: i64,
    pub(crate) loaded: Option<ox_store::RecoveryReport>,
}

pub(crate) fn open(
    disk: Arc<dyn Disk>,
    config: &Config,
    member: &MemberConfig,
) -> Result<Member, ox_store::StoreError> {
    let (hash_seed, log_seed) = (rand::random(), rand::random());
    let tree_options = tree_options(config, hash_seed);
    let options = member_options(config, member);
    let opened = Store::open_member(disk, &store_options(config), &options, &tree_options, log_seed)?;
    let OpenedMember { store, log, outcome, session_clock_ms } = opened;
    let (loaded, standing) = match outcome {
        OpenOutcome::Loaded(loaded) if loaded.state.last_zxid() < loaded.reach => {
            let (last, reach) = (loaded.state.last_zxid(), loaded.reach);
            tracing::error!(
                %last,
                %reach,
                "waiting for a leader's snapshot: the log ends before the zxid of the local snapshot. Logs are missing, or \
                 the number in the snapshot's name is not its last zxid"
            );
            (None, ox_zab::Eligibility::Quarantined)
        }
        OpenOutcome::Loaded(loaded) => (Some(*loaded), ox_zab::Eligibility::HasHistory),
        OpenOutcome::Empty => {
            tracing::info!("waiting for a leader, or for a quorum of empty members: the data directory is empty");
            (None, ox_zab::Eligibility::Empty)
        }
        OpenOutcome::Quarantined(quarantine) => {
            tracing::error!(
                reason = quarantine.reason,
                "local data quarantined; waiting for a leader's snapshot. If no other member has intact data, apply the \
                 remedy that `oxkeeper log check` names, and start all members with such data once with \
                 oxkeeper.recovery.onDamage=accept, which alone accepts only copies of running servers"
            );
            for file in store_options(config).initialize_markers().filter(|file| file.exists()) {
                tracing::warn!(
                    file = %file.display(),
                    "the file initialize has no effect on quarantined data: remove it. If this is data for a new ensemble, \
                     start every member that has it once with oxkeeper.recovery.onDamage=accept"
                );
            }
            (None, ox_zab::Eligibility::Quarantined)
        }
    };
    let (state, recent_txns, report) = match loaded {
        Some(Loaded { state, recent_txns, report, .. }) => (state, recent_txns, Some(report)),
        None => (State::new(tree_options), Vec::new(), None),
    };
    let last = state.last_zxid();
    let before = recent_txns.first().map_or(last, |first| Zxid(first.zxid.0 - 1));
    let mut history = RecentLog::new(Zxid::ZERO, member.commit_log_count, HISTORY_BYTES_MAX);
    history.restart(before);
    for logged in recent_txns {
        history.push(EncodedTxn { zxid: logged.zxid, record: Bytes::from(logged.record) });
    }
    let stored = log.epochs();
    let epochs = Epochs { accepted: Epoch(i64::from(stored.accepted)), current: Epoch(i64::from(stored.current)) };
    let configs = configs(config, member, &state);
    let peer =
        QuorumPeer::new(peer_settings(config, member, configs), Recovered { epochs, history, eligibility: standing });
    Ok(Member { store, log, state, peer, session_clock_ms, loaded: report })
}

fn member_options(config: &Config, member: &MemberConfig) -> MemberOptions {
    let on_damage = match config.recovery.on_damage {
        ox_config::OnDamageSetting::Quarantine => OnDamage::Quarantine,
        ox_config::OnDamageSetting::Exit => OnDamage::Exit,
        ox_config::OnDamageSetting::Accept => OnDamage::Accept,
    };
    let config = Some((member.ensemble.to_string(), member.ensemble.version()));
    MemberOptions { server: member.server.0, on_damage, recent_max: member.commit_log_count, config }
}

/// The files that configurations are written to, if they can change. The servers in the configuration file will move to
/// a dynamic file, so the configuration file is backed up.
pub(crate) fn config_files(disk: &Arc<dyn Disk>, config: &Config, member: &MemberConfig) -> Option<ConfigFiles> {
    if !config.reconfig_enabled {
        return None;
    }
    let files = ConfigFiles::new(Arc::clone(disk), &member.files.config, member.server)?;
    if !member.files.has_dynamic_file
        && let Err(error) = files.back_up()
    {
        tracing::error!(%error, "cannot back up the configuration file");
    }
    Some(files)
}

/// The initial configurations. A proposed one may be in the log and not in a file, or the other way round; the newest
/// counts.
fn configs(config: &Config, member: &MemberConfig, state: &State) -> ConfigPair {
    if !config.reconfig_enabled {
        return ConfigPair::fixed(member.ensemble.clone());
    }
    let text = state.config().and_then(|text| std::str::from_utf8(text).ok());
    let logged = text.and_then(|text| Ensemble::parse(text, Addresses::Several).ok());
    let proposed = logged.into_iter().chain(member.proposed.clone()).max_by_key(Ensemble::version);
    ConfigPair::dynamic(member.ensemble.clone(), proposed)
}

fn peer_settings(config: &Config, member: &MemberConfig, configs: ConfigPair) -> PeerSettings {
    PeerSettings {
        server: member.server,
        configs,
        timing: Timing {
            tick_ms: i64::from(config.tick_ms),
            init_ticks: member.init_ticks,
            sync_ticks: member.sync_ticks,
        },
        election: ElectionSettings {
            min_notification_ms: member.notification_min_ms,
            max_notification_ms: member.notification_max_ms,
            ..ElectionSettings::default()
        },
        options: PeerOptions {
            serves_observers: member.observer_master_port.is_some(),
            max_snap_syncs: member.snap_syncs_max,
            max_diff_syncs: member.diff_syncs_max,
            force_snapshot_sync: member.always_snap,
            epoch_wait_ms: member.epoch_wait_ms,
            dial_ms: member.connect_ms,
            dial_pause_ms: member.connect_pause_ms,
            observer_delay_ms: member.observer_rest_ms,
            learner_window_bytes: LEARNER_WINDOW_BYTES,
            request_window_bytes: REQUEST_WINDOW_BYTES,
            may_bootstrap: config.storage.db_autocreate,
        },
    }
}
