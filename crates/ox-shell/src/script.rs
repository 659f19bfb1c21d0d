//! Non-interactive use: one command, or commands from standard input.

use crate::command_error::{self, CommandError};
use crate::commands;
use crate::events::ConnectionStatus;
use crate::invocation::Invocation;
use crate::output::Output;
use crate::shell::{Shell, ShellMode};
use std::io::BufRead;

/// The first character of some text files.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// Runs a non-interactive shell and returns its exit code.
pub async fn run(invocation: Invocation, out: Output, input: impl BufRead + Send + 'static) -> u8 {
    let mut shell = Shell::new(invocation, ShellMode::Script, out);
    if let Err(status) = begin(&mut shell).await {
        return status;
    }
    let command = std::mem::take(&mut shell.invocation.command);
    shell.is_single_command = !command.is_empty();
    if command.is_empty() {
        run_lines(&mut shell, input).await;
    } else {
        let _ = shell.run_words(&command).await; // the error is reported already
    }
    shell.set_prints_events(false);
    shell.close().await;
    shell.status()
}

/// Opens the session. Compat: prints the address of the servers, as `zkCli` does.
pub(crate) async fn begin(shell: &mut Shell) -> Result<(), u8> {
    let greets = shell.is_zkcli() && !shell.invocation.json;
    if is_additional_command(shell) {
        shell.set_prints_events(false);
    } else if greets {
        let _ = shell.out.line(&format!("Connecting to {}", shell.invocation.server));
        let _ = shell.out.flush(); // an error recurs in the command
    }
    for note in &shell.invocation.notes {
        shell.out.error(note);
    }
    // Compat: the first event follows the greeting, unless the shell waits for the connection.
    let welcomes = greets && shell.invocation.command.is_empty() && shell.mode == ShellMode::Script;
    if welcomes && !shell.invocation.waits {
        welcome(shell);
    }
    if let Err(failure) = shell.connect().await {
        shell.out.error(&failure.native_text());
        return Err(command_error::FAILED);
    }
    if shell.invocation.waits && shell.await_session().await != ConnectionStatus::Connected {
        shell.out.error(&no_session(shell).await);
        shell.close().await;
        return Err(command_error::FAILED);
    }
    if welcomes && shell.invocation.waits {
        welcome(shell);
    }
    Ok(())
}

async fn no_session(shell: &Shell) -> String {
    let sasl_failure = shell.session_client().and_then(|client| client.sasl_failure());
    match shell.client() {
        _ if !shell.is_zkcli() && sasl_failure.is_some() => {
            format!("Authentication failed: {}", sasl_failure.unwrap_or_default())
        }
        Ok(client) if !shell.is_zkcli() => shell.unreachable(&client).await.native_text(),
        _ => "KeeperErrorCode = ConnectionLoss".to_owned(),
    }
}

/// Whether the single command is not a `zkCli` command, so that no script expects the greeting around its output.
fn is_additional_command(shell: &Shell) -> bool {
    let command = shell.invocation.command.first().and_then(|name| commands::find(name));
    command.is_some_and(|command| !command.is_zkcli)
}

fn welcome(shell: &Shell) {
    let _ = shell.out.line("Welcome to ZooKeeper!\nJLine support is disabled");
    let _ = shell.out.flush(); // an error recurs in the command
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
    for number in 1.. {
        let Some(line) = lines.recv().await else { return };
        let mut line = line.as_str();
        if !shell.is_zkcli() {
            shell.script_line = Some(number);
            line = line.trim_start_matches(BYTE_ORDER_MARK);
        }
        let result = shell.run_line(line).await;
        let is_failed = shell.status() != command_error::OK;
        let stops = match result {
            Err(CommandError::Fatal(_)) => true,
            Ok(()) | Err(_) => shell.invocation.stops_at_error && is_failed,
        };
        if stops || shell.should_exit {
            return;
        }
    }
}
