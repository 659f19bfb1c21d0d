//! Non-interactive use: one command, or commands from standard input.

use crate::command_error::{self, CommandError};
use crate::commands;
use crate::events::ConnectionStatus;
use crate::invocation::Invocation;
use crate::output::Output;
use crate::shell::{Shell, ShellMode};
use std::io::BufRead;

/// Runs a non-interactive shell and returns its exit code.
pub async fn run(invocation: Invocation, out: Output, input: impl BufRead + Send + 'static) -> u8 {
    let mut shell = Shell::new(invocation, ShellMode::Script, out);
    if let Err(status) = begin(&mut shell).await {
        return status;
    }
    let command = std::mem::take(&mut shell.invocation.command);
    if command.is_empty() {
        run_lines(&mut shell, input).await;
    } else {
        let _ = shell.run_words(&command).await; // the error is reported already
    }
    shell.set_prints_events(false);
    shell.close().await;
    shell.status()
}

/// Opens the session and prints the address of the servers.
pub(crate) async fn begin(shell: &mut Shell) -> Result<(), u8> {
    if is_additional_command(shell) {
        shell.set_prints_events(false);
    } else if !shell.invocation.json {
        let _ = shell.out.line(&format!("Connecting to {}", shell.invocation.server));
        let _ = shell.out.flush(); // an error recurs in the command
    }
    for note in &shell.invocation.notes {
        shell.out.error(note);
    }
    // Compat: the first event follows the greeting, unless the shell waits for the connection.
    let greets = shell.invocation.command.is_empty() && shell.mode == ShellMode::Script;
    if greets && !shell.invocation.waits {
        greet(shell);
    }
    if let Err(failure) = shell.connect().await {
        shell.out.error(&failure.to_string());
        return Err(command_error::FAILED);
    }
    if shell.invocation.waits && shell.await_session().await != ConnectionStatus::Connected {
        shell.out.error("KeeperErrorCode = ConnectionLoss");
        shell.close().await;
        return Err(command_error::FAILED);
    }
    if greets && shell.invocation.waits {
        greet(shell);
    }
    Ok(())
}

/// Whether the single command is not a `zkCli` command, so that no script expects the greeting around its output.
fn is_additional_command(shell: &Shell) -> bool {
    let command = shell.invocation.command.first().and_then(|name| commands::find(name));
    command.is_some_and(|command| !command.is_zkcli)
}

fn greet(shell: &Shell) {
    if !shell.invocation.json {
        let _ = shell.out.line("Welcome to ZooKeeper!\nJLine support is disabled");
        let _ = shell.out.flush(); // an error recurs in the command
    }
}

/// Runs the lines of standard input. Events are printed while the next line is awaited.
async fn run_lines(shell: &mut Shell, input: impl BufRead + Send + 'static) {
    let (sender, mut lines) = tokio::sync::mpsc::channel(1);
    std::thread::spawn(move || {
        for line in input.split(b'\n').map_while(Result::ok) {
            let line = String::from_utf8_lossy(&line).trim_end_matches('\r').to_owned();
            if sender.blocking_send(line).is_err() {
                return;
            }
        }
    });
    while let Some(line) = lines.recv().await {
        if let Err(CommandError::Fatal(_)) = shell.run_line(&line).await {
            return;
        }
        if shell.should_exit {
            return;
        }
    }
}
