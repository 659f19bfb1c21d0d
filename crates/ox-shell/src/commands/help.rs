//! `help`: lists the commands, or describes one.

use crate::command_error::CommandError;
use crate::commands::{self, COMMANDS, CommandSpec};
use crate::options::CommandArgs;
use crate::output::Paint;
use crate::shell::Shell;

pub(super) async fn run(shell: &mut Shell, args: &CommandArgs) -> Result<(), CommandError> {
    match args.operand(0) {
        None => all(shell),
        Some(name) => match commands::find(name) {
            Some(command) => one(shell, command),
            None => Err(CommandError::NotFound(name.to_owned())),
        },
    }
}

fn all(shell: &Shell) -> Result<(), CommandError> {
    let width = COMMANDS.iter().map(|command| command.name.len()).max().unwrap_or(0);
    let groups = [("Commands of zkCli", true), ("Additional commands", false)];
    for (title, is_zkcli) in groups {
        shell.print(&format!("{title}:"))?;
        for command in COMMANDS.iter().filter(|command| command.is_zkcli == is_zkcli) {
            let name = shell.out.paint(Paint::Name, &format!("{:width$}", command.name));
            shell.print(&format!("  {name}  {}", command.help))?;
        }
    }
    shell.print("`help command` describes a command.")
}

fn one(shell: &Shell, command: &CommandSpec) -> Result<(), CommandError> {
    let syntax = command.native_syntax.unwrap_or(command.syntax);
    shell.print(&format!("{} {syntax}", shell.out.paint(Paint::Name, command.name)))?;
    shell.print(&format!("  {}", command.help))?;
    for (alias, options) in command.aliases() {
        let words: Vec<_> = std::iter::once(command.name).chain(options.iter().copied()).collect();
        shell.print(&format!("  {alias} is short for {}", words.join(" ")))?;
    }
    command.options_help().iter().try_for_each(|line| shell.print(&format!("  {line}")))
}
