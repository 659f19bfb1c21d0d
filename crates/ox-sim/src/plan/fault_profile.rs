//! Fault profiles: plans in which one kind of fault is frequent.
//!
//! With default plans, rare faults seldom coincide. A profile takes the plan of a seed and makes related faults
//! frequent. The simulation is a function of the seed and the profile.

use super::Plan;
use clap::ValueEnum;

/// The kind of fault that is frequent. All profiles use ensembles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FaultProfile {
    /// Files of one member are damaged repeatedly, and leaders change often.
    Damage,
    /// Sessions move between servers and observers, and some are local.
    Sessions,
    /// Servers without a leader serve reads.
    ReadOnly,
    /// An epoch has few zxids.
    Epochs,
    /// The ensemble is reconfigured continually.
    #[value(name = "changes")]
    Reconfig,
    /// Power cuts; disks that lie, fail, hang and fill up.
    Disks,
    /// Paths between servers are cut, slow, or open in one direction only.
    #[value(name = "ways")]
    Network,
    /// Servers, mostly leaders, are deaf or mute, and no other fault occurs.
    OneWay,
    /// Links have small buffers, members pause and read slowly, and writes are large. No fault that may end a
    /// leadership.
    Links,
}

impl Plan {
    /// The plan of a seed with a fault profile.
    pub fn with_profile(seed: u64, profile: FaultProfile) -> Self {
        let mut plan = Self::of(seed);
        let pick = |some: &[u32]| some[usize::try_from(seed).unwrap_or(usize::MAX) % some.len()];
        plan.voters = if seed.is_multiple_of(4) { 5 } else { 3 };
        plan.groups = seed.is_multiple_of(3);
        match profile {
            FaultProfile::Damage => {
                // The damaged member may be needed by a reconfiguration.
                plan.change_per_mille = 0;
                (plan.damage_ms, plan.kill_ms, plan.depose_ms) = (300, 700, 1_500);
                plan.copy_ms = if seed.is_multiple_of(2) { 900 } else { 0 };
                plan.snap_count = pick(&[2, 3, 5, 7, 10]);
            }
            FaultProfile::Sessions => {
                (plan.clients, plan.observers, plan.observer_masters) = (5, 2, true);
                plan.local_sessions = seed.is_multiple_of(2);
                (plan.freeze_ms, plan.abandon_ms, plan.cut_ms) = (1_500, 500, 500);
                plan.take_over_per_mille = 300;
            }
            FaultProfile::ReadOnly => {
                plan.read_only = true;
                plan.partition_ms = 700;
                plan.take_over_per_mille = 200;
            }
            FaultProfile::Epochs => {
                plan.epoch_txns = pick(&[5, 6, 8, 11, 15, 20, 25]);
                (plan.kill_ms, plan.power_ms, plan.lost_sync_ms) = (900, 1_500, 1_500);
            }
            FaultProfile::Reconfig => {
                (plan.damage_ms, plan.copy_ms, plan.change_per_mille) = (0, 0, 150);
                plan.observers = plan.observers.max(1);
                (plan.kill_ms, plan.partition_ms) = (900, 1_000);
                plan.empty_joiner_per_mille = pick(&[0, 1_000]);
            }
            FaultProfile::Disks => {
                (plan.power_ms, plan.power_at_call_ms, plan.power_before_sync_ms) = (700, 700, 700);
                (plan.lost_sync_ms, plan.disk_error_ms) = (1_000, 1_000);
                (plan.hang_ms, plan.full_ms) = (1_500, 2_000);
            }
            FaultProfile::Network => {
                (plan.partition_ms, plan.depose_ms, plan.wire_ms) = (500, 700, 500);
                (plan.slow_path_ms, plan.stop_ms, plan.one_way_ms) = (800, 1_500, 2_500);
                plan.flood_ms = if seed.is_multiple_of(2) { 100 } else { 0 };
            }
            FaultProfile::OneWay => plan.only_one_way(),
            FaultProfile::Links => plan.fill_links(pick(&[400, 800, 1_500]).into()),
        }
        plan
    }

    fn fill_links(&mut self, freeze_ms: i64) {
        let calm = Self::calm_ensemble(self.voters, self.observers);
        let Self { observer_masters, commit_log, size_factor, snap_count, flush_per_mille, .. } = *self;
        *self = Self { observer_masters, commit_log, size_factor, snap_count, flush_per_mille, ..calm };
        (self.tick_ms, self.timeouts_ms) = (500, (2_000, 10_000));
        (self.clients, self.requests, self.active_ms) = (6, 200, 15_000);
        (self.burst, self.pipeline, self.large_per_mille, self.think_us) = (30, 50, 700, 300_000);
        (self.wire_bytes, self.held_bytes) = (4_000, 1_000);
        (self.link_chunk_bytes, self.link_partial_per_mille) = (2_000, 20);
        (self.learner_window_bytes, self.request_window_bytes, self.pinned_bytes) = (2_000, 1_000, 4_000);
        (self.freeze_ms, self.freeze_per_cent, self.slow_read_ms) = (freeze_ms, 60, 700);
        self.disk_us = 20;
    }
}
