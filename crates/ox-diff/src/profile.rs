//! The settings under which both servers run.
//!
//! All profiles share the [`BASE`]: no connection limit, a session timeout that a run does not reach, and no removal of
//! containers and TTL nodes by timer, which would take zxids at any moment.

/// Where a setting belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A line of `zoo.cfg`.
    Config,
    /// A Java system property, `-Dname=value`.
    Property,
}

/// One setting of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Where it belongs.
    pub place: Place,
    /// Its name.
    pub name: &'static str,
    /// Its value.
    pub value: &'static str,
}

/// A set of settings, and what the generator must know about them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    /// Name for command lines and scenario headers.
    pub name: &'static str,
    /// Settings beyond the [`BASE`]; the later of two for one name counts.
    pub settings: &'static [Setting],
    /// Whether random sequences run under it; the others are for scenarios with timers.
    pub random: bool,
    /// Whether scenarios that name no profile run under it.
    pub general: bool,
}

const fn config(name: &'static str, value: &'static str) -> Setting {
    Setting { place: Place::Config, name, value }
}

const fn property(name: &'static str, value: &'static str) -> Setting {
    Setting { place: Place::Property, name, value }
}

/// The settings of every profile.
pub const BASE: &[Setting] = &[
    config("tickTime", "2000"),
    config("maxClientCnxns", "0"),
    config("4lw.commands.whitelist", "*"),
    config("admin.enableServer", "false"),
    property("znode.container.checkIntervalMs", "100000000"),
];

/// Users that scripts authenticate as, each with its name as password; `super` is the one of profile `super`.
pub const USERS: [&str; 4] = ["bob", "alice", "eve", "super"];

/// Every profile.
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
    /// The profile called `name`.
    pub fn named(name: &str) -> Option<&'static Self> {
        PROFILES.iter().find(|profile| profile.name == name)
    }

    /// All settings that belong to `place`, each name once.
    pub fn settings(&self, place: Place) -> Vec<Setting> {
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
        let timers = Profile::named("timers").unwrap().settings(Place::Property);
        let interval: Vec<_> = timers.iter().filter(|setting| setting.name.starts_with("znode")).collect();
        assert_eq!(interval, [&property("znode.container.checkIntervalMs", "500")]);
    }
}
