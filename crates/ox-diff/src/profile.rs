//! The settings that both servers run with.
//!
//! All profiles include [`BASE`]: no connection limit, a session timeout longer than a run, and no timer that deletes
//! containers and TTL nodes, which would take zxids at arbitrary moments.

/// Where a setting is configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingPlace {
    /// A line of `zoo.cfg`.
    Config,
    /// A Java system property, `-Dname=value`.
    Property,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting {
    pub place: SettingPlace,
    pub name: &'static str,
    pub value: &'static str,
}

/// A set of settings, and what the generator must know about them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    /// Name for command lines and scenario headers.
    pub name: &'static str,
    /// Settings in addition to [`BASE`]; of equal names the later one takes effect.
    pub settings: &'static [Setting],
    /// Whether random sequences run with it; other profiles are for scenarios with timers.
    pub random: bool,
    /// Whether scenarios that name no profile run with it.
    pub general: bool,
}

const fn config(name: &'static str, value: &'static str) -> Setting {
    Setting { place: SettingPlace::Config, name, value }
}

const fn property(name: &'static str, value: &'static str) -> Setting {
    Setting { place: SettingPlace::Property, name, value }
}

/// The settings of every profile.
pub const BASE: &[Setting] = &[
    config("tickTime", "2000"),
    config("maxClientCnxns", "0"),
    config("4lw.commands.whitelist", "*"),
    config("admin.enableServer", "false"),
    property("znode.container.checkIntervalMs", "100000000"),
];

/// Users that scripts authenticate as, each with its name as password; `super` is the super user of profile `super`.
pub const USERS: [&str; 4] = ["bob", "alice", "eve", "super"];

pub const PROFILES: &[Profile] = &[
    Profile { name: "default", settings: &[], random: true, general: true },
    Profile {
        name: "extended",
        settings: &[property("zookeeper.extendedTypesEnabled", "true")],
        random: true,
        general: true,
    },
    Profile { name: "quota", settings: &[property("zookeeper.enforceQuota", "true")], random: true, general: true },
    Profile { name: "skip-acl", settings: &[property("zookeeper.skipACL", "yes")], random: true, general: true },
    Profile {
        name: "super",
        settings: &[
            property("zookeeper.DigestAuthenticationProvider.superDigest", "super:lK75jTNcA+U9vtVEw5vB51mj/w4="),
            config("reconfigEnabled", "true"),
        ],
        random: true,
        general: true,
    },
    Profile {
        name: "timers",
        settings: &[
            property("zookeeper.extendedTypesEnabled", "true"),
            property("znode.container.checkIntervalMs", "500"),
        ],
        random: false,
        general: false,
    },
    Profile {
        name: "enforced-auth",
        settings: &[
            property("zookeeper.enforce.auth.enabled", "true"),
            property("zookeeper.enforce.auth.schemes", "digest"),
        ],
        random: false,
        general: false,
    },
];

impl Profile {
    pub fn named(name: &str) -> Option<&'static Self> {
        PROFILES.iter().find(|profile| profile.name == name)
    }

    /// All settings for `place`, each name once.
    pub fn settings(&self, place: SettingPlace) -> Vec<Setting> {
        let mut settings: Vec<Setting> = Vec::new();
        for &setting in BASE.iter().chain(self.settings).filter(|setting| setting.place == place) {
            settings.retain(|earlier| earlier.name != setting.name);
            settings.push(setting);
        }
        settings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_settings_replace_earlier_ones() {
        let timers = Profile::named("timers").unwrap().settings(SettingPlace::Property);
        let interval: Vec<_> = timers.iter().filter(|setting| setting.name.starts_with("znode")).collect();
        assert_eq!(interval, [&property("znode.container.checkIntervalMs", "500")]);
    }
}
