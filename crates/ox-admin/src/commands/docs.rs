//! The page `docs/reference/admin.md`, written from the table.

use super::{COMMANDS, Handler};
use std::fmt::Write as _;

/// The whole page. A test compares it with the committed one; `UPDATE_DOCS=1 cargo test -p ox-admin` rewrites it.
pub fn admin_commands_page() -> String {
    let mut page = HEAD.to_owned();
    for command in COMMANDS {
        let names: Vec<String> = command.names.iter().map(|name| format!("`{name}`")).collect();
        let needs = match command.run {
            Handler::Always(_) => "",
            Handler::Serving(_) | Handler::Listing(_) => "serving",
            Handler::Privileged(_) | Handler::PrivilegedPost(_) => "serving, rights",
        };
        writeln!(page, "| {} | {needs} | {} |", names.join(", "), command.help).expect("a string takes every write");
    }
    page
}

const HEAD: &str = "\
# Commands of the AdminServer

<!-- Generated from crates/ox-admin/src/commands.rs; UPDATE_DOCS=1 cargo test -p ox-admin writes it. -->

This page lists the HTTP commands of the AdminServer, for operators; [monitoring](../operate/monitoring.md) explains how to
use them. A command is `GET http://host:8080/commands/<name>` with any of its names, and the reply is a JSON object with
the fields of Apache ZooKeeper 3.9. *Serving*: the reply has an `error` while the server serves no clients. *Rights*: the
request needs an `Authorization` header whose identity has all permissions on `/`.

| names | needs | reply |
|---|---|---|
";
