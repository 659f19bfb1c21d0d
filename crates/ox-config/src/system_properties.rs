//! System properties: `-Dname=value` from the command line and from the variables of the Java start scripts.

use std::collections::BTreeMap;

/// The given properties, and flags that only a Java virtual machine understands.
///
/// Later definitions of a name win, as on a Java command line. Add `SERVER_JVMFLAGS` first, then `JVMFLAGS`, then the
/// command line.
#[derive(Clone, Default)]
pub struct SystemProperties {
    values: BTreeMap<String, String>,
    jvm_flags: Vec<String>,
}

impl SystemProperties {
    pub fn set(&mut self, name: impl Into<String>, value: impl Into<String>) {
        self.values.insert(name.into(), value.into());
    }

    /// Parses the text after `-D`: `name=value`, or a name alone, whose value is empty.
    pub fn define(&mut self, definition: &str) {
        let (name, value) = definition.split_once('=').unwrap_or((definition, ""));
        self.set(name, value);
    }

    /// Parses the text of `SERVER_JVMFLAGS` or `JVMFLAGS`.
    ///
    /// Splits at blanks and takes quotes literally, because the start scripts leave splitting to the shell.
    pub fn add_flags(&mut self, flags: &str) {
        for word in flags.split_ascii_whitespace() {
            match word.strip_prefix("-D") {
                Some(definition) => self.define(definition),
                None => self.jvm_flags.push(word.to_owned()),
            }
        }
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str)
    }

    /// All properties, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.values.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Flags other than `-D` definitions, in order.
    pub fn jvm_flags(&self) -> &[String] {
        &self.jvm_flags
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_split_at_blanks() {
        let mut system = SystemProperties::default();
        system.add_flags(" -Xmx512m -Dzookeeper.snapCount=5\t-Dbare -Da=b=c\n-XX:+UseG1GC -Dq=\"x");
        let seen: Vec<_> = system.iter().collect();
        assert_eq!(seen, [("a", "b=c"), ("bare", ""), ("q", "\"x"), ("zookeeper.snapCount", "5")]);
        assert_eq!(system.jvm_flags(), ["-Xmx512m", "-XX:+UseG1GC"]);
    }

    #[test]
    fn last_definition_wins() {
        let mut system = SystemProperties::default();
        system.add_flags("-Dx=server");
        system.add_flags("-Dx=both -Dx=again");
        assert_eq!(system.get("x"), Some("again"));
        system.define("x=own");
        assert_eq!(system.get("x"), Some("own"));
        assert_eq!(system.get("y"), None);
    }
}
