//! Reports when the servers of a local ensemble serve clients, and which one leads, at the start and after a kill.

use super::client_port;
use crate::commands::output::count;
use crate::four_letter::{self, Reply};
use crate::terminal::{Paint, Tone};
use anyhow::Result;
use ox_tls::ClientTls;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

/// Interval of the check whether a server serves clients.
const PAUSE: Duration = Duration::from_millis(20);
/// Time for a server's reply.
const REPLY_LIMIT: Duration = Duration::from_secs(1);
/// A server that does not serve clients by then is reported as such.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Clone)]
struct ReportedServer {
    address: String,
    pid: u32,
    home: PathBuf,
    /// Set if the server accepts TLS only.
    tls: Option<Arc<ClientTls>>,
}

/// Receives lines from the threads that ask the servers.
pub(super) struct RoleReports {
    servers: Vec<ReportedServer>,
    lines: Receiver<String>,
    sender: Sender<String>,
}

impl RoleReports {
    /// Starts the thread that reports the start of all servers. `client_configuration` is set if clients use TLS.
    pub(super) fn start(
        homes: &[PathBuf],
        pids: &[u32],
        observers: u16,
        client_configuration: Option<PathBuf>,
        started: Instant,
    ) -> Result<Self> {
        let tls = match &client_configuration {
            None => None,
            Some(file) => four_letter::tls(&four_letter::client_properties_with(Some(file))?)?.map(Arc::new),
        };
        let mut servers = Vec::new();
        for (home, pid) in homes.iter().zip(pids) {
            let address = format!("127.0.0.1:{}", client_port(home)?);
            servers.push(ReportedServer { address, pid: *pid, home: home.clone(), tls: tls.clone() });
        }
        let (sender, lines) = channel();
        let this = Self { servers, lines, sender };
        this.spawn(move |servers| first_screen(servers, observers, client_configuration.as_deref(), started));
        Ok(this)
    }

    /// Reports which server leads after this one has ended.
    pub(super) fn after_kill(&self, killed: usize) {
        self.spawn(move |servers| {
            let until = Instant::now() + PATIENCE;
            let others = || servers.iter().enumerate().filter(|(at, _)| *at != killed);
            while Instant::now() < until {
                if let Some((at, _)) = others().find(|(_, server)| server.role().as_deref() == Some("leader")) {
                    return format!("server {} leads\n", at + 1);
                }
                std::thread::sleep(PAUSE);
            }
            "no server leads: too few of them run\n".to_owned()
        });
    }

    /// Reports when a restarted server serves clients.
    pub(super) fn after_restart(&self, at: usize) {
        self.spawn(move |servers| match servers[at].role_until(Instant::now() + PATIENCE) {
            Some(role) => format!("server {} serves clients again: {role}\n", at + 1),
            None => format!("server {} does not serve clients; see {}\n", at + 1, log_of(&servers[at].home)),
        });
    }

    fn spawn(&self, report: impl FnOnce(&[ReportedServer]) -> String + Send + 'static) {
        let (servers, sender) = (self.servers.clone(), self.sender.clone());
        std::thread::spawn(move || {
            let _ = sender.send(report(&servers)); // fails if the command has ended
        });
    }

    /// Prints what has come.
    pub(super) fn print(&self) -> Result<()> {
        for text in self.lines.try_iter() {
            let mut out = io::stdout().lock();
            out.write_all(text.as_bytes())?;
            out.flush()?;
        }
        Ok(())
    }
}

/// The roles of all servers and what to try next, in the layout of the first screen of a server.
fn first_screen(
    servers: &[ReportedServer],
    observers: u16,
    client_configuration: Option<&Path>,
    started: Instant,
) -> String {
    let paint = Paint::of(&io::stdout());
    let until = started + PATIENCE;
    let roles: Vec<Option<String>> = servers.iter().map(|server| server.role_until(until)).collect();
    let voters = count(servers.len() as u64 - u64::from(observers), "voter");
    let observers = match observers {
        0 => String::new(),
        more => format!(" and {}", count(more.into(), "observer")),
    };
    let name = format!("Oxkeeper {}", env!("CARGO_PKG_VERSION"));
    let mut text = format!("{} ensemble of {voters}{observers}\n", paint.text(Tone::Heading, name));
    let width = servers.iter().map(|server| server.address.len()).max().unwrap_or(0);
    for ((id, server), role) in (1..).zip(servers).zip(&roles) {
        let ReportedServer { address, pid, home, .. } = server;
        let (role, home) = (role.as_deref().unwrap_or("not ready"), home.display());
        let label = format!("server {id}");
        text += &format!(
            "  {:<9} {address:<width$}  {role:<9}  pid {pid}, files in {home}\n",
            paint.text(Tone::Faint, label)
        );
    }
    for (name, value) in next_steps(servers, client_configuration) {
        text += &format!("  {:<9} {value}\n", paint.text(Tone::Faint, name));
    }
    let ready = roles.iter().flatten().count();
    let verdict = match ready == servers.len() {
        true => paint.text(Tone::Good, format!("ready in {} ms", started.elapsed().as_millis())),
        false => {
            let text = format!("{ready} of {} servers are ready; see server.log of the others", servers.len());
            paint.text(Tone::Warning, text)
        }
    };
    text + &format!("  {verdict}\n")
}

/// Names and values of the rows that tell how to connect.
fn next_steps(servers: &[ReportedServer], client_configuration: Option<&Path>) -> Vec<(&'static str, String)> {
    let connect: Vec<&str> = servers.iter().map(|server| server.address.as_str()).collect();
    let (first, all) = (connect.first().copied().unwrap_or_default(), connect.join(","));
    let mut rows = vec![("connect", all.clone())];
    match client_configuration.map(Path::display) {
        None => {
            rows.push(("try", format!("oxkeeper status {first}")));
            rows.push(("", format!("oxkeeper cli -s {first}")));
        }
        // A secure port is no part of the ensemble's configuration, so all are named.
        Some(file) => {
            rows.push(("TLS", format!("settings of clients in {file}")));
            rows.push(("try", format!("oxkeeper status --client-configuration {file} {all}")));
            rows.push(("", format!("oxkeeper cli -s {first} --client-configuration {file}")));
        }
    }
    rows.push(("stop", "Ctrl-C".to_owned()));
    rows
}

fn log_of(home: &Path) -> String {
    home.join("server.log").display().to_string()
}

impl ReportedServer {
    /// The role of the server, as soon as it serves clients.
    fn role_until(&self, until: Instant) -> Option<String> {
        while Instant::now() < until {
            if let Some(role) = self.role() {
                return Some(role);
            }
            std::thread::sleep(PAUSE);
        }
        None
    }

    /// The role of the server, if it serves clients.
    fn role(&self) -> Option<String> {
        match four_letter::ask(&self.address, "srvr", self.tls.as_deref(), REPLY_LIMIT) {
            Ok(Reply::Text(text)) => text.lines().find_map(|line| line.strip_prefix("Mode: ")).map(str::to_owned),
            Ok(Reply::NotAllowed(_)) | Err(_) => None,
        }
    }
}
