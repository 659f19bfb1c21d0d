//! Tests of the store on real and simulated disks.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed")]

mod copies;
mod corruption;
mod crash;
mod expected;
mod full_disk;
mod golden;
mod install;
mod known_cases;
mod lifecycle;
mod log;
mod log_diff;
mod log_location;
mod member;
mod member_cases;
mod restore;
mod sim_stores;
mod stream;
mod truncate;
mod workload;
