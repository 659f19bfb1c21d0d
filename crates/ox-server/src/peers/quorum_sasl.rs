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

use ox_config::QuorumSaslConfig;
use ox_proto::quorum::auth::{AuthPacket, AuthStatus, is_auth_packet};
use ox_sasl::digest_md5::BETWEEN_SERVERS;
use ox_sasl::digest_md5::acceptor::DigestAcceptor;
use ox_sasl::digest_md5::initiator::DigestInitiator;
use ox_sasl::jaas::modules::{AcceptorLogin, DigestAccounts, DigestCredentials, InitiatorLogin};
use ox_sasl::mechanism::AcceptorStep;
use std::sync::Arc;

/// Why a server without SASL is refused; Apache's message.
pub(super) const NOT_AUTHENTICATING: &str = "Learner not trying to authenticate and authentication is required";

/// Challenges in one exchange, as in Apache.
const CHALLENGES_MAX: usize = 5;

/// The logins of this server, for all connections.
pub(crate) struct QuorumSasl {
    pub(super) is_required: bool,
    pub(super) authenticates: bool,
    accounts: Arc<DigestAccounts>,
    credentials: DigestCredentials,
}

/// What an exchange needs next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum AuthStep {
    /// More input.
    Wait,
    /// The peer has authenticated, with its name, or does not have to.
    Passed(Option<String>),
    Failed(String),
}

impl QuorumSasl {
    /// `None` for logins that are not implemented; the configuration refuses them before.
    pub(crate) fn new(config: &QuorumSaslConfig) -> Option<Self> {
        let (AcceptorLogin::DigestMd5(accounts), InitiatorLogin::DigestMd5(credentials)) =
            (&config.acceptor, &config.initiator)
        else {
            return None;
        };
        Some(Self {
            is_required: config.is_required,
            authenticates: config.authenticates,
            accounts: Arc::new(accounts.clone()),
            credentials: credentials.clone(),
        })
    }

    pub(super) fn acceptor(&self) -> AuthAcceptor {
        let exchange = DigestAcceptor::new(BETWEEN_SERVERS, Arc::clone(&self.accounts));
        AuthAcceptor { is_required: self.is_required, exchange, challenges: 0, has_begun: false }
    }

    /// An exchange with a server that this one has dialled, and its first bytes.
    pub(super) fn initiator(&self) -> (AuthInitiator, Vec<u8>) {
        let exchange = DigestInitiator::new(BETWEEN_SERVERS, self.credentials.clone());
        let mut first = Vec::new();
        // DIGEST-MD5 has no initial response.
        AuthPacket { status: AuthStatus::InProgress, token: Some(Vec::new()) }.put(&mut first);
        (AuthInitiator { exchange, is_complete: false }, first)
    }
}

fn random(bytes: &mut [u8]) {
    rand::fill(bytes);
}

/// The accepting side of one connection.
#[derive(Debug)]
pub(super) struct AuthAcceptor {
    is_required: bool,
    exchange: DigestAcceptor,
    challenges: usize,
    has_begun: bool,
}

impl AuthAcceptor {
    /// Whether a peer that sends nothing may be let in.
    pub(super) fn is_optional(&self) -> bool {
        !self.is_required && !self.has_begun
    }

    /// Processes packets at the start of `input`, and appends replies to `output`.
    pub(super) fn advance(&mut self, input: &mut Vec<u8>, output: &mut Vec<u8>) -> AuthStep {
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
                Err(error) => return fail(error.to_string(), output),
            };
            if self.challenges == CHALLENGES_MAX {
                return fail("too many steps".to_owned(), output);
            }
            match self.exchange.step(&packet.token.unwrap_or_default(), &mut random) {
                Ok(AcceptorStep::Challenge(challenge)) => {
                    self.challenges += 1;
                    AuthPacket { status: AuthStatus::InProgress, token: Some(challenge) }.put(output);
                }
                Ok(AcceptorStep::Complete(peer)) if peer.authentication_id != peer.authorization_id => {
                    return fail("the authorization id is another one".to_owned(), output);
                }
                Ok(AcceptorStep::Complete(peer)) => {
                    AuthPacket { status: AuthStatus::Success, token: peer.token }.put(output);
                    return AuthStep::Passed(Some(peer.authentication_id));
                }
                Err(error) => return fail(error.to_string(), output),
            }
        }
    }
}

/// Reports the failure to the peer, which then disconnects.
fn fail(reason: String, output: &mut Vec<u8>) -> AuthStep {
    AuthPacket { status: AuthStatus::Error, token: Some(Vec::new()) }.put(output);
    AuthStep::Failed(format!("Failed to authenticate using SASL: {reason}"))
}

/// The connecting side of one connection.
#[derive(Debug)]
pub(super) struct AuthInitiator {
    exchange: DigestInitiator,
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
                match self.exchange.step(&packet.token.unwrap_or_default(), &mut random) {
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
        QuorumSasl { is_required, authenticates: true, accounts: Arc::new(accounts), credentials }
    }

    /// Runs an exchange, byte by byte, and returns the results of both sides.
    fn run(sasl: &QuorumSasl) -> (AuthStep, AuthStep) {
        let (mut acceptor, (mut initiator, mut sent)) = (sasl.acceptor(), sasl.initiator());
        let (mut accepted, mut at_initiator, mut replies) = (AuthStep::Wait, AuthStep::Wait, Vec::new());
        let (mut to_acceptor, mut to_initiator) = (Vec::new(), Vec::new());
        while !sent.is_empty() || !replies.is_empty() {
            for byte in std::mem::take(&mut sent) {
                to_acceptor.push(byte);
                if accepted == AuthStep::Wait {
                    accepted = acceptor.advance(&mut to_acceptor, &mut replies);
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
        let optional = sasl(false, "secret", "secret").acceptor().advance(&mut other.to_vec(), &mut Vec::new());
        assert_eq!(optional, AuthStep::Passed(None));
        let required = sasl(true, "secret", "secret").acceptor().advance(&mut other.to_vec(), &mut Vec::new());
        assert!(matches!(required, AuthStep::Failed(_)));
    }

    /// A server that skips the exchange does not know the password.
    #[test]
    fn success_without_proof_is_refused() {
        let mut success = Vec::new();
        AuthPacket { status: AuthStatus::Success, token: Some(Vec::new()) }.put(&mut success);
        let (mut initiator, _) = sasl(true, "secret", "secret").initiator();
        assert!(matches!(initiator.advance(&mut success, &mut Vec::new()), AuthStep::Failed(_)));
    }

    #[test]
    fn endless_exchange_ends() {
        let mut acceptor = sasl(true, "secret", "secret").acceptor();
        let mut input = Vec::new();
        for _ in 0..10 {
            AuthPacket { status: AuthStatus::InProgress, token: None }.put(&mut input);
        }
        assert!(matches!(acceptor.advance(&mut input, &mut Vec::new()), AuthStep::Failed(_)));
    }
}
