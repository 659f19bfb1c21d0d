//! A new configuration reaches the parts of a running server: files, peers, clients, the node that shows it.

use crate::member_setup::show_config;
use crate::shared::Shared;
use ox_proto::ensemble::{Address, Ensemble};
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::Arc;

/// What is written about configurations.
pub(crate) enum ConfigChange {
    /// This one may follow.
    Proposed(Arc<Ensemble>),
    /// The one in force will stay.
    Kept,
    /// This one is in force, and maybe another one may follow.
    Committed(Arc<Ensemble>, Option<Arc<Ensemble>>),
}

impl ConfigChange {
    /// Writes it. The log has what matters too, so the server goes on when the files cannot be written.
    pub(crate) fn save(&self, shared: &Shared) {
        let Some(files) = &shared.config_files else { return };
        let saved = match self {
            Self::Proposed(ensemble) => files.save_proposed(ensemble),
            Self::Kept => files.forget_proposed(),
            Self::Committed(ensemble, proposed) => files.save_committed(ensemble, proposed.as_deref()),
        };
        if let Err(error) = saved {
            tracing::error!(%error, "Error writing next dynamic config file to disk");
        }
    }

    /// The version of a configuration that is active.
    pub(crate) fn active_version(&self) -> Option<i64> {
        if let Self::Committed(ensemble, _) = self { Some(ensemble.version()) } else { None }
    }
}

/// A configuration is in force from now on.
pub(crate) fn activate(shared: &Arc<Shared>, ensemble: &Arc<Ensemble>, is_serving: bool) {
    let version = ensemble.version();
    tracing::info!("the configuration of version {version:x} is in force:\n{ensemble}");
    let before = shared.ensemble.write().replace(Arc::clone(ensemble));
    if !is_serving {
        // Who serves gets it with its transaction, and its clients the event.
        show_config(shared, &mut shared.state.write());
    }
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

/// Opens the client port elsewhere. Names are looked up on a thread that nobody waits for.
fn relisten(shared: &Arc<Shared>, client: Address) {
    let for_thread = Arc::clone(shared);
    let work = move || {
        let found = (client.host.as_str(), client.port).to_socket_addrs().ok().and_then(|mut found| found.next());
        match found {
            Some(address) => for_thread.mailboxes[0].put(|mail| mail.relisten = Some(address)),
            None => tracing::error!("Error reconfiguring client port to {client}: the host is not known"),
        }
    };
    if let Err(error) = std::thread::Builder::new().name("relisten".to_owned()).spawn(work) {
        tracing::error!(%error, "cannot start a thread to look up the client address");
    }
}
