//! The table of commands in `docs/shell.md`.

use crate::commands::{COMMANDS, Command};

/// All commands, those of `zkCli` first. A test compares it with the committed page; `UPDATE_DOCS=1 cargo test -p ox-shell`
/// rewrites that.
pub fn command_table() -> String {
    let mut text = String::new();
    for (title, is_classic) in [("command of `zkCli`", true), ("command of ours", false)] {
        text += &format!("\n| {title} | |\n|---|---|\n");
        COMMANDS.iter().filter(|command| command.is_classic == is_classic).for_each(|command| text += &row(command));
    }
    text + "\n"
}

fn row(command: &Command) -> String {
    let syntax = command.syntax.split(" # ").next().unwrap_or_default().replace('|', "\\|");
    let others: String = command.aliases.iter().map(|name| format!(", `{name}`")).collect();
    format!("| `{}`{others} | {} |\n", format!("{} {syntax}", command.name).trim_end(), command.help)
}
