//! Key and trust stores that `keytool` makes: a server and a client with self-signed certificates that trust each other.

use crate::interop::tool;
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::process::Command;

pub(super) const PASSWORD: &str = "changeit";
/// The client's identity, as the recorded transcript has it.
pub(super) const CLIENT_NAME: &str = "CN=client,O=Example,C=US";

/// Stores in one directory, in the formats that Java's tools write.
pub(super) struct KeytoolStores {
    directory: PathBuf,
}

impl KeytoolStores {
    pub(super) fn make(directory: &Path) -> Result<Self> {
        std::fs::create_dir_all(directory)?;
        let stores = Self { directory: directory.to_owned() };
        for (name, subject) in [("server", "CN=localhost,O=Example,C=US"), ("client", CLIENT_NAME)] {
            stores.keytool(
                &["-genkeypair", "-alias", name, "-keyalg", "EC", "-groupname", "secp256r1"],
                name,
                "p12",
                &["-dname", subject, "-ext", "SAN=dns:localhost,ip:127.0.0.1", "-validity", "365"],
            )?;
            let certificate = stores.path(&format!("{name}.crt"));
            stores.keytool(&["-exportcert", "-rfc", "-alias", name], name, "p12", &["-file", &certificate])?;
            let (trust, import) = (format!("trust-{name}"), ["-importcert", "-noprompt", "-alias", name]);
            stores.keytool(&import, &trust, "jks", &["-file", &certificate])?;
        }
        Ok(stores)
    }

    pub(super) fn path(&self, name: &str) -> String {
        self.directory.join(name).display().to_string()
    }

    fn keytool(&self, verb: &[&str], store: &str, kind: &str, more: &[&str]) -> Result<()> {
        let file = self.path(&format!("{store}.{kind}"));
        let kind = if kind == "p12" { "PKCS12" } else { "JKS" };
        let store = ["-keystore", &file, "-storetype", kind, "-storepass", PASSWORD];
        tool::run(Command::new("keytool").args(verb).args(store).args(more)).context("make a store")
    }

    /// Settings of a server, by key.
    pub(super) fn server_settings(&self) -> Vec<(String, String)> {
        self.settings("ssl.", "server.p12", "trust-client.jks")
    }

    /// Properties of a client, by full name.
    pub(super) fn client_properties(&self) -> Vec<(String, String)> {
        let mut properties = self.settings("zookeeper.ssl.", "client.p12", "trust-server.jks");
        properties.push(("zookeeper.client.secure".to_owned(), "true".to_owned()));
        properties
    }

    fn settings(&self, prefix: &str, keys: &str, trust: &str) -> Vec<(String, String)> {
        let mut settings = Vec::new();
        for (name, file) in [("keyStore", keys), ("trustStore", trust)] {
            settings.push((format!("{prefix}{name}.location"), self.path(file)));
            settings.push((format!("{prefix}{name}.password"), PASSWORD.to_owned()));
        }
        settings
    }
}

/// Properties as `-D` words.
pub(super) fn flags(properties: &[(String, String)]) -> String {
    let words: Vec<String> = properties.iter().map(|(name, value)| format!("-D{name}={value}")).collect();
    words.join(" ")
}
