//! Finds the process that listens on a port, through `/proc`.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;

/// A process that listens on a port, or holds a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProcessName {
    pid: u32,
    name: String,
}

impl ProcessName {
    pub(crate) fn of_pid(pid: u32) -> Self {
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        Self { pid, name: name.trim_end().to_owned() }
    }
}

impl fmt::Display for ProcessName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pid {} ({})", self.pid, self.name)
    }
}

/// The process that listens on a TCP port of this machine. `None` if there is none, or if it belongs to another user.
pub(crate) fn find(port: u16) -> Option<ProcessName> {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(|path| fs::read_to_string(path).unwrap_or_default());
    let sockets: BTreeSet<String> = tables.iter().flat_map(|table| listening_sockets(table, port)).collect();
    if sockets.is_empty() {
        return None;
    }
    let pids = fs::read_dir("/proc").ok()?.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    let pid = pids.into_iter().find(|pid| has_one_of(*pid, &sockets))?;
    Some(ProcessName::of_pid(pid))
}

/// Inodes of the sockets that listen on a port, from a table of the kernel, as links to them name them.
fn listening_sockets(table: &str, port: u16) -> Vec<String> {
    const LISTEN: &str = "0A";
    let lines = table.lines().skip(1).filter_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (local, state, inode) = (fields.get(1)?, fields.get(3)?, fields.get(9)?);
        let is_here = local.rsplit_once(':').is_some_and(|(_, hex)| u16::from_str_radix(hex, 16) == Ok(port));
        (is_here && *state == LISTEN).then(|| format!("socket:[{inode}]"))
    });
    lines.collect()
}

fn has_one_of(pid: u32, sockets: &BTreeSet<String>) -> bool {
    let Ok(files) = fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
    files.flatten().any(|file| {
        let link = fs::read_link(file.path());
        link.is_ok_and(|link| link.to_str().is_some_and(|name| sockets.contains(name)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listener_is_found_and_a_connection_is_not() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let owner = find(address.port()).unwrap();
        assert_eq!(owner.pid, std::process::id());
        assert_eq!(owner.to_string(), format!("pid {} ({})", owner.pid, owner.name));
        let connection = std::net::TcpStream::connect(address).unwrap();
        assert_eq!(find(connection.local_addr().unwrap().port()), None);
        drop(listener);
        assert_eq!(find(address.port()), None);
    }
}
