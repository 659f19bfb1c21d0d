//! The accepting side of DIGEST-MD5.

use super::directives::{Directives, malformed, push_quoted};
use super::hash::{NONCE_COUNT, ResponseInput};
use super::{DigestNames, RESPONSE_BYTES_MAX, nonce};
use crate::jaas::modules::DigestAccounts;
use crate::mechanism::{AcceptorStep, AuthenticatedPeer, Random, SaslError};
use crate::secret::SecretBytes;
use std::sync::Arc;
use subtle::ConstantTimeEq;

/// One exchange, from the first token to the result.
#[derive(Debug)]
pub struct DigestAcceptor {
    names: DigestNames,
    accounts: Arc<DigestAccounts>,
    phase: Phase,
}

#[derive(Debug)]
enum Phase {
    Start,
    Challenged { nonce: String },
    Ended,
}

impl DigestAcceptor {
    pub fn new(names: DigestNames, accounts: Arc<DigestAccounts>) -> Self {
        Self { names, accounts, phase: Phase::Start }
    }

    /// Processes one token of the peer. The first one is ignored, whatever it contains, as RFC 2831 demands.
    pub fn step(&mut self, token: &[u8], random: Random<'_>) -> Result<AcceptorStep, SaslError> {
        match std::mem::replace(&mut self.phase, Phase::Ended) {
            _ if RESPONSE_BYTES_MAX < token.len() => Err(malformed("the response is too long")),
            Phase::Start => {
                let nonce = nonce(random);
                let challenge = self.challenge(&nonce);
                self.phase = Phase::Challenged { nonce };
                Ok(AcceptorStep::Challenge(challenge))
            }
            Phase::Challenged { nonce } => self.verify(token, &nonce).map(AcceptorStep::Complete),
            Phase::Ended => Err(SaslError::IllegalState("DIGEST-MD5")),
        }
    }

    fn challenge(&self, nonce: &str) -> Vec<u8> {
        let mut out = Vec::new();
        push_quoted(&mut out, "realm", self.names.realm.as_bytes());
        out.push(b',');
        push_quoted(&mut out, "nonce", nonce.as_bytes());
        out.extend_from_slice(b",charset=utf-8,algorithm=md5-sess");
        out
    }

    fn verify(&self, token: &[u8], nonce: &str) -> Result<AuthenticatedPeer, SaslError> {
        let directives = Directives::parse(token)?;
        for (key, expected) in [("charset", "utf-8"), ("qop", "auth"), ("nc", NONCE_COUNT)] {
            if directives.at_most_one(key)?.is_some_and(|value| value != expected.as_bytes()) {
                return Err(refused(format!("{key} is not {expected}")));
            }
        }
        if directives.one("nonce")? != nonce.as_bytes() {
            return Err(refused("the nonce is not that of the challenge".to_owned()));
        }
        if directives.one("realm")? != self.names.realm.as_bytes() {
            return Err(refused(format!("the realm is not {}", self.names.realm)));
        }
        let uri = text(directives.one("digest-uri")?, "digest-uri")?;
        if !uri.eq_ignore_ascii_case(&self.names.uri()) {
            return Err(refused(format!("digest-uri is not {}", self.names.uri())));
        }
        let username = text(directives.one("username")?, "username")?;
        let authzid = directives.at_most_one("authzid")?;
        let response = directives.one("response")?;
        // An unknown user costs the same time as a wrong password.
        let unknown = SecretBytes::new("");
        let known = self.accounts.password(username);
        let password = known.unwrap_or(&unknown);
        let cnonce = directives.one("cnonce")?;
        let realm = self.names.realm;
        let password = password.text();
        let input = ResponseInput { username, realm, password, nonce: nonce.as_bytes(), cnonce, uri, authzid };
        let is_equal = bool::from(input.response().as_bytes().ct_eq(response));
        let user = short(username);
        match (known, is_equal) {
            (None, _) => Err(refused(format!("user '{user}' not found in list of DIGEST-MD5 authenticateable users"))),
            (Some(_), false) => Err(refused(format!("the response of user '{user}' does not match"))),
            (Some(_), true) => Ok(AuthenticatedPeer {
                token: Some(format!("rspauth={}", input.response_auth()).into_bytes()),
                authentication_id: username.to_owned(),
                authorization_id: authzid.map_or(Ok(username), |id| text(id, "authzid"))?.to_owned(),
            }),
        }
    }
}

fn refused(reason: String) -> SaslError {
    SaslError::DigestRefused(reason)
}

fn text<'a>(value: &'a [u8], key: &str) -> Result<&'a str, SaslError> {
    std::str::from_utf8(value).map_err(|_| malformed(&format!("{key} is not UTF-8")))
}

/// Foreign text for a message: escaped and cut.
fn short(text: &str) -> String {
    text.chars().take(64).flat_map(char::escape_debug).collect()
}
