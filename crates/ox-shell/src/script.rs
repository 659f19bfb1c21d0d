//! Without a terminal: one command, or commands from standard input.

use crate::command_error::{self, Failure};
use crate::commands;
use crate::events::Standing;
use crate::invocation::Invocation;
use crate::output::Output;
use crate::shell::{Place, Shell};
use std::io::BufRead;

/// Runs a shell for a program, and gives what it exits with.
pub async fn run(invocation: Invocation, out: Output, input: impl BufRead + Send + 'static) -> u8 {
    let mut shell = Shell::new(invocation, Place::Script, out);
    if let Err(status) = begin(&mut shell).await {
        return status;
    }
    let command = std::mem::take(&mut shell.invocation.command);
    if command.is_empty() {
        run_lines(&mut shell, input).await;
    } else {
        let _ = shell.run_words(&command).await; // it is told
    }
    shell.set_prints_events(false);
    shell.close().await;
    shell.status()
}

/// Begins the session, and says so.
pub(crate) async fn begin(shell: &mut Shell) -> Result<(), u8> {
    if is_ours(shell) {
        shell.set_prints_events(false);
    } else if !shell.invocation.json {
        let _ = shell.out.line(&format!("Connecting to {}", shell.invocation.server));
        let _ = shell.out.flush(); // the command learns of it
    }
    for note in &shell.invocation.notes {
        shell.out.complain(note);
    }
    // Compat: the first event stands behind the greeting, unless it is waited for.
    let greets = shell.invocation.command.is_empty() && shell.place == Place::Script;
    if greets && !shell.invocation.waits {
        greet(shell);
    }
    if let Err(failure) = shell.connect().await {
        shell.out.complain(&failure.to_string());
        return Err(command_error::FAILED);
    }
    if shell.invocation.waits && shell.await_session().await != Standing::Connected {
        shell.out.complain("KeeperErrorCode = ConnectionLoss");
        shell.close().await;
        return Err(command_error::FAILED);
    }
    if greets && shell.invocation.waits {
        greet(shell);
    }
    Ok(())
}

/// Whether the one command is none of `zkCli`, so that nobody expects its words around the output.
fn is_ours(shell: &Shell) -> bool {
    let command = shell.invocation.command.first().and_then(|name| commands::find(name));
    command.is_some_and(|command| !command.is_classic)
}

fn greet(shell: &Shell) {
    if !shell.invocation.json {
        let _ = shell.out.line("Welcome to ZooKeeper!\nJLine support is disabled");
        let _ = shell.out.flush(); // the command learns of it
    }
}

/// Runs line by line. Events are printed while the next line is waited for.
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
        if let Err(Failure::Fatal(_)) = shell.run_line(&line).await {
            return;
        }
        if shell.is_done {
            return;
        }
    }
}
