//! Reports once that all servers of a local ensemble serve clients, and their roles.

use super::client_port;
use crate::four_letter::{self, Reply};
use anyhow::Result;
use ox_tls::ClientTls;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// Interval of the check whether a server serves clients.
const PAUSE: Duration = Duration::from_millis(20);
/// Time for a server's reply.
const REPLY_LIMIT: Duration = Duration::from_secs(1);
/// A server that does not serve clients by then is reported as such.
const PATIENCE: Duration = Duration::from_secs(30);

struct ReportedServer {
    address: String,
    pid: u32,
    home: PathBuf,
}

/// Receives the report from the thread that waits for the servers.
pub(super) struct ReadyReport(Receiver<String>);

impl ReadyReport {
    /// Starts the thread that asks the servers for their roles.
    pub(super) fn start(
        homes: &[PathBuf],
        pids: &[u32],
        client_configuration: Option<PathBuf>,
        started: Instant,
    ) -> Result<Self> {
        let properties = four_letter::client_properties_with(client_configuration.as_deref())?;
        let tls = if client_configuration.is_some() { four_letter::tls(&properties)? } else { None };
        let mut servers = Vec::new();
        for (home, pid) in homes.iter().zip(pids) {
            let address = format!("127.0.0.1:{}", client_port(home)?);
            servers.push(ReportedServer { address, pid: *pid, home: home.clone() });
        }
        let (sender, receiver) = channel();
        std::thread::spawn(move || {
            let _ = sender.send(report(&servers, client_configuration.as_deref(), tls.as_ref(), started)); // fails if the command has ended
        });
        Ok(Self(receiver))
    }

    /// Prints the report if it has come.
    pub(super) fn print(&self) -> Result<()> {
        if let Ok(text) = self.0.try_recv() {
            let mut out = std::io::stdout().lock();
            out.write_all(text.as_bytes())?;
            out.flush()?;
        }
        Ok(())
    }
}

fn report(
    servers: &[ReportedServer],
    client_configuration: Option<&Path>,
    tls: Option<&ClientTls>,
    started: Instant,
) -> String {
    let until = started + PATIENCE;
    let roles: Vec<Option<String>> = servers.iter().map(|server| role(&server.address, tls, until)).collect();
    let mut text = String::new();
    let width = servers.iter().map(|server| server.address.len()).max().unwrap_or(0);
    for ((id, ReportedServer { address, pid, home }), role) in (1..).zip(servers).zip(&roles) {
        let role = role.as_deref().unwrap_or("not ready");
        text += &format!("server {id}: {address:<width$}  {role:<9}  pid {pid}, files in {}\n", home.display());
    }
    let connect: Vec<&str> = servers.iter().map(|server| server.address.as_str()).collect();
    let connect = connect.join(",");
    let ready = roles.iter().flatten().count();
    text += &match ready == servers.len() {
        true => format!("ready in {} ms\n", started.elapsed().as_millis()),
        false => format!("{ready} of {} servers are ready; the others log to server.log\n", servers.len()),
    };
    text + &match client_configuration.map(Path::display) {
        None => {
            let first = servers.first().map_or("", |server| &server.address);
            format!("try: oxkeeper status {first}, oxkeeper cli -server {connect}; stop: Ctrl-C\n")
        }
        Some(file) => format!(
            "clients use TLS, with the settings of {file}\n\
             try: oxkeeper status --client-configuration {file} {connect}\n\
             \x20    oxkeeper cli -server {connect} -client-configuration {file}\nstop: Ctrl-C\n"
        ),
    } + &format!("connect to {connect}\n")
}

/// The role of a server, as soon as it serves clients.
fn role(address: &str, tls: Option<&ClientTls>, until: Instant) -> Option<String> {
    while Instant::now() < until {
        if let Ok(Reply::Text(text)) = four_letter::ask(address, "srvr", tls, REPLY_LIMIT)
            && let Some(mode) = text.lines().find_map(|line| line.strip_prefix("Mode: "))
        {
            return Some(mode.to_owned());
        }
        std::thread::sleep(PAUSE);
    }
    None
}
