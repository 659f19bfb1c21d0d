//! Activation of a new configuration: files and client port.

use crate::shared::Shared;
use ox_driver::config_change::ConfigChange;
use ox_proto::ensemble::{Address, Ensemble};
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::Arc;

/// Writes the configuration files. The server continues if they cannot be written.
pub(crate) fn save_config(shared: &Shared, change: &ConfigChange) {
    let Some(files) = &shared.config_files else { return };
    if let Err(error) = change.save(files) {
        tracing::error!(%error, "Error writing next dynamic config file to disk");
    }
}

/// Makes a committed configuration the active one.
pub(crate) fn activate(shared: &Arc<Shared>, ensemble: &Arc<Ensemble>) {
    let (version, text) = (ensemble.version(), ensemble.to_string());
    let members: Vec<&str> = text.lines().filter(|line| !line.starts_with("version=")).collect();
    tracing::info!(version = format_args!("{version:x}"), members = members.join(" "), "active configuration");
    let before = shared.ensemble.write().replace(Arc::clone(ensemble));
    let Some(me) = shared.config.member.as_ref().map(|member| member.server) else { return };
    let client_of = |ensemble: &Ensemble| ensemble.members().get(&me).and_then(|mine| mine.client.clone());
    let Some(client) = client_of(ensemble) else { return };
    let was_there = before.is_some_and(|before| client_of(&before).is_some_and(|was| was.is_same(&client)));
    if !was_there && !listens_at(shared, &client) {
        relisten(shared, client);
    }
}

fn listens_at(shared: &Shared, client: &Address) -> bool {
    let Some(address) = *shared.address.lock() else { return false };
    let host = client.host.parse::<IpAddr>().ok();
    let is_same_host = host == Some(address.ip()) || (client.is_wildcard() && address.ip().is_unspecified());
    is_same_host && client.port == address.port()
}

/// Moves the client port. The host name is resolved on a separate thread, because that may take long.
fn relisten(shared: &Arc<Shared>, client: Address) {
    let for_thread = Arc::clone(shared);
    let work = move || {
        let found = (client.host.as_str(), client.port).to_socket_addrs().ok().and_then(|mut found| found.next());
        match found {
            Some(address) => for_thread.mailboxes[0].put(|mail| mail.relisten = Some(address)),
            None => {
                let address = client.to_string();
                tracing::error!(address, "cannot listen on the new client address: its host name cannot be resolved");
            }
        }
    };
    if let Err(error) = std::thread::Builder::new().name("relisten".to_owned()).spawn(work) {
        tracing::error!(%error, "cannot start a thread to resolve the client address");
    }
}
