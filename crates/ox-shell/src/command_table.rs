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
    let usage = command.native_usage().replace('|', "\\|");
    let others: String = command.aliases().map(|(alias, options)| aliased(alias, options)).collect();
    format!("| `{usage}`{others} | {} |\n", command.help)
}

fn aliased(alias: &str, options: &[&str]) -> String {
    match options {
        [] => format!(", `{alias}`"),
        options => format!(", `{alias}` (with `{}`)", options.join(" ")),
    }
}
