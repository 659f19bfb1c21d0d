//! `help`: what there is, and how one command is used.

use crate::command_error::Failure;
use crate::commands::{self, COMMANDS, Command};
use crate::options::Args;
use crate::output::Paint;
use crate::shell::Shell;

pub(super) async fn run(shell: &mut Shell, args: &Args) -> Result<(), Failure> {
    match args.operand(0) {
        None => all(shell),
        Some(name) => match commands::find(name) {
            Some(command) => one(shell, command),
            None => Err(Failure::NotFound(name.to_owned())),
        },
    }
}

fn all(shell: &Shell) -> Result<(), Failure> {
    let width = COMMANDS.iter().map(|command| command.name.len()).max().unwrap_or(0);
    let groups = [("The commands of zkCli", true), ("And ours", false)];
    for (title, is_classic) in groups {
        shell.print(&format!("{title}:"))?;
        for command in COMMANDS.iter().filter(|command| command.is_classic == is_classic) {
            let name = shell.out.paint(Paint::Name, &format!("{:width$}", command.name));
            shell.print(&format!("  {name}  {}", command.help))?;
        }
    }
    shell.print("`help command` tells more.")
}

fn one(shell: &Shell, command: &Command) -> Result<(), Failure> {
    shell.print(&format!("{} {}", shell.out.paint(Paint::Name, command.name), command.syntax))?;
    shell.print(&format!("  {}", command.help))?;
    if !command.aliases.is_empty() {
        shell.print(&format!("  also: {}", command.aliases.join(", ")))?;
    }
    command.options_help().iter().try_for_each(|line| shell.print(&format!("  {line}")))
}
