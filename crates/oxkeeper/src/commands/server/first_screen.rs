//! What a user sees when the server has started: a few lines on a terminal with all addresses, one line in a log.

use crate::commands::output::count;
use crate::port_owner;
use crate::terminal::{Paint, Tone};
use ox_admin::AdminServer;
use ox_config::Config;
use ox_proto::ensemble::Role;
use ox_server::{Server, ServerHandle, ServerSummary};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Interval of the check whether a member serves clients.
const ROLE_CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// A server that has started.
pub(super) struct Started<'a> {
    pub(super) config: &'a Config,
    pub(super) server: &'a Server,
    pub(super) admin: Option<&'a AdminServer>,
    pub(super) took: Duration,
}

impl Started<'_> {
    /// The lines for a terminal.
    pub(super) fn screen(&self, paint: Paint) -> String {
        let rows = self.rows();
        let mut text = format!("{} {}\n", paint.text(Tone::Heading, name_and_version()), self.mode());
        for (name, value) in rows {
            text += &format!("  {:<8} {value}\n", paint.text(Tone::Faint, name));
        }
        text + &format!("  {}", paint.text(Tone::Good, self.ready()))
    }

    fn mode(&self) -> String {
        match &self.config.member {
            None => "standalone server".to_owned(),
            Some(member) => {
                let (servers, role) = (member.ensemble.members().len(), member.role().name());
                format!("server {} of an ensemble of {servers}, {role}", member.server)
            }
        }
    }

    fn rows(&self) -> Vec<(&'static str, String)> {
        let ServerSummary { nodes, last_zxid, .. } = self.server.handle().summary();
        let address = self.server.address();
        let clients = address.map_or("no client port".to_owned(), interfaces);
        let mut rows = vec![("clients", clients)];
        if let Some(address) = self.server.secure_address() {
            rows.push(("TLS", interfaces(address)));
        }
        if let Some(own) = self.config.member.as_ref().and_then(|own| own.ensemble.members().get(&own.server)) {
            rows.push(("servers", own.to_string()));
        }
        rows.extend(self.http_rows());
        rows.push(("data", format!("{}: {nodes} nodes, zxid {last_zxid}", self.config.data_dir.display())));
        if self.config.data_log_dir != self.config.data_dir {
            rows.push(("log", self.config.data_log_dir.display().to_string()));
        }
        if let Some(address) = address {
            let server = connect_string(address);
            rows.push(("try", format!("oxkeeper cli{}", option(&server, "-s "))));
            rows.push(("", format!("oxkeeper status{}", option(&server, ""))));
        }
        rows.push(("stop", "Ctrl-C".to_owned()));
        rows
    }

    /// The AdminServer and the metrics, which listen elsewhere than clients expect.
    fn http_rows(&self) -> Vec<(&'static str, String)> {
        let mut rows = Vec::new();
        if let Some(config) = &self.config.admin {
            let row = match self.admin.and_then(AdminServer::address) {
                Some(address) => format!("{}, {}", interfaces(address), config.command_url),
                None => match port_owner::find(config.listen.port) {
                    Some(owner) => format!("off: port {} is in use by {owner}", config.listen.port),
                    None => format!("off: port {} is not available", config.listen.port),
                },
            };
            rows.push(("admin", row));
        }
        for address in self.admin.map(AdminServer::metrics_addresses).unwrap_or_default() {
            rows.push(("metrics", format!("{}, /metrics", interfaces(*address))));
        }
        rows
    }

    fn ready(&self) -> String {
        let ms = self.took.as_millis();
        match &self.config.member {
            None => format!("ready in {ms} ms"),
            Some(member) => {
                let quorum = member.ensemble.voters().count() / 2 + 1;
                let is_voter = member.role() == Role::Participant;
                let needed = if is_voter { quorum - 1 } else { quorum } as u64;
                let more = if is_voter { "more voter" } else { "voter" };
                format!("started in {ms} ms, needs {}", count(needed, more))
            }
        }
    }

    /// Logs that the server serves clients; a member's line comes when it has found a leader.
    pub(super) fn log(&self) {
        let address = self.server.address().map(tracing::field::display);
        let secure = self.server.secure_address().map(tracing::field::display);
        let took_ms = millis(self.took);
        let ServerSummary { mode, nodes, last_zxid } = self.server.handle().summary();
        if self.config.member.is_none() {
            tracing::info!(mode, address, secure, nodes, zxid = %last_zxid, took_ms, "ready");
        } else {
            tracing::info!(address, secure, nodes, zxid = %last_zxid, took_ms, "started; waiting for a leader");
        }
    }
}

/// Logs when a member serves clients for the first time.
pub(super) fn report_first_role(server: ServerHandle, started: Instant) -> std::io::Result<()> {
    std::thread::Builder::new().name("first role".to_owned()).spawn(move || {
        while !server.is_stopping() {
            if let ServerSummary { mode: Some(mode), nodes, last_zxid } = server.summary() {
                let took_ms = millis(started.elapsed());
                tracing::info!(mode, nodes, zxid = %last_zxid, took_ms, "ready");
                return;
            }
            std::thread::sleep(ROLE_CHECK_INTERVAL);
        }
    })?;
    Ok(())
}

/// An address on which a server listens.
fn interfaces(address: SocketAddr) -> String {
    let remark = if address.ip().is_unspecified() { " (every interface)" } else { "" };
    format!("{address}{remark}")
}

fn name_and_version() -> String {
    format!("Oxkeeper {}", env!("CARGO_PKG_VERSION"))
}

/// The address for clients on this machine; empty if it is the default of all tools.
fn connect_string(address: SocketAddr) -> String {
    let host = if address.ip().is_unspecified() { "127.0.0.1".to_owned() } else { address.ip().to_string() };
    match (host.as_str(), address.port()) {
        ("127.0.0.1", 2181) => String::new(),
        (host, port) if address.is_ipv6() && !address.ip().is_unspecified() => format!("[{host}]:{port}"),
        (host, port) => format!("{host}:{port}"),
    }
}

fn option(server: &str, name: &str) -> String {
    if server.is_empty() { String::new() } else { format!(" {name}{server}") }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
