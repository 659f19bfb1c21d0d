//! Host names: whether a certificate belongs to the peer that presents it.
//!
//! As in Apache, the address of the peer is compared with the iPAddress entries of the certificate; if that fails, its
//! host names with the dNSName entries. A certificate without any such entry is judged by its common name. An entry may
//! have one `*`, anywhere, which stands for text without a dot. Client connections while `fips-mode` is on follow the
//! rules of HTTPS instead: the name that was asked for decides, or the address if there is none.
//!
//! A reverse lookup is a step of the caller: [`PeerDecision::LookUpName`] asks for it, and the caller decides again
//! with the name that it has found.

use crate::certificate::CertificateInfo;
use crate::settings::{SettingsGroup, TlsSettings};
use std::fmt;
use std::net::IpAddr;

/// What the caller knows about the other end of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerEndpoint {
    pub address: IpAddr,
    /// The names under which the configuration knows the peer, or the name that a reverse lookup has returned. One of
    /// them must match.
    pub host_names: Vec<String>,
    /// Whether a reverse lookup has been made, with or without success.
    pub is_looked_up: bool,
}

impl PeerEndpoint {
    pub fn new(address: IpAddr, host_names: impl IntoIterator<Item = String>) -> Self {
        Self { address, host_names: host_names.into_iter().collect(), is_looked_up: false }
    }

    /// The same peer after a reverse lookup of its address.
    pub fn looked_up(self, name: Option<String>) -> Self {
        Self { host_names: name.into_iter().collect(), is_looked_up: true, ..self }
    }
}

/// What happens to a connection whose handshake has succeeded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PeerDecision {
    Accept,
    /// Accept, log a warning and count it: `fips-mode` is on, and Apache would not have looked.
    AcceptMismatch(HostNameMismatch),
    /// Look up the name of the address, then decide again with [`PeerEndpoint::looked_up`].
    LookUpName(IpAddr),
    Refuse(HostNameMismatch),
    /// The session is resumed, and the certificate that was verified in its first handshake has expired since.
    RefuseExpired,
}

/// A certificate that is not valid for the peer that presented it. The text starts with Apache's message.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
pub struct HostNameMismatch {
    pub endpoint: PeerEndpoint,
    /// What the certificate is valid for.
    pub presented: Vec<String>,
}

impl fmt::Display for HostNameMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PeerEndpoint { address, host_names, is_looked_up } = &self.endpoint;
        if host_names.is_empty() && !is_looked_up {
            write!(f, "Failed to verify host address, and reverse lookup is disabled: address {address}")?;
        } else {
            write!(f, "Failed to verify both host address and host name: address {address}")?;
            write!(
                f,
                ", host name {}",
                if host_names.is_empty() { "unknown".to_owned() } else { host_names.join(", ") }
            )?;
        }
        write!(f, ", certificate for {}", self.presented.join(", "))
    }
}

/// rustls prints errors of other crates with `Debug`, and operators read them.
impl fmt::Debug for HostNameMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Enforcement {
    Off,
    Warn,
    Require,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Identification {
    /// The address, then the names.
    AddressThenName,
    /// The names; the address if there is none.
    Https,
}

/// The rule of one direction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HostNamePolicy {
    enforcement: Enforcement,
    identification: Identification,
    allows_reverse_lookup: bool,
}

impl HostNamePolicy {
    /// The rule for servers to which this process connects.
    pub(crate) fn of_servers(settings: &TlsSettings) -> Self {
        let is_https = settings.group == SettingsGroup::Client && settings.fips_mode;
        let identification = if is_https { Identification::Https } else { Identification::AddressThenName };
        Self::new(settings, settings.hostname_verification, identification)
    }

    /// The rule for peers that connect to this process.
    pub(crate) fn of_clients(settings: &TlsSettings) -> Self {
        let is_on = settings.hostname_verification && settings.client_hostname_verification;
        Self::new(settings, is_on, Identification::AddressThenName)
    }

    fn new(settings: &TlsSettings, is_on: bool, identification: Identification) -> Self {
        let enforcement = match settings.group {
            _ if !is_on => Enforcement::Off,
            SettingsGroup::Quorum if settings.fips_mode => Enforcement::Warn,
            SettingsGroup::Client | SettingsGroup::Quorum => Enforcement::Require,
        };
        Self { enforcement, identification, allows_reverse_lookup: settings.allow_reverse_dns_lookup }
    }

    pub(crate) fn is_warning_only(&self) -> bool {
        self.enforcement == Enforcement::Warn
    }

    pub(crate) fn decide(&self, certificate: &CertificateInfo, endpoint: &PeerEndpoint) -> PeerDecision {
        let matches = |host: &str| self.matches(certificate, host);
        let matches_address = || matches(&endpoint.address.to_canonical().to_string());
        let matches_name = || endpoint.host_names.iter().any(|name| matches(name));
        let is_match = match (self.enforcement, self.identification) {
            (Enforcement::Off, _) => true,
            (_, Identification::AddressThenName) => matches_address() || matches_name(),
            (_, Identification::Https) if endpoint.host_names.is_empty() => matches_address(),
            (_, Identification::Https) => matches_name(),
        };
        if is_match {
            return PeerDecision::Accept;
        }
        if self.wants_reverse_lookup(endpoint) {
            return PeerDecision::LookUpName(endpoint.address);
        }
        let mismatch = HostNameMismatch { endpoint: endpoint.clone(), presented: presented(certificate) };
        match self.enforcement {
            Enforcement::Off | Enforcement::Warn => PeerDecision::AcceptMismatch(mismatch),
            Enforcement::Require => PeerDecision::Refuse(mismatch),
        }
    }

    /// Whether a reverse lookup may find a name to compare. Configured names are never replaced.
    pub(crate) fn wants_reverse_lookup(&self, endpoint: &PeerEndpoint) -> bool {
        let is_unnamed = endpoint.host_names.is_empty() && !endpoint.is_looked_up;
        is_unnamed && self.allows_reverse_lookup && self.enforcement != Enforcement::Off
    }

    fn matches(&self, certificate: &CertificateInfo, host: &str) -> bool {
        let host = host.strip_suffix('.').unwrap_or(host);
        let address = host.trim_matches(['[', ']']).parse::<IpAddr>().ok();
        let uses_common_name = match self.identification {
            Identification::Https => certificate.dns_names.is_empty() && address.is_none(),
            Identification::AddressThenName => certificate.dns_names.is_empty() && certificate.addresses.is_empty(),
        };
        if uses_common_name {
            return certificate.common_name.as_deref().is_some_and(|name| name_matches(name, host));
        }
        match address {
            Some(address) => certificate.addresses.contains(&address.to_canonical()),
            None => certificate.dns_names.iter().any(|name| name_matches(name, host)),
        }
    }
}

impl CertificateInfo {
    /// Whether the certificate covers a host name or an address, by the rules of HTTPS.
    pub fn is_valid_for(&self, host: &str) -> bool {
        let https = HostNamePolicy {
            enforcement: Enforcement::Require,
            identification: Identification::Https,
            allows_reverse_lookup: false,
        };
        https.matches(self, host)
    }
}

fn presented(certificate: &CertificateInfo) -> Vec<String> {
    let addresses = certificate.addresses.iter().map(IpAddr::to_string);
    let mut names: Vec<String> = addresses.chain(certificate.dns_names.iter().cloned()).collect();
    if names.is_empty() {
        names.extend(certificate.common_name.iter().map(|name| format!("CN={name}")));
    }
    names
}

/// Whether an entry of a certificate, perhaps with a `*`, covers a host name.
fn name_matches(entry: &str, host: &str) -> bool {
    let (entry, host) = (entry.to_lowercase(), host.to_lowercase());
    let Some((before, after)) = entry.split_once('*') else { return entry == host };
    if after.contains('*') {
        return false;
    }
    let replaced = host.strip_prefix(before).and_then(|rest| rest.strip_suffix(after));
    replaced.is_some_and(|replaced| !replaced.contains('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn certificate(dns_names: &[&str], addresses: &[&str], common_name: &str) -> CertificateInfo {
        CertificateInfo {
            version: 3,
            serial: String::new(),
            subject: String::new(),
            issuer: String::new(),
            common_name: Some(common_name.to_owned()),
            dns_names: dns_names.iter().map(|&name| name.to_owned()).collect(),
            addresses: addresses.iter().map(|address| address.parse().unwrap()).collect(),
            not_before: 0,
            not_after: 0,
            crl_distribution_points: Vec::new(),
            subject_der: Vec::new(),
            issuer_der: Vec::new(),
        }
    }

    fn endpoint(address: &str, names: &[&str]) -> PeerEndpoint {
        PeerEndpoint::new(address.parse().unwrap(), names.iter().map(|&name| name.to_owned()))
    }

    fn settings(group: SettingsGroup, fips_mode: bool) -> TlsSettings {
        TlsSettings { fips_mode, allow_reverse_dns_lookup: false, ..TlsSettings::new(group) }
    }

    #[test]
    fn entries_match_with_one_wildcard() {
        for (entry, host, expected) in [
            ("zk1.example.com", "ZK1.Example.COM", true),
            ("zk1.example.com", "zk1.example.org", false),
            ("*.example.com", "zk1.example.com", true),
            ("*.example.com", "a.zk1.example.com", false),
            ("*.example.com", "example.com", false),
            ("zk*.example.com", "zk12.example.com", true),
            ("zk*.example.com", "zk.example.com", true),
            ("zk*.example.com", "zk.a.example.com", false),
            ("zk1.*.com", "zk1.example.com", true),
            ("*", "localhost", true),
            ("*", "zk1.example.com", false),
            ("*.*.com", "zk1.example.com", false),
            ("a*a", "a", false),
            ("zk1.example.com\0.evil.org", "zk1.example.com", false),
        ] {
            assert_eq!(name_matches(entry, host), expected, "{entry} {host}");
        }
    }

    /// Certificates as (dNSNames, iPAddresses, common name), peers as (address, names).
    #[test]
    fn address_is_compared_first_then_names_then_common_name() {
        let policy = HostNamePolicy::of_servers(&settings(SettingsGroup::Quorum, false));
        for (dns_names, addresses, common_name, address, names, expected) in [
            (&[][..], &["10.0.0.1"][..], "x", "10.0.0.1", &[][..], true),
            (&[], &["10.0.0.1"], "x", "::ffff:10.0.0.1", &[], true),
            (&[], &["2001:db8:0::1"], "x", "2001:db8::1", &[], true),
            (&["zk1"], &["10.0.0.2"], "x", "10.0.0.1", &["zk1"], true),
            (&["zk1"], &["10.0.0.2"], "x", "10.0.0.1", &["zk1."], true),
            (&["zk1"], &["10.0.0.2"], "x", "10.0.0.1", &["zk3", "zk1"], true),
            (&["zk1"], &["10.0.0.2"], "zk2", "10.0.0.1", &["zk2"], false),
            (&["10.0.0.1"], &[], "x", "10.0.0.1", &[], false),
            (&[], &["10.0.0.2"], "zk2", "10.0.0.1", &["zk2"], false),
            (&[], &["10.0.0.2"], "x", "10.0.0.1", &["10.0.0.2"], true),
            (&[], &["::1"], "x", "10.0.0.1", &["[::1]"], true),
            (&[], &[], "zk2", "10.0.0.1", &["zk2"], true),
            (&[], &[], "10.0.0.1", "10.0.0.1", &[], true),
            (&[], &[], "x", "10.0.0.1", &["zk2"], false),
        ] {
            let certificate = certificate(dns_names, addresses, common_name);
            let decision = policy.decide(&certificate, &endpoint(address, names));
            let accepted = decision == PeerDecision::Accept;
            assert_eq!(accepted, expected, "{dns_names:?} {addresses:?} {common_name} {address} {names:?}");
        }
    }

    #[test]
    fn https_rule_ignores_the_address_of_a_named_server() {
        let policy = HostNamePolicy::of_servers(&settings(SettingsGroup::Client, true));
        let by_address = certificate(&[], &["10.0.0.1"], "zk1");
        for (names, expected) in [(&[][..], true), (&["zk1"], true), (&["zk2"], false), (&["10.0.0.1"], true)] {
            let accepted = policy.decide(&by_address, &endpoint("10.0.0.1", names)) == PeerDecision::Accept;
            assert_eq!(accepted, expected, "{names:?}");
        }
    }

    #[test]
    fn enforcement_follows_group_mode_and_direction() {
        let (wrong, peer) = (certificate(&["zk9"], &[], "x"), endpoint("10.0.0.1", &["zk1"]));
        let outcome = |policy: HostNamePolicy| match policy.decide(&wrong, &peer) {
            PeerDecision::Accept => "accept",
            PeerDecision::AcceptMismatch(_) => "warn",
            PeerDecision::Refuse(_) => "refuse",
            PeerDecision::LookUpName(_) | PeerDecision::RefuseExpired => "other",
        };
        for (group, fips_mode, of_servers, of_clients) in [
            (SettingsGroup::Client, true, "refuse", "accept"),
            (SettingsGroup::Client, false, "refuse", "accept"),
            (SettingsGroup::Quorum, true, "warn", "warn"),
            (SettingsGroup::Quorum, false, "refuse", "refuse"),
        ] {
            let mut settings = settings(group, fips_mode);
            assert_eq!(outcome(HostNamePolicy::of_servers(&settings)), of_servers, "{group:?} {fips_mode}");
            assert_eq!(outcome(HostNamePolicy::of_clients(&settings)), of_clients, "{group:?} {fips_mode}");
            settings.client_hostname_verification = true;
            assert_ne!(outcome(HostNamePolicy::of_clients(&settings)), "accept", "{group:?} {fips_mode}");
            settings.hostname_verification = false;
            assert_eq!(outcome(HostNamePolicy::of_servers(&settings)), "accept", "{group:?} {fips_mode}");
            assert_eq!(outcome(HostNamePolicy::of_clients(&settings)), "accept", "{group:?} {fips_mode}");
        }
    }

    #[test]
    fn reverse_lookup_is_asked_for_once_and_only_without_names() {
        let mut settings = settings(SettingsGroup::Quorum, false);
        settings.allow_reverse_dns_lookup = true;
        let policy = HostNamePolicy::of_clients(&settings);
        let certificate = certificate(&["zk1"], &[], "x");
        let peer = endpoint("10.0.0.1", &[]);
        assert_eq!(policy.decide(&certificate, &peer), PeerDecision::LookUpName(peer.address));
        assert_eq!(policy.decide(&certificate, &peer.clone().looked_up(Some("zk1".to_owned()))), PeerDecision::Accept);
        let refused = policy.decide(&certificate, &peer.looked_up(None));
        let PeerDecision::Refuse(mismatch) = refused else { panic!("{refused:?}") };
        let text = "Failed to verify both host address and host name: address 10.0.0.1, host name unknown, certificate \
                    for zk1";
        assert_eq!(mismatch.to_string(), text);
        let named = policy.decide(&certificate, &endpoint("10.0.0.1", &["zk2"]));
        assert!(matches!(named, PeerDecision::Refuse(_)), "{named:?}");
        settings.allow_reverse_dns_lookup = false;
        let refused = HostNamePolicy::of_clients(&settings).decide(&certificate, &endpoint("10.0.0.1", &[]));
        let PeerDecision::Refuse(mismatch) = refused else { panic!("{refused:?}") };
        assert!(mismatch.to_string().starts_with("Failed to verify host address, and reverse lookup is disabled"));
    }
}
