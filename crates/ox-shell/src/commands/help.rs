//! `help`: lists the commands, or describes one.

use crate::command_error::CommandError;
use crate::commands::{self, COMMANDS, CommandSpec};
use crate::options::CommandArgs;
use crate::output::Paint;
use crate::shell::Shell;

/// Columns of a list that does not go to a terminal.
const WIDTH_DEFAULT: usize = 100;

/// The commands by subject, so that the list fits one screen.
const SUBJECTS: &[(&str, &[&str])] = &[
    ("nodes", &["ls", "get", "stat", "create", "set", "edit", "delete", "deleteall", "cp", "mv", "cd", "pwd", "sync"]),
    ("subtrees", &["tree", "find", "grep", "du", "diff", "getAllChildrenNumber", "export", "import"]),
    ("transactions", &["txn"]),
    ("watches", &["watch", "addWatch", "removewatches", "printwatches"]),
    ("permissions", &["getAcl", "setAcl", "addauth", "whoami"]),
    ("quotas", &["listquota", "setquota", "delquota"]),
    ("servers", &["top", "config", "reconfig"]),
    ("session", &["connect", "close", "getEphemerals"]),
    ("shell", &["help", "history", "redo", "version", "quit"]),
];

pub(super) async fn run(shell: &mut Shell, args: &CommandArgs) -> Result<(), CommandError> {
    match args.operand(0) {
        None => subjects(shell),
        Some("all") => all(shell),
        Some(name) => match commands::find(name) {
            Some(command) => one(shell, command),
            None => Err(CommandError::NotFound(name.to_owned())),
        },
    }
}

/// Names and aliases by subject.
fn subjects(shell: &Shell) -> Result<(), CommandError> {
    let indent = SUBJECTS.iter().map(|(subject, _)| subject.len()).max().unwrap_or(0) + 2;
    let width = shell.out.width().unwrap_or(WIDTH_DEFAULT);
    for (subject, names) in SUBJECTS {
        let (mut line, mut columns) = (format!("{subject:indent$}"), indent);
        for (at, name) in names.iter().enumerate() {
            let aliases: Vec<_> = aliases(name).collect();
            let shown = if aliases.is_empty() { String::new() } else { format!(" ({})", aliases.join(", ")) };
            let comma = if at + 1 < names.len() { ", " } else { "" };
            let needed = name.len() + shown.len() + comma.trim_end().len();
            if width < columns + needed && indent < columns {
                shell.print(line.trim_end())?;
                (line, columns) = (" ".repeat(indent), indent);
            }
            line += &format!("{}{shown}{comma}", shell.out.paint(Paint::Name, name));
            columns += needed + 1;
        }
        shell.print(&line)?;
    }
    shell.print("`help COMMAND` describes a command, `help all` lists them with a line each.")
}

fn aliases(name: &str) -> impl Iterator<Item = &'static str> {
    commands::find(name).into_iter().flat_map(CommandSpec::aliases).map(|(alias, _)| alias)
}

/// A line for each command.
fn all(shell: &Shell) -> Result<(), CommandError> {
    let shown = |command: &CommandSpec| {
        let names = std::iter::once(command.name).chain(command.aliases().map(|(alias, _)| alias));
        names.collect::<Vec<_>>().join(", ")
    };
    let width = COMMANDS.iter().map(|command| shown(command).len()).max().unwrap_or(0);
    let groups = [("Commands of zkCli", true), ("Additional commands", false)];
    for (title, is_zkcli) in groups {
        shell.print(&format!("{title}:"))?;
        for command in COMMANDS.iter().filter(|command| command.is_zkcli == is_zkcli) {
            let name = shell.out.paint(Paint::Name, &format!("{:width$}", shown(command)));
            shell.print(&format!("  {name}  {}", command.help))?;
        }
    }
    shell.print("`help COMMAND` describes a command.")
}

/// Syntax, help, aliases and options of a command.
pub(super) fn one(shell: &Shell, command: &CommandSpec) -> Result<(), CommandError> {
    let syntax = command.native_syntax.unwrap_or(command.syntax);
    shell.print(&format!("{} {syntax}", shell.out.paint(Paint::Name, command.name)))?;
    shell.print(&format!("  {}", command.help))?;
    for (alias, options) in command.aliases() {
        let words: Vec<_> = std::iter::once(command.name).chain(options.iter().copied()).collect();
        shell.print(&format!("  {alias} is short for {}", words.join(" ")))?;
    }
    let options = command.options_help();
    let notes = command.notes.iter().map(|note| (*note).to_owned());
    options.into_iter().chain(notes).try_for_each(|line| shell.print(&format!("  {line}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_one_subject() {
        let mut listed: Vec<_> = SUBJECTS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        listed.sort_unstable();
        let mut known: Vec<_> = COMMANDS.iter().map(|command| command.name).collect();
        known.sort_unstable();
        assert_eq!(listed, known);
    }
}
