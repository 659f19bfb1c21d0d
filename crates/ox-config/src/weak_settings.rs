//! Settings that weaken the protection of a server (S2). The server logs each at start and counts them in a metric.

use crate::auth::FourLetterWhitelist;
use crate::config::Config;
use crate::member_config::MemberConfig;
use crate::tls::SslKeys;
use ox_proto::text::trim;
use std::net::IpAddr;

/// A setting that weakens the protection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WeakSetting {
    /// The key that weakens, or whose absence does.
    pub key: &'static str,
    /// What that means, and the remedy.
    pub text: &'static str,
    /// Whether it is a default of Apache, which an operator has not chosen.
    pub is_default: bool,
}

const fn chosen(key: &'static str, text: &'static str) -> WeakSetting {
    WeakSetting { key, text, is_default: false }
}

const fn default(key: &'static str, text: &'static str) -> WeakSetting {
    WeakSetting { key, text, is_default: true }
}

/// The weakened settings of a configuration. What depends on files and the process is checked by the server.
pub fn weak_settings(config: &Config) -> Vec<WeakSetting> {
    let mut weak = Vec::new();
    client_ports(config, &mut weak);
    authentication(config, &mut weak);
    if config.member.as_ref().is_some_and(|member| crosses_hosts(member) && !protects_links(member)) {
        let text = "servers do not authenticate each other: any host that reaches the quorum ports can join; use \
                    TLS or SASL between servers without exceptions, or a firewall";
        weak.push(default("sslQuorum", text));
    }
    if !config.storage.force_sync {
        weak.push(chosen("forceSync", "writes are acknowledged before they are durable: a power failure loses them"));
    }
    weak
}

fn client_ports(config: &Config, weak: &mut Vec<WeakSetting>) {
    let is_open = config.client_port.is_some() && is_remote(config.client_address);
    if config.tls.as_ref().is_some_and(|tls| tls.is_client_port_unified) {
        let text = "clientPort accepts plain text beside TLS: unset it when all clients use TLS \
                    (zk_non_mtls_remote_conn_count counts those that do not)";
        weak.push(chosen("client.portUnification", text));
    } else if is_open {
        weak.push(default("clientPort", "clients of other hosts connect without TLS: use secureClientPort"));
    }
    if is_open && config.auth.digest_scheme_enabled {
        let text = "passwords of the scheme digest cross the network in plain text: use TLS, or set it to false";
        weak.push(default("DigestAuthenticationProvider.enabled", text));
    }
    if is_open && config.four_letter_whitelist == FourLetterWhitelist::All {
        let text = "every host may list sessions, paths and settings by four-letter commands: name those needed";
        weak.push(chosen("4lw.commands.whitelist", text));
    }
}

fn authentication(config: &Config, weak: &mut Vec<WeakSetting>) {
    if config.auth.skip_acl {
        weak.push(chosen("skipACL", "ACLs are not checked: every client may read and write every node"));
    }
    if config.auth.super_digest.is_some() {
        let text = "a super user exists, which no ACL binds: unset it when it is not needed";
        weak.push(chosen("DigestAuthenticationProvider.superDigest", text));
    }
    if !config.sasl.super_users.is_empty() {
        weak.push(chosen("superUser", "SASL users have super permissions, which no ACL binds"));
    }
    if config.tls.as_ref().is_some_and(|tls| tls.super_user.is_some()) {
        let text = "the owner of a certificate has super permissions, which no ACL binds";
        weak.push(chosen("X509AuthenticationProvider.superUser", text));
    }
    if config.sasl.keeps_failed_clients && config.sasl.login.is_some() {
        weak.push(chosen("allowSaslFailedClients", "clients whose SASL login failed are served without an identity"));
    }
    if config.sasl.any_user.is_some() {
        weak.push(chosen("letAnySaslUserDoX", "every SASL user has the permissions of one id"));
    }
}

/// Whether other hosts reach a port that is bound to the address.
fn is_remote(address: Option<IpAddr>) -> bool {
    address.is_none_or(|ip| !ip.to_canonical().is_loopback())
}

/// Whether a server of the ensemble is on another host.
fn crosses_hosts(member: &MemberConfig) -> bool {
    member.ensemble.members().values().any(|server| server.quorum.iter().any(|address| !address.is_loopback()))
}

/// Whether servers must prove their identity to each other. A port that accepts plain text too, or servers without a
/// certificate, admits every host.
fn protects_links(member: &MemberConfig) -> bool {
    let needs_certificate =
        |keys: &SslKeys| keys.client_auth.as_deref().is_none_or(|text| trim(text).eq_ignore_ascii_case("need"));
    let by_tls = member.tls.as_ref().is_some_and(|tls| !tls.accepts_plain && needs_certificate(&tls.keys));
    by_tls || member.sasl.as_ref().is_some_and(|sasl| sasl.is_required)
}
