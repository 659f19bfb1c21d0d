//! Reports to the service manager that started the server: systemd with `Type=notify`, or another one that reads the
//! datagrams of `sd_notify` from the socket in `NOTIFY_SOCKET`.
//!
//! | message | when |
//! |---|---|
//! | `READY=1` | the server listens: standalone, it serves; a member may still wait for a leader, because the first members of an ensemble must start before there can be one |
//! | `STATUS=...` | what the server does changes |
//! | `WATCHDOG=1` | every thread of the server made progress since the last one; with `WATCHDOG_USEC` only |
//! | `STOPPING=1` | a signal stops the server |

use super::restart_on_full_disk::Stop;
use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The longest interval between two looks at the server.
const INTERVAL_MAX: Duration = Duration::from_secs(1);

/// The socket of the service manager.
pub(super) struct ServiceManager {
    socket: UnixDatagram,
    to: SocketAddr,
    /// The service manager restarts this process after this time without `WATCHDOG=1`.
    watchdog: Option<Duration>,
    is_ready: AtomicBool,
}

/// Starts the thread that reports to the service manager, if there is one.
pub(super) fn report_to_service_manager(stop: &Arc<Stop>) -> Option<Arc<ServiceManager>> {
    let name = std::env::var_os("NOTIFY_SOCKET").filter(|name| !name.is_empty())?;
    let started = ServiceManager::connect(&name).map(Arc::new).and_then(|manager| {
        let (for_thread, stop) = (Arc::clone(&manager), Arc::clone(stop));
        std::thread::Builder::new().name("notify".to_owned()).spawn(move || for_thread.run(&stop))?;
        Ok(manager)
    });
    match started {
        Ok(manager) => Some(manager),
        Err(error) => {
            let socket = name.display();
            tracing::warn!(%error, %socket, "service manager is not notified: NOTIFY_SOCKET cannot be used");
            None
        }
    }
}

impl ServiceManager {
    fn connect(name: &OsStr) -> io::Result<Self> {
        let to = match name.as_bytes() {
            [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
            [b'/', ..] => SocketAddr::from_pathname(name)?,
            _ => return Err(io::Error::new(io::ErrorKind::Unsupported, "neither a path nor an abstract socket")),
        };
        let socket = UnixDatagram::unbound()?;
        socket.set_nonblocking(true)?;
        let variable = |name| std::env::var(name).ok();
        let watchdog = watchdog(variable("WATCHDOG_USEC"), variable("WATCHDOG_PID"), std::process::id());
        Ok(Self { socket, to, watchdog, is_ready: AtomicBool::new(false) })
    }

    /// Reports that the server listens. Later calls, after a restart on a full disk, have no effect.
    pub(super) fn ready(&self) {
        if !self.is_ready.swap(true, Ordering::Relaxed) {
            self.send("READY=1");
        }
    }

    fn run(&self, stop: &Stop) {
        let interval = self.watchdog.map_or(INTERVAL_MAX, |period| (period / 2).min(INTERVAL_MAX));
        let (mut status, mut healthy_checks) = ("", None);
        loop {
            let server = stop.running();
            let checks = server.as_ref().map(ox_server::ServerHandle::healthy_checks);
            // Without a server this process reads data, or waits for disk space.
            let is_healthy = server.is_none() || checks != std::mem::replace(&mut healthy_checks, checks);
            if self.watchdog.is_some() && is_healthy {
                self.send("WATCHDOG=1");
            }
            let now = match server.map(|server| server.summary().mode) {
                None if self.is_ready.load(Ordering::Relaxed) => "waiting for disk space",
                None => "reading data",
                Some(None) => "waiting for a leader",
                Some(Some(mode)) => mode,
            };
            if std::mem::replace(&mut status, now) != now {
                self.send(&format!("STATUS={now}"));
            }
            if stop.sleep(interval) {
                self.send("STOPPING=1\nSTATUS=stopping");
                return;
            }
        }
    }

    fn send(&self, message: &str) {
        if let Err(error) = self.socket.send_to_addr(message.as_bytes(), &self.to) {
            tracing::debug!(%error, message, "service manager not notified");
        }
    }
}

/// The time after which the service manager restarts this process, from the variables of `sd_watchdog_enabled`.
fn watchdog(usec: Option<String>, pid: Option<String>, own: u32) -> Option<Duration> {
    if pid.is_some_and(|pid| pid.parse() != Ok(own)) {
        return None; // meant for another process of the service
    }
    let usec = usec?.parse().ok().filter(|usec| *usec != 0)?;
    Some(Duration::from_micros(usec))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watchdog_is_for_the_process_that_it_names() {
        let check = |usec: &str, pid: Option<&str>| watchdog(Some(usec.to_owned()), pid.map(str::to_owned), 7);
        assert_eq!(check("2000000", None), Some(Duration::from_secs(2)));
        assert_eq!(check("2000000", Some("7")), Some(Duration::from_secs(2)));
        for (usec, pid) in [("2000000", Some("8")), ("2000000", Some("")), ("0", None), ("soon", None)] {
            assert_eq!(check(usec, pid), None, "{usec} {pid:?}");
        }
        assert_eq!(watchdog(None, None, 7), None);
    }

    #[test]
    fn socket_of_an_unknown_kind_is_refused() {
        assert!(ServiceManager::connect(OsStr::new("vsock:2:1234")).is_err());
    }

    #[test]
    fn server_is_reported_ready_once() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notify");
        let received = UnixDatagram::bind(&path).unwrap();
        let manager = ServiceManager::connect(path.as_os_str()).unwrap();
        manager.ready();
        manager.ready();
        manager.send("STATUS=end");
        let next = || {
            let mut bytes = [0; 64];
            let count = received.recv(&mut bytes).unwrap();
            String::from_utf8_lossy(&bytes[..count]).into_owned()
        };
        assert_eq!([next(), next()], ["READY=1", "STATUS=end"]);
    }
}
