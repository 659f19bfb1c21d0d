//! Coverage counters: how often interesting situations occurred. A simulation that never reaches them proves nothing.

macro_rules! coverage {
    ($($name:ident, $text:literal;)*) => {
        /// Counters of situations; `each` describes them.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Coverage {
            $(#[doc = $text] pub $name: u64),*
        }

        impl Coverage {
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
    replies, "answers received";
    events, "events received";
    hidden_events, "events kept from clients that may not read the node";
    aborted, "connections given up because too many events waited for them";
    sessions, "sessions opened";
    resumed, "sessions resumed on another connection";
    taken_over, "sessions taken to a new connection while the old one lived";
    refused, "handshakes refused";
    expired, "sessions expired by the server";
    rearmed, "re-arming requests sent";
    rearm_events, "events sent by re-arming";
    cut_connections, "connections cut, mid-frame or not";
    kills, "processes killed";
    kills_in_log, "processes killed while the log was being written";
    kills_in_snapshot, "processes killed while a snapshot was being written";
    kills_in_recovery, "processes killed while starting";
    power_cuts, "power cuts";
    power_cuts_before_sync, "power cuts between writing and syncing the log";
    clean_stops, "clean stops";
    recoveries, "recoveries";
    torn_tails, "torn tails cut at a start";
    lost_tails, "starts that lost unacknowledged transactions";
    kept_unacked, "starts that kept transactions nobody had been told of";
    log_errors, "log errors that ended the process";
    snapshot_errors, "snapshots that failed";
    start_errors, "starts that met an injected fault";
    snapshots, "snapshots written";
    purges, "purges that removed something";
    rolled_logs, "log files begun";
    full_disks, "disks that ran full";
    refused_writes, "requests refused because the disk was nearly full, or too much was on its way";
    stalled, "requests that waited until the server had room";
    one_per_connection, "connections that had to wait because the server held enough";
    applied_without_reply, "writes without an answer that took effect";
    group_commits, "syncs that covered several batches";
    waiting_reads, "reads that waited behind writes of their connection";
    slow_reader_pauses, "connections held back because the client did not read";
    restores_checked, "moments at which a copy of the disk was recovered";
    clock_jumps, "jumps of the wall clock";
    freezes, "processes that stood still";
    slow_reads, "members that read their links slowly";
    full_wires, "packets that waited for the receiver to read";
    continued_diffs, "histories continued from the on-disk log";
    pauses_noticed, "pauses that a server noticed";
    multis, "multis done";
    multis_refused, "multis refused as a whole";
    ephemerals_removed, "ephemeral nodes removed with their session";
    containers_removed, "containers and TTL nodes removed by the server";
    recursive_watches, "recursive watches set";
    persistent_watches, "persistent watches set";
    leaders, "leaders established";
    roles_left, "roles of members that ended";
    snapshots_received, "states received from a leader";
    truncations, "histories cut";
    installs, "histories replaced";
    partitions, "ways between servers that were cut";
    quarantines, "starts in quarantine";
    empty_starts, "starts with nothing";
    damages, "files of a member that were damaged";
    copies, "directories that were copied while their server ran, and used";
    copies_refused, "copies of standalone servers that have to be made again";
    hung_disks, "disks that hung";
    log_diffs, "histories sent from the stored log";
    disk_stall_step_downs, "leaders that gave up because their disk hung";
    disk_low_step_downs, "leaders that gave up because their disk was nearly full";
    rollover_step_downs, "leaders that gave up because their epoch had no more numbers";
    floods, "floods of quorum ports with silent connections";
    flooded_out, "learners whose connection such a flood closed";
    wires_cut, "connections between servers that broke";
    local_sessions, "sessions that only their server has known";
    upgraded, "sessions that others have come to know";
    read_only_sessions, "sessions at a server without a leader";
    read_only_refusals, "requests refused for want of a leader";
    parked, "handshakes that waited for a leader and got a reply";
    uncommitted_reads, "connections that were shown what was never agreed on, by a server without a leader";
    configs, "configurations put in force";
    config_files, "files of configurations written";
    changes, "changes of the ensemble asked for";
    observer_master_links, "observers that came to a follower";
    deposed, "leaders that were cut off and did not hear of it";
    one_way, "servers that were deaf or mute";
    empty_joiners, "voters of a proposed configuration that lost everything";
    timeliness_checks, "moments at which servers were asked when they had heard of each other";
    moved, "sessions that moved to another server";
    probes, "writes that succeeded after everything had healed";
}
