//! Environment variables of the image. `<NAME>_FILE` is the path of a file with the value, such as a mounted secret.

use anyhow::{Context, ensure};
use std::path::Path;

pub(super) struct Variables<'a> {
    read: &'a dyn Fn(&str) -> Option<String>,
}

impl Variables<'_> {
    pub(super) fn of_process() -> Self {
        Self { read: &|name| std::env::var(name).ok() }
    }
}

impl<'a> Variables<'a> {
    #[cfg(test)]
    pub(super) fn new(read: &'a dyn Fn(&str) -> Option<String>) -> Self {
        Self { read }
    }

    /// The value of a variable, if it is set and not empty.
    pub(super) fn get(&self, name: &str) -> anyhow::Result<Option<String>> {
        let is_set = |value: &String| !value.is_empty();
        let value = (self.read)(name).filter(is_set);
        let file_name = format!("{name}_FILE");
        let Some(path) = (self.read)(&file_name).filter(is_set) else { return Ok(value) };
        ensure!(value.is_none(), "{name} and {file_name} are both set\nhint: keep one of them");
        let text = std::fs::read_to_string(Path::new(&path)).with_context(|| format!("read {path} of {file_name}"))?;
        Ok(Some(text.trim_end_matches(['\r', '\n']).to_owned()).filter(is_set))
    }

    /// The same, or a default.
    pub(super) fn or(&self, name: &str, default: &str) -> anyhow::Result<String> {
        Ok(self.get(name)?.unwrap_or_else(|| default.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn value_comes_from_the_variable_or_from_its_file() {
        let directory = tempfile::tempdir().unwrap();
        let secret = directory.path().join("secret");
        std::fs::write(&secret, "ssl.keyStore.password=s3cret\n").unwrap();
        let secret = secret.display().to_string();
        let read = |name: &str| match name {
            "PLAIN" | "BOTH" => Some("value".to_owned()),
            "EMPTY" => Some(String::new()),
            "SECRET_FILE" | "BOTH_FILE" => Some(secret.clone()),
            "LOST_FILE" => Some("/missing/secret".to_owned()),
            _ => None,
        };
        let variables = Variables::new(&read);
        assert_eq!(variables.or("PLAIN", "default").unwrap(), "value");
        assert_eq!(variables.or("EMPTY", "default").unwrap(), "default");
        assert_eq!(variables.get("SECRET").unwrap().unwrap(), "ssl.keyStore.password=s3cret");
        let error = |name| crate::all_causes(&variables.get(name).unwrap_err());
        assert_eq!(error("BOTH"), "BOTH and BOTH_FILE are both set\nhint: keep one of them");
        assert!(error("LOST").starts_with("read /missing/secret of LOST_FILE: "), "{}", error("LOST"));
    }
}
