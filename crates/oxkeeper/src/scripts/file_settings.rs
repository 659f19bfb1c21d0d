//! The lines of a configuration file, read as Apache's shell scripts do: a file with errors can be examined, too.

use std::io;
use std::path::Path;

pub(super) struct FileSettings(pub(super) String);

impl FileSettings {
    pub(super) fn read(path: &Path) -> io::Result<Self> {
        Ok(Self(String::from_utf8_lossy(&std::fs::read(path)?).into_owned()))
    }

    /// The last value of a key.
    pub(super) fn get(&self, key: &str) -> Option<&str> {
        let mut values = self.0.lines().filter_map(|line| {
            let (name, value) = line.split_once('=')?;
            (name.trim() == key).then(|| value.trim())
        });
        values.next_back().filter(|value| !value.is_empty())
    }
}
