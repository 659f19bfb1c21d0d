//! The plan of a simulation: sizes, settings, pace and faults, all drawn from the seed.
//!
//! Each seed draws every setting, and whether each fault is enabled: rare combinations occur, and a fault that would
//! dominate all others is absent from many simulations.

mod fault_profile;

pub use fault_profile::FaultProfile;
use ox_store::names::Compression;
use ox_testkit::Rng;

/// Mean interval between two faults of a kind; 0 disables it.
pub type MeanMs = i64;

#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Plan {
    /// Voters; a single one without observers is a standalone server.
    pub voters: usize,
    pub observers: usize,
    /// Voters form three groups with different weights, if there are enough and the ensemble is fixed.
    pub groups: bool,
    pub clients: usize,
    /// Requests that each client sends while faults occur.
    pub requests: u64,
    /// How long faults occur.
    pub active_ms: i64,
    /// I/O threads of each server.
    pub io_threads: usize,

    pub tick_ms: i32,
    /// Range of the session timeouts that clients request.
    pub timeouts_ms: (i64, i64),
    pub snap_count: u32,
    pub preallocate_bytes: u64,
    pub roll_bytes: Option<u64>,
    /// `maxBatchSize`: records that one fsync covers.
    pub batch_records: usize,
    /// Snapshots that a purge retains.
    pub retain: usize,
    /// Interval of the purge of old files.
    pub purge_ms: MeanMs,
    pub compression: Compression,
    pub extended_types: bool,
    pub close_session_txn: bool,
    /// Interval of the check for expired containers and TTL nodes.
    pub sweep_ms: i64,
    /// How many of these the server deletes per minute at most.
    pub sweep_per_minute: i64,
    /// How long a container that never had a child is kept; 0 means forever.
    pub never_used_ms: i64,
    /// Logs and snapshots are in separate directories.
    pub splits_dirs: bool,
    /// Free disk space below which writes are refused.
    pub low_water_bytes: u64,
    /// `globalOutstandingLimit`: outstanding requests beyond which each connection may have one.
    pub outstanding_max: usize,
    /// `request_throttle_max_requests`: outstanding requests beyond which others wait.
    pub throttle_max: Option<usize>,
    /// `oxkeeper.memoryBudget`: what all clients together may use.
    pub memory_budget_bytes: usize,
    /// `largeRequestThreshold`: requests above this size count as large; `None` disables the limit on them.
    pub large_bytes: Option<usize>,
    /// `largeRequestMaxBytes`: what large requests in flight may use together.
    pub large_bytes_max: usize,
    /// `throttled_op_wait_time`: requests that had to wait for longer are refused; 0 disables that.
    pub throttled_wait_ms: i64,
    /// `requestStaleConnectionCheck`: close connections whose requests had to wait too long.
    pub drop_late: bool,
    /// `connectionMaxTokens`: burst of admitted connections; 0 means unlimited.
    pub connection_tokens: u32,
    /// Size of the buffer of a client's socket.
    pub window_bytes: usize,
    /// Unsent bytes beyond which a connection's requests wait.
    pub unsent_pause_bytes: usize,
    /// Unsent bytes of events beyond which a connection is closed.
    pub unsent_events_bytes: usize,
    /// Bytes that an I/O thread reads at a time.
    pub read_bytes: usize,
    /// Connections that an I/O thread can read before it serves them.
    pub reads_at_once: usize,
    /// Requests that an I/O thread serves under one read lock.
    pub served_at_once: usize,
    /// Bytes of replies that it creates under one read lock.
    pub reply_bytes_at_once: usize,
    /// Probability that a read or write of a client's socket takes a part of the bytes only.
    pub partial_per_mille: u32,

    pub init_ticks: i64,
    pub sync_ticks: i64,
    /// The longest interval between two repetitions of a vote.
    pub election_wait_ms: i64,
    /// `commitLogCount`: how many of the newest transactions the recent log keeps.
    pub commit_log: usize,

    /// Bytes that the sockets of a wire hold in one direction.
    pub wire_bytes: usize,
    /// Bytes that a link transfers in one iteration.
    pub link_chunk_bytes: usize,
    /// Reads and writes of links that end early.
    pub link_partial_per_mille: u32,
    /// Bytes of queued packets beyond which a member that waits for its disk stops reading.
    pub held_bytes: usize,
    /// The send window of a learner's link.
    pub learner_window_bytes: usize,
    /// The send window of the link to a leader.
    pub request_window_bytes: usize,
    /// Bytes of applied transactions that are kept for learners that lack them.
    pub pinned_bytes: usize,

    /// Followers serve observers (`observerMasterPort`).
    pub observer_masters: bool,
    /// New sessions are local, until they create an ephemeral node.
    pub local_sessions: bool,
    /// `readonlymode.enabled`: servers without a leader serve reads to read-only clients.
    pub read_only: bool,
    /// `oxkeeper.parkLimitMs`: how long handshakes wait for the next leader.
    pub park_limit_ms: i64,
    /// Probability of a reconfiguration per action of the first client; 0 means a fixed ensemble.
    pub change_per_mille: u32,
    /// Transactions per epoch before the zxid rolls over; 0 means 2^32 - 1.
    pub epoch_txns: u32,
    /// `snapshotSizeFactor`: the largest size of a log diff relative to a snapshot.
    pub size_factor: f64,

    /// Upper limit of the one-way delay of messages (usually much shorter).
    pub net_delay_us: i64,
    /// Upper limit of the time between two steps of a thread (usually much shorter).
    pub thread_delay_us: i64,
    /// Probability that a thread is preempted between two steps.
    pub preempt_per_mille: u32,
    /// Upper limit of the duration of a disk call.
    pub disk_us: i64,
    /// Upper limit of the duration of an fsync.
    pub sync_us: i64,
    /// Probability that input from a peer is acted on immediately, otherwise together with the next.
    pub flush_per_mille: u32,
    /// Upper limit of the time between two actions of a client.
    pub think_us: i64,
    /// Upper limit of the requests per action.
    pub burst: i64,
    /// Outstanding requests beyond which a client waits.
    pub pipeline: usize,
    /// Number of top-level nodes that clients use.
    pub tops: usize,
    /// Number of child names that clients use.
    pub names: usize,
    /// Probability of data that spans several sectors.
    pub large_per_mille: u32,
    /// Clients send requests before the reply to the handshake.
    pub eager_clients: bool,
    /// Clients wait for replies longer than their session timeout, as long as the connection is open.
    pub patient_clients: bool,
    /// Probability that a copy of the disk is recovered after a log write.
    pub restore_per_mille: u32,

    /// The process is killed.
    pub kill_ms: MeanMs,
    /// The power fails immediately.
    pub power_ms: MeanMs,
    /// The power fails at one of the next disk calls.
    pub power_at_call_ms: MeanMs,
    /// The power fails between the next write of the log and its fsync.
    pub power_before_sync_ms: MeanMs,
    /// One of the next disk calls fails.
    pub disk_error_ms: MeanMs,
    /// One of the next fsyncs fails and loses its data.
    pub lost_sync_ms: MeanMs,
    /// The disk is full for a while.
    pub full_ms: MeanMs,
    /// The disk is slow for a while.
    pub slow_disk_ms: MeanMs,
    /// The process is stopped cleanly and started again.
    pub stop_ms: MeanMs,
    /// A client's connection breaks, at any byte.
    pub cut_ms: MeanMs,
    /// The network is slow for a while.
    pub slow_net_ms: MeanMs,
    /// The wall clock jumps.
    pub clock_ms: MeanMs,
    /// The threads of the process are slowed down for a while.
    pub stall_ms: MeanMs,
    /// The process is frozen for a while.
    pub freeze_ms: MeanMs,
    /// Longest freeze, in per cent of `syncLimit`; 0 means twice the longest session timeout.
    pub freeze_per_cent: i64,
    /// A member reads its wires slowly for a while.
    pub slow_read_ms: MeanMs,
    /// Paths between some servers are cut for a while.
    pub partition_ms: MeanMs,
    /// The leader is cut off, and receives old messages for a while.
    pub depose_ms: MeanMs,
    /// A server, mostly the leader, is deaf or mute for longer than `syncLimit`.
    pub one_way_ms: MeanMs,
    /// Probability per proposed configuration that one of its new voters loses its disk and all servers restart.
    pub empty_joiner_per_mille: u32,
    /// A wire between servers breaks, at any byte.
    pub wire_ms: MeanMs,
    /// A path between two servers is slow for a while.
    pub slow_path_ms: MeanMs,
    /// An attacker opens hundreds of silent connections to a quorum port.
    pub flood_ms: MeanMs,
    /// The disk completes no call for a while.
    pub hang_ms: MeanMs,
    /// Files of the victim are damaged or deleted.
    pub damage_ms: MeanMs,
    /// A data directory is copied while its server runs. The victim continues with the copy; the copy of a standalone
    /// server is opened separately.
    pub copy_ms: MeanMs,
    /// The member whose files are damaged or copied.
    pub victim: usize,
    /// The wall clock starts at the same time after each boot: the machine has no battery.
    pub resets_clock: bool,
    /// A client stops reading and writing for a while.
    pub client_pause_ms: MeanMs,
    /// A client abandons its session without closing it.
    pub abandon_ms: MeanMs,
    /// A client reads a few bytes at a time for a while.
    pub slow_client_ms: MeanMs,
    /// A connection is opened that never sends a complete handshake.
    pub silent_ms: MeanMs,
    /// Probability per action that a client moves its session to a new connection and keeps the old one open.
    pub take_over_per_mille: u32,
    /// Probability that a client sends a sync before a request.
    pub sync_per_mille: u32,
    /// Probability per action that a client sends malformed bytes.
    pub garbage_per_mille: u32,
}

impl Plan {
    /// The default plan of a seed.
    pub fn of(seed: u64) -> Self {
        let rng = &mut Rng::new(seed ^ 0x0005_eed0_fa11_b1a5);
        let mut plan = Self::calm();
        plan.draw_sizes(rng);
        plan.draw_pace(rng);
        plan.draw_settings(rng);
        plan.draw_faults(rng);
        plan.draw_ensemble(rng);
        match rng.below(100) {
            0..=14 if !plan.is_ensemble() => plan.overload(rng),
            15..=29 => plan.tear_logs(rng),
            _ => (),
        }
        if plan.is_ensemble() && rng.chance(120) {
            plan.serve_readers(rng);
        }
        plan.groups = rng.chance(100);
        match rng.below(10) {
            _ if !plan.is_ensemble() => (),
            0 => plan.one_way_ms = rng.between(2_000, 8_000),
            1 => plan.only_one_way(),
            _ => (),
        }
        plan.empty_joiner_per_mille = *rng.pick(&[0, 0, 200]);
        plan.draw_links(&mut Rng::new(seed ^ 0x0001_1171_0fb0_0d5a));
        plan.draw_sockets(&mut Rng::new(seed ^ 0x0005_0c4e_7500_ba1f));
        // The member may be needed by a reconfiguration.
        if plan.change_per_mille == 0 && rng.chance(150) {
            plan.copy_ms = rng.between(500, 5_000);
        }
        plan
    }

    /// Changes the number of requests per client; faults occur for proportionally longer.
    #[must_use]
    pub fn with_requests(mut self, requests: u64) -> Self {
        let ratio = i64::try_from(requests.div_ceil(self.requests)).unwrap_or(i64::MAX).clamp(1, 10_000);
        self.active_ms *= ratio;
        self.requests = requests;
        self
    }

    /// A standalone server with some clients and without faults.
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
            large_bytes: None,
            large_bytes_max: 0,
            throttled_wait_ms: 0,
            drop_late: false,
            connection_tokens: 0,
            window_bytes: 1 << 16,
            unsent_pause_bytes: 1 << 20,
            unsent_events_bytes: 4 << 20,
            read_bytes: 16 << 10,
            reads_at_once: 16,
            served_at_once: 128,
            reply_bytes_at_once: 64 << 10,
            partial_per_mille: 0,
            init_ticks: 10,
            sync_ticks: 5,
            election_wait_ms: 60_000,
            commit_log: 500,
            wire_bytes: 1 << 20,
            link_chunk_bytes: 64 << 10,
            link_partial_per_mille: 0,
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
            flush_per_mille: 500,
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
            slow_path_ms: 0,
            flood_ms: 0,
            hang_ms: 0,
            damage_ms: 0,
            copy_ms: 0,
            victim: 0,
            resets_clock: false,
            client_pause_ms: 0,
            abandon_ms: 0,
            slow_client_ms: 0,
            silent_ms: 0,
            take_over_per_mille: 0,
            sync_per_mille: 0,
            garbage_per_mille: 0,
        }
    }

    /// Changes the number of voters.
    #[must_use]
    pub fn with_voters(mut self, voters: usize) -> Self {
        self.voters = voters.max(1);
        self
    }

    /// An ensemble with some clients and without faults.
    pub fn calm_ensemble(voters: usize, observers: usize) -> Self {
        Self { voters, observers, ..Self::calm() }
    }

    pub fn servers(&self) -> usize {
        self.voters + self.observers
    }

    /// Whether reconfiguration is enabled.
    pub fn is_dynamic(&self) -> bool {
        0 < self.change_per_mille && self.is_ensemble()
    }

    /// Whether this is not a standalone server.
    pub fn is_ensemble(&self) -> bool {
        1 < self.servers()
    }

    fn draw_sizes(&mut self, rng: &mut Rng) {
        self.clients = 1 + rng.index(6);
        self.requests = *rng.pick(&[20, 50, 100, 200]);
        self.active_ms = rng.between(2_000, 20_000);
        self.io_threads = 1 + rng.index(3);
    }

    fn draw_settings(&mut self, rng: &mut Rng) {
        // Sessions that expire because of the network alone reveal little.
        let ticks = if self.net_delay_us < 10_000 { [100, 500, 2_000] } else { [1_000, 2_000, 2_000] };
        self.tick_ms = *rng.pick(&ticks);
        let shortest = i64::from(self.tick_ms) * 2;
        self.timeouts_ms = (shortest, shortest * rng.between(1, 6));
        self.snap_count = *rng.pick(&[3, 4, 8, 20, 50, 100]);
        self.preallocate_bytes = *rng.pick(&[0, 512, 2048, 4096, 16 << 10]);
        self.roll_bytes = *rng.pick(&[None, None, Some(512), Some(4096)]);
        self.batch_records = *rng.pick(&[1, 2, 5, 1000]);
        self.retain = 3 + rng.index(2);
        self.purge_ms = *rng.pick(&[0, 300, 1_000, 5_000]);
        self.compression = *rng.pick(&[Compression::None, Compression::None, Compression::Gz, Compression::Snappy]);
        self.extended_types = rng.chance(750);
        self.close_session_txn = !rng.chance(150);
        self.sweep_ms = *rng.pick(&[200, 1_000, 5_000]);
        self.sweep_per_minute = *rng.pick(&[60, 60, 600, 60_000]);
        self.never_used_ms = *rng.pick(&[0, 0, 1_000]);
        self.splits_dirs = rng.chance(200);
        self.low_water_bytes = *rng.pick(&[500, 2_000, 8_000]);
        self.window_bytes = *rng.pick(&[64, 1_000, 1 << 16]);
        self.unsent_pause_bytes = *rng.pick(&[256, 4096, 1 << 20]);
        self.unsent_events_bytes = *rng.pick(&[300, 4 << 20, 4 << 20]);
        self.read_bytes = *rng.pick(&[7, 100, 16 << 10]);
        self.served_at_once = *rng.pick(&[1, 3, 128]);
        self.draw_limits(rng);
    }

    fn draw_limits(&mut self, rng: &mut Rng) {
        self.outstanding_max = *rng.pick(&[1, 4, 1_000, 1_000]);
        self.throttle_max = *rng.pick(&[None, None, None, None, Some(1), Some(5)]);
        self.throttled_wait_ms = *rng.pick(&[0, 0, 0, 0, 0, 5, 100, 1_000]);
        self.drop_late = rng.chance(100);
        self.connection_tokens = *rng.pick(&[0, 0, 0, 0, 0, 1, 3]);
        self.memory_budget_bytes = *rng.pick(&[12_000, 40_000, 200_000, 1 << 30, 1 << 30, 1 << 30]);
    }

    fn draw_pace(&mut self, rng: &mut Rng) {
        self.net_delay_us = *rng.pick(&[100, 2_000, 50_000, 300_000]);
        self.thread_delay_us = *rng.pick(&[10, 100, 5_000]);
        self.preempt_per_mille = *rng.pick(&[0, 50, 500, 1000]);
        self.disk_us = *rng.pick(&[0, 50, 1_000]);
        self.sync_us = *rng.pick(&[100, 5_000, 100_000]);
        self.burst = *rng.pick(&[1, 3, 10, 30]);
        self.pipeline = *rng.pick(&[1, 4, 50]);
        let per_cent = *rng.pick(&[2, 40, 90]);
        self.think_us = self.pause_us(per_cent);
        self.tops = *rng.pick(&[1, 2, 4]);
        self.names = *rng.pick(&[1, 2, 5]);
        self.large_per_mille = *rng.pick(&[20, 80, 400]);
        self.eager_clients = rng.chance(300);
        self.patient_clients = rng.chance(400);
    }

    /// The pause between two actions with which the requests take the given share of the active time.
    fn pause_us(&self, per_cent: i64) -> i64 {
        let requests = i64::try_from(self.requests).unwrap_or(i64::MAX);
        let actions = (requests * 2 / (self.burst + 1)).max(1);
        // Pauses have a long-tailed distribution: their mean is a quarter of the maximum.
        (self.active_ms * 10 * per_cent * 4 / actions).clamp(2_000, 2_000_000)
    }

    /// Requests exceed the throughput of a slow disk, from patient clients with short timeouts.
    fn overload(&mut self, rng: &mut Rng) {
        (self.tick_ms, self.timeouts_ms) = (100, (200, rng.between(300, 1_200)));
        (self.clients, self.requests) = (self.clients.max(4), self.requests.max(100));
        // Other reasons for slow replies would excuse the server.
        (self.stall_ms, self.freeze_ms, self.slow_net_ms, self.client_pause_ms) = (0, 0, 0, 0);
        self.net_delay_us = *rng.pick(&[100, 2_000]);
        self.thread_delay_us = *rng.pick(&[10, 100]);
        self.sync_us = *rng.pick(&[100_000, 1_000_000]);
        self.patient_clients = true;
        self.outstanding_max = 1;
        self.throttle_max = *rng.pick(&[None, Some(1), Some(1), Some(3)]);
        (self.burst, self.pipeline) = (*rng.pick(&[3, 30]), *rng.pick(&[4, 50]));
        self.think_us = self.pause_us(40);
    }

    /// Frequent power cuts while large batches are written to new log files.
    fn tear_logs(&mut self, rng: &mut Rng) {
        self.power_before_sync_ms = rng.between(200, 1_000);
        (self.clients, self.requests) = (self.clients.max(3), self.requests.max(100));
        (self.power_ms, self.kill_ms, self.disk_error_ms, self.full_ms) = (0, 0, 0, 0);
        self.active_ms = self.active_ms.max(8_000);
        (self.net_delay_us, self.sync_us) = (*rng.pick(&[100, 2_000]), *rng.pick(&[100, 5_000]));
        self.preallocate_bytes = *rng.pick(&[2048, 4096, 16 << 10]);
        self.large_per_mille = 500;
        self.snap_count = *rng.pick(&[4, 8, 20]);
        self.batch_records = 1_000;
        (self.burst, self.pipeline) = (20, 50);
        self.think_us = self.pause_us(80);
    }

    /// Servers are deaf or mute and no other fault occurs, so that `checkers/outage.rs` limits the pause of writes.
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

    pub(crate) fn has_only_one_way_faults(&self) -> bool {
        let ends = [self.kill_ms, self.power_ms, self.power_at_call_ms, self.power_before_sync_ms, self.stop_ms];
        let disks = [self.disk_error_ms, self.lost_sync_ms, self.full_ms, self.slow_disk_ms, self.hang_ms];
        let pauses = [self.stall_ms, self.freeze_ms, self.slow_read_ms, self.slow_net_ms, self.slow_path_ms];
        let ways = [self.partition_ms, self.depose_ms, self.wire_ms];
        let files = [self.damage_ms, self.copy_ms];
        let changes = [i64::from(self.change_per_mille), i64::from(self.epoch_txns)];
        let mut others = ends.iter().chain(&disks).chain(&pauses).chain(&ways).chain(&files).chain(&changes);
        0 < self.one_way_ms && others.all(|other| *other == 0)
    }

    /// Servers lose their quorum while clients accept read-only mode, which needs local sessions.
    fn serve_readers(&mut self, rng: &mut Rng) {
        (self.read_only, self.local_sessions) = (true, !rng.chance(100));
        if self.partition_ms == 0 {
            self.partition_ms = rng.between(1_000, 4_000);
        }
    }

    fn draw_ensemble(&mut self, rng: &mut Rng) {
        if rng.chance(400) {
            return; // standalone
        }
        self.voters = *rng.pick(&[1, 2, 3, 3, 3, 3, 3, 4, 5, 5, 7]);
        self.observers = *rng.pick(&[0, 0, 0, 1, 2]).max(&usize::from(self.voters == 1));
        let ticks = if self.net_delay_us < 10_000 { [200, 500, 2_000] } else { [1_000, 2_000, 2_000] };
        self.tick_ms = *rng.pick(&ticks);
        let shortest = i64::from(self.tick_ms) * 2;
        self.timeouts_ms = (shortest, shortest * rng.between(1, 6));
        self.init_ticks = *rng.pick(&[5, 10]);
        self.sync_ticks = *rng.pick(&[2, 3, 5]);
        self.election_wait_ms = *rng.pick(&[1_000, 60_000]);
        self.commit_log = *rng.pick(&[2, 5, 20, 500]);
        self.size_factor = *rng.pick(&[-1.0, 0.33, 100.0, 100.0]);
        let share = *rng.pick(&[0, 300, 600]);
        let mut draw = |low: i64, high: i64| if rng.chance(share) { rng.between(low, high) } else { 0 };
        self.partition_ms = draw(500, 6_000);
        self.wire_ms = draw(300, 4_000);
        self.slow_path_ms = draw(300, 4_000);
        self.hang_ms = draw(2_000, 8_000) * i64::from(rng.chance(400));
        self.damage_ms = if rng.chance(200) { rng.between(500, 5_000) } else { 0 };
        self.victim = rng.index(9);
        self.observer_masters = rng.chance(500);
        self.depose_ms = if rng.chance(150) { rng.between(800, 5_000) } else { 0 };
        self.sync_per_mille = *rng.pick(&[0, 0, 100, 400]);
        self.flush_per_mille = *rng.pick(&[0, 100, 500, 1000]);
        self.epoch_txns = *rng.pick(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 5, 30, 100]);
        self.local_sessions = rng.chance(150);
        if rng.chance(200) {
            self.change_per_mille = *rng.pick(&[30, 150, 400]);
            // The damaged member may be needed by a reconfiguration.
            self.damage_ms = 0;
        }
        self.flood_ms = if rng.chance(300) { rng.between(50, 2_000) } else { 0 };
    }

    /// Draws small buffers for the links between servers.
    fn draw_links(&mut self, rng: &mut Rng) {
        if !self.is_ensemble() || rng.chance(400) {
            return;
        }
        // Bytes in flight arrive once per delay.
        let sockets = if self.net_delay_us < 10_000 { [500, 4_000, 1 << 20] } else { [16 << 10, 64 << 10, 1 << 20] };
        self.wire_bytes = *rng.pick(&sockets);
        self.held_bytes = *rng.pick(&[1, 1_000, 1 << 20]);
        self.link_chunk_bytes = *rng.pick(&[100, 5_000, 64 << 10]);
        self.link_partial_per_mille = *rng.pick(&[0, 20, 200]);
        self.learner_window_bytes = *rng.pick(&[1, 1_000, 8_000]);
        self.request_window_bytes = *rng.pick(&[1, 1_000, 8_000]);
        self.pinned_bytes = *rng.pick(&[1_000, 8_000, 4 << 20]);
        self.slow_read_ms = if rng.chance(400) { rng.between(800, 5_000) } else { 0 };
    }

    /// Draws the sizes of I/O iterations, and what the sockets of clients do.
    fn draw_sockets(&mut self, rng: &mut Rng) {
        if self.has_only_one_way_faults() {
            return;
        }
        self.reads_at_once = *rng.pick(&[1, 2, 16]);
        self.reply_bytes_at_once = *rng.pick(&[100, 4_000, 64 << 10]);
        self.partial_per_mille = *rng.pick(&[0, 0, 100, 500, 1000]);
        (self.large_bytes, self.large_bytes_max) = *rng.pick(&[(None, 0), (None, 0), (Some(1_000), 10_000)]);
        if self.cut_ms != 0 || self.client_pause_ms != 0 {
            self.slow_client_ms = if rng.chance(500) { rng.between(500, 4_000) } else { 0 };
            self.silent_ms = if rng.chance(400) { rng.between(300, 4_000) } else { 0 };
        }
    }

    fn draw_faults(&mut self, rng: &mut Rng) {
        if rng.chance(100) {
            return; // simulations without faults must work too
        }
        // Some simulations have hardly any faults, others have many at once.
        let share = *rng.pick(&[60, 150, 300, 500]);
        let mut draw = |low: i64, high: i64| if rng.chance(share) { rng.between(low, high) } else { 0 };
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
        self.client_pause_ms = draw(500, 5_000);
        self.abandon_ms = draw(1_000, 8_000);
        self.resets_clock = rng.chance(150);
        self.take_over_per_mille = *rng.pick(&[0, 10, 50]);
        self.garbage_per_mille = *rng.pick(&[0, 3]);
    }
}
