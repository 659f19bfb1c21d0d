//! Client addresses: port validation, host resolution, and Java's textual form.

use std::net::{IpAddr, Ipv4Addr};

use crate::error::Cause;
use crate::start_args::Environment;

/// Address of a client port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    /// Host as configured; empty for an IP literal.
    host: String,
    /// `None` if the host does not resolve.
    pub(crate) ip: Option<IpAddr>,
    pub(crate) port: u16,
}

impl Address {
    /// All interfaces, as Java prints them.
    pub(crate) fn wildcard(port: u16) -> Address {
        Address { host: "0.0.0.0".to_owned(), ip: Some(Ipv4Addr::UNSPECIFIED.into()), port }
    }

    /// Resolves a configured host; failure leaves `ip` empty.
    pub(crate) fn new(host: &str, port: u16, environment: &Environment<'_>) -> Address {
        match literal(host) {
            Some(ip) => Address { host: String::new(), ip: Some(ip), port },
            None => Address { host: host.to_owned(), ip: (environment.resolve)(host), port },
        }
    }

    /// Host as configured, or the IP literal.
    pub(crate) fn host(&self) -> String {
        match self.ip {
            Some(ip) if self.host.is_empty() => ip.to_string(),
            _ => self.host.clone(),
        }
    }

    /// The address to bind; `None` means all interfaces.
    pub(crate) fn bind(&self) -> Option<IpAddr> {
        self.ip.filter(|ip| !ip.is_unspecified())
    }

    /// Whether this client address of `zoo.cfg` is consistent with the one of the `server.N` line.
    pub(crate) fn agrees_with(&self, fixed: &Address) -> bool {
        let wildcard = fixed.ip.is_some_and(|ip| ip.is_unspecified());
        fixed.port == self.port && (wildcard || (fixed.ip.is_some() && fixed.ip == self.ip))
    }

    /// `host/1.2.3.4:2181`, or `/1.2.3.4:2181` without a host.
    pub(crate) fn java_text(&self) -> String {
        let Address { host, ip, port } = self;
        match ip {
            Some(IpAddr::V4(ip)) => format!("{host}/{ip}:{port}"),
            Some(IpAddr::V6(ip)) => {
                let groups = ip.segments().map(|group| format!("{group:x}")).join(":");
                format!("{host}/[{groups}]:{port}")
            }
            None => format!("{host}/<unresolved>:{port}"),
        }
    }
}

/// Parses an IP literal; IPv6 may be in brackets.
// Compat: an empty host is loopback (`empty_host_is_loopback`).
fn literal(host: &str) -> Option<IpAddr> {
    if host.is_empty() {
        return Some(Ipv4Addr::LOCALHOST.into());
    }
    let inner = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    inner.unwrap_or(host).parse().ok()
}

/// Checks that a port is in 0 to 65535.
pub(crate) fn port(number: i32) -> Result<u16, Cause> {
    u16::try_from(number).map_err(|_| Cause::PortOutOfRange(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(host: &str, port: u16) -> Address {
        let resolve = |name: &str| (name == "known").then(|| Ipv4Addr::new(10, 0, 0, 1).into());
        let read = |_: &std::path::Path| Err(std::io::ErrorKind::NotFound.into());
        Address::new(host, port, &Environment { read: &read, resolve: &resolve })
    }

    #[test]
    fn address_prints_as_in_java() {
        let cases = [
            (Address::wildcard(1), "0.0.0.0/0.0.0.0:1"),
            (address("127.0.0.1", 2), "/127.0.0.1:2"),
            (address("known", 3), "known/10.0.0.1:3"),
            (address("other", 4), "other/<unresolved>:4"),
            (address("[::1]", 5), "/[0:0:0:0:0:0:0:1]:5"),
        ];
        for (address, text) in cases {
            assert_eq!(address.java_text(), text);
        }
    }

    #[test]
    fn empty_host_is_loopback() {
        assert_eq!(address("", 1).bind(), Some(Ipv4Addr::LOCALHOST.into()));
    }

    #[test]
    fn consistent_client_addresses_agree() {
        let cases = [
            (Address::wildcard(1), address("127.0.0.1", 1), true),
            (Address::wildcard(1), address("127.0.0.1", 2), false),
            (address("10.0.0.1", 1), address("known", 1), true),
            (address("10.0.0.1", 1), address("0.0.0.0", 1), false),
            (address("other", 1), address("other", 1), false),
        ];
        for (fixed, dynamic, agree) in cases {
            assert_eq!(dynamic.agrees_with(&fixed), agree, "{fixed:?} {dynamic:?}");
        }
    }
}
