//! Tests of elections and of ZAB with many servers.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed")]
#![expect(clippy::wildcard_enum_match_arm, reason = "tests match a few of many variants")]

mod bootstrap;
mod deaf_members;
mod dialling;
mod disk_low;
mod election_cluster;
mod elections;
mod leader_rules;
mod leader_shutdown;
mod learner_rules;
mod membership;
mod observer_master_rules;
mod peer_options;
mod peer_rules;
mod pending_config;
mod random_faults;
mod scripts;
mod single_member;
mod standalone;
mod unestablished_leaders;
mod zab_cluster;
