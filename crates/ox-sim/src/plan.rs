//! What a run is like: sizes, settings, pace and faults, all drawn from the seed.
//!
//! Every fault is enabled or not, and every knob drawn anew, for each seed: rare combinations occur, and a fault
//! that would drown all others is absent from many runs.

mod fault_profile;

use crate::rng::Dice;
use ox_store::names::Compression;
pub use fault_profile::Storm;

/// How often a kind of fault strikes, on average; 0 never.
pub type MeanMs = i64;

/// The plan of a run.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Plan {
    /// Servers that vote; with one and no observer it is alone, and no member of anything.
    pub voters: usize,
    /// Servers that do not.
    pub observers: usize,
    /// Voters are in three groups and do not weigh the same, where there are enough of them and they stay.
    pub groups: bool,
    /// Clients.
    pub clients: usize,
    /// Requests that each client sends while faults strike.
    pub requests: u64,
    /// How long faults strike.
    pub active_ms: i64,
    /// I/O threads of a server.
    pub io_threads: usize,

    /// `tickTime`.
    pub tick_ms: i32,
    /// Session timeouts that clients ask for.
    pub timeouts_ms: (i64, i64),
    /// `snapCount`.
    pub snap_count: u32,
    /// `preAllocSize` in bytes.
    pub preallocate_bytes: u64,
    /// `txnLogSizeLimitInKb`, in bytes.
    pub roll_bytes: Option<u64>,
    /// `maxBatchSize`: records that one sync covers.
    pub batch_records: usize,
    /// Snapshots kept by a purge.
    pub retain: usize,
    /// How often old files are purged.
    pub purge_ms: MeanMs,
    /// `snapshot.compression.method`.
    pub compression: Compression,
    /// `extendedTypesEnabled`.
    pub extended_types: bool,
    /// `closeSessionTxn.enabled`.
    pub close_session_txn: bool,
    /// How often containers and TTL nodes are looked at.
    pub sweep_ms: i64,
    /// How many of them may be removed in a minute.
    pub sweep_per_minute: i64,
    /// How long a container that never had a child is kept; 0 is for ever.
    pub never_used_ms: i64,
    /// Logs and snapshots have a directory each.
    pub splits_dirs: bool,
    /// Free space below which writes are refused.
    pub low_water_bytes: u64,
    /// `globalOutstandingLimit`: requests on their way at which each connection may have one.
    pub outstanding_max: usize,
    /// `request_throttle_max_requests`: requests on their way at which others wait.
    pub throttle_max: Option<usize>,
    /// `oxkeeper.memoryBudget`.
    pub memory_budget_bytes: usize,
    /// `throttled_op_wait_time`: requests that had to wait for longer are refused; 0 is never.
    pub throttled_wait_ms: i64,
    /// `requestStaleConnectionCheck`: connections whose requests had to wait for too long are closed.
    pub drop_late: bool,
    /// `connectionMaxTokens`: connections let in at once; 0 is any number.
    pub connection_tokens: u32,
    /// Bytes that a client's socket buffers.
    pub window_bytes: usize,
    /// Unsent bytes at which a connection's requests wait.
    pub unsent_pause_bytes: usize,
    /// Unsent bytes of events at which a connection is given up.
    pub unsent_events_bytes: usize,
    /// Bytes that an I/O thread reads at once.
    pub read_bytes: usize,
    /// Requests that an I/O thread serves at once.
    pub served_at_once: usize,

    /// `initLimit`.
    pub init_ticks: i64,
    /// `syncLimit`.
    pub sync_ticks: i64,
    /// How long an election waits before votes are repeated, at most.
    pub election_wait_ms: i64,
    /// `commitLogCount`: how many of the newest transactions are kept for learners.
    pub commit_log: usize,

    /// Bytes that the sockets of two servers hold in one direction.
    pub wire_bytes: usize,
    /// Bytes of packets at which a member that waits for its disk reads no more.
    pub held_bytes: usize,
    /// The send window of a learner's link.
    pub learner_window_bytes: usize,
    /// The send window of the link to a leader.
    pub request_window_bytes: usize,
    /// Bytes of applied transactions that are held for learners that lack them.
    pub pinned_bytes: usize,

    /// Followers serve observers.
    pub observer_masters: bool,
    /// New sessions are known to their server only, until they want an ephemeral node.
    pub local_sessions: bool,
    /// `readonlymode.enabled`: who has had no leader for a tick lets clients read that asked for no more.
    pub read_only: bool,
    /// `oxkeeper.parkLimitMs`: how long handshakes wait for the next leader.
    pub park_limit_ms: i64,
    /// How often one of the clients asks for another ensemble, in a thousand actions; 0 is a fixed one.
    pub change_per_mille: u32,
    /// How many transactions an epoch has numbers for; 0 is as many as there are.
    pub epoch_txns: u32,
    /// `snapshotSizeFactor`: how large a stored history may be beside a snapshot to be sent in its place.
    pub size_factor: f64,

    /// One-way delay of messages, at most (usually much less).
    pub net_delay_us: i64,
    /// Time between two steps of a server's thread, at most (usually much less).
    pub thread_delay_us: i64,
    /// How often a thread is interrupted between two steps, in a thousand.
    pub preempt_per_mille: u32,
    /// A disk call, at most.
    pub disk_us: i64,
    /// A sync, at most.
    pub sync_us: i64,
    /// How often what a peer has said is acted upon at once, in a thousand; otherwise with what comes next.
    pub settle_per_mille: u32,
    /// Time between two actions of a client, at most.
    pub think_us: i64,
    /// Requests in one go, at most.
    pub burst: i64,
    /// Requests without an answer at which a client waits.
    pub pipeline: usize,
    /// Top-level nodes that clients use.
    pub tops: usize,
    /// Names below them.
    pub names: usize,
    /// Data of several sectors, in a thousand.
    pub large_per_mille: u32,
    /// Clients send requests without waiting for the answer to the handshake.
    pub eager_clients: bool,
    /// Clients wait for answers longer than their sessions live, as long as the connection stands.
    pub patient_clients: bool,
    /// How often a moment's disk is copied and recovered, in a thousand.
    pub restore_per_mille: u32,

    /// The process dies.
    pub kill_ms: MeanMs,
    /// Power goes now.
    pub power_ms: MeanMs,
    /// Power goes at one of the next disk calls.
    pub power_at_call_ms: MeanMs,
    /// Power goes when the log was written and not synced yet.
    pub power_before_sync_ms: MeanMs,
    /// One of the next disk calls fails.
    pub disk_error_ms: MeanMs,
    /// One of the next syncs fails and loses its data.
    pub lost_sync_ms: MeanMs,
    /// The disk is full for a while.
    pub full_ms: MeanMs,
    /// The disk is slow for a while.
    pub slow_disk_ms: MeanMs,
    /// The process is stopped cleanly and started again.
    pub stop_ms: MeanMs,
    /// A connection is cut, at any byte.
    pub cut_ms: MeanMs,
    /// The network is slow for a while.
    pub slow_net_ms: MeanMs,
    /// The wall clock jumps.
    pub clock_ms: MeanMs,
    /// The threads of the process hardly run for a while.
    pub stall_ms: MeanMs,
    /// The process stands still for a while.
    pub freeze_ms: MeanMs,
    /// For how long at most, in per cent of `syncLimit`; 0 is twice the longest session timeout.
    pub freeze_per_cent: i64,
    /// A member reads slowly what other servers send, for a while.
    pub slow_read_ms: MeanMs,
    /// Some servers do not hear some others for a while.
    pub partition_ms: MeanMs,
    /// The leader is cut off, and hears what was said before for a while.
    pub depose_ms: MeanMs,
    /// A server, mostly the leader, is deaf or mute for longer than `syncLimit`.
    pub one_way_ms: MeanMs,
    /// A voter of a configuration that has just been proposed loses everything, and all servers restart, in a thousand
    /// proposals.
    pub empty_joiner_per_mille: u32,
    /// A connection between servers breaks, at any byte.
    pub wire_ms: MeanMs,
    /// A way between servers is slow for a while.
    pub slow_way_ms: MeanMs,
    /// An attacker opens hundreds of silent connections to a quorum port.
    pub flood_ms: MeanMs,
    /// A disk does nothing for a while.
    pub hang_ms: MeanMs,
    /// Files of one member are damaged, or lost.
    pub damage_ms: MeanMs,
    /// A directory is copied while its server runs: that of the same member, which goes on with the copy, or that of a
    /// standalone server, whose copy is opened beside it.
    pub copy_ms: MeanMs,
    /// The member that is struck.
    pub victim: usize,
    /// The machine's wall clock starts at the same moment each time: it has no battery.
    pub resets_clock: bool,
    /// A client stops reading and writing for a while.
    pub nap_ms: MeanMs,
    /// A client abandons its session without a word.
    pub abandon_ms: MeanMs,
    /// How often a client takes its session to a new connection while the old one goes on, in a thousand actions.
    pub take_over_per_mille: u32,
    /// How often a sync goes before a request, in a thousand.
    pub sync_per_mille: u32,
    /// How often it sends what is no request, in a thousand actions.
    pub garbage_per_mille: u32,
}

impl Plan {
    /// The plan that belongs to a seed.
    pub fn of(seed: u64) -> Self {
        let dice = &mut Dice::new(seed ^ 0x0005_eed0_fa11_b1a5);
        let mut plan = Self::calm();
        plan.draw_sizes(dice);
        plan.draw_pace(dice);
        plan.draw_settings(dice);
        plan.draw_faults(dice);
        plan.draw_ensemble(dice);
        match dice.below(100) {
            0..=14 if !plan.is_ensemble() => plan.overload(dice),
            15..=29 => plan.tear_logs(dice),
            _ => (),
        }
        if plan.is_ensemble() && dice.chance(120) {
            plan.serve_readers(dice);
        }
        plan.groups = dice.chance(100);
        match dice.below(10) {
            _ if !plan.is_ensemble() => (),
            0 => plan.one_way_ms = dice.between(2_000, 8_000),
            1 => plan.only_one_way(),
            _ => (),
        }
        plan.empty_joiner_per_mille = *dice.pick(&[0, 0, 200]);
        plan.draw_links(&mut Dice::new(seed ^ 0x0001_1171_0fb0_0d5a));
        // A member that changes of the ensemble count on may be needed.
        if plan.change_per_mille == 0 && dice.chance(150) {
            plan.copy_ms = dice.between(500, 5_000);
        }
        plan
    }

    /// The same with so many requests of each client; faults strike for as much longer.
    #[must_use]
    pub fn with_requests(mut self, requests: u64) -> Self {
        let ratio = i64::try_from(requests.div_ceil(self.requests)).unwrap_or(i64::MAX).clamp(1, 10_000);
        self.active_ms *= ratio;
        self.requests = requests;
        self
    }

    /// One server, some clients, and nothing goes wrong.
    #[expect(clippy::too_many_lines, reason = "a table")]
    pub fn calm() -> Self {
        Self {
            voters: 1,
            observers: 0,
            groups: false,
            clients: 3,
            requests: 60,
            active_ms: 10_000,
            io_threads: 2,
            tick_ms: 500,
            timeouts_ms: (2_000, 8_000),
            snap_count: 100,
            preallocate_bytes: 4096,
            roll_bytes: None,
            batch_records: 1000,
            retain: 3,
            purge_ms: 3_000,
            compression: Compression::None,
            extended_types: true,
            close_session_txn: true,
            sweep_ms: 1_000,
            sweep_per_minute: 60_000,
            never_used_ms: 0,
            splits_dirs: false,
            low_water_bytes: 2_000,
            outstanding_max: 1_000,
            throttle_max: None,
            memory_budget_bytes: 1 << 30,
            throttled_wait_ms: 0,
            drop_late: false,
            connection_tokens: 0,
            window_bytes: 1 << 16,
            unsent_pause_bytes: 1 << 20,
            unsent_events_bytes: 4 << 20,
            read_bytes: 64 << 10,
            served_at_once: 128,
            init_ticks: 10,
            sync_ticks: 5,
            election_wait_ms: 60_000,
            commit_log: 500,
            wire_bytes: 1 << 20,
            held_bytes: 1 << 20,
            learner_window_bytes: 1 << 20,
            request_window_bytes: 1 << 20,
            pinned_bytes: 4 << 20,
            observer_masters: false,
            local_sessions: false,
            read_only: false,
            park_limit_ms: 2_000,
            change_per_mille: 0,
            epoch_txns: 0,
            size_factor: 0.33,
            net_delay_us: 2_000,
            thread_delay_us: 50,
            preempt_per_mille: 50,
            disk_us: 100,
            sync_us: 2_000,
            settle_per_mille: 500,
            think_us: 1_000_000,
            burst: 4,
            pipeline: 32,
            tops: 4,
            names: 5,
            large_per_mille: 80,
            eager_clients: false,
            patient_clients: false,
            restore_per_mille: 20,
            kill_ms: 0,
            power_ms: 0,
            power_at_call_ms: 0,
            power_before_sync_ms: 0,
            disk_error_ms: 0,
            lost_sync_ms: 0,
            full_ms: 0,
            slow_disk_ms: 0,
            stop_ms: 0,
            cut_ms: 0,
            slow_net_ms: 0,
            clock_ms: 0,
            stall_ms: 0,
            freeze_ms: 0,
            freeze_per_cent: 0,
            slow_read_ms: 0,
            partition_ms: 0,
            depose_ms: 0,
            one_way_ms: 0,
            empty_joiner_per_mille: 0,
            wire_ms: 0,
            slow_way_ms: 0,
            flood_ms: 0,
            hang_ms: 0,
            damage_ms: 0,
            copy_ms: 0,
            victim: 0,
            resets_clock: false,
            nap_ms: 0,
            abandon_ms: 0,
            take_over_per_mille: 0,
            sync_per_mille: 0,
            garbage_per_mille: 0,
        }
    }

    /// The same with so many voters.
    #[must_use]
    pub fn with_voters(mut self, voters: usize) -> Self {
        self.voters = voters.max(1);
        self
    }

    /// Several servers, some clients, and nothing goes wrong.
    pub fn calm_ensemble(voters: usize, observers: usize) -> Self {
        Self { voters, observers, ..Self::calm() }
    }

    /// Servers there are.
    pub fn servers(&self) -> usize {
        self.voters + self.observers
    }

    /// Whether the ensemble can change.
    pub fn is_dynamic(&self) -> bool {
        0 < self.change_per_mille && self.is_ensemble()
    }

    /// Whether servers have to agree with others.
    pub fn is_ensemble(&self) -> bool {
        1 < self.servers()
    }

    fn draw_sizes(&mut self, dice: &mut Dice) {
        self.clients = 1 + dice.index(6);
        self.requests = *dice.pick(&[20, 50, 100, 200]);
        self.active_ms = dice.between(2_000, 20_000);
        self.io_threads = 1 + dice.index(3);
    }

    fn draw_settings(&mut self, dice: &mut Dice) {
        // Sessions that cannot live because of the network alone teach little.
        let ticks = if self.net_delay_us < 10_000 { [100, 500, 2_000] } else { [1_000, 2_000, 2_000] };
        self.tick_ms = *dice.pick(&ticks);
        let shortest = i64::from(self.tick_ms) * 2;
        self.timeouts_ms = (shortest, shortest * dice.between(1, 6));
        self.snap_count = *dice.pick(&[3, 4, 8, 20, 50, 100]);
        self.preallocate_bytes = *dice.pick(&[0, 512, 2048, 4096, 16 << 10]);
        self.roll_bytes = *dice.pick(&[None, None, Some(512), Some(4096)]);
        self.batch_records = *dice.pick(&[1, 2, 5, 1000]);
        self.retain = 3 + dice.index(2);
        self.purge_ms = *dice.pick(&[0, 300, 1_000, 5_000]);
        self.compression = *dice.pick(&[Compression::None, Compression::None, Compression::Gz, Compression::Snappy]);
        self.extended_types = dice.chance(750);
        self.close_session_txn = !dice.chance(150);
        self.sweep_ms = *dice.pick(&[200, 1_000, 5_000]);
        self.sweep_per_minute = *dice.pick(&[60, 60, 600, 60_000]);
        self.never_used_ms = *dice.pick(&[0, 0, 1_000]);
        self.splits_dirs = dice.chance(200);
        self.low_water_bytes = *dice.pick(&[500, 2_000, 8_000]);
        self.window_bytes = *dice.pick(&[64, 1_000, 1 << 16]);
        self.unsent_pause_bytes = *dice.pick(&[256, 4096, 1 << 20]);
        self.unsent_events_bytes = *dice.pick(&[300, 4 << 20, 4 << 20]);
        self.read_bytes = *dice.pick(&[7, 100, 64 << 10]);
        self.served_at_once = *dice.pick(&[1, 3, 128]);
        self.draw_limits(dice);
    }

    fn draw_limits(&mut self, dice: &mut Dice) {
        self.outstanding_max = *dice.pick(&[1, 4, 1_000, 1_000]);
        self.throttle_max = *dice.pick(&[None, None, None, None, Some(1), Some(5)]);
        self.throttled_wait_ms = *dice.pick(&[0, 0, 0, 0, 0, 5, 100, 1_000]);
        self.drop_late = dice.chance(100);
        self.connection_tokens = *dice.pick(&[0, 0, 0, 0, 0, 1, 3]);
        self.memory_budget_bytes = *dice.pick(&[1, 20_000, 200_000, 1 << 30, 1 << 30, 1 << 30]);
    }

    fn draw_pace(&mut self, dice: &mut Dice) {
        self.net_delay_us = *dice.pick(&[100, 2_000, 50_000, 300_000]);
        self.thread_delay_us = *dice.pick(&[10, 100, 5_000]);
        self.preempt_per_mille = *dice.pick(&[0, 50, 500, 1000]);
        self.disk_us = *dice.pick(&[0, 50, 1_000]);
        self.sync_us = *dice.pick(&[100, 5_000, 100_000]);
        self.burst = *dice.pick(&[1, 3, 10, 30]);
        self.pipeline = *dice.pick(&[1, 4, 50]);
        let per_cent = *dice.pick(&[2, 40, 90]);
        self.think_us = self.pause_us(per_cent);
        self.tops = *dice.pick(&[1, 2, 4]);
        self.names = *dice.pick(&[1, 2, 5]);
        self.large_per_mille = *dice.pick(&[20, 80, 400]);
        self.eager_clients = dice.chance(300);
        self.patient_clients = dice.chance(400);
    }

    /// The pause between two actions with which the requests take so much of the time that faults strike.
    fn pause_us(&self, per_cent: i64) -> i64 {
        let requests = i64::try_from(self.requests).unwrap_or(i64::MAX);
        let actions = (requests * 2 / (self.burst + 1)).max(1);
        // Pauses are drawn with a long tail: the mean is a quarter of the longest.
        (self.active_ms * 10 * per_cent * 4 / actions).clamp(2_000, 2_000_000)
    }

    /// More comes in than a slow disk takes, from clients that wait patiently and have little time to live.
    fn overload(&mut self, dice: &mut Dice) {
        (self.tick_ms, self.timeouts_ms) = (100, (200, dice.between(300, 1_200)));
        (self.clients, self.requests) = (self.clients.max(4), self.requests.max(100));
        // What else makes clients wait would excuse the server.
        (self.stall_ms, self.freeze_ms, self.slow_net_ms, self.nap_ms) = (0, 0, 0, 0);
        self.net_delay_us = *dice.pick(&[100, 2_000]);
        self.thread_delay_us = *dice.pick(&[10, 100]);
        self.sync_us = *dice.pick(&[100_000, 1_000_000]);
        self.patient_clients = true;
        self.outstanding_max = 1;
        self.throttle_max = *dice.pick(&[None, Some(1), Some(1), Some(3)]);
        (self.burst, self.pipeline) = (*dice.pick(&[3, 30]), *dice.pick(&[4, 50]));
        self.think_us = self.pause_us(40);
    }

    /// Power goes again and again while large batches are being written to new files.
    fn tear_logs(&mut self, dice: &mut Dice) {
        self.power_before_sync_ms = dice.between(200, 1_000);
        (self.clients, self.requests) = (self.clients.max(3), self.requests.max(100));
        (self.power_ms, self.kill_ms, self.disk_error_ms, self.full_ms) = (0, 0, 0, 0);
        self.active_ms = self.active_ms.max(8_000);
        (self.net_delay_us, self.sync_us) = (*dice.pick(&[100, 2_000]), *dice.pick(&[100, 5_000]));
        self.preallocate_bytes = *dice.pick(&[2048, 4096, 16 << 10]);
        self.large_per_mille = 500;
        self.snap_count = *dice.pick(&[4, 8, 20]);
        self.batch_records = 1_000;
        (self.burst, self.pipeline) = (20, 50);
        self.think_us = self.pause_us(80);
    }

    /// Servers are deaf or mute, and nothing else happens to an ensemble: how long writes pause is judged then.
    fn only_one_way(&mut self) {
        let Self { voters, observers, tick_ms, init_ticks, sync_ticks, .. } = *self;
        let Self { clients, requests, net_delay_us, thread_delay_us, sync_us, .. } = *self;
        let sync_ms = i64::from(tick_ms) * sync_ticks;
        *self = Self {
            voters: voters.max(3),
            clients,
            requests,
            observers,
            tick_ms,
            init_ticks,
            sync_ticks,
            net_delay_us,
            thread_delay_us,
            sync_us,
            one_way_ms: sync_ms * 8,
            active_ms: sync_ms * 30,
            timeouts_ms: self.timeouts_ms,
            ..Self::calm()
        };
        self.think_us = self.pause_us(90);
    }

    /// Whether deaf and mute servers are all that happens.
    pub(crate) fn has_only_one_way_faults(&self) -> bool {
        let ends = [self.kill_ms, self.power_ms, self.power_at_call_ms, self.power_before_sync_ms, self.stop_ms];
        let disks = [self.disk_error_ms, self.lost_sync_ms, self.full_ms, self.slow_disk_ms, self.hang_ms];
        let pauses = [self.stall_ms, self.freeze_ms, self.slow_read_ms, self.slow_net_ms, self.slow_way_ms];
        let ways = [self.partition_ms, self.depose_ms, self.wire_ms];
        let files = [self.damage_ms, self.copy_ms];
        let changes = [i64::from(self.change_per_mille), i64::from(self.epoch_txns)];
        let mut others = ends.iter().chain(&disks).chain(&pauses).chain(&ways).chain(&files).chain(&changes);
        0 < self.one_way_ms && others.all(|other| *other == 0)
    }

    /// Servers lose their quorum, and clients could do with reads. Without local sessions there is none for them.
    fn serve_readers(&mut self, dice: &mut Dice) {
        (self.read_only, self.local_sessions) = (true, !dice.chance(100));
        if self.partition_ms == 0 {
            self.partition_ms = dice.between(1_000, 4_000);
        }
    }

    fn draw_ensemble(&mut self, dice: &mut Dice) {
        if dice.chance(400) {
            return; // one server alone
        }
        self.voters = *dice.pick(&[1, 2, 3, 3, 3, 3, 3, 4, 5, 5, 7]);
        self.observers = *dice.pick(&[0, 0, 0, 1, 2]).max(&usize::from(self.voters == 1));
        let ticks = if self.net_delay_us < 10_000 { [200, 500, 2_000] } else { [1_000, 2_000, 2_000] };
        self.tick_ms = *dice.pick(&ticks);
        let shortest = i64::from(self.tick_ms) * 2;
        self.timeouts_ms = (shortest, shortest * dice.between(1, 6));
        self.init_ticks = *dice.pick(&[5, 10]);
        self.sync_ticks = *dice.pick(&[2, 3, 5]);
        self.election_wait_ms = *dice.pick(&[1_000, 60_000]);
        self.commit_log = *dice.pick(&[2, 5, 20, 500]);
        self.size_factor = *dice.pick(&[-1.0, 0.33, 100.0, 100.0]);
        let share = *dice.pick(&[0, 300, 600]);
        let mut draw = |low: i64, high: i64| if dice.chance(share) { dice.between(low, high) } else { 0 };
        self.partition_ms = draw(500, 6_000);
        self.wire_ms = draw(300, 4_000);
        self.slow_way_ms = draw(300, 4_000);
        self.hang_ms = draw(2_000, 8_000) * i64::from(dice.chance(400));
        self.damage_ms = if dice.chance(200) { dice.between(500, 5_000) } else { 0 };
        self.victim = dice.index(9);
        self.observer_masters = dice.chance(500);
        self.depose_ms = if dice.chance(150) { dice.between(800, 5_000) } else { 0 };
        self.sync_per_mille = *dice.pick(&[0, 0, 100, 400]);
        self.settle_per_mille = *dice.pick(&[0, 100, 500, 1000]);
        self.epoch_txns = *dice.pick(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 5, 30, 100]);
        self.local_sessions = dice.chance(150);
        if dice.chance(200) {
            self.change_per_mille = *dice.pick(&[30, 150, 400]);
            // Whoever is struck may be needed.
            self.damage_ms = 0;
        }
        self.flood_ms = if dice.chance(300) { dice.between(50, 2_000) } else { 0 };
    }

    /// Links between servers that hold little.
    fn draw_links(&mut self, dice: &mut Dice) {
        if !self.is_ensemble() || dice.chance(400) {
            return;
        }
        // What is in flight comes once per delay.
        let sockets = if self.net_delay_us < 10_000 { [500, 4_000, 1 << 20] } else { [16 << 10, 64 << 10, 1 << 20] };
        self.wire_bytes = *dice.pick(&sockets);
        self.held_bytes = *dice.pick(&[1, 1_000, 1 << 20]);
        self.learner_window_bytes = *dice.pick(&[1, 1_000, 8_000]);
        self.request_window_bytes = *dice.pick(&[1, 1_000, 8_000]);
        self.pinned_bytes = *dice.pick(&[1_000, 8_000, 4 << 20]);
        self.slow_read_ms = if dice.chance(400) { dice.between(800, 5_000) } else { 0 };
    }

    fn draw_faults(&mut self, dice: &mut Dice) {
        if dice.chance(100) {
            return; // calm weather must work too
        }
        // In some runs hardly anything goes wrong, in others everything at once.
        let share = *dice.pick(&[60, 150, 300, 500]);
        let mut draw = |low: i64, high: i64| if dice.chance(share) { dice.between(low, high) } else { 0 };
        self.kill_ms = draw(500, 6_000);
        self.power_ms = draw(500, 6_000);
        self.power_at_call_ms = draw(300, 4_000);
        self.power_before_sync_ms = draw(500, 5_000);
        self.disk_error_ms = draw(800, 6_000);
        self.lost_sync_ms = draw(800, 6_000);
        self.full_ms = draw(1_000, 6_000);
        self.slow_disk_ms = draw(1_000, 5_000);
        self.stop_ms = draw(1_000, 6_000);
        self.cut_ms = draw(100, 3_000);
        self.slow_net_ms = draw(1_000, 5_000);
        self.clock_ms = draw(500, 5_000);
        self.stall_ms = draw(1_000, 5_000);
        self.freeze_ms = draw(1_000, 6_000);
        self.nap_ms = draw(500, 5_000);
        self.abandon_ms = draw(1_000, 8_000);
        self.resets_clock = dice.chance(150);
        self.take_over_per_mille = *dice.pick(&[0, 10, 50]);
        self.garbage_per_mille = *dice.pick(&[0, 3]);
    }
}
