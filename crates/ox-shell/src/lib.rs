//! The shell for people and scripts: all commands of `zkCli`, and additional ones.
//!
//! There are two styles. In the native style a command prints only data on standard output, and everything else on
//! standard error. With `--zkcli`, or under the name `zkCli.sh`, everything that a script can see is that of `zkCli`:
//! lines, streams, prompt and exit codes.
//!
//! | module | contents |
//! |---|---|
//! | [`invocation`], `profiles` | the command line of the program; named settings |
//! | [`commands`] | the table of commands: names, syntax, options, help; everything about a command derives from it |
//! | `commands/` | one small file per command or family |
//! | [`shell`], [`command_history`] | the state shared by commands, and how a line is executed; earlier lines |
//! | [`tokenize`], [`options`] | splits a line into words, and words into options and operands |
//! | [`paths`] | validates node paths and resolves relative ones |
//! | [`output`], [`table`], [`stat_text`], [`acl_text`], [`quota_text`] | text, JSON and colours; tables; metadata, ACLs, quotas |
//! | [`events`] | prints watch events and connection changes |
//! | [`command_error`], `suggest` | errors of commands, their texts and exit codes; "did you mean" |
//! | `walk`, `subtree_diff`, `bulk_create`, `pipeline` | walk, compare and create whole subtrees, with many requests in flight |
//! | `subtree_output`, `pattern`, `progress`, `export_format` | shared by commands on subtrees; the export format |
//! | [`four_letter`], `unreachable`, `members` | four-letter commands, which servers answer without a session; why no server serves; the members of the ensemble |
//! | [`script`] | one command, or commands from standard input |
//! | `repl`, `completion`, `history_file`, `prompt`, `ctrl_c` | interactive use: line editor, Tab, persistent history, confirmations, Ctrl-C |
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
pub mod four_letter;
mod history_file;
pub mod invocation;
mod json_indent;
mod members;
pub mod options;
pub mod output;
pub mod paths;
mod pattern;
mod pipeline;
mod profiles;
mod progress;
mod prompt;
pub mod quota_text;
mod repl;
pub mod script;
pub mod shell;
pub mod stat_text;
mod subtree_diff;
mod subtree_output;
mod suggest;
pub mod table;
pub mod tokenize;
mod unreachable;
mod walk;

pub use invocation::{Invocation, ParseResult};
pub use profiles::{CliProfile, named_server};

use output::Output;
use std::io::{BufReader, IsTerminal};

/// Whether a program name asks for the output of `zkCli`: `zkCli.sh`, for example as a link to this program.
pub fn is_zkcli_name(program: &str) -> bool {
    std::path::Path::new(program).file_stem().is_some_and(|name| name == "zkCli")
}

/// Runs the shell with the given command line and returns its exit code.
pub fn main(words: impl IntoIterator<Item = String>) -> u8 {
    let out = Output::standard();
    let invocation = match Invocation::parse(words) {
        Ok(invocation) => invocation,
        Err((text, status)) => {
            out.error(&text);
            return status;
        }
    };
    // Events are received while the user edits a line, so the session has its own thread.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    match runtime {
        Ok(runtime) if invocation.command.is_empty() && is_terminal() => repl::run(&runtime, invocation, out),
        Ok(runtime) => runtime.block_on(script::run(invocation, out, BufReader::new(std::io::stdin()))),
        Err(error) => {
            out.error(&format!("cannot start: {error}"));
            command_error::FAILED
        }
    }
}

/// Whether standard input and output are terminals.
fn is_terminal() -> bool {
    std::io::stdin().is_terminal() && std::io::stdout().is_terminal()
}
