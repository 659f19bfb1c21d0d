//! The store as a whole, over real and simulated disks.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed")]

mod copies;
mod corruption;
mod crash;
mod dump;
mod expected;
mod full_disk;
mod golden;
mod history;
mod install;
mod known_cases;
mod life;
mod log;
mod member;
mod member_cases;
mod sim;
mod stream;
mod tools;
mod truncate;
mod workload;
