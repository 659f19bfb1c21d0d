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
    shell.print(&format!("{} {}", shell.out.paint(Paint::Name, command.name), command.syntax))?;
    shell.print(&format!("  {}", command.help))?;
    if !command.aliases.is_empty() {
        shell.print(&format!("  also: {}", command.aliases.join(", ")))?;
    }
    command.options_help().iter().try_for_each(|line| shell.print(&format!("  {line}")))
}
