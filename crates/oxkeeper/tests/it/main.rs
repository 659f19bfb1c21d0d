//! The built binary as a process: signals, crashes, exit codes, full disks and exhausted descriptors.

#![expect(clippy::unwrap_used, clippy::cast_possible_truncation, reason = "a test that panics has failed")]

mod admin;
mod bench;
mod bootstrap;
mod clients;
mod copies;
mod crash;
mod deaf_leader;
mod disk;
mod ensemble;
mod fault_injection;
mod first_screen;
mod full_disks;
mod local_sessions;
mod log_sentences;
mod members;
mod observer_masters;
mod process;
mod quorum_sasl;
mod quorum_tls;
mod read_only;
mod recipes;
mod reconfig;
mod reload;
mod resources;
mod scripts;
mod scripts_tools;
mod secrets;
mod server_log;
mod service_manager;
mod session_moves;
mod signals;
mod stalled;
mod start;
mod status;
mod stopped_followers;
mod terminal;
mod tls_tools;
mod tools;
mod tools_config;
mod tools_log;
mod tools_snapshot;
mod transcript;
mod unidentified;
mod unknown_peers;
