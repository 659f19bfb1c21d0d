//! The commands `conf` and `dirs`: settings and file sizes.

use crate::shared::Shared;
use crate::status::server_mode::ServerMode;
use ox_config::MemberConfig;
use ox_proto::ensemble::{Address, Ensemble, Role};
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

pub(super) fn conf(shared: &Shared, mode: ServerMode) -> String {
    let (config, dirs) = (&shared.config, shared.store.dirs());
    let client_port = shared.address.lock().map_or(-1, |address| i32::from(address.port()));
    let secure_address = shared.tls.as_ref().and_then(|tls| *tls.secure_address.lock());
    let secure_port = secure_address.map_or(-1, |address| i32::from(address.port()));
    let lines = [
        ("clientPort", client_port.to_string()),
        ("secureClientPort", secure_port.to_string()),
        ("dataDir", absolute(&dirs.snapshots)),
        ("dataDirSize", size(&dirs.snapshots).to_string()),
        ("dataLogDir", absolute(&dirs.logs)),
        ("dataLogSize", size(&dirs.logs).to_string()),
        ("tickTime", config.tick_ms.to_string()),
        ("maxClientCnxns", shared.live().max_client_cnxns.to_string()),
        ("minSessionTimeout", config.min_session_timeout_ms.to_string()),
        ("maxSessionTimeout", config.max_session_timeout_ms.to_string()),
        ("clientPortListenBacklog", config.listen_backlog.to_string()),
        ("serverId", config.member.as_ref().map_or(0, |member| member.server.0).to_string()),
    ];
    let mut text: String = lines.iter().map(|(name, value)| format!("{name}={value}\n")).collect();
    if let Some(member) = &config.member {
        let ensemble = shared.ensemble.read().clone().unwrap_or_else(|| Arc::new(member.ensemble.clone()));
        put_member(member, &ensemble, &mut text);
        if mode != ServerMode::ReadOnly {
            write!(text, "membership: \n{ensemble}").expect("a string takes every write");
        }
    }
    text
}

/// Appends the settings that only members have.
fn put_member(member: &MemberConfig, ensemble: &Ensemble, text: &mut String) {
    let ports = |addresses: &[Address]| addresses.iter().map(|at| at.port.to_string()).collect::<Vec<_>>().join("|");
    let mine = ensemble.members().get(&member.server);
    let (election, quorum) = mine.map(|mine| (ports(&mine.election), ports(&mine.quorum))).unwrap_or_default();
    let peer_type = i32::from(mine.is_some_and(|mine| mine.role == Role::Observer));
    let (init, sync) = (member.init_ticks, member.sync_ticks);
    write!(
        text,
        "initLimit={init}\nsyncLimit={sync}\nelectionAlg=3\nelectionPort={election}\nquorumPort={quorum}\n\
         peerType={peer_type}\n"
    )
    .expect("a string takes every write");
}

pub(super) fn dirs(shared: &Shared, _: ServerMode) -> String {
    let dirs = shared.store.dirs();
    format!("datadir_size: {}\nlogdir_size: {}\n", size(&dirs.snapshots), size(&dirs.logs))
}

pub(crate) fn absolute(path: &Path) -> String {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned()).display().to_string()
}

/// Length of all files below a directory without our `oxk.*` files. Files that cannot be read, because they are just
/// being removed, count as 0.
pub(crate) fn size(dir: &Path) -> u64 {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let entries = entries.filter(|entry| !entry.file_name().as_encoded_bytes().starts_with(b"oxk."));
    let sizes = entries.map(|entry| match entry.metadata() {
        Ok(found) if found.is_dir() => size(&entry.path()),
        Ok(found) => found.len(),
        Err(_) => 0,
    });
    sizes.sum()
}
