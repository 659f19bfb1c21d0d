//! The page `docs/reference/admin.md`, written from the table.

use super::{COMMANDS, CommandSpec, Handler, OWN_COMMANDS};
use std::fmt::Write as _;

/// The whole page. A test compares it with the committed one; `UPDATE_DOCS=1 cargo test -p ox-admin` rewrites it.
pub fn admin_commands_page() -> String {
    let mut page = HEAD.to_owned();
    put_table(COMMANDS, &mut page);
    page.push_str(OWN_HEAD);
    put_table(OWN_COMMANDS, &mut page);
    page
}

fn put_table(commands: &[CommandSpec], page: &mut String) {
    for command in commands {
        let names: Vec<String> = command.names.iter().map(|name| format!("`{name}`")).collect();
        let needs = match command.run {
            Handler::Always(_) => "",
            Handler::Serving(_) | Handler::Listing(_) => "serving",
            Handler::Privileged(_) | Handler::PrivilegedPost(_) => "serving, rights",
            Handler::SuperPost(_) => "POST, serving, super user",
            Handler::Reload => "POST, super user",
            Handler::LogLevel => "super user to change",
        };
        writeln!(page, "| {} | {needs} | {} |", names.join(", "), command.help).expect("a string takes every write");
    }
}

const OWN_HEAD: &str = "
Commands that Apache 3.9 does not have. They are not listed by `/commands`. `oxkeeper admin <name> [parameter=value..]` sends
these and all others. The super user is the identity of `DigestAuthenticationProvider.superDigest`, or of a certificate that
`X509AuthenticationProvider.superUser` names.

| names | needs | effect and reply |
|---|---|---|
";

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
