//! The initiating side of DIGEST-MD5.

use super::directives::{Directives, malformed, push_quoted};
use super::hash::{NONCE_COUNT, ResponseInput};
use super::{CHALLENGE_BYTES_MAX, DigestNames, MAXBUF, RESPONSE_BYTES_MAX, nonce};
use crate::jaas::modules::DigestCredentials;
use crate::mechanism::{InitiatorStep, Random, SaslError};
use subtle::ConstantTimeEq;

/// One exchange. The first token, which the caller sends without a challenge, is empty.
#[derive(Debug)]
pub struct DigestInitiator {
    names: DigestNames,
    credentials: DigestCredentials,
    phase: Phase,
}

#[derive(Debug)]
enum Phase {
    Start,
    Responded {
        /// What the acceptor must prove.
        response_auth: String,
    },
    Ended,
}

impl DigestInitiator {
    pub fn new(names: DigestNames, credentials: DigestCredentials) -> Self {
        Self { names, credentials, phase: Phase::Start }
    }

    pub fn step(&mut self, challenge: &[u8], random: Random<'_>) -> Result<InitiatorStep, SaslError> {
        if CHALLENGE_BYTES_MAX < challenge.len() {
            self.phase = Phase::Ended;
            return Err(malformed("the challenge is too long"));
        }
        match std::mem::replace(&mut self.phase, Phase::Ended) {
            Phase::Start => {
                let (token, response_auth) = self.respond(challenge, &nonce(random))?;
                self.phase = Phase::Responded { response_auth };
                Ok(InitiatorStep { token: Some(token), is_complete: false })
            }
            Phase::Responded { response_auth } => {
                let directives = Directives::parse(challenge)?;
                let is_equal = response_auth.as_bytes().ct_eq(directives.one("rspauth")?);
                if !bool::from(is_equal) {
                    return Err(SaslError::DigestRefused("the server does not know the password".to_owned()));
                }
                Ok(InitiatorStep { token: None, is_complete: true })
            }
            Phase::Ended => Err(SaslError::IllegalState("DIGEST-MD5")),
        }
    }

    /// The response to a challenge, and the proof that is expected from the acceptor. Java names the user as authzid
    /// too, so this side does.
    fn respond(&self, challenge: &[u8], cnonce: &str) -> Result<(Vec<u8>, String), SaslError> {
        let directives = Directives::parse(challenge)?;
        let charset = directives.at_most_one("charset")?;
        if charset.is_some_and(|charset| charset != b"utf-8") {
            return Err(malformed("charset is not utf-8"));
        }
        if directives.one("algorithm")? != b"md5-sess" {
            return Err(malformed("algorithm is not md5-sess"));
        }
        let qop = directives.at_most_one("qop")?.unwrap_or(b"auth");
        if !qop.split(|byte| *byte == b',').any(|qop| qop.trim_ascii() == b"auth") {
            return Err(SaslError::DigestRefused("the server demands a security layer".to_owned()));
        }
        let nonce = directives.one("nonce")?;
        // Of several realms, Java takes the first.
        let realm = directives.all("realm").next().unwrap_or_default();
        let realm = std::str::from_utf8(realm).map_err(|_| malformed("realm is not UTF-8"))?;
        let username = self.credentials.username.as_str();
        let uri = self.names.uri();
        let authzid = Some(username.as_bytes());
        let password = self.credentials.password.text();
        let input = ResponseInput { username, realm, password, nonce, cnonce: cnonce.as_bytes(), uri: &uri, authzid };

        let mut out = Vec::new();
        if charset.is_some() {
            out.extend_from_slice(b"charset=utf-8,");
        }
        push_quoted(&mut out, "username", username.as_bytes());
        out.push(b',');
        if !realm.is_empty() {
            push_quoted(&mut out, "realm", realm.as_bytes());
            out.push(b',');
        }
        push_quoted(&mut out, "nonce", nonce);
        out.extend_from_slice(format!(",nc={NONCE_COUNT},").as_bytes());
        push_quoted(&mut out, "cnonce", cnonce.as_bytes());
        let response = input.response();
        out.extend_from_slice(
            format!(",digest-uri=\"{uri}\",maxbuf={MAXBUF},response={response},qop=auth,").as_bytes(),
        );
        push_quoted(&mut out, "authzid", username.as_bytes());
        if RESPONSE_BYTES_MAX < out.len() {
            return Err(malformed("the response is too long"));
        }
        Ok((out, input.response_auth()))
    }
}
