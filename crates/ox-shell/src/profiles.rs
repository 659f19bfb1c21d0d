//! Profiles: named settings of ensembles in a small file.
//!
//! ```text
//! # ~/.config/oxkeeper/cli.conf
//! [prod]
//! server = zk1:2181,zk2:2181,zk3:2181/app
//! timeout = 10000
//! read-only = true
//! auth = digest:bob:secret
//! client-configuration = /etc/zookeeper/client.properties
//! ```

use crate::invocation;
use crate::suggest;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The settings of one profile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CliProfile {
    /// The connection string, with a chroot if it has one.
    pub server: Option<String>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) read_only: bool,
    pub(crate) auth: Option<(String, String)>,
    /// A warning about the permissions of the file.
    pub(crate) warning: Option<String>,
    /// A properties file for TLS and SASL.
    pub client_configuration: Option<String>,
}

/// Reads a profile from the file of the user. The error is a message for the user.
pub(crate) fn load(name: &str, variable: impl Fn(&str) -> Option<String>) -> Result<CliProfile, String> {
    let file = file(variable).ok_or("profiles need a home directory")?;
    let text = std::fs::read_to_string(&file).map_err(|error| {
        let file = file.display();
        match error.kind() == ErrorKind::NotFound {
            true => format!("there is no profile {name}: {file} does not exist"),
            false => format!("cannot read the profiles in {file}: {error}"),
        }
    })?;
    let mut profile = parse(&text, name).map_err(|text| format!("{}{text}", file.display()))?;
    if profile.auth.is_some() && is_readable_by_others(&file) {
        let file = file.display();
        profile.warning = Some(format!(
            "warning: other users of this machine can read the credentials in {file}; `chmod 600 {file}` prevents that"
        ));
    }
    Ok(profile)
}

/// The profile that applies, and the server: options come first, and the environment variable of the server precedes that
/// of the profile. Returns the name of the profile, too.
pub(crate) fn select(
    server: Option<String>,
    profile: Option<String>,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<(Option<String>, CliProfile), String> {
    let server = server.or_else(|| profile.is_none().then(|| variable("OXKEEPER_SERVER")).flatten());
    let name = profile.or_else(|| server.is_none().then(|| variable("OXKEEPER_PROFILE")).flatten());
    let found = match &name {
        Some(name) => load(name, &variable)?,
        None => CliProfile::default(),
    };
    Ok((name, CliProfile { server: server.or_else(|| found.server.clone()), ..found }))
}

/// The server that options or the environment name, with the settings of its profile; for other programs than the shell.
pub fn named_server(server: Option<String>, profile: Option<String>) -> Result<CliProfile, String> {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    select(server, profile, variable).map(|(_, profile)| profile)
}

fn is_readable_by_others(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::metadata(file).is_ok_and(|metadata| metadata.permissions().mode() & 0o044 != 0)
}

/// `OXKEEPER_CLI_CONFIG`, or a file in the user's configuration directory.
fn file(variable: impl Fn(&str) -> Option<String>) -> Option<PathBuf> {
    if let Some(file) = variable("OXKEEPER_CLI_CONFIG") {
        return Some(file.into());
    }
    let config = variable("XDG_CONFIG_HOME").map(PathBuf::from);
    let config = config.or_else(|| Some(PathBuf::from(variable("HOME")?).join(".config")))?;
    Some(config.join("oxkeeper").join("cli.conf"))
}

/// Parses a whole file, so that an error anywhere is found, and returns one profile. An error begins with the line.
fn parse(text: &str, name: &str) -> Result<CliProfile, String> {
    let mut profiles: Vec<(&str, CliProfile)> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let at = |text: String| format!(":{}: {text}", number + 1);
        if let Some(section) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            profiles.push((section.trim(), CliProfile::default()));
            continue;
        }
        if line.starts_with('[') {
            return Err(at(format!("expected `{line}]`")));
        }
        let (key, value) = line.split_once('=').ok_or_else(|| at("expected `key = value`".to_owned()))?;
        let (_, profile) = profiles.last_mut().ok_or_else(|| at("expected `[profile]` first".to_owned()))?;
        profile.set(key.trim(), value.trim().trim_matches('"')).map_err(at)?;
    }
    match profiles.iter().position(|(known, _)| *known == name) {
        Some(index) => Ok(profiles.swap_remove(index).1),
        None => {
            let hint = suggest::similar(name, profiles.iter().map(|(known, _)| *known));
            let hint = hint.map(|known| format!("; did you mean {known}?"));
            Err(format!(" has no profile {name}{}", hint.unwrap_or_default()))
        }
    }
}

impl CliProfile {
    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        match key {
            "server" => self.server = Some(value.to_owned()),
            "timeout" => self.timeout = Some(invocation::timeout(value)?),
            "read-only" => {
                self.read_only = value.parse().map_err(|_| format!("read-only is true or false, not `{value}`"))?;
            }
            "client-configuration" => self.client_configuration = Some(value.to_owned()),
            "auth" => {
                let (scheme, secret) = value.split_once(':').ok_or("auth is scheme:secret")?;
                self.auth = Some((scheme.to_owned(), secret.to_owned()));
            }
            _ => {
                let hint = suggest::similar(
                    key,
                    ["server", "timeout", "read-only", "auth", "client-configuration"].into_iter(),
                );
                let hint = hint.map(|known| format!("; did you mean {known}?")).unwrap_or_default();
                return Err(format!("unknown key {key}{hint}"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profile_file_is_parsed_and_errors_name_the_line() {
        let text =
            "# ensembles\n[dev]\nserver = localhost:2181\n\n[prod]\nserver = \"a:1,b:2/app\"\nauth=digest:bob:x\n";
        let prod = parse(text, "prod").unwrap();
        assert_eq!(prod.server.as_deref(), Some("a:1,b:2/app"));
        assert_eq!(prod.auth, Some(("digest".to_owned(), "bob:x".to_owned())));
        assert_eq!(parse(text, "dev").unwrap().server.as_deref(), Some("localhost:2181"));
        for (text, error) in [
            ("server = a", ":1: expected `[profile]` first"),
            ("[a]\nserver a", ":2: expected `key = value`"),
            ("[prod\nserver = a", ":1: expected `[prod]`"),
            ("[a]\nsever = a", ":2: unknown key sever; did you mean server?"),
            ("[a]\nread-only = maybe", ":2: read-only is true or false, not `maybe`"),
            ("[b]", " has no profile a"),
        ] {
            assert_eq!(parse(text, "a"), Err(error.to_owned()), "{text}");
        }
    }
}
