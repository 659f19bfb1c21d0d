//! The members of the ensemble, as its configuration names them.

use crate::commands::ServerEntry;
use crate::shell::Shell;
use ox_client::{Client, ServerAddress};
use std::collections::BTreeSet;
use std::time::Duration;

/// Time limit for reading the configuration.
const TIMEOUT: Duration = Duration::from_secs(3);

/// The client addresses of all members. Without a session, or on a standalone server, those of the connection string.
pub(crate) async fn find(shell: &Shell, typed: &[ServerAddress]) -> Vec<ServerAddress> {
    let Ok(client) = shell.client() else { return typed.to_vec() };
    let read = async {
        shell.await_connection().await;
        config(&client).await
    };
    let text = tokio::time::timeout(TIMEOUT, read).await.ok().flatten().unwrap_or_default();
    let port = typed.first().map_or(2181, |server| server.port);
    match addresses(&ServerEntry::parse_all(&text), port) {
        found if found.is_empty() => typed.to_vec(),
        found => found,
    }
}

async fn config(client: &Client) -> Option<String> {
    let node = client.config().await.ok()?;
    Some(String::from_utf8_lossy(&node.data).into_owned())
}

/// A member without a client address is expected to use the port of the connection string. Several such members on one
/// host are not found: their ports are unknown.
fn addresses(entries: &[ServerEntry], port: u16) -> Vec<ServerAddress> {
    let address = |entry: &ServerEntry| {
        let host = host(&entry.address)?;
        let client = entry.client.as_deref().and_then(|client| client.parse::<ServerAddress>().ok());
        Some(match client {
            Some(client) if is_wildcard(&client.host) => ServerAddress { host, port: client.port },
            Some(client) => client,
            None => ServerAddress { host, port },
        })
    };
    let found: Vec<_> = entries.iter().filter_map(address).collect();
    let distinct: BTreeSet<_> = found.iter().collect();
    if distinct.len() < found.len() { Vec::new() } else { found }
}

/// The host of `host:2888:3888:participant`, or of `[::1]:2888:3888`.
fn host(address: &str) -> Option<String> {
    let host = match address.strip_prefix('[') {
        Some(rest) => rest.split_once(']')?.0,
        None => address.split(':').next()?,
    };
    (!host.is_empty()).then(|| host.to_owned())
}

fn is_wildcard(host: &str) -> bool {
    matches!(host, "0.0.0.0" | "::" | "0:0:0:0:0:0:0:0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configuration_yields_client_addresses_of_all_members() {
        let text = "server.1=a:2888:3888:participant;10.0.0.1:2182\nserver.2=b:2888:3888:observer;2183\n\
                    server.3=[::1]:2888:3888:participant;[::]:2184\nserver.4=d:2888:3888\nversion=1";
        let found: Vec<_> = addresses(&ServerEntry::parse_all(text), 2181).iter().map(ToString::to_string).collect();
        assert_eq!(found, ["10.0.0.1:2182", "b:2183", "[::1]:2184", "d:2181"]);
        for text in ["version=1", "server.1=a:1:2:participant\nserver.2=a:3:4:participant"] {
            assert!(addresses(&ServerEntry::parse_all(text), 2181).is_empty(), "{text}");
        }
    }
}
