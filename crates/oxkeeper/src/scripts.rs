//! The programs of Apache's `bin` directory, by their names: `zkServer.sh` and the others.
//!
//! The binary acts as one of them when it is called by its name, for example through a link, and with the name as first
//! argument, as in `oxkeeper zkServer.sh status`. So they work in images without a shell, too. Options, output and exit
//! codes are Apache's.

mod cleanup;
mod env_file;
mod environment;
mod file_settings;
mod initialize;
mod options;
mod snapshot_tools;
mod txn_log_toolkit;
mod zk_server;

use environment::ScriptEnvironment;
use std::fmt;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

/// One of Apache's programs.
struct Script {
    name: &'static str,
    run: fn(&ScriptEnvironment, &[String]) -> ExitCode,
}

const SCRIPTS: &[Script] = &[
    Script { name: "zkCleanup", run: cleanup::run },
    Script { name: "zkCli", run: |_, words| crate::commands::cli::run_as_zkcli(words) },
    Script { name: "zkServer", run: zk_server::run },
    Script { name: "zkServer-initialize", run: initialize::run },
    Script { name: "zkSnapShotToolkit", run: snapshot_tools::format },
    Script { name: "zkSnapshotComparer", run: snapshot_tools::compare },
    Script { name: "zkSnapshotRecursiveSummaryToolkit", run: snapshot_tools::summarize },
    Script { name: "zkTxnLogToolkit", run: txn_log_toolkit::run },
];

/// Runs one of Apache's programs if the command line names it.
pub(crate) fn run_if_called() -> Option<ExitCode> {
    let mut words: Vec<String> = std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    let at = [0, 1].into_iter().find(|at| words.get(*at).is_some_and(|word| find(word, *at).is_some()))?;
    let arguments = words.split_off(at + 1);
    let mut path = words.pop()?;
    let script = find(&path, at)?;
    if at == 1 {
        // Not one of another installation that the search path may contain.
        let own = std::env::current_exe().ok().map(|program| program.with_file_name(&path));
        path = own.map_or(path, |own| own.display().to_string());
    }
    let (environment, arguments) = match ScriptEnvironment::read(path, arguments) {
        Ok(read) => read,
        Err(error) => {
            crate::say(format_args!("error: {error}"));
            return Some(ExitCode::FAILURE);
        }
    };
    Some((script.run)(&environment, &arguments))
}

/// The program with this name: with or without `.sh` if the binary was called so, with `.sh` as an argument.
fn find(path: &str, position: usize) -> Option<&'static Script> {
    let name = Path::new(path).file_name()?.to_str()?;
    let bare = name.strip_suffix(".sh");
    let bare = if position == 0 { bare.unwrap_or(name) } else { bare? };
    SCRIPTS.iter().find(|script| script.name == bare)
}

/// Prints to stdout if possible; `print!` panics if it is not.
fn print(text: fmt::Arguments<'_>) {
    let mut out = io::stdout();
    let _ = out.write_fmt(text);
    let _ = out.flush();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_by_name() {
        let found = |path, position| find(path, position).map(|script| script.name);
        assert_eq!(found("/opt/zookeeper/bin/zkServer.sh", 0), Some("zkServer"));
        assert_eq!(found("zkCli", 0), Some("zkCli"));
        assert_eq!(found("zkServer.sh", 1), Some("zkServer"));
        assert_eq!(found("zkServer", 1), None, "could be any argument");
        assert_eq!(found("oxkeeper", 0), None);
    }
}
