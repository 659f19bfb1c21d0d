//! In-memory environment: files and hosts by name.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

use ox_config::{Config, ConfigError, Diagnostic, Environment, Level, StartArgs, SystemProperties};

/// Files, hosts and properties that a server is started with.
#[derive(Default)]
pub(crate) struct Harness {
    pub(crate) files: BTreeMap<String, Vec<u8>>,
    pub(crate) system: SystemProperties,
}

/// Result of loading a configuration.
pub(crate) struct Outcome {
    /// The configuration, or the first error.
    pub(crate) result: Result<Config, ConfigError>,
    pub(crate) errors: Vec<String>,
    pub(crate) diagnostics: Vec<Diagnostic>,
}

/// The file that [`Harness::start`] loads.
pub(crate) const FILE: &str = "/data/tc.cfg";

impl Harness {
    /// An environment with only the configuration file.
    pub(crate) fn with_config(text: &str) -> Harness {
        Harness::default().and_file(FILE, text)
    }

    pub(crate) fn and_file(mut self, name: &str, text: &str) -> Harness {
        self.files.insert(name.to_owned(), text.as_bytes().to_vec());
        self
    }

    pub(crate) fn and_flags(mut self, flags: &str) -> Harness {
        self.system.add_flags(flags);
        self
    }

    pub(crate) fn start(&self) -> Outcome {
        self.start_as(&StartArgs::File(FILE.into()))
    }

    pub(crate) fn start_as(&self, start: &StartArgs) -> Outcome {
        let read = |path: &Path| {
            let bytes = path.to_str().and_then(|name| self.files.get(name));
            bytes.cloned().ok_or(io::Error::from(io::ErrorKind::NotFound))
        };
        let resolve = |host: &str| (host == "localhost").then_some(IpAddr::V4(Ipv4Addr::LOCALHOST));
        let mut diagnostics = Vec::new();
        let environment = Environment { read: &read, resolve: &resolve };
        let result = Config::load(start, &self.system, &environment, &mut diagnostics);
        let errors =
            result.as_ref().err().map_or(Vec::new(), |errors| errors.iter().map(ToString::to_string).collect());
        Outcome { result: result.map_err(|errors| errors.first().clone()), errors, diagnostics }
    }
}

impl Outcome {
    /// The configuration, which must be valid.
    pub(crate) fn config(self) -> Config {
        self.result.unwrap()
    }

    /// The error text; the configuration must be invalid.
    pub(crate) fn error(self) -> String {
        self.result.unwrap_err().to_string()
    }

    /// Diagnostics above info level.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let warnings = self.diagnostics.iter().filter(|diagnostic| Level::Info < diagnostic.level);
        warnings.map(Diagnostic::to_string).collect()
    }
}
