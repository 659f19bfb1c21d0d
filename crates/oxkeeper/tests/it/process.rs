//! Standalone servers of the built binary.

use ox_testkit::{Process, RawClient};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Long enough for tests in which no session expires.
pub(crate) const TIMEOUT_MS: i32 = 30_000;

/// The log line of a server that accepts connections.
pub(crate) const LISTENS: &str = "binding to port ";

/// Starts `oxkeeper` with these arguments.
pub(crate) fn start(arguments: &[&str], directory: &Path) -> Process {
    let mut command = Command::new(env!("CARGO_BIN_EXE_oxkeeper"));
    command.args(arguments).current_dir(directory);
    Process::run(command)
}

/// A directory with a configuration, for servers that run one after another.
pub(crate) struct Site {
    pub(crate) directory: PathBuf,
    pub(crate) flags: Vec<String>,
}

impl Site {
    /// Writes `zoo.cfg` with a free port and additional settings; the data directory is next to it.
    pub(crate) fn new(directory: &Path, settings: &str) -> Self {
        let data = directory.join("data");
        let mut text = format!("dataDir={}\nclientPort=0\nclientPortAddress=127.0.0.1\n", data.display());
        text.push_str(
            "admin.enableServer=false\ntickTime=2000\nmaxSessionTimeout=60000\nmaxClientCnxns=0\npreAllocSize=1024\n",
        );
        text.push_str(settings);
        std::fs::write(directory.join("zoo.cfg"), text).expect("the directory can be written to");
        Self { directory: directory.to_owned(), flags: Vec::new() }
    }

    /// Starts a server and waits until it listens.
    pub(crate) fn start(&self) -> Running {
        let mut arguments = vec!["server", "zoo.cfg"];
        arguments.extend(self.flags.iter().map(String::as_str));
        Running::wait(start(&arguments, &self.directory))
    }
}

/// A process that accepts connections.
pub(crate) struct Running {
    pub(crate) process: Process,
    pub(crate) address: SocketAddr,
}

impl Running {
    pub(crate) fn wait(mut process: Process) -> Self {
        let line = process.wait_for(LISTENS);
        Self::bound(process, &line)
    }

    /// A process that has logged [`LISTENS`] in this line.
    pub(crate) fn bound(process: Process, line: &str) -> Self {
        let address = line.split(LISTENS).nth(1).and_then(|rest| rest.split(' ').next());
        let address = address
            .and_then(|text| text.trim_start_matches('/').parse().ok())
            .unwrap_or_else(|| panic!("an address: {line}"));
        Self { process, address }
    }

    pub(crate) fn client(&self) -> RawClient {
        RawClient::open(self.address, TIMEOUT_MS)
    }

    /// Stops it and checks that it exits cleanly. Returns its output.
    pub(crate) fn stop(self) -> String {
        self.process.signal("TERM");
        let ended = self.process.end();
        assert_eq!(ended.status.code(), Some(0), "{}", ended.said);
        ended.said
    }
}
