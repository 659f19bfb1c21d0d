//! `history` and `redo`.

use crate::command_error::Failure;
use crate::options::Args;
use crate::shell::Shell;
use crate::tokenize;
use serde::Serialize;

/// How many commands are shown, this one among them.
const SHOWN: usize = 11;

#[derive(Serialize)]
struct LineJson<'a> {
    number: usize,
    line: &'a str,
}

pub(super) async fn history(shell: &mut Shell, args: &Args) -> Result<(), Failure> {
    if shell.is_json(args) {
        let lines: Vec<_> = shell.history.last(SHOWN).map(|(number, line)| LineJson { number, line }).collect();
        return shell.out.json(&lines);
    }
    shell.history.last(SHOWN).try_for_each(|(number, line)| shell.print(&format!("{number} - {line}")))
}

pub(super) async fn redo(shell: &mut Shell, args: &Args) -> Result<(), Failure> {
    let Some(text) = args.operand(0) else { return Ok(()) };
    let number: i64 =
        text.parse().map_err(|_| Failure::Fatal(format!("redo needs the number of a command, not `{text}`")))?;
    let this = shell.history.next().saturating_sub(1);
    let line =
        usize::try_from(number).ok().filter(|number| *number < this).and_then(|number| shell.history.get(number));
    let Some(line) = line.map(str::to_owned) else { return Err(Failure::told("Command index out of range")) };
    let words = tokenize::split(&line);
    if words.first().is_some_and(|name| name == "redo") {
        return Err(Failure::told("No redoing redos"));
    }
    shell.history.replace_last(&line);
    let done = shell.run_words(&words).await;
    done.map_err(|failure| Failure::Silent(failure.status()))
}
