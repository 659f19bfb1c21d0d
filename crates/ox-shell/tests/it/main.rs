//! The shell against real servers: recorded transcripts of `zkCli`, scripts and exit codes, a pseudo terminal.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed")]

mod capture;
mod command_table;
mod cp_mv;
mod diff;
mod du;
mod edit;
mod export_import;
mod extensions;
mod find;
mod grep;
mod invocations;
mod large_subtree;
mod native;
mod native_terminal;
mod shell_harness;
mod terminal;
mod top;
mod transcript;
mod tree;
mod walk;
mod watch;
