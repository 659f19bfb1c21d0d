//! SASL between servers: one exchange of [`AuthPacket`]s per connection.
//!
//! ```text
//! dialer                                   acceptor
//!   | in progress, first token                |
//!   |---------------------------------------->|
//!   | in progress, challenge                  |   any number of times, within limits
//!   |<----------------------------------------|
//!   | in progress, response                   |
//!   |---------------------------------------->|
//!   | success, last token  |  error           |
//!   |<----------------------------------------|
//! ```
//! The exchanges contain no I/O: bytes in, bytes out. Steps take microseconds, so that the peers thread runs them.

use crate::clock::wall_ms;
use crate::service_keytab::{ServiceKeytab, warn_if_open};
use ox_config::QuorumSaslConfig;
use ox_kerberos::{KerberosLogin, files};
use ox_proto::quorum::auth::{AuthPacket, AuthStatus, is_auth_packet};
use ox_sasl::digest_md5::BETWEEN_SERVERS;
use ox_sasl::digest_md5::acceptor::DigestAcceptor;
use ox_sasl::digest_md5::initiator::DigestInitiator;
use ox_sasl::gssapi::{GssapiAcceptor, GssapiInitiator};
use ox_sasl::jaas::modules::{AcceptorLogin, DigestAccounts, DigestCredentials, InitiatorLogin};
use ox_sasl::kerberos_name::identity::{is_authorized_peer, service_principal};
use ox_sasl::krb5::WallTime;
use ox_sasl::krb5::acceptor::AcceptorCredentials;
use ox_sasl::krb5::principal::Principal;
use ox_sasl::krb5::replay_cache::ReplayCache;
use ox_sasl::mechanism::{AcceptorStep, AuthenticatedPeer, SaslError};
use parking_lot::{Mutex, RwLock};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Why a server without SASL is refused; Apache's message.
pub(super) const NOT_AUTHENTICATING: &str = "Learner not trying to authenticate and authentication is required";

/// Challenges in one exchange, as in Apache.
const CHALLENGES_MAX: usize = 5;

/// Why SASL between servers cannot be set up. Names files, never their contents.
#[derive(Debug, thiserror::Error)]
#[error("SASL between servers: {0}")]
pub struct QuorumSaslError(String);

/// The logins of this server, for all connections.
pub(crate) struct QuorumSasl {
    pub(super) is_required: bool,
    pub(super) authenticates: bool,
    acceptor: AcceptorSecrets,
    initiator: InitiatorSecrets,
    replays: ReplayCache,
}

enum AcceptorSecrets {
    DigestMd5(Arc<DigestAccounts>),
    Gssapi { credentials: RwLock<Arc<AcceptorCredentials>>, keytab: Box<ServiceKeytab> },
}

enum InitiatorSecrets {
    DigestMd5(DigestCredentials),
    Gssapi(Arc<TicketSource>),
}

/// Gets tickets for other servers. It asks a KDC, and blocks meanwhile.
pub(super) struct TicketSource {
    login: Mutex<KerberosLogin>,
    /// The principal of the servers, perhaps with the host `_HOST`.
    service: String,
}

impl TicketSource {
    /// The exchange with the server on a host, and its first bytes.
    pub(super) fn start(&self, host: &str, timeout: Duration) -> Result<(AuthInitiator, Vec<u8>), String> {
        let until = Instant::now() + timeout;
        let service = service_principal(&self.service, host);
        let started = self.login.lock().start(&|realm| Principal::parse(&service, Some(realm)), until);
        let (exchange, token) = started?;
        Ok(begin(Initiator::Gssapi(Box::new(exchange)), token))
    }
}

/// How the exchange of a dialled connection begins.
pub(super) enum AuthStart {
    Now(AuthInitiator, Vec<u8>),
    /// A ticket is needed first.
    WithTicket(Arc<TicketSource>),
}

/// What an exchange needs next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum AuthStep {
    /// The exchange needs more input.
    Wait,
    /// The peer has authenticated, with its name, or does not have to.
    Passed(Option<String>),
    Failed(String),
}

impl QuorumSasl {
    /// Reads what the configuration names; `None` without SASL.
    pub(crate) fn open(config: Option<&QuorumSaslConfig>) -> Result<Option<Self>, QuorumSaslError> {
        let Some(config) = config else { return Ok(None) };
        config.jaas_file.iter().for_each(|file| warn_if_open(file));
        let conf_file = config.krb5_conf.as_deref();
        let acceptor = match &config.acceptor {
            AcceptorLogin::DigestMd5(accounts) => AcceptorSecrets::DigestMd5(Arc::new(accounts.clone())),
            AcceptorLogin::Gssapi(options) => {
                let opened =
                    files::krb5_conf_of_acceptor(conf_file).and_then(|conf| ServiceKeytab::open(options, &conf));
                let (keytab, credentials) = opened.map_err(QuorumSaslError)?;
                AcceptorSecrets::Gssapi { credentials: RwLock::new(Arc::new(credentials)), keytab: Box::new(keytab) }
            }
        };
        let initiator = match &config.initiator {
            InitiatorLogin::DigestMd5(credentials) => InitiatorSecrets::DigestMd5(credentials.clone()),
            InitiatorLogin::Gssapi(options) => {
                let login = Mutex::new(KerberosLogin::new(options.clone(), config.krb5_conf.clone()));
                InitiatorSecrets::Gssapi(Arc::new(TicketSource { login, service: config.service_principal.clone() }))
            }
        };
        let (is_required, authenticates) = (config.is_required, config.authenticates);
        Ok(Some(Self { is_required, authenticates, acceptor, initiator, replays: ReplayCache::default() }))
    }

    pub(super) fn acceptor(&self) -> AuthAcceptor {
        let exchange = match &self.acceptor {
            AcceptorSecrets::DigestMd5(accounts) => {
                Acceptor::DigestMd5(DigestAcceptor::new(BETWEEN_SERVERS, Arc::clone(accounts)))
            }
            AcceptorSecrets::Gssapi { credentials, .. } => {
                Acceptor::Gssapi(Box::new(GssapiAcceptor::new(Arc::clone(&credentials.read()))))
            }
        };
        AuthAcceptor { is_required: self.is_required, exchange, challenges: 0, has_begun: false }
    }

    /// Reads the keytab again if it has changed.
    pub(crate) fn refresh_keytab(&self) {
        if let AcceptorSecrets::Gssapi { credentials, keytab } = &self.acceptor
            && let Some(changed) = keytab.read_if_changed()
        {
            *credentials.write() = Arc::new(changed);
        }
    }

    /// An exchange with a server that this one has dialled.
    pub(super) fn initiator(&self) -> AuthStart {
        match &self.initiator {
            InitiatorSecrets::Gssapi(tickets) => AuthStart::WithTicket(Arc::clone(tickets)),
            InitiatorSecrets::DigestMd5(credentials) => {
                let exchange = DigestInitiator::new(BETWEEN_SERVERS, credentials.clone());
                // DIGEST-MD5 has no initial response.
                let (exchange, first) = begin(Initiator::DigestMd5(Box::new(exchange)), Vec::new());
                AuthStart::Now(exchange, first)
            }
        }
    }
}

fn begin(exchange: Initiator, token: Vec<u8>) -> (AuthInitiator, Vec<u8>) {
    let mut first = Vec::new();
    AuthPacket { status: AuthStatus::InProgress, token: Some(token) }.put(&mut first);
    (AuthInitiator { exchange, is_complete: false }, first)
}

fn random(bytes: &mut [u8]) {
    rand::fill(bytes);
}

#[derive(Debug)]
enum Acceptor {
    DigestMd5(DigestAcceptor),
    Gssapi(Box<GssapiAcceptor>),
}

/// The accepting side of one connection.
#[derive(Debug)]
pub(super) struct AuthAcceptor {
    is_required: bool,
    exchange: Acceptor,
    challenges: usize,
    has_begun: bool,
}

impl AuthAcceptor {
    /// Whether a peer that sends nothing may be let in.
    pub(super) fn is_optional(&self) -> bool {
        !self.is_required && !self.has_begun
    }

    /// Processes packets at the start of `input`, and appends replies to `output`. Kerberos peers must be on one of
    /// `hosts`.
    pub(super) fn advance(
        &mut self,
        sasl: &QuorumSasl,
        hosts: &BTreeSet<String>,
        input: &mut Vec<u8>,
        output: &mut Vec<u8>,
    ) -> AuthStep {
        if !self.has_begun {
            match is_auth_packet(input) {
                None => return AuthStep::Wait,
                Some(true) => self.has_begun = true,
                Some(false) if self.is_required => return AuthStep::Failed(NOT_AUTHENTICATING.to_owned()),
                Some(false) => return AuthStep::Passed(None),
            }
        }
        loop {
            let packet = match AuthPacket::next(input) {
                Ok(Some((packet, used))) => {
                    input.drain(..used);
                    packet
                }
                Ok(None) => return AuthStep::Wait,
                Err(error) => return fail(&error.to_string(), output),
            };
            if self.challenges == CHALLENGES_MAX {
                return fail("too many steps", output);
            }
            match self.step(sasl, &packet.token.unwrap_or_default()) {
                Ok(AcceptorStep::Challenge(challenge)) => {
                    self.challenges += 1;
                    AuthPacket { status: AuthStatus::InProgress, token: Some(challenge) }.put(output);
                }
                Ok(AcceptorStep::Complete(peer)) if !self.is_authorized(&peer, hosts) => {
                    return fail(&format!("{} is not authorized to connect", peer.authorization_id), output);
                }
                Ok(AcceptorStep::Complete(peer)) => {
                    AuthPacket { status: AuthStatus::Success, token: peer.token }.put(output);
                    return AuthStep::Passed(Some(peer.authentication_id));
                }
                Err(error) => return fail(&error.to_string(), output),
            }
        }
    }

    fn step(&mut self, sasl: &QuorumSasl, token: &[u8]) -> Result<AcceptorStep, SaslError> {
        match &mut self.exchange {
            Acceptor::DigestMd5(acceptor) => acceptor.step(token, &mut random),
            Acceptor::Gssapi(acceptor) => {
                let now = WallTime(wall_ms().saturating_mul(1000));
                acceptor.step(now, token, &sasl.replays, &mut random)
            }
        }
    }

    fn is_authorized(&self, peer: &AuthenticatedPeer, hosts: &BTreeSet<String>) -> bool {
        let (authentication, authorization) = (&peer.authentication_id, &peer.authorization_id);
        match self.exchange {
            Acceptor::DigestMd5(_) => authentication == authorization,
            Acceptor::Gssapi(_) => is_authorized_peer(authentication, authorization, hosts.iter().map(String::as_str)),
        }
    }
}

/// Reports the failure to the peer, which then disconnects.
fn fail(reason: &str, output: &mut Vec<u8>) -> AuthStep {
    AuthPacket { status: AuthStatus::Error, token: Some(Vec::new()) }.put(output);
    AuthStep::Failed(format!("Failed to authenticate using SASL: {reason}"))
}

#[derive(Debug)]
enum Initiator {
    DigestMd5(Box<DigestInitiator>),
    Gssapi(Box<GssapiInitiator>),
}

/// The connecting side of one connection.
#[derive(Debug)]
pub(super) struct AuthInitiator {
    exchange: Initiator,
    /// This side has verified the acceptor.
    is_complete: bool,
}

impl AuthInitiator {
    /// Processes packets at the start of `input`, and appends responses to `output`.
    pub(super) fn advance(&mut self, input: &mut Vec<u8>, output: &mut Vec<u8>) -> AuthStep {
        loop {
            let packet = match AuthPacket::next(input) {
                Ok(Some((packet, used))) => {
                    input.drain(..used);
                    packet
                }
                Ok(None) => return AuthStep::Wait,
                Err(error) => return AuthStep::Failed(error.to_string()),
            };
            let refused = "the server refused the login".to_owned();
            let is_success = match packet.status {
                AuthStatus::Error => return AuthStep::Failed(refused),
                AuthStatus::Success => true,
                AuthStatus::InProgress => false,
            };
            if !self.is_complete {
                let challenge = packet.token.unwrap_or_default();
                let step = match &mut self.exchange {
                    Initiator::DigestMd5(exchange) => exchange.step(&challenge, &mut random),
                    Initiator::Gssapi(exchange) => exchange.step(&challenge),
                };
                match step {
                    Err(error) => return AuthStep::Failed(error.to_string()),
                    Ok(step) => {
                        self.is_complete = step.is_complete;
                        if let Some(token) = step.token.filter(|_| !is_success) {
                            AuthPacket { status: AuthStatus::InProgress, token: Some(token) }.put(output);
                        }
                    }
                }
            }
            match (is_success, self.is_complete) {
                (true, true) => return AuthStep::Passed(None),
                (true, false) => {
                    return AuthStep::Failed("the server has not proven that it knows the password".into());
                }
                (false, _) => (),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ox_sasl::secret::SecretBytes;

    fn sasl(is_required: bool, account: &str, password: &str) -> QuorumSasl {
        let accounts = DigestAccounts::new([("zk".to_owned(), SecretBytes::new(account))]);
        let credentials = DigestCredentials { username: "zk".to_owned(), password: SecretBytes::new(password) };
        QuorumSasl {
            is_required,
            authenticates: true,
            acceptor: AcceptorSecrets::DigestMd5(Arc::new(accounts)),
            initiator: InitiatorSecrets::DigestMd5(credentials),
            replays: ReplayCache::default(),
        }
    }

    fn started(sasl: &QuorumSasl) -> (AuthInitiator, Vec<u8>) {
        match sasl.initiator() {
            AuthStart::Now(exchange, first) => (exchange, first),
            AuthStart::WithTicket(_) => panic!("DIGEST-MD5 needs no ticket"),
        }
    }

    fn accept(sasl: &QuorumSasl, acceptor: &mut AuthAcceptor, input: &mut Vec<u8>, output: &mut Vec<u8>) -> AuthStep {
        acceptor.advance(sasl, &BTreeSet::new(), input, output)
    }

    /// Runs an exchange, byte by byte, and returns the results of both sides.
    fn run(sasl: &QuorumSasl) -> (AuthStep, AuthStep) {
        let (mut acceptor, (mut initiator, mut sent)) = (sasl.acceptor(), started(sasl));
        let (mut accepted, mut at_initiator, mut replies) = (AuthStep::Wait, AuthStep::Wait, Vec::new());
        let (mut to_acceptor, mut to_initiator) = (Vec::new(), Vec::new());
        while !sent.is_empty() || !replies.is_empty() {
            for byte in std::mem::take(&mut sent) {
                to_acceptor.push(byte);
                if accepted == AuthStep::Wait {
                    accepted = accept(sasl, &mut acceptor, &mut to_acceptor, &mut replies);
                }
            }
            for byte in std::mem::take(&mut replies) {
                to_initiator.push(byte);
                if at_initiator == AuthStep::Wait {
                    at_initiator = initiator.advance(&mut to_initiator, &mut sent);
                }
            }
        }
        assert!(to_acceptor.is_empty() && to_initiator.is_empty());
        (accepted, at_initiator)
    }

    #[test]
    fn equal_passwords_authenticate_both_sides() {
        let expected = (AuthStep::Passed(Some("zk".to_owned())), AuthStep::Passed(None));
        assert_eq!(run(&sasl(true, "secret", "secret")), expected);
    }

    #[test]
    fn wrong_password_is_refused_by_both_sides() {
        for is_required in [true, false] {
            let (accepted, at_initiator) = run(&sasl(is_required, "secret", "other"));
            assert!(matches!(&accepted, AuthStep::Failed(reason) if reason.contains("SASL")), "{accepted:?}");
            assert_eq!(at_initiator, AuthStep::Failed("the server refused the login".to_owned()));
        }
    }

    #[test]
    fn peer_without_authentication_passes_only_if_it_is_optional() {
        let other = [0, 0, 0, 8];
        let result = |is_required| {
            let sasl = sasl(is_required, "secret", "secret");
            accept(&sasl, &mut sasl.acceptor(), &mut other.to_vec(), &mut Vec::new())
        };
        assert_eq!(result(false), AuthStep::Passed(None));
        assert_eq!(result(true), AuthStep::Failed(NOT_AUTHENTICATING.to_owned()));
    }

    /// A server that skips the exchange does not know the password.
    #[test]
    fn success_without_proof_is_refused() {
        let mut success = Vec::new();
        AuthPacket { status: AuthStatus::Success, token: Some(Vec::new()) }.put(&mut success);
        let (mut initiator, _) = started(&sasl(true, "secret", "secret"));
        assert!(matches!(initiator.advance(&mut success, &mut Vec::new()), AuthStep::Failed(_)));
    }

    #[test]
    fn endless_exchange_ends() {
        let sasl = sasl(true, "secret", "secret");
        let mut acceptor = sasl.acceptor();
        let mut input = Vec::new();
        for _ in 0..10 {
            AuthPacket { status: AuthStatus::InProgress, token: None }.put(&mut input);
        }
        assert!(matches!(accept(&sasl, &mut acceptor, &mut input, &mut Vec::new()), AuthStep::Failed(_)));
    }
}
