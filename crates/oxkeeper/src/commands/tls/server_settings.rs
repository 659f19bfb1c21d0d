//! The TLS settings of a server, from its `zoo.cfg` and its system properties.
//!
//! As in Apache, a key of the file becomes the property `zookeeper.<key>` and replaces one of that name; a key that
//! starts with `zookeeper.` is taken as it is.

use anyhow::{Context, Result};
use ox_config::SystemProperties;
use ox_proto::ServerId;
use ox_proto::ensemble::{Addresses, EnsembleBuilder, is_member_key};
use ox_tls::{SettingsGroup, StorePassword, StoreSettings, TlsSettings};
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
}

impl ServerTlsSettings {
    pub(super) fn read(file: &Path, system: &SystemProperties) -> Result<Self> {
        let bytes = std::fs::read(file).with_context(|| format!("read {}", file.display()))?;
        let pairs = ox_proto::properties::parse(&bytes)
            .map_err(|error| anyhow::anyhow!("{}:{}: malformed \\u escape", file.display(), error.line))?;
        let mut properties: BTreeMap<String, String> =
            system.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        let mut lines = BTreeMap::new();
        for pair in pairs {
            let name =
                if pair.key.starts_with("zookeeper.") { pair.key.clone() } else { format!("zookeeper.{}", pair.key) };
            properties.insert(name, pair.value.trim().to_owned());
            lines.insert(pair.key, pair.value);
        }
        add_dynamic_file(&mut lines)?;
        let hosts = hosts(&lines)?;
        let my_id = lines.get("dataDir").and_then(|directory| {
            let text = std::fs::read_to_string(Path::new(directory.trim()).join("myid")).ok()?;
            text.trim().parse().ok().map(ServerId)
        });
        let properties = Properties(properties);
        let is_unified = properties.flag("client.portUnification", false);
        let client_port = match properties.get("secureClientPort") {
            Some(port) => Some(format!("secureClientPort {port}")),
            None if is_unified => {
                Some(format!("clientPort {} (port unification)", properties.get("clientPort").unwrap_or_default()))
            }
            None => None,
        };
        let (is_quorum_tls, is_quorum_unified) =
            (properties.flag("sslQuorum", false), properties.flag("portUnification", false));
        Ok(Self {
            client: client_port.is_some().then(|| properties.group(SettingsGroup::Client)),
            client_port: client_port.unwrap_or_default(),
            quorum: (is_quorum_tls || is_quorum_unified).then(|| properties.group(SettingsGroup::Quorum)),
            is_quorum_unified,
            is_quorum_tls,
            hosts,
            my_id,
        })
    }
}

/// Adds the lines of the file that `dynamicConfigFile` names, if any.
pub(super) fn add_dynamic_file(lines: &mut BTreeMap<String, String>) -> Result<()> {
    let Some(dynamic) = lines.get("dynamicConfigFile").map(|path| path.trim().to_owned()) else { return Ok(()) };
    let bytes = std::fs::read(&dynamic).with_context(|| format!("read {dynamic}"))?;
    let pairs = ox_proto::properties::parse(&bytes).map_err(|_| anyhow::anyhow!("{dynamic}: malformed escape"))?;
    lines.extend(pairs.into_iter().map(|pair| (pair.key, pair.value)));
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

/// System properties by their full names.
struct Properties(BTreeMap<String, String>);

impl Properties {
    fn get(&self, key: &str) -> Option<&str> {
        self.0.get(&format!("zookeeper.{key}")).map(String::as_str).filter(|value| !value.is_empty())
    }

    fn flag(&self, key: &str, default: bool) -> bool {
        self.get(key).map_or(default, |value| value.trim().eq_ignore_ascii_case("true"))
    }

    fn group(&self, group: SettingsGroup) -> TlsSettings {
        let mut settings = TlsSettings::new(group);
        let key = |name: &str| format!("{}{name}", group.prefix());
        let text = |name: &str| self.get(&key(name)).map(str::to_owned);
        let flag = |name: &str, default: bool| self.flag(&key(name), default);
        settings.key_store = self.store(group, "keyStore");
        settings.trust_store = self.store(group, "trustStore");
        settings.protocol = text("protocol");
        settings.enabled_protocols = text("enabledProtocols");
        settings.cipher_suites = text("ciphersuites");
        settings.context_supplier_class = text("context.supplier.class");
        settings.hostname_verification = flag("hostnameVerification", settings.hostname_verification);
        settings.client_hostname_verification =
            flag("clientHostnameVerification", settings.client_hostname_verification);
        settings.allow_reverse_dns_lookup = flag("allowReverseDnsLookup", settings.allow_reverse_dns_lookup);
        settings.crl = flag("crl", settings.crl);
        settings.ocsp = flag("ocsp", settings.ocsp);
        settings.client_auth = text("clientAuth");
        settings.fips_mode = self.flag("fips-mode", settings.fips_mode);
        let lists = self.get(&format!("oxkeeper.{}crlFiles", group.prefix())).unwrap_or_default();
        settings.crl_files =
            lists.split(',').map(str::trim).filter(|file| !file.is_empty()).map(PathBuf::from).collect();
        settings
    }

    fn store(&self, group: SettingsGroup, name: &str) -> StoreSettings {
        let value = |part: &str| self.get(&format!("{}{name}.{part}", group.prefix()));
        StoreSettings {
            location: value("location").map(PathBuf::from),
            password: value("password").map(StorePassword::new),
            password_path: value("passwordPath").map(PathBuf::from),
            store_type: value("type").map(str::to_owned),
        }
    }
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
             ssl.quorum.clientAuth=want\nzookeeper.fips-mode=false\n\
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
