//! Generates the command table of `docs/develop/shell.md`.

use crate::commands::{COMMANDS, CommandSpec};

/// All commands, those of `zkCli` first. A test compares this with the committed page; `UPDATE_DOCS=1 cargo test -p
/// ox-shell` rewrites the page.
pub fn command_table() -> String {
    let mut text = String::new();
    for (title, is_zkcli) in [("command of `zkCli`", true), ("additional command", false)] {
        text += &format!("\n| {title} | |\n|---|---|\n");
        COMMANDS.iter().filter(|command| command.is_zkcli == is_zkcli).for_each(|command| text += &row(command));
    }
    text + "\n"
}

fn row(command: &CommandSpec) -> String {
    let syntax = command.syntax.split(" # ").next().unwrap_or_default().replace('|', "\\|");
    let others: String = command.aliases.iter().map(|name| format!(", `{name}`")).collect();
    format!("| `{}`{others} | {} |\n", format!("{} {syntax}", command.name).trim_end(), command.help)
}
