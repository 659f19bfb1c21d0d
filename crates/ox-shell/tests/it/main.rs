//! The shell against real servers: recorded transcripts of `zkCli`, scripts and exit codes, a terminal.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed")]

mod calls;
mod capture;
mod docs;
mod ours;
mod terminal;
mod transcript;
