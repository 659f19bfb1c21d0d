//! Address of a server: the host as configured, and a port.

use super::EnsembleError;
use crate::text;
use std::borrow::Cow;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An unresolved host and a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// Name or IP literal as configured, without brackets.
    pub host: String,
    pub port: u16,
}

impl Address {
    pub fn new(host: &str, port: u16) -> Self {
        Self { host: host.to_owned(), port }
    }

    /// Parses `host:port`; an IPv6 literal needs brackets.
    pub fn parse(text: &str) -> Result<Self, EnsembleError> {
        match fields(text)?[..] {
            [host, port] => Self::read(host, port),
            _ => Err(EnsembleError::NotAnAddress(text.to_owned())),
        }
    }

    pub(super) fn read(host: &str, port: &str) -> Result<Self, EnsembleError> {
        let number: i32 =
            port.parse().map_err(|_| EnsembleError::PortNotANumber { host: host.to_owned(), port: port.to_owned() })?;
        let port = u16::try_from(number).map_err(|_| EnsembleError::PortOutOfRange(number))?;
        Ok(Self::new(host, port))
    }

    /// The host as Java prints it and servers send it: IP literals in canonical form, IPv6 with all groups.
    pub fn java_host(&self) -> Cow<'_, str> {
        let (literal, scope) = match self.host.split_once('%') {
            Some((literal, scope)) if scope.bytes().all(|byte| byte.is_ascii_digit()) => (literal, Some(scope)),
            _ => (&*self.host, None),
        };
        match literal.parse::<Ipv6Addr>() {
            // Compat: an empty host is loopback (`host_prints_as_in_java`).
            Err(_) if self.host.is_empty() => Cow::Borrowed("localhost"),
            Err(_) => Cow::Borrowed(&self.host),
            Ok(ip) => Cow::Owned(match ip.to_ipv4_mapped() {
                Some(ip) => ip.to_string(),
                None => {
                    let groups = ip.segments().map(|group| format!("{group:x}")).join(":");
                    scope.map_or(groups.clone(), |scope| format!("{groups}%{scope}"))
                }
            }),
        }
    }

    /// Whether both have the same host and port. Names are compared as text, not resolved.
    pub fn is_same(&self, other: &Self) -> bool {
        self.key() == other.key()
    }

    /// Equal for two addresses exactly if [`Self::is_same`] holds.
    pub(super) fn key(&self) -> (String, u16) {
        (self.java_host().to_ascii_lowercase(), self.port)
    }

    /// Whether the host is the unspecified address, which means every interface.
    pub fn is_wildcard(&self) -> bool {
        self.host
            .parse()
            .is_ok_and(|ip: IpAddr| ip.to_canonical() == IpAddr::V4(Ipv4Addr::UNSPECIFIED) || ip.is_unspecified())
    }

    /// Whether the host is the local machine. Names other than `localhost` are not resolved.
    pub fn is_loopback(&self) -> bool {
        self.host.is_empty()
            || self.host.eq_ignore_ascii_case("localhost")
            || self.host.parse().is_ok_and(|ip: IpAddr| ip.to_canonical().is_loopback())
    }

    /// Whether the printed host parses back to the same host.
    pub fn is_plain(&self) -> bool {
        self.host.bytes().all(|byte| byte.is_ascii_graphic() && !br"\;|[]".contains(&byte))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Delimited(&self.java_host()).fmt(f)?;
        write!(f, ":{}", self.port)
    }
}

/// A host before a colon: IPv6 literals print in brackets.
pub(super) struct Delimited<'a>(pub(super) &'a str);

impl fmt::Display for Delimited<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(host) = self;
        if host.contains(':') { write!(f, "[{host}]") } else { f.write_str(host) }
    }
}

/// Splits `host:field:field`, where an IPv6 host is in brackets.
pub(super) fn fields(text: &str) -> Result<Vec<&str>, EnsembleError> {
    let Some(bracketed) = text.strip_prefix('[') else {
        return Ok(text::split(text, ':'));
    };
    let Some((host, rest)) = bracketed.split_once(']') else {
        return Err(EnsembleError::NoClosingBracket(text.to_owned()));
    };
    match rest.strip_prefix(':') {
        None if rest.is_empty() => Ok(vec![host]),
        None => Err(EnsembleError::NoClosingBracket(text.to_owned())),
        Some("") => Err(EnsembleError::NoPortAfterColon(text.to_owned())),
        Some(fields) => Ok([vec![host], text::split(fields, ':')].concat()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_split_around_bracketed_host() {
        assert_eq!(fields("a:1:2"), Ok(vec!["a", "1", "2"]));
        assert_eq!(fields("[::1]:1:2"), Ok(vec!["::1", "1", "2"]));
        assert_eq!(fields("[::1]"), Ok(vec!["::1"]));
        assert_eq!(fields(":"), Ok(vec![]));
        for (text, error) in [
            ("[::1", EnsembleError::NoClosingBracket("[::1".to_owned())),
            ("[::1]1:2", EnsembleError::NoClosingBracket("[::1]1:2".to_owned())),
            ("[::1]:", EnsembleError::NoPortAfterColon("[::1]:".to_owned())),
        ] {
            assert_eq!(fields(text), Err(error));
        }
    }

    #[test]
    fn host_prints_as_in_java() {
        for (host, text) in [
            ("", "localhost:1"),
            ("Name.example", "Name.example:1"),
            ("127.0.0.1", "127.0.0.1:1"),
            ("::1", "[0:0:0:0:0:0:0:1]:1"),
            ("2001:DB8::A", "[2001:db8:0:0:0:0:0:a]:1"),
            ("::ffff:1.2.3.4", "1.2.3.4:1"),
            ("fe80::1%3", "[fe80:0:0:0:0:0:0:1%3]:1"),
            ("fe80::1%lo", "[fe80::1%lo]:1"),
        ] {
            let address = Address::new(host, 1);
            assert_eq!(address.to_string(), text);
            assert!(Address::parse(text).unwrap().is_same(&address), "{text}");
        }
    }

    #[test]
    fn addresses_compare_by_canonical_host() {
        assert!(Address::new("HOST", 1).is_same(&Address::new("host", 1)));
        assert!(!Address::new("host", 1).is_same(&Address::new("host", 2)));
        for (host, wildcard) in [("0.0.0.0", true), ("::", true), ("::ffff:0.0.0.0", true), ("::1", false), ("", false)]
        {
            assert_eq!(Address::new(host, 1).is_wildcard(), wildcard, "{host}");
        }
    }
}
