//! The shell against real servers: recorded transcripts of `zkCli`, scripts and exit codes, a terminal.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed")]

mod calls;
mod capture;
mod desk;
mod diff;
mod docs;
mod du;
mod edit;
mod find;
mod gate;
mod grep;
mod large;
mod moves;
mod ours;
mod terminal;
mod top;
mod transcript;
mod transfer;
mod tree;
mod walk;
mod watch;
