//! Kerberos tickets: a ticket-granting ticket from a keytab or from a ticket cache, and one ticket per server.
//!
//! Everything here blocks; the caller runs it on a thread for that. Tickets are obtained when a connection needs them,
//! so there is nothing to renew in the background.

use crate::files;
use ox_sasl::gssapi::GssapiInitiator;
use ox_sasl::jaas::modules::Krb5LoginOptions;
use ox_sasl::krb5::initiator::Credential;
use ox_sasl::krb5::kdc::{
    AsExchange, InitialSecret, KDC_REPLY_BYTES_MAX, KdcStep, TgsExchange, tcp_frame, tcp_reply_length,
};
use ox_sasl::krb5::krb5_conf::{KdcAddress, Krb5Conf};
use ox_sasl::krb5::principal::Principal;
use ox_sasl::krb5::refresh::{RefreshMethod, refresh_method};
use ox_sasl::krb5::{KerberosError, WallTime};
use rand::Rng;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs, UdpSocket};
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A request up to this size is sent over UDP, unless `krb5.conf` sets another limit.
const UDP_REQUEST_BYTES_MAX: usize = 1465;
/// How long a KDC may take to reply to a datagram before the next one is asked.
const UDP_WAIT: Duration = Duration::from_secs(1);
/// Tickets are not used in the last seconds of their life, because clocks differ.
const END_MARGIN_SECONDS: i64 = 10;
/// Servers whose tickets are kept.
const TICKETS_MAX: usize = 64;
/// Replies of a KDC in one exchange; a ticket of another realm takes two for each realm.
const REPLIES_MAX: usize = 32;

/// The login of one client, with the tickets that it has got.
#[derive(Debug)]
pub struct KerberosLogin {
    options: Krb5LoginOptions,
    conf_file: Option<PathBuf>,
    ticket_granting_ticket: Option<Credential>,
    /// By service, the newest last.
    tickets: Vec<Credential>,
}

impl KerberosLogin {
    /// `conf_file` is `krb5.conf`; `None` is the one of `KRB5_CONFIG`, or that of the system.
    pub fn new(options: Krb5LoginOptions, conf_file: Option<PathBuf>) -> Self {
        Self { options, conf_file, ticket_granting_ticket: None, tickets: Vec::new() }
    }

    /// Begins an exchange with the service that `service` names; its argument is the realm of the client. The error is
    /// for the user.
    pub fn start(
        &mut self,
        service: &dyn Fn(&str) -> Result<Principal, KerberosError>,
        until: Instant,
    ) -> Result<(GssapiInitiator, Vec<u8>), String> {
        let ticket = self.ticket(service, until)?;
        Ok(GssapiInitiator::start(&ticket, now(), &mut random))
    }

    fn ticket(
        &mut self,
        service: &dyn Fn(&str) -> Result<Principal, KerberosError>,
        until: Instant,
    ) -> Result<Credential, String> {
        let conf = files::krb5_conf(self.conf_file.as_deref())?;
        let kdc = KdcClient { conf: &conf, until };
        let granting = self.granting_ticket(&kdc)?;
        let service = service(&granting.client.realm).map_err(|error| error.to_string())?;
        let is_known = |ticket: &&Credential| ticket.service == service && ticket.client == granting.client;
        if let Some(ticket) = self.tickets.iter().find(is_known).filter(|ticket| is_alive(ticket)) {
            return Ok(ticket.clone());
        }
        let exchange = TgsExchange::new(granting, service.clone(), &conf.etypes());
        let ticket = kdc.run(Exchange::Tgs(exchange)).map_err(|error| format!("ticket for {service}: {error}"))?;
        self.tickets.retain(|known| known.service != service);
        if TICKETS_MAX <= self.tickets.len() {
            self.tickets.remove(0);
        }
        self.tickets.push(ticket.clone());
        Ok(ticket)
    }

    /// A ticket-granting ticket that is alive: the one of the last time, or a new one.
    fn granting_ticket(&mut self, kdc: &KdcClient<'_>) -> Result<Credential, String> {
        if let Some(ticket) = self.ticket_granting_ticket.as_ref().filter(|ticket| is_fresh(ticket)) {
            return Ok(ticket.clone());
        }
        let ticket = match (&self.options.ticket_cache, &self.options.keytab) {
            (Some(file), keytab) => match self.cached_ticket(file.as_deref(), kdc) {
                Err(_) if keytab.is_some() => self.new_ticket(kdc)?,
                ticket => ticket?,
            },
            (None, _) => self.new_ticket(kdc)?,
        };
        Ok(self.ticket_granting_ticket.insert(ticket).clone())
    }

    fn cached_ticket(&self, file: Option<&str>, kdc: &KdcClient<'_>) -> Result<Credential, String> {
        let cache = files::ticket_cache(file, kdc.conf)?;
        if let Some(principal) = &self.options.principal {
            let expected = Principal::parse(principal, kdc.conf.default_realm.as_deref());
            let expected = expected.map_err(|error| error.to_string())?;
            if cache.client != expected {
                return Err(format!("the ticket cache is of {}, not of {expected}", cache.client));
            }
        }
        let ticket =
            cache.ticket_granting_ticket().ok_or("the ticket cache has no ticket-granting ticket; run kinit")?;
        if !is_alive(ticket) {
            return Err(format!("the ticket of {} has expired; run kinit", cache.client));
        }
        let is_renewable = refresh_method(ticket, now(), false) == RefreshMethod::Renew;
        if self.options.renew_tgt && is_renewable && !is_fresh(ticket) {
            let exchange = TgsExchange::renewal(ticket.clone(), &kdc.conf.etypes());
            return kdc.run(Exchange::Tgs(exchange)).map_err(|error| format!("renewal: {error}"));
        }
        Ok(ticket.clone())
    }

    fn new_ticket(&self, kdc: &KdcClient<'_>) -> Result<Credential, String> {
        let Some(file) = &self.options.keytab else { return Err("neither a keytab nor a ticket cache is set".into()) };
        let keytab = files::keytab(&files::keytab_path(file.as_deref(), kdc.conf)?)?;
        let principal = self.options.principal.as_deref().ok_or("a keytab needs the option principal")?;
        let login = || {
            let client = Principal::parse(principal, kdc.conf.default_realm.as_deref())?;
            let exchange = AsExchange::new(client, InitialSecret::Keytab(keytab), &kdc.conf.etypes())?;
            Ok(exchange.with_lifetimes(kdc.conf.ticket_lifetime, kdc.conf.renew_lifetime))
        };
        let exchange = login().map_err(|error: KerberosError| format!("login of {principal}: {error}"))?;
        kdc.run(Exchange::As(exchange)).map_err(|error| format!("login of {principal}: {error}"))
    }
}

enum Exchange {
    As(AsExchange),
    Tgs(TgsExchange),
}

impl Exchange {
    fn realm(&self) -> String {
        match self {
            Self::As(exchange) => exchange.realm().to_owned(),
            Self::Tgs(exchange) => exchange.realm().to_owned(),
        }
    }

    fn start(&mut self) -> Vec<u8> {
        match self {
            Self::As(exchange) => exchange.start(now(), &mut random),
            Self::Tgs(exchange) => exchange.request(now(), &mut random),
        }
    }

    fn on_reply(&mut self, reply: &[u8]) -> Result<KdcStep, KerberosError> {
        match self {
            Self::As(exchange) => exchange.on_reply(now(), reply, &mut random),
            Self::Tgs(exchange) => exchange.on_reply(now(), reply, &mut random),
        }
    }
}

/// Moves requests and replies between an exchange and the KDCs of its realm.
struct KdcClient<'a> {
    conf: &'a Krb5Conf,
    until: Instant,
}

impl KdcClient<'_> {
    fn run(&self, mut exchange: Exchange) -> Result<Credential, String> {
        let mut request = exchange.start();
        let mut is_tcp_only = false;
        for _ in 0..REPLIES_MAX {
            let reply = self.ask(&exchange.realm(), &request, is_tcp_only)?;
            match exchange.on_reply(&reply).map_err(|error| error.to_string())? {
                KdcStep::Granted(credential) => return Ok(*credential),
                KdcStep::RepeatOverTcp if is_tcp_only => return Err("the KDC demands TCP over TCP".to_owned()),
                KdcStep::RepeatOverTcp => is_tcp_only = true,
                KdcStep::Send(next) => (request, is_tcp_only) = (next, false),
            }
        }
        Err("the KDC does not come to an end".to_owned())
    }

    /// Asks the KDCs of a realm, one after the other, until one replies.
    fn ask(&self, realm: &str, request: &[u8], is_tcp_only: bool) -> Result<Vec<u8>, String> {
        let mut failed = format!("krb5.conf names no KDC of the realm {realm}");
        for kdc in self.conf.kdcs(realm) {
            let limit = self.conf.udp_preference_limit.unwrap_or(UDP_REQUEST_BYTES_MAX);
            let uses_tcp = is_tcp_only || kdc.is_tcp_only || limit < request.len();
            let reply = if uses_tcp { Err(io::ErrorKind::TimedOut.into()) } else { self.over_udp(kdc, request) };
            match reply.or_else(|_| self.over_tcp(kdc, request)) {
                Ok(reply) => return Ok(reply),
                Err(error) => failed = format!("KDC {}:{}: {error}", kdc.host, kdc.port),
            }
        }
        Err(failed)
    }

    fn left(&self) -> io::Result<Duration> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
    }

    fn address(kdc: &KdcAddress) -> io::Result<SocketAddr> {
        let found = (kdc.host.as_str(), kdc.port).to_socket_addrs()?.next();
        found.ok_or_else(|| io::Error::other("unknown host"))
    }

    fn over_udp(&self, kdc: &KdcAddress, request: &[u8]) -> io::Result<Vec<u8>> {
        let address = Self::address(kdc)?;
        let socket = UdpSocket::bind(if address.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" })?;
        socket.connect(address)?;
        socket.set_read_timeout(Some(self.left()?.min(UDP_WAIT)))?;
        socket.send(request)?;
        let mut reply = vec![0; 1 << 16];
        let length = socket.recv(&mut reply)?;
        reply.truncate(length);
        Ok(reply)
    }

    fn over_tcp(&self, kdc: &KdcAddress, request: &[u8]) -> io::Result<Vec<u8>> {
        let mut stream = TcpStream::connect_timeout(&Self::address(kdc)?, self.left()?)?;
        stream.set_read_timeout(Some(self.left()?))?;
        stream.set_write_timeout(Some(self.left()?))?;
        stream.write_all(&tcp_frame(request))?;
        let mut prefix = [0; 4];
        stream.read_exact(&mut prefix)?;
        let length = tcp_reply_length(prefix).map_err(io::Error::other)?.min(KDC_REPLY_BYTES_MAX);
        let mut reply = vec![0; length];
        stream.read_exact(&mut reply)?;
        Ok(reply)
    }
}

fn is_alive(ticket: &Credential) -> bool {
    now().seconds() + END_MARGIN_SECONDS < ticket.end
}

/// Whether a ticket is in the first four fifths of its life, as Apache's client counts.
fn is_fresh(ticket: &Credential) -> bool {
    now().seconds() < ticket.start + (ticket.end - ticket.start) / 5 * 4
}

fn now() -> WallTime {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    WallTime(i64::try_from(elapsed.as_micros()).unwrap_or(i64::MAX))
}

fn random(bytes: &mut [u8]) {
    rand::rng().fill_bytes(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn login_without_kdc_fails_with_its_cause() {
        let dir = tempfile::tempdir().unwrap();
        let conf = dir.path().join("krb5.conf");
        std::fs::write(&conf, "[libdefaults]\ndefault_realm = R\n").unwrap();
        let error = |keytab: Option<&str>, principal: Option<&str>| {
            let options = Krb5LoginOptions {
                principal: principal.map(str::to_owned),
                keytab: Some(keytab.map(str::to_owned)),
                ticket_cache: None,
                renew_tgt: false,
                is_initiator: true,
                store_key: false,
            };
            let mut login = KerberosLogin::new(options, Some(conf.clone()));
            login.start(&|realm| Principal::parse("zookeeper/host", Some(realm)), Instant::now()).unwrap_err()
        };
        let missing = error(Some("/nonexistent.keytab"), Some("bob"));
        assert!(missing.starts_with("/nonexistent.keytab: "), "{missing}");
        let empty = dir.path().join("empty.keytab");
        std::fs::write(&empty, [5, 2]).unwrap();
        assert_eq!(error(empty.to_str(), None), "a keytab needs the option principal");
        let without_key = error(empty.to_str(), Some("bob"));
        assert!(without_key.contains("no key or password for bob@R"), "{without_key}");
    }
}
