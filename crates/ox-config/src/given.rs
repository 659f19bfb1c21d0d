//! All settings as they are given, to find out what has changed when a configuration is read again.

use std::collections::BTreeMap;
use std::fmt;

use crate::key::{Class, PREFIX, Status};
use crate::keys;
use crate::settings::Settings;

/// Settings that a running server applies.
const RELOADED: &[&str] = &[
    "4lw.commands.whitelist",
    "console.threshold",
    "log.dir",
    "log.file",
    "log.maxbackupindex",
    "log.maxfilesize",
    "log.threshold",
    "maxClientCnxns",
    "maxCnxns",
    "oxkeeper.log.levels",
    "oxkeeper.maxSessionsPerAddress",
    "oxkeeper.maxWatchesPerAddress",
    "oxkeeper.slowRequestMs",
];

/// Lines that describe the ensemble. A server with `reconfigEnabled` moves them to another file itself.
const ENSEMBLE_LINES: [&str; 4] = ["dynamicConfigFile", "server.", "group.", "weight."];

/// The effective text of every setting. Texts may be secret, so they are compared and never shown.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct GivenSettings {
    texts: BTreeMap<String, String>,
    /// Whether changes of the ensemble's lines are reported.
    has_fixed_ensemble: bool,
}

impl fmt::Debug for GivenSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.texts.keys()).finish()
    }
}

/// The names of settings that differ, sorted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SettingChanges {
    /// A running server applies them.
    pub applied: Vec<String>,
    /// They take effect when the server is restarted.
    pub needs_restart: Vec<String>,
}

impl GivenSettings {
    pub(crate) fn of(settings: &Settings) -> Self {
        let mut texts: BTreeMap<String, String> = BTreeMap::new();
        for key in keys::keys().filter(|key| key.family().is_none()) {
            let text = settings.effective_entry(key).map_or(key.default, |entry| entry.text.as_str());
            texts.insert(key.name.to_owned(), text.to_owned());
        }
        for (name, entry) in settings.lines() {
            texts.entry(name.to_owned()).or_insert_with(|| entry.text.clone());
        }
        Self { texts, has_fixed_ensemble: !settings.flag("reconfigEnabled") }
    }

    /// What differs in a later reading, except for settings without an effect.
    pub fn changes(&self, later: &Self) -> SettingChanges {
        let names = self.texts.keys().chain(later.texts.keys().filter(|name| !self.texts.contains_key(*name)));
        let mut names: Vec<&String> = names.filter(|name| self.texts.get(*name) != later.texts.get(*name)).collect();
        names.sort();
        let mut changes = SettingChanges::default();
        for name in names {
            let is_of_ensemble = ENSEMBLE_LINES.iter().any(|line| name.starts_with(line));
            if RELOADED.contains(&name.as_str()) {
                changes.applied.push(name.clone());
            } else if has_effect(name) && (!is_of_ensemble || self.has_fixed_ensemble) {
                changes.needs_restart.push(name.clone());
            }
        }
        changes
    }

    /// Takes the settings that a running server has applied.
    pub fn apply(&mut self, later: &Self) {
        for name in RELOADED {
            if let Some(text) = later.texts.get(*name) {
                self.texts.insert((*name).to_owned(), text.clone());
            }
        }
    }
}

/// Whether a server uses a setting. Keys that the table does not have are unknown to every server.
fn has_effect(name: &str) -> bool {
    keys::find(name).or_else(|| keys::find_property(&format!("{PREFIX}{name}"))).is_some_and(|key| {
        let is_used = !matches!(key.class, Class::J | Class::T | Class::C);
        is_used && !matches!(key.status, Status::Hint | Status::NotBuilt(_))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::start_args::{Environment, StartArgs};
    use crate::system_properties::SystemProperties;

    fn read(text: &str) -> GivenSettings {
        let environment = Environment { read: &|_| Ok(text.as_bytes().to_vec()), resolve: &|_| None };
        let start = StartArgs::File("/zoo.cfg".into());
        GivenSettings::of(&Settings::read(&start, &SystemProperties::default(), &environment, &mut Vec::new()).unwrap())
    }

    fn check(before: &str, after: &str, applied: &[&str], needs_restart: &[&str]) {
        let changes = read(before).changes(&read(after));
        assert_eq!(
            (changes.applied, changes.needs_restart),
            (names(applied), names(needs_restart)),
            "{before} -> {after}"
        );
    }

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn changed_settings_are_told_apart_by_their_effect() {
        check("tickTime=3000\n", "", &[], &[]); // the default
        check("", "tickTime=2000\nmaxClientCnxns=5\n", &["maxClientCnxns"], &["tickTime"]);
        check("log.file=a\n", "console.threshold=WARN\n", &["console.threshold", "log.file"], &[]);
        check("", "client.secure=true\nnio.numWorkerThreads=3\n", &[], &[]); // without an effect
        check("ssl.keyStore.password=a\n", "ssl.keyStore.password=b\n", &[], &["ssl.keyStore.password"]);
        check("server.1=a:1:2\n", "server.1=b:1:2\nmaxClientCnxn=5\n", &[], &["server.1"]); // no known key
        let reconfig = "reconfigEnabled=true\n";
        check(&format!("{reconfig}server.1=a:1:2\n"), &format!("{reconfig}dynamicConfigFile=x\n"), &[], &[]);
    }

    #[test]
    fn what_needs_a_restart_is_reported_until_there_is_one() {
        let (mut running, later) = (read("maxCnxns=1\ntickTime=1\n"), read("maxCnxns=2\ntickTime=2\n"));
        running.apply(&later);
        let changes = running.changes(&later);
        assert_eq!((changes.applied, changes.needs_restart), (Vec::new(), names(&["tickTime"])));
        assert!(!format!("{:?}", read("ssl.keyStore.password=abc\n")).contains("abc"));
    }
}
