//! Ports that two settings of one server open.

use std::net::IpAddr;

use crate::address::Address;
use crate::admin::AdminConfig;
use crate::diagnostic::Diagnostic;
use crate::error::{Cause, ErrorCollector, Place};
use crate::member_config::MemberConfig;
use crate::metrics::PrometheusConfig;
use crate::settings::Settings;
use crate::start_args::Environment;

/// The parts of a configuration that open ports.
pub(crate) struct OpenPorts<'a> {
    pub(crate) client: Option<&'a Address>,
    pub(crate) secure: Option<&'a Address>,
    pub(crate) member: Option<&'a MemberConfig>,
    pub(crate) admin: Option<&'a AdminConfig>,
    pub(crate) prometheus: Option<&'a PrometheusConfig>,
}

/// A port, and the setting that opens it.
struct OpenPort<'a> {
    name: String,
    place: &'a Place,
    /// `None` if the host does not resolve.
    ip: Option<IpAddr>,
    port: u16,
    /// Whether the server does not start without it.
    is_required: bool,
}

impl OpenPort<'_> {
    /// Whether both cannot be bound.
    fn conflicts(&self, other: &Self) -> bool {
        let (Some(ip), Some(with)) = (self.ip, other.ip) else { return false };
        let overlap = ip.is_unspecified() || with.is_unspecified() || ip.to_canonical() == with.to_canonical();
        self.port != 0 && self.port == other.port && overlap
    }
}

/// Reports each port that is opened twice. Returns whether the server starts without the AdminServer for this reason.
pub(crate) fn check(
    settings: &Settings,
    open: &OpenPorts<'_>,
    environment: &Environment<'_>,
    diagnostics: &mut Vec<Diagnostic>,
    errors: &mut ErrorCollector,
) -> bool {
    let ports = list(settings, open, environment);
    let mut is_without_admin = false;
    for (at, port) in ports.iter().enumerate() {
        let Some(other) = ports[..at].iter().find(|other| other.conflicts(port)) else { continue };
        if port.is_required {
            let cause = Cause::PortUsedTwice { port: port.port, other: other.name.clone() };
            errors.add(port.place.error(cause));
        } else {
            is_without_admin = true;
            let (name, other, port_number) = (&port.name, &other.name, port.port);
            let text = format!(
                "{name}: {other} opens port {port_number} too: the server starts without the AdminServer; give each a \
                 port of its own"
            );
            diagnostics.push(Diagnostic::warn(port.place, text));
        }
    }
    is_without_admin
}

fn list<'a>(settings: &'a Settings, open: &OpenPorts<'_>, environment: &Environment<'_>) -> Vec<OpenPort<'a>> {
    let mut ports = Vec::new();
    let mut add = |name: &str, place: &'a Place, ip, port, is_required| {
        ports.push(OpenPort { name: name.to_owned(), place, ip, port, is_required });
    };
    if let Some(member) = open.member
        && let Some(own) = member.ensemble.members().get(&member.server)
    {
        let name = format!("server.{}", member.server);
        let place = settings.line(&name).map_or(settings.place(), |entry| &entry.place);
        for address in own.quorum.iter().chain(&own.election) {
            let ip = match member.listen_on_all_ips {
                true => Some(std::net::Ipv4Addr::UNSPECIFIED.into()),
                false => Address::new(&address.host, address.port, environment).ip,
            };
            add(&name, place, ip, address.port, true);
        }
    }
    // Without `clientPort` it is the port after the semicolon of the server's line.
    let own_line = open.member.map(|member| format!("server.{}", member.server));
    let client = own_line.as_deref().filter(|_| settings.line("clientPort").is_none()).unwrap_or("clientPort");
    for (key, address) in [(client, open.client), ("secureClientPort", open.secure)] {
        if let Some(address) = address {
            let place = settings.line(key).map_or_else(|| settings.place_of(key), |entry| &entry.place);
            add(key, place, address.ip, address.port, true);
        }
    }
    if let Some(prometheus) = open.prometheus {
        let is_shared =
            |https: &&crate::listen::ListenAddress| prometheus.http.as_ref().is_none_or(|http| http.port != https.port);
        let https = prometheus.https.as_ref().filter(is_shared);
        for (key, listen) in
            [("metricsProvider.httpPort", prometheus.http.as_ref()), ("metricsProvider.httpsPort", https)]
        {
            if let Some(listen) = listen {
                add(key, settings.place_of(key), listen.ip, listen.port, true);
            }
        }
    }
    if let Some(admin) = open.admin {
        let is_required = admin.is_required && open.member.is_none();
        add("admin.serverPort", settings.place_of("admin.serverPort"), admin.listen.ip, admin.listen.port, is_required);
    }
    ports
}
