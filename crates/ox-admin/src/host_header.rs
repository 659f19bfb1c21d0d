//! Which `Host` headers are accepted.
//!
//! A web page can make a browser send requests to the AdminServer of its user's network (DNS rebinding). The browser
//! then names the page's own host, which is none of the names below.

use ox_config::{AllowedHosts, Config};
use std::net::IpAddr;

/// The names that requests may have in their `Host` header.
#[derive(Debug)]
pub(crate) struct HostCheck(Option<Vec<String>>);

impl HostCheck {
    /// The names of the machine, of the AdminServer's address, of the ensemble's servers, and those configured.
    pub(crate) fn new(config: &Config, machine: Option<String>) -> Self {
        let Some(admin) = &config.admin else { return Self(Some(Vec::new())) };
        let AllowedHosts::Names(names) = &admin.allowed_hosts else { return Self(None) };
        let mut names = names.clone();
        names.extend(machine);
        names.push(admin.listen.host.clone());
        if let Some(member) = &config.member {
            for server in member.ensemble.members().values() {
                let addresses = server.quorum.iter().chain(&server.election).chain(&server.client);
                names.extend(addresses.map(|address| address.host.clone()));
            }
        }
        names.iter_mut().for_each(|name| name.make_ascii_lowercase());
        names.sort();
        names.dedup();
        Self(Some(names))
    }

    /// Whether a request with this header is accepted. Programs that are no browsers may send none.
    pub(crate) fn allows(&self, host: Option<&[u8]>) -> bool {
        let (Some(names), Some(host)) = (&self.0, host) else { return true };
        let Ok(host) = std::str::from_utf8(host) else { return false };
        let name = without_port(host.trim()).trim_end_matches('.').to_ascii_lowercase();
        name.is_empty()
            || name.parse::<IpAddr>().is_ok()
            || name == "localhost"
            || name.ends_with(".localhost")
            || names.contains(&name)
    }
}

fn without_port(host: &str) -> &str {
    if let Some(rest) = host.strip_prefix('[') {
        return rest.split(']').next().unwrap_or_default();
    }
    host.split(':').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_other_machines_are_refused() {
        let mut config = Config::default_standalone();
        let admin = config.admin.as_mut().unwrap();
        admin.allowed_hosts = AllowedHosts::Names(vec!["zk.example.com".to_owned()]);
        let check = HostCheck::new(&config, Some("Box1".to_owned()));
        for host in ["127.0.0.1:8080", "10.1.2.3", "[::1]:8080", "localhost:8080", "box1", "ZK.example.com.:80", ""] {
            assert!(check.allows(Some(host.as_bytes())), "{host}");
        }
        for host in ["evil.example", "box1.evil.example:8080", "zk.example.com.evil", "localhost.evil", "1.2.3"] {
            assert!(!check.allows(Some(host.as_bytes())), "{host}");
        }
        assert!(check.allows(None) && !check.allows(Some(b"\xff")));
        config.admin.as_mut().unwrap().allowed_hosts = AllowedHosts::All;
        assert!(HostCheck::new(&config, None).allows(Some(b"evil.example")));
    }
}
