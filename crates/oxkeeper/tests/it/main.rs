//! The built binary as a process: signals, crashes, exit codes, disks and descriptors that run out.

#![expect(clippy::unwrap_used, clippy::cast_possible_truncation, reason = "a test that panics has failed")]

mod clients;
mod copies;
mod crash;
mod deaf_leader;
mod disk;
mod ensemble;
mod founding;
mod full_disks;
mod hostile;
mod local_sessions;
mod members;
mod observer_masters;
mod process;
#[path = "../../../ox-server/tests/it/raw.rs"]
#[allow(dead_code, reason = "shared with the tests of the server, which use all of it")]
mod raw;
mod read_only;
mod recipes;
mod reconfig;
mod resources;
mod session_moves;
mod stalled;
mod start;
mod stopped_followers;
mod strangers;
mod tools;
mod tools_config;
mod tools_log;
mod tools_snapshot;
mod transcript;
mod unidentified;
