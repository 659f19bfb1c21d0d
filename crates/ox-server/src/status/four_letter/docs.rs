//! The page `docs/reference/commands.md`, generated from the command table.

use super::COMMANDS;
use std::fmt::Write as _;

/// The whole page. A test compares it with the committed one; `UPDATE_DOCS=1 cargo test -p ox-server` rewrites that.
pub fn commands_page() -> String {
    let mut page = HEAD.to_owned();
    for command in COMMANDS {
        writeln!(page, "| `{}` | {} |", command.name, command.help).expect("a string takes every write");
    }
    page
}

const HEAD: &str = "\
# Four-letter commands

<!-- Generated from crates/ox-server/src/status/four_letter.rs; UPDATE_DOCS=1 cargo test -p ox-server writes it. -->

This page lists the status commands of the client port, for operators. A client sends the four letters as the first
bytes of a connection, for example `echo srvr | nc localhost 2181`. The server replies with text and closes the
connection.

By default only `srvr` is enabled. `4lw.commands.whitelist=mntr,ruok` in `zoo.cfg` enables others, `*` all of them;
`-Dreadonlymode.enabled=true` enables `isro`. To a command that is not
enabled the server replies that it is not in the whitelist. After other letters it closes the connection without a
reply; `oxkeeper 4lw` refuses them.

| command | what it does |
|---|---|
";
