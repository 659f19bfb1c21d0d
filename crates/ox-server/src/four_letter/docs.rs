//! The page `docs/commands.md`, generated from the command table.

use super::COMMANDS;
use std::fmt::Write as _;

/// The whole page. A test compares it with the committed one; `UPDATE_DOCS=1 cargo test -p ox-server` rewrites it.
pub fn commands_page() -> String {
    let mut page = HEAD.to_owned();
    for command in COMMANDS {
        writeln!(page, "| `{}` | {} |", command.name, command.help).expect("a string takes every write");
    }
    page
}

const HEAD: &str = "\
# Status commands

<!-- Generated from crates/ox-server/src/four_letter.rs; UPDATE_DOCS=1 cargo test -p ox-server writes it. -->

Four-letter commands are sent as the first bytes of a connection to the client port: `echo srvr | nc localhost 2181`.
The reply is text, and the server closes the connection after it. Commands that `4lw.commands.whitelist` does not name
are refused, except `srvr`, which is always enabled.

| command | reply |
|---|---|
";
