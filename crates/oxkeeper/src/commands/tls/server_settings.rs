//! The TLS settings of a server, from its `zoo.cfg` and its system properties, also of one that would not start.

use crate::commands::server::OUTSIDE;
use anyhow::{Context, Result};
use ox_config::{Settings, SslKeys, StartArgs, SystemProperties};
use ox_proto::ServerId;
use ox_proto::ensemble::{Addresses, EnsembleBuilder, is_member_key};
use ox_server::tls_settings;
use ox_tls::{SettingsGroup, TlsSettings};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What a configuration says about TLS.
#[derive(Debug)]
pub(super) struct ServerTlsSettings {
    /// The client port; `None` if no port for clients uses TLS.
    pub(super) client: Option<TlsSettings>,
    /// Which port that is, as the configuration names it.
    pub(super) client_port: String,
    /// The quorum and election ports; `None` if they use plain text only.
    pub(super) quorum: Option<TlsSettings>,
    /// Whether the quorum ports accept plain text as well.
    pub(super) is_quorum_unified: bool,
    /// Whether this server connects to others with TLS.
    pub(super) is_quorum_tls: bool,
    /// The hosts of each member.
    pub(super) hosts: BTreeMap<ServerId, Vec<String>>,
    /// The id of this server.
    pub(super) my_id: Option<ServerId>,
    /// The file with that id.
    pub(super) my_id_file: PathBuf,
}

impl ServerTlsSettings {
    pub(super) fn read(file: &Path, system: &SystemProperties) -> Result<Self> {
        let start = StartArgs::File(file.to_owned());
        let settings = Settings::read(&start, system, &OUTSIDE, &mut Vec::new())?;
        let mut lines = read_lines(file)?;
        add_dynamic_file(&mut lines)?;
        let my_id_file = Path::new(lines.get("dataDir").map_or("", |directory| directory.trim())).join("myid");
        let my_id = std::fs::read_to_string(&my_id_file).ok().and_then(|text| text.trim().parse().ok().map(ServerId));
        let client_port = match settings.written("secureClientPort") {
            Some(port) => Some(format!("secureClientPort {port}")),
            None if settings.flag("client.portUnification") => {
                let own = my_id.and_then(|id: ServerId| lines.get(&format!("server.{}", id.0)));
                let own = own.and_then(|line| line.rsplit_once(';')).map(|(_, address)| address.trim().to_owned());
                let port = settings.written("clientPort").map(ToString::to_string).or(own).unwrap_or_default();
                Some(format!("clientPort {port} (port unification)"))
            }
            None => None,
        };
        let group = |group: SettingsGroup| tls_settings(&SslKeys::from_checked(&settings, group.prefix()), group);
        let (is_quorum_tls, is_quorum_unified) = (settings.flag("sslQuorum"), settings.flag("portUnification"));
        Ok(Self {
            client: client_port.is_some().then(|| group(SettingsGroup::Client)),
            client_port: client_port.unwrap_or_default(),
            quorum: (is_quorum_tls || is_quorum_unified).then(|| group(SettingsGroup::Quorum)),
            is_quorum_unified,
            is_quorum_tls,
            hosts: hosts(&lines)?,
            my_id,
            my_id_file,
        })
    }
}

/// The lines of a properties file.
pub(super) fn read_lines(file: &Path) -> Result<BTreeMap<String, String>> {
    let bytes = std::fs::read(file).with_context(|| format!("read {}", file.display()))?;
    let pairs = ox_proto::properties::parse(&bytes)
        .map_err(|error| anyhow::anyhow!("{}:{}: malformed \\u escape", file.display(), error.line))?;
    Ok(pairs.into_iter().map(|pair| (pair.key, pair.value)).collect())
}

/// Adds the lines of the file that `dynamicConfigFile` names, if any.
pub(super) fn add_dynamic_file(lines: &mut BTreeMap<String, String>) -> Result<()> {
    let Some(dynamic) = lines.get("dynamicConfigFile").map(|path| path.trim().to_owned()) else { return Ok(()) };
    lines.extend(read_lines(Path::new(&dynamic))?);
    Ok(())
}

/// The hosts of the members that `server.N` lines name.
pub(super) fn hosts(lines: &BTreeMap<String, String>) -> Result<BTreeMap<ServerId, Vec<String>>> {
    let mut ensemble = EnsembleBuilder::new(Addresses::Several);
    for (key, value) in lines.iter().filter(|(key, _)| is_member_key(key)) {
        ensemble.add(key, value).map_err(|error| anyhow::anyhow!("{key}={value}: {error}"))?;
    }
    let hosts = ensemble.members().iter().map(|(id, member)| {
        let mut hosts: Vec<String> = member.quorum.iter().map(|address| address.host.clone()).collect();
        hosts.extend(member.client.iter().filter(|client| !client.is_wildcard()).map(|client| client.host.clone()));
        hosts.sort();
        hosts.dedup();
        (*id, hosts)
    });
    Ok(hosts.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_and_properties_give_both_groups() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("zoo.cfg");
        std::fs::write(dir.path().join("myid"), "2\n").unwrap();
        let text = format!(
            "dataDir={}\nsecureClientPort=2281\nssl.keyStore.location=/k.pem\nsslQuorum=true\n\
             ssl.quorum.clientAuth=want\nfips-mode=false\n\
             server.1=a:1:2|b:3:4;0.0.0.0:2181\nserver.2=10.0.0.2:1:2;c:2181\n",
            dir.path().display()
        );
        std::fs::write(&file, text).unwrap();
        let mut system = SystemProperties::default();
        system.add_flags("-Dzookeeper.ssl.keyStore.location=/other.pem -Dzookeeper.ssl.trustStore.location=/t.pem");
        let found = ServerTlsSettings::read(&file, &system).unwrap();
        let client = found.client.unwrap();
        assert_eq!(client.key_store.location.as_deref(), Some(Path::new("/k.pem")), "the file wins");
        assert_eq!(client.trust_store.location.as_deref(), Some(Path::new("/t.pem")));
        let quorum = found.quorum.unwrap();
        assert_eq!((quorum.client_auth.as_deref(), quorum.fips_mode), (Some("want"), false));
        assert!(found.is_quorum_tls && !found.is_quorum_unified);
        assert_eq!((found.client_port.as_str(), found.my_id), ("secureClientPort 2281", Some(ServerId(2))));
        let hosts: Vec<_> = found.hosts.into_values().collect();
        assert_eq!(hosts, [vec!["a".to_owned(), "b".to_owned()], vec!["10.0.0.2".to_owned(), "c".to_owned()]]);

        std::fs::write(&file, "clientPort=2181\nclient.portUnification=TRUE\n").unwrap();
        let found = ServerTlsSettings::read(&file, &SystemProperties::default()).unwrap();
        assert!(found.quorum.is_none());
        assert_eq!(found.client_port, "clientPort 2181 (port unification)");
    }
}
