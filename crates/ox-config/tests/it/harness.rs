//! A world in memory: files by name, hosts by name.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

use ox_config::{Config, ConfigError, Level, Notice, Outside, Start, SystemProperties};

/// What a server is started in and with.
#[derive(Default)]
pub(crate) struct World {
    pub(crate) files: BTreeMap<String, Vec<u8>>,
    pub(crate) system: SystemProperties,
}

/// What came of it.
pub(crate) struct Outcome {
    pub(crate) result: Result<Config, ConfigError>,
    pub(crate) notices: Vec<Notice>,
}

/// The file that [`World::start`] starts with.
pub(crate) const FILE: &str = "/data/tc.cfg";

impl World {
    /// A configuration file and nothing else.
    pub(crate) fn with_config(text: &str) -> World {
        World::default().and_file(FILE, text)
    }

    pub(crate) fn and_file(mut self, name: &str, text: &str) -> World {
        self.files.insert(name.to_owned(), text.as_bytes().to_vec());
        self
    }

    pub(crate) fn and_flags(mut self, flags: &str) -> World {
        self.system.add_flags(flags);
        self
    }

    pub(crate) fn start(&self) -> Outcome {
        self.start_as(&Start::File(FILE.into()))
    }

    pub(crate) fn start_as(&self, start: &Start) -> Outcome {
        let read = |path: &Path| {
            let bytes = path.to_str().and_then(|name| self.files.get(name));
            bytes.cloned().ok_or(io::Error::from(io::ErrorKind::NotFound))
        };
        let resolve = |host: &str| (host == "localhost").then_some(IpAddr::V4(Ipv4Addr::LOCALHOST));
        let mut notices = Vec::new();
        let outside = Outside { read: &read, resolve: &resolve };
        let result = Config::load(start, &self.system, &outside, &mut notices);
        Outcome { result, notices }
    }
}

impl Outcome {
    /// The configuration, which must be accepted.
    pub(crate) fn config(self) -> Config {
        self.result.unwrap()
    }

    /// The text of the error, which there must be.
    pub(crate) fn error(self) -> String {
        self.result.unwrap_err().to_string()
    }

    /// Remarks that are louder than good to know.
    pub(crate) fn loud(&self) -> Vec<String> {
        let loud = self.notices.iter().filter(|notice| Level::Info < notice.level);
        loud.map(Notice::to_string).collect()
    }
}
