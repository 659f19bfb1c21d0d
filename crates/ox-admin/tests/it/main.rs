//! The AdminServer over real sockets, with a server in the same process.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed")]

mod bounds;
mod commands;
mod dashboards;
mod generated_page;
mod harness;
mod https;
mod in_memory;
mod known_cases;
mod paths;
mod snapshots;
