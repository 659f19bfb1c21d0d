//! Reach marks: how often an interesting situation occurred. A simulation that never gets there proves nothing.

macro_rules! marks {
    ($($name:ident, $text:literal;)*) => {
        /// Counts of situations.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Marks {
            $(#[doc = $text] pub $name: u64),*
        }

        impl Marks {
            /// Adds up.
            pub fn add(&mut self, other: &Self) {
                $(self.$name += other.$name;)*
            }

            /// Every mark with its text and count.
            pub fn each(&self) -> Vec<(&'static str, u64)> {
                vec![$(($text, self.$name)),*]
            }
        }
    };
}

marks! {
    requests, "requests sent";
    answers, "answers received";
    events, "events received";
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
    throttled, "writes refused because the disk was nearly full";
    unanswered_but_done, "writes without an answer that took effect";
    group_commits, "syncs that covered several batches";
    waiting_reads, "reads that waited behind writes of their connection";
    slow_reader_pauses, "connections held back because the client did not read";
    restores_checked, "moments at which a copy of the disk was recovered";
    clock_jumps, "jumps of the wall clock";
}
