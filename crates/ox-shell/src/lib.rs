//! The shell for people and scripts: every command of `zkCli`, and what people miss there.
//!
//! Scripts that were written for `zkCli.sh` must go on working, so what they can see stays the same: lines, streams and exit
//! codes. What is new shows on a terminal or where it is asked for.
//!
//! | module | holds |
//! |---|---|
//! | [`invocation`] | the command line of the program |
//! | [`commands`] | the table of commands: names, syntax, options, help; everything about a command derives from it |
//! | `commands/` | one small file per command or family |
//! | [`shell`], [`command_history`] | the state that commands share, and how a line is run; what was typed |
//! | [`tokenize`], [`options`] | a line into words, words into options and operands |
//! | [`paths`] | what a user types into the path of a node |
//! | [`output`], [`stat_text`], [`acl_text`], [`quota_text`] | text, JSON and colours; metadata, access control lists, quotas |
//! | [`events`] | lines about watches and the connection |
//! | [`command_error`] | what goes wrong, its text and its exit code |
//! | `walk`, `subtree_diff`, `bulk_create`, `pipeline` | whole subtrees: seen, compared, written, with many requests on their way |
//! | `subtree_output`, `pattern`, `progress`, `export_format` | what commands over subtrees share; nodes as JSON |
//! | `four_letter` | what servers tell without a session |
//! | [`script`] | one command, or commands from standard input |
//! | `repl`, `completion`, `history_file`, `prompt`, `ctrl_c` | somebody at a terminal: line editor, Tab, history that stays, questions, Ctrl-C |
//!
//! A new command is a file in `commands/`, a row in the table, and a test.

pub mod acl_text;
mod bulk_create;
pub mod command_error;
pub mod command_history;
pub mod command_table;
pub mod commands;
mod completion;
mod ctrl_c;
pub mod events;
mod export_format;
mod four_letter;
mod history_file;
pub mod invocation;
pub mod options;
pub mod output;
pub mod paths;
mod pattern;
mod pipeline;
mod progress;
mod prompt;
pub mod quota_text;
mod repl;
pub mod script;
pub mod shell;
pub mod stat_text;
mod subtree_diff;
mod subtree_output;
pub mod tokenize;
mod walk;

pub use invocation::{Invocation, Start};

use output::Output;
use std::io::{BufReader, IsTerminal};

/// Runs the shell with the words behind its name, and gives what the program exits with.
pub fn main(words: impl IntoIterator<Item = String>) -> u8 {
    let out = Output::standard();
    let invocation = match Invocation::parse(words) {
        Ok(invocation) => invocation,
        Err((text, status)) => {
            out.complain(&text);
            return status;
        }
    };
    // Events come while the user edits a line, so the session has a thread of its own.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    match runtime {
        Ok(runtime) if invocation.command.is_empty() && is_terminal() => repl::run(&runtime, invocation, out),
        Ok(runtime) => runtime.block_on(script::run(invocation, out, BufReader::new(std::io::stdin()))),
        Err(error) => {
            out.complain(&format!("cannot start: {error}"));
            command_error::FAILED
        }
    }
}

/// Whether somebody types and reads.
fn is_terminal() -> bool {
    std::io::stdin().is_terminal() && std::io::stdout().is_terminal()
}
