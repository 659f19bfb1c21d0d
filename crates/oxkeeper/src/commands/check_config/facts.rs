//! What a configuration results in: role, addresses, directories.

use crate::commands::output::count;
use ox_config::{Config, FourLetterWhitelist, ListenAddress};
use ox_proto::ensemble::Role;
use ox_store::StoreError;
use ox_store::disk::RealDisk;
use ox_store::names::{Dirs, VERSION_DIR, list};
use ox_store::start_preview::{check_dirs, check_log_location};
use rustix::fs::{Access, PROC_SUPER_MAGIC, access, statfs};
use rustix::io::Errno;
use std::path::{Path, PathBuf};

/// Properties of the configuration as a whole.
pub(super) fn facts(config: &Config) -> Vec<(&'static str, String)> {
    let mut facts = Vec::new();
    match &config.member {
        None => facts.push(("role", "a standalone server".to_owned())),
        Some(member) => {
            let members = member.ensemble.members();
            let voters = members.values().filter(|member| member.role == Role::Participant).count();
            let role = if member.role() == Role::Participant { "votes" } else { "observes" };
            let spare = voters.saturating_sub(1) / 2;
            let text = format!(
                "server {} of an ensemble of {} ({voters} vote, {spare} of these may fail); it {role}",
                member.server.0,
                members.len()
            );
            facts.push(("role", text));
            if let Some(own) = members.get(&member.server) {
                facts.push(("member", own.to_string()));
            }
            let files = if member.files.has_dynamic_file { "in a dynamic configuration file" } else { "in this file" };
            facts.push(("members", format!("{files}, version {:x}", member.ensemble.version())));
        }
    }
    facts.push((
        "clients",
        match config.client_port {
            None => "no client port".to_owned(),
            Some(port) => match config.client_address {
                Some(address) => std::net::SocketAddr::new(address, port).to_string(),
                None => format!("port {port} on every interface"),
            },
        },
    ));
    if let Some(tls) = &config.tls {
        let secure = tls.secure_port.map(|port| match tls.secure_address {
            Some(address) => std::net::SocketAddr::new(address, port).to_string(),
            None => format!("port {port} on every interface"),
        });
        let unified = tls.is_client_port_unified.then(|| "the client port, beside plain text".to_owned());
        facts.push(("TLS", secure.into_iter().chain(unified).collect::<Vec<_>>().join("; ")));
    }
    let (min, max) = (config.min_session_timeout_ms, config.max_session_timeout_ms);
    facts.push(("sessions", format!("time out after {min} to {max} ms")));
    facts.push((
        "commands",
        match &config.four_letter_whitelist {
            FourLetterWhitelist::All => "all four-letter commands are enabled".to_owned(),
            FourLetterWhitelist::Only(words) => {
                let words: Vec<&str> = words.iter().map(String::as_str).collect();
                format!("four-letter commands enabled: {}", words.join(", "))
            }
        },
    ));
    facts.extend(http_facts(config));
    let purge = match config.autopurge.interval_ms {
        None => "never: old snapshots and logs are kept".to_owned(),
        Some(ms) => format!("every {} h, {} snapshots are kept", ms / 3_600_000, config.autopurge.snap_retain_count),
    };
    facts.push(("purge", purge));
    facts
}

/// What is said about the HTTP ports.
fn http_facts(config: &Config) -> Vec<(&'static str, String)> {
    let url =
        |scheme: &str, listen: &ListenAddress, path: &str| format!("{scheme}://{}:{}{path}", listen.host, listen.port);
    let mut facts = Vec::new();
    facts.push((
        "admin",
        match &config.admin {
            None => "no AdminServer".to_owned(),
            Some(admin) => {
                let scheme = match &admin.tls {
                    None => "http",
                    Some(tls) if tls.is_unified => "http and https",
                    Some(_) => "https",
                };
                url(scheme, &admin.listen, &admin.command_url)
            }
        },
    ));
    if let Some(prometheus) = &config.prometheus {
        let http = prometheus.http.iter().map(|listen| url("http", listen, "/metrics"));
        let https = prometheus.https.iter().map(|listen| url("https", listen, "/metrics"));
        facts.push(("metrics", http.chain(https).collect::<Vec<_>>().join("; ")));
    }
    facts
}

/// Remarks on the directories; an error if the server would not start with one.
pub(super) fn directories(config: &Config) -> Vec<(&'static str, Result<String, String>)> {
    let create = config.storage.datadir_autocreate;
    let mut found = vec![("dataDir", directory(&config.data_dir, create))];
    if config.data_log_dir != config.data_dir {
        found.push(("dataLogDir", directory(&config.data_log_dir, create)));
    }
    if let Err(error) = check_contents(config)
        && found.iter().all(|(_, state)| state.is_ok())
    {
        let remedy = error.remedy().map(|remedy| format!("; {remedy}")).unwrap_or_default();
        found[0].1 = Err(format!("{error}{remedy}"));
    }
    found
}

/// Fails if a file is in the wrong directory, if the logs of the last run are elsewhere, or if the directories belong to
/// another server.
fn check_contents(config: &Config) -> Result<(), StoreError> {
    let [snapshots, logs] = [&config.data_dir, &config.data_log_dir].map(|dir| dir.join(VERSION_DIR));
    let server = config.member.as_ref().map(|member| member.server.0);
    match (snapshots.is_dir(), logs.is_dir()) {
        (true, true) => check_dirs(&RealDisk, &Dirs { snapshots, logs }, server),
        // A log in dataDir is misplaced although dataLogDir does not exist yet.
        (true, false) => {
            let alone = Dirs { snapshots: snapshots.clone(), logs: snapshots.clone() };
            match list(&RealDisk, &alone)?.logs.pop() {
                Some(log) => Err(StoreError::Misplaced(log.path)),
                None => check_log_location(&RealDisk, &Dirs { snapshots, logs }),
            }
        }
        (false, _) => Ok(()),
    }
}

fn directory(dir: &Path, create: bool) -> Result<String, String> {
    let path = dir.join(VERSION_DIR);
    let shown = dir.display();
    // A relative one is that of the working directory, which may not be that of the file.
    let whole = std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned());
    let whole = whole.display();
    let Some(nearest) = path.ancestors().map(or_here).find(|ancestor| ancestor.exists()) else {
        return Err(format!("{shown} does not exist"));
    };
    if !nearest.is_dir() {
        return Err(format!("{shown} cannot be used: {} is not a directory", nearest.display()));
    }
    if nearest != path && !create {
        return Err(format!("{} does not exist, and zookeeper.datadir.autocreate is false", path.display()));
    }
    if let Err(error) = access(nearest, Access::WRITE_OK | Access::EXEC_OK) {
        return Err(format!("{shown} cannot be used: cannot write to {}: {error}", nearest.display()));
    }
    if nearest != path && statfs(nearest).is_ok_and(|found| found.f_type == PROC_SUPER_MAGIC) {
        return Err(format!("{shown} cannot be used: directories cannot be created in {}", nearest.display()));
    }
    if nearest != path {
        let state = if dir.exists() { "contains no data yet" } else { "new: it will be created" };
        return Ok(format!("{whole} ({state})"));
    }
    let may_use = |file: &Path| access(file, Access::READ_OK | Access::WRITE_OK);
    if let Some((file, error)) = forbidden_file(&path, &may_use) {
        return Err(format!("{shown} cannot be used: cannot read and write {}: {error}", file.display()));
    }
    let dirs = Dirs { snapshots: path.clone(), logs: path.clone() };
    Ok(match list(&RealDisk, &dirs) {
        Ok(listing) => {
            let [snapshots, logs] = [listing.snapshots.len(), listing.logs.len()].map(|number| number as u64);
            format!("{whole} (contains {} and {})", count(snapshots, "snapshot"), count(logs, "log"))
        }
        Err(error) => return Err(error.to_string()),
    })
}

/// The first file of the directory that the server could not read and write, for example because it ran as root once.
fn forbidden_file(dir: &Path, may_use: &dyn Fn(&Path) -> rustix::io::Result<()>) -> Option<(PathBuf, Errno)> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(dir).ok()?.flatten().map(|entry| entry.path()).collect();
    files.sort();
    files.into_iter().find_map(|file| may_use(&file).err().map(|error| (file, error)))
}

fn or_here(path: &Path) -> &Path {
    if path.as_os_str().is_empty() { Path::new(".") } else { path }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_of_another_user_is_named() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["log.1", "oxk.lock"] {
            std::fs::write(dir.path().join(name), "").unwrap();
        }
        let of_root = |file: &Path| if file.ends_with("oxk.lock") { Err(Errno::ACCESS) } else { Ok(()) };
        assert_eq!(forbidden_file(dir.path(), &of_root), Some((dir.path().join("oxk.lock"), Errno::ACCESS)));
        assert_eq!(forbidden_file(dir.path(), &|_| Ok(())), None);
    }
}
