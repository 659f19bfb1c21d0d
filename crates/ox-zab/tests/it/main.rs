//! Tests of elections and of ZAB with many servers.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed")]
#![expect(clippy::wildcard_enum_match_arm, reason = "tests match a few of many variants")]

mod checks;
mod deaf_members;
mod describe;
mod disk_low;
mod left_out_candidates;
mod pending_config;
mod random_faults;
mod reconfig_txn;
mod script_properties;
mod scripts;
mod standalone;
mod stepped_ensemble;
mod zab_cluster;
