//! JAAS login configuration files, as `java.security.auth.login.config` names them.
//!
//! ```text
//! Section {
//!     fully.qualified.LoginModule flag
//!     option=value
//!     option="quoted value";
//! };
//! ```
//!
//! The grammar is that of Java's `ConfigFile`, so that every file that Java reads is read here with the same result.
//! [`JaasFile::parse`] reads text; [`modules`] gives the options of known login modules a type. The caller reads the file
//! and wipes its text.

pub mod modules;
mod parse;
mod tokens;

use crate::secret::SecretBytes;
use std::fmt;

/// A larger file is refused: JAAS files have a few lines, and each account of DIGEST-MD5 is one more.
pub const JAAS_FILE_BYTES_MAX: usize = 1 << 20;

/// What is wrong with a JAAS file, and where. Never contains the value of an option.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {message}")]
pub struct JaasError {
    pub file: String,
    pub line: usize,
    pub message: String,
}

#[derive(Clone, Debug)]
pub struct JaasFile {
    pub name: String,
    pub sections: Vec<JaasSection>,
}

#[derive(Clone, Debug)]
pub struct JaasSection {
    pub name: String,
    /// The file that contains the section, for messages.
    pub file: String,
    pub line: usize,
    pub modules: Vec<JaasModule>,
}

#[derive(Clone, Debug)]
pub struct JaasModule {
    pub class: String,
    pub flag: ControlFlag,
    pub line: usize,
    /// In file order, without duplicates: the last value of a key counts, as in Java.
    options: Vec<(String, SecretBytes)>,
}

/// How the result of a module counts. ZooKeeper's sections have one module, so all flags mean the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControlFlag {
    Required,
    Requisite,
    Sufficient,
    Optional,
}

impl JaasFile {
    /// Parses the text of a file. `name` is the file's name for messages; `property` looks up system properties, which
    /// `${property}` in values refers to.
    pub fn parse(name: &str, text: &str, property: &dyn Fn(&str) -> Option<String>) -> Result<Self, JaasError> {
        parse::parse(name, text, property)
    }

    pub fn section(&self, name: &str) -> Option<&JaasSection> {
        self.sections.iter().find(|section| section.name == name)
    }
}

impl JaasSection {
    fn error(&self, line: usize, message: impl fmt::Display) -> JaasError {
        JaasError { file: self.file.clone(), line, message: format!("section '{}': {message}", self.name) }
    }
}

impl JaasModule {
    pub fn option(&self, key: &str) -> Option<&SecretBytes> {
        self.options.iter().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    pub fn options(&self) -> impl Iterator<Item = (&str, &SecretBytes)> {
        self.options.iter().map(|(key, value)| (key.as_str(), value))
    }

    fn text(&self, key: &str) -> Option<&str> {
        self.option(key).map(SecretBytes::text)
    }

    /// Login modules read flags without regard to case; everything but `true` is false.
    fn is_true(&self, key: &str) -> bool {
        self.text(key).is_some_and(|value| value.eq_ignore_ascii_case("true"))
    }
}
