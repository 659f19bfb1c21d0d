//! One kind of trouble, more of it than the dice would ever give.
//!
//! In any weather the rare meets the rare too seldom. A storm takes the plan that belongs to a seed and turns up what goes
//! together: the run is still a function of the seed and of the storm's name.

use super::Plan;
use clap::ValueEnum;

/// What there is too much of. All of them strike ensembles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Storm {
    /// Files of one member are damaged again and again, while leaders come and go.
    Damage,
    /// Sessions move between servers and observers, and some are local.
    Sessions,
    /// Servers without a leader serve readers.
    ReadOnly,
    /// Epochs end after a few transactions.
    Epochs,
    /// The ensemble is changed all the time.
    Changes,
    /// The power goes, and disks lie, fail, hang and fill up.
    Disks,
    /// The ways between servers are cut, slow, or open in one direction only.
    Ways,
    /// Servers, mostly leaders, are deaf or mute, and nothing else happens.
    OneWay,
    /// Links between servers hold little, members pause and read slowly, and writes are large. Nothing that may end a leadership.
    Links,
}

impl Plan {
    /// The plan of a seed in a storm.
    pub fn in_storm(seed: u64, storm: Storm) -> Self {
        let mut plan = Self::of(seed);
        let pick = |some: &[u32]| some[usize::try_from(seed).unwrap_or(usize::MAX) % some.len()];
        plan.voters = if seed.is_multiple_of(4) { 5 } else { 3 };
        plan.groups = seed.is_multiple_of(3);
        match storm {
            Storm::Damage => {
                // Whoever is struck may be needed.
                plan.change_per_mille = 0;
                (plan.damage_ms, plan.kill_ms, plan.depose_ms) = (300, 700, 1_500);
                plan.copy_ms = if seed.is_multiple_of(2) { 900 } else { 0 };
                plan.snap_count = pick(&[2, 3, 5, 7, 10]);
            }
            Storm::Sessions => {
                (plan.clients, plan.observers, plan.observer_masters) = (5, 2, true);
                plan.local_sessions = seed.is_multiple_of(2);
                (plan.freeze_ms, plan.abandon_ms, plan.cut_ms) = (1_500, 500, 500);
                plan.take_over_per_mille = 300;
            }
            Storm::ReadOnly => {
                plan.read_only = true;
                plan.partition_ms = 700;
                plan.take_over_per_mille = 200;
            }
            Storm::Epochs => {
                plan.epoch_txns = pick(&[5, 6, 8, 11, 15, 20, 25]);
                (plan.kill_ms, plan.power_ms, plan.lost_sync_ms) = (900, 1_500, 1_500);
            }
            Storm::Changes => {
                (plan.damage_ms, plan.copy_ms, plan.change_per_mille) = (0, 0, 150);
                plan.observers = plan.observers.max(1);
                (plan.kill_ms, plan.partition_ms) = (900, 1_000);
                plan.empty_joiner_per_mille = pick(&[0, 1_000]);
            }
            Storm::Disks => {
                (plan.power_ms, plan.power_at_call_ms, plan.power_before_sync_ms) = (700, 700, 700);
                (plan.lost_sync_ms, plan.disk_error_ms) = (1_000, 1_000);
                (plan.hang_ms, plan.full_ms) = (1_500, 2_000);
            }
            Storm::Ways => {
                (plan.partition_ms, plan.depose_ms, plan.wire_ms) = (500, 700, 500);
                (plan.slow_way_ms, plan.stop_ms, plan.one_way_ms) = (800, 1_500, 2_500);
                plan.flood_ms = if seed.is_multiple_of(2) { 100 } else { 0 };
            }
            Storm::OneWay => plan.only_one_way(),
            Storm::Links => plan.fill_links(pick(&[400, 800, 1_500]).into()),
        }
        plan
    }

    fn fill_links(&mut self, freeze_ms: i64) {
        let calm = Self::calm_ensemble(self.voters, self.observers);
        let Self { observer_masters, commit_log, size_factor, snap_count, settle_per_mille, .. } = *self;
        *self = Self { observer_masters, commit_log, size_factor, snap_count, settle_per_mille, ..calm };
        (self.tick_ms, self.timeouts_ms) = (500, (2_000, 10_000));
        (self.clients, self.requests, self.active_ms) = (6, 200, 15_000);
        (self.burst, self.pipeline, self.large_per_mille, self.think_us) = (30, 50, 700, 300_000);
        (self.wire_bytes, self.held_bytes) = (4_000, 1_000);
        (self.learner_window_bytes, self.request_window_bytes, self.pinned_bytes) = (2_000, 1_000, 4_000);
        (self.freeze_ms, self.freeze_per_cent, self.slow_read_ms) = (freeze_ms, 60, 700);
        self.disk_us = 20;
    }
}
