//! `config` and `reconfig`: the ensemble configuration.

use crate::command_error::CommandError;
use crate::options::CommandArgs;
use crate::shell::{ActiveWatch, Shell, WatchHandle};
use crate::stat_text::{self, StatJson};
use ox_client::{MembershipChange, Node, Zxid};
use serde::Serialize;

#[derive(Serialize)]
struct ConfigJson {
    version: Option<String>,
    servers: Vec<ServerEntry>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stat: Option<StatJson>,
}

/// A member in the ensemble configuration.
#[derive(Serialize)]
pub(crate) struct ServerEntry {
    id: String,
    pub(crate) address: String,
    pub(crate) client: Option<String>,
}

pub(super) async fn config(shell: &mut Shell, args: &CommandArgs) -> Result<(), CommandError> {
    let client = shell.connected_client().await?;
    let node = match args.has("-w") {
        true => {
            let (node, watch) = client.config_and_watch().await?;
            shell.watches.push(ActiveWatch { path: "/zookeeper/config".to_owned(), watch: WatchHandle::Data(watch) });
            node
        }
        false => client.config().await?,
    };
    show(shell, args, &node, args.has("-c"))
}

fn show(shell: &Shell, args: &CommandArgs, node: &Node, clients_only: bool) -> Result<(), CommandError> {
    shell.catch_up();
    let text = String::from_utf8_lossy(&node.data);
    if shell.is_json(args) {
        let stat = args.has("-s").then(|| StatJson::from(&node.stat));
        return shell.out.json(&ConfigJson { version: version(&text), servers: ServerEntry::parse_all(&text), stat });
    }
    if !shell.is_zkcli() && text.trim().is_empty() {
        shell.info("There is no ensemble configuration: the server is standalone");
    } else if node.is_null {
        shell.out.line("null")?;
    } else if clients_only {
        let clients: Vec<_> =
            ServerEntry::parse_all(&text).into_iter().map(|server| server.client.unwrap_or_default()).collect();
        shell.out.line(&format!("{} {}", version(&text).unwrap_or_default(), clients.join(",")))?;
    } else {
        shell.out.line(&text)?;
    }
    if args.has("-s") { stat_text::print(&shell.out, &node.stat) } else { Ok(()) }
}

fn version(text: &str) -> Option<String> {
    text.lines().find_map(|line| line.strip_prefix("version=")).map(str::to_owned)
}

impl ServerEntry {
    pub(crate) fn parse_all(text: &str) -> Vec<Self> {
        let lines = text.lines().filter_map(|line| line.strip_prefix("server.")?.split_once('='));
        lines
            .map(|(id, spec)| {
                let (address, client) =
                    spec.split_once(';').map_or((spec, None), |(address, client)| (address, Some(client)));
                let client = client.map(|client| match client.contains(':') {
                    true => client.to_owned(),
                    false => format!("0.0.0.0:{client}"),
                });
                Self { id: id.to_owned(), address: address.to_owned(), client }
            })
            .collect()
    }
}

pub(super) async fn reconfig(shell: &mut Shell, args: &CommandArgs) -> Result<(), CommandError> {
    let version = match args.value("-v") {
        None => None,
        Some(text) => match i64::from_str_radix(text, 16) {
            Ok(version) => Some(Zxid(version)),
            Err(_) => return Err(CommandError::message("-v must be followed by a long (configuration version)")),
        },
    };
    let change = change(args)?;
    let node = shell.connected_client().await?.reconfig(&change, version).await?;
    match shell.is_zkcli() {
        _ if shell.is_json(args) => (),
        true => shell.print("Committed new configuration:")?,
        false => shell.done("Committed new configuration:"),
    }
    show(shell, args, &node, false)
}

fn change(args: &CommandArgs) -> Result<MembershipChange, CommandError> {
    let list = |name: &str| -> Vec<String> {
        args.value(name).map(|text| text.to_lowercase().split(',').map(str::to_owned).collect()).unwrap_or_default()
    };
    let (is_change, is_whole) = (args.has("-add") || args.has("-remove"), args.has("-file") || args.has("-members"));
    match (is_change, is_whole) {
        (true, true) => Err(CommandError::message(
            "Can't use -file or -members together with -add or -remove (mixing incremental and non-incremental \
             modes is not allowed)",
        )),
        (true, false) => Ok(MembershipChange::Incremental { joining: list("-add"), leaving: list("-remove") }),
        (false, true) if args.has("-file") && args.has("-members") => {
            Err(CommandError::message("Can't use -file and -members together (conflicting non-incremental modes)"))
        }
        (false, true) => match args.value("-file") {
            Some(file) => members_of(file),
            None => Ok(MembershipChange::Full(list("-members"))),
        },
        (false, false) => Err(CommandError::Usage),
    }
}

/// Reads the members from a dynamic configuration file.
fn members_of(file: &str) -> Result<MembershipChange, CommandError> {
    let text = std::fs::read_to_string(file).map_err(|error| {
        let text = error.to_string();
        let reason = text.split(" (os error").next().unwrap_or_default(); // the text that Java prints
        CommandError::message(format!("Error processing {file}{file} ({reason})"))
    })?;
    let lines = text.lines().map(str::trim).filter(|line| line.starts_with("server."));
    let members: Vec<_> = lines.map(|line| line.split_whitespace().collect::<String>()).collect();
    match members.is_empty() {
        true => Err(CommandError::message(format!("Error processing {file}: no line begins with server."))),
        false => Ok(MembershipChange::Full(members)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configuration_text_yields_members_and_client_addresses() {
        let text = "server.1=a:1:2:participant;a:3\nserver.2=b:1:2:observer;2181\nserver.3=c:1:2\nversion=100000000";
        let clients: Vec<_> =
            ServerEntry::parse_all(text).into_iter().map(|server| server.client.unwrap_or_default()).collect();
        assert_eq!(clients, ["a:3", "0.0.0.0:2181", ""]);
        assert_eq!(version(text).as_deref(), Some("100000000"));
    }
}
