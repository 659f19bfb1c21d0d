//! From a member's files and configuration to what its parts are told.

use crate::options::{store_options, tree_options};
use crate::shared::Shared;
use bytes::Bytes;
use ox_config::{Config, MemberConfig};
use ox_proto::Zxid;
use ox_proto::ensemble::Role;
use ox_store::disk::Disk;
use ox_store::{Loaded, MemberLog, MemberOptions, OpenedMember, Standing, Store};
use ox_tree::State;
use ox_zab::{
    ElectionSettings, Epoch, Epochs, History, LearnerKind, Peer, PeerOptions, PeerSettings, Quorum, Quorums, Recovered,
    Timing, Txn,
};
use std::sync::Arc;

/// How much of the recent history is kept for learners, whatever the count says.
const HISTORY_BYTES_MAX: usize = 64 << 20;

/// What a member's files lead to.
pub(crate) struct Member {
    pub(crate) store: Store,
    pub(crate) log: MemberLog,
    pub(crate) state: State,
    pub(crate) peer: Peer,
    pub(crate) session_clock_ms: i64,
    pub(crate) loaded: Option<ox_store::RecoveryReport>,
}

/// Opens the files of a member.
pub(crate) fn open(disk: Arc<dyn Disk>, config: &Config, member: &MemberConfig) -> Result<Member, ox_store::Error> {
    let (hash_seed, log_seed) = (rand::random(), rand::random());
    let tree_options = tree_options(config, hash_seed);
    let options = MemberOptions { window: member.commit_log_count, ..MemberOptions::new(member.server.0) };
    let opened = Store::open_member(disk, &store_options(config), &options, &tree_options, log_seed)?;
    let OpenedMember { store, log, standing, session_clock_ms } = opened;
    let (loaded, standing) = match standing {
        Standing::Loaded(loaded) if loaded.state.last_zxid() < loaded.reach => {
            let (last, reach) = (loaded.state.last_zxid(), loaded.reach);
            tracing::error!(%last, %reach, "the log ends before the snapshot does; a leader's history is waited for");
            (None, ox_zab::Standing::Quarantined)
        }
        Standing::Loaded(loaded) => (Some(*loaded), ox_zab::Standing::History),
        Standing::Empty => {
            tracing::info!("nothing is stored; waiting for other servers that have nothing, or a leader");
            (None, ox_zab::Standing::Empty)
        }
        Standing::Quarantined(quarantine) => {
            tracing::error!(reason = quarantine.reason, "the own history is of no use; a leader's is waited for");
            (None, ox_zab::Standing::Quarantined)
        }
    };
    let (state, window, report) = match loaded {
        Some(Loaded { state, window, report, .. }) => (state, window, Some(report)),
        None => (State::new(tree_options), Vec::new(), None),
    };
    let last = state.last_zxid();
    let before = window.first().map_or(last, |first| Zxid(first.zxid.0 - 1));
    let mut history = History::new(Zxid::ZERO, member.commit_log_count, HISTORY_BYTES_MAX);
    history.restart(before);
    for logged in window {
        history.push(Txn { zxid: logged.zxid, record: Bytes::from(logged.record) });
    }
    let stored = log.epochs();
    let epochs = Epochs { accepted: Epoch(i64::from(stored.accepted)), current: Epoch(i64::from(stored.current)) };
    let peer = Peer::new(peer_settings(config, member), Recovered { epochs, history, standing });
    Ok(Member { store, log, state, peer, session_clock_ms, loaded: report })
}

/// Puts the configuration where clients can read it.
pub(crate) fn show_config(shared: &Shared, state: &mut State) {
    if let Some(member) = &shared.config.member {
        let ensemble = &member.ensemble;
        state.set_config(&ensemble.to_string(), ensemble.version(), shared.clock.now().wall_ms);
    }
}

fn peer_settings(config: &Config, member: &MemberConfig) -> PeerSettings {
    let kind = match member.role() {
        Role::Participant => LearnerKind::Follower,
        Role::Observer => LearnerKind::Observer,
    };
    PeerSettings {
        server: member.server,
        kind,
        quorums: Quorums::of(Quorum::of(&member.ensemble)),
        config: Bytes::from(member.ensemble.to_string()),
        config_version: member.ensemble.version(),
        timing: Timing {
            tick_ms: i64::from(config.tick_ms),
            init_ticks: member.init_ticks,
            sync_ticks: member.sync_ticks,
        },
        election: ElectionSettings {
            first_wait_ms: member.notification_first_ms,
            longest_wait_ms: member.notification_longest_ms,
            ..ElectionSettings::default()
        },
        options: PeerOptions {
            serves_observers: member.observer_master_port.is_some(),
            snaps_max: member.snap_syncs_max,
            diffs_max: member.diff_syncs_max,
            always_snap: member.always_snap,
            epoch_wait_ms: member.epoch_wait_ms,
            dial_ms: member.connect_ms,
            dial_pause_ms: member.connect_pause_ms,
            observer_rest_ms: member.observer_rest_ms,
        },
    }
}
