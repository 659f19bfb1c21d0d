//! Coverage counters: how often interesting situations occurred. A simulation that never reaches them proves nothing.

macro_rules! coverage {
    ($($name:ident, $text:literal;)*) => {
        /// Counters of situations; `each` describes them.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct CoverageCounts {
            $(#[doc = $text] pub $name: u64),*
        }

        impl CoverageCounts {
            /// Adds all counters of another simulation.
            pub fn add(&mut self, other: &Self) {
                $(self.$name += other.$name;)*
            }

            /// Every counter with its description.
            pub fn each(&self) -> Vec<(&'static str, u64)> {
                vec![$(($text, self.$name)),*]
            }
        }
    };
}

coverage! {
    requests, "requests sent";
    replies, "replies received";
    events, "events received";
    hidden_events, "events withheld from clients without read permission";
    aborted, "connections closed because of too many unsent events";
    sessions, "sessions opened";
    resumed, "sessions resumed on another connection";
    taken_over, "sessions moved to a new connection while the old one was open";
    refused, "handshakes refused";
    expired, "sessions expired by the server";
    rearmed, "setWatches requests sent";
    rearm_events, "events received after re-arming watches";
    cut_connections, "connections cut, mid-frame or not";
    kills, "processes killed";
    kills_in_log, "processes killed while the log was being written";
    kills_in_snapshot, "processes killed while a snapshot was being written";
    kills_in_recovery, "processes killed while starting";
    power_cuts, "power cuts";
    power_cuts_before_sync, "power cuts between write and fsync of the log";
    clean_stops, "clean stops";
    recoveries, "recoveries";
    torn_tails, "torn tails truncated at a start";
    lost_tails, "starts that lost unacknowledged transactions";
    kept_unacked, "starts that kept unacknowledged transactions";
    log_errors, "log errors that ended the process";
    snapshot_errors, "snapshots that failed";
    start_errors, "starts that failed by an injected fault";
    snapshots, "snapshots written";
    purges, "purges that removed something";
    rolled_logs, "log files begun";
    full_disks, "disks that ran full";
    refused_writes, "requests refused because of a low disk or throttling";
    stalled, "requests that waited for admission";
    one_per_connection, "connections limited to one outstanding request";
    applied_without_reply, "writes without a reply that took effect";
    group_commits, "fsyncs that covered several batches";
    waiting_reads, "reads that waited for writes of their connection";
    slow_reader_pauses, "connections paused because the client did not read";
    partial_reads, "reads that returned a part of what had arrived";
    partial_writes, "writes that took a part of what the socket could hold";
    full_sockets, "writes to sockets that could not hold everything";
    full_arenas, "connections not read because the arena was full";
    budgets_spent, "iterations that released the state with frames left";
    waiting_frames, "large requests that waited for memory while they were received";
    large_refused, "large requests refused because of the limit on all of them";
    refused_frames, "connections closed because of malformed frames";
    throttled, "requests refused because they had waited for too long";
    stale_dropped, "connections closed because their request had waited for too long";
    idle_closed, "connections closed because they were idle";
    closed_for_memory, "connections closed because they were slow while memory was short";
    lingering, "sockets that lingered after the last reply";
    resets, "connections reset because they were closed with unread input";
    silent_connections, "connections that sent no complete handshake";
    slow_clients, "clients that read slowly";
    restores_checked, "recoveries of a copy of the disk";
    clock_jumps, "jumps of the wall clock";
    freezes, "processes that were frozen";
    slow_reads, "members that read their wires slowly";
    full_wires, "packets that waited for the receiver to read";
    partial_link_reads, "reads of links that ended early";
    partial_link_writes, "writes of links that ended early";
    full_links, "links that were not read until the replica had taken their packets";
    continued_diffs, "learner streams continued from the on-disk log";
    pauses_noticed, "pauses that a server detected";
    multis, "multis that succeeded";
    multis_refused, "multis refused as a whole";
    ephemerals_removed, "ephemeral nodes removed with their session";
    containers_removed, "containers and TTL nodes removed by the server";
    recursive_watches, "recursive watches set";
    persistent_watches, "persistent watches set";
    leaders, "leaders established";
    roles_left, "roles of members that ended";
    snapshots_received, "snapshots received from a leader";
    truncations, "logs truncated";
    installs, "snapshots installed";
    partitions, "paths between servers that were cut";
    quarantines, "starts in quarantine";
    empty_starts, "starts with an empty data directory";
    damages, "files of a member that were damaged";
    copies, "data directories copied while their server ran, and used";
    copies_refused, "copies of standalone servers that were refused";
    hung_disks, "disks that hung";
    log_diffs, "log diffs sent from the on-disk log";
    disk_stall_step_downs, "leaders that stepped down because their disk hung";
    disk_low_step_downs, "leaders that stepped down because their disk was low";
    rollover_step_downs, "leaders that stepped down because the zxid rolled over";
    floods, "floods of quorum ports with silent connections";
    flooded_out, "learners whose connection a flood closed";
    wires_cut, "connections between servers that broke";
    local_sessions, "sessions that stayed local";
    upgraded, "sessions upgraded to global";
    read_only_sessions, "read-only sessions";
    read_only_refusals, "requests refused in read-only mode";
    parked, "parked handshakes that got a reply";
    uncommitted_reads, "read-only connections that read uncommitted transactions";
    configs, "configurations activated";
    config_files, "configuration files written";
    changes, "reconfigurations requested";
    observer_master_links, "observers that connected to a follower";
    deposed, "leaders that were cut off without noticing";
    one_way, "servers that were deaf or mute";
    empty_joiners, "voters of a proposed configuration that lost their disk";
    timeliness_checks, "timeliness checks";
    moved, "sessions that moved to another server";
    probes, "writes that succeeded after all faults had ended";
}
