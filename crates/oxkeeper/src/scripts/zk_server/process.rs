//! The process in a pid file.

use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use std::path::Path;

/// A process whose id was read from a pid file. It may have ended.
pub(super) struct ServerProcess {
    pid: Option<Pid>,
    text: String,
    /// Another program has the id by now.
    is_other: bool,
}

impl ServerProcess {
    /// `None` if there is no such file.
    pub(super) fn of_file(file: &Path, config: &Path) -> Option<Self> {
        let text = std::fs::read_to_string(file).ok()?.trim().to_owned();
        let pid = text.parse().ok().filter(|number| 0 < *number).and_then(Pid::from_raw);
        let is_other = is_other_program(&text, config);
        Some(Self { pid, text, is_other })
    }

    pub(super) fn id(&self) -> &str {
        &self.text
    }

    pub(super) fn is_alive(&self) -> bool {
        // A zombie has ended, but its parent has not asked for it yet; a container's first process may never do.
        let is_zombie = std::fs::read_to_string(format!("/proc/{}/stat", self.text))
            .is_ok_and(|stat| stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('Z')));
        !self.is_other && !is_zombie && self.pid.is_some_and(|pid| test_kill_process(pid).is_ok())
    }

    /// Sends SIGTERM, unless another program has the id.
    pub(super) fn terminate(&self) -> Result<(), String> {
        if self.is_other {
            return Err(format!("process {} is not a ZooKeeper server, and is not stopped", self.text));
        }
        let Some(pid) = self.pid else { return Err(format!("the pid file contains no process id: {}", self.text)) };
        kill_process(pid, Signal::TERM).map_err(|error| format!("cannot stop process {}: {error}", self.text))
    }
}

/// Whether the process is certainly no server, of Apache or of Oxkeeper: ids are used again after a restart of the machine.
fn is_other_program(id: &str, config: &Path) -> bool {
    let Ok(command_line) = std::fs::read(format!("/proc/{id}/cmdline")) else { return false };
    if command_line.is_empty() {
        return false; // it has ended, or belongs to the kernel
    }
    let command_line = String::from_utf8_lossy(&command_line);
    let name = config.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    !["QuorumPeerMain", "oxkeeper", "zookeeper", name.as_str()].iter().any(|mark| command_line.contains(mark))
}
