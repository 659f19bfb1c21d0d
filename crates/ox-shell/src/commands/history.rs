//! `history` and `redo`: earlier commands of this shell.

use crate::command_error::CommandError;
use crate::options::CommandArgs;
use crate::shell::Shell;
use crate::tokenize;
use serde::Serialize;

/// The number of commands to list, including this one.
const SHOWN: usize = 11;

#[derive(Serialize)]
struct LineJson {
    number: usize,
    line: String,
}

pub(super) async fn history(shell: &mut Shell, args: &CommandArgs) -> Result<(), CommandError> {
    let is_zkcli = shell.is_zkcli();
    let line = |line: &str| if is_zkcli { line.to_owned() } else { without_secret(line) };
    if shell.is_json(args) {
        let lines = shell.history.last(SHOWN).map(|(number, text)| LineJson { number, line: line(text) });
        return shell.out.json(&lines.collect::<Vec<_>>());
    }
    shell.history.last(SHOWN).try_for_each(|(number, text)| shell.print(&format!("{number} - {}", line(text))))
}

/// `redo` repeats the whole line, whatever is shown.
fn without_secret(line: &str) -> String {
    match tokenize::split(line).as_slice() {
        [name, scheme, _, ..] if name == "addauth" => format!("{name} {scheme} (not shown)"),
        _ => line.to_owned(),
    }
}

pub(super) async fn redo(shell: &mut Shell, args: &CommandArgs) -> Result<(), CommandError> {
    let Some(text) = args.operand(0) else { return Ok(()) };
    let number: i64 =
        text.parse().map_err(|_| CommandError::Fatal(format!("redo needs the number of a command, not `{text}`")))?;
    let this = shell.history.next().saturating_sub(1);
    let line =
        usize::try_from(number).ok().filter(|number| *number < this).and_then(|number| shell.history.get(number));
    let Some(line) = line.map(str::to_owned) else {
        return Err(CommandError::message(match shell.is_single_command && !shell.is_zkcli() {
            true => "A single command has no history to redo",
            false => "Command index out of range",
        }));
    };
    let words = tokenize::split(&line);
    if words.first().is_some_and(|name| name == "redo") {
        return Err(CommandError::message("No redoing redos"));
    }
    shell.history.replace_last(&line);
    let done = shell.run_words(&words).await;
    let is_zkcli = shell.is_zkcli();
    done.map_err(|failure| CommandError::Silent(failure.status(is_zkcli)))
}
