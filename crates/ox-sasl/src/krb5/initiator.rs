//! The initiating side of a Kerberos context: sends a service ticket, and verifies the acceptor's AP-REP.

use super::acceptor::random_sequence;
use super::crypto::{KerberosKey, KeyUsage};
use super::gss_token::{self, AP_REP, AP_REQ, GSS_CHECKSUM, KRB_ERROR};
use super::messages::{ApRep, ApReq, Authenticator, EncApRepPart, EncryptedData, KrbErrorMessage};
use super::principal::Principal;
use super::wrap_token::{Context, Side};
use super::{KerberosError, WallTime};
use crate::mechanism::Random;

/// A ticket with its session key: what a KDC grants, and what a credential cache contains.
#[derive(Clone, Debug)]
pub struct Credential {
    pub client: Principal,
    pub service: Principal,
    /// The ticket in its encoded form, as the KDC sent it.
    pub ticket: Vec<u8>,
    pub key: KerberosKey,
    /// Validity, in seconds since 1970.
    pub start: i64,
    pub end: i64,
    pub renew_till: Option<i64>,
}

/// A context of which the first token is sent.
#[derive(Debug)]
pub(crate) struct Initiated {
    session_key: KerberosKey,
    time: WallTime,
    context: Context,
}

impl Initiated {
    /// The context and its first token. Mutual authentication is always demanded.
    pub(crate) fn new(credential: &Credential, now: WallTime, random: Random<'_>) -> (Self, Vec<u8>) {
        let subkey = KerberosKey::random(credential.key.etype, random);
        let sequence = random_sequence(random);
        let authenticator = Authenticator {
            client: credential.client.clone(),
            checksum: Some((GSS_CHECKSUM, gss_token::checksum(true))),
            time: now,
            subkey: Some(subkey.clone()),
            sequence: Some(sequence),
        };
        let cipher = credential.key.encrypt(KeyUsage::ApReqAuthenticator, &authenticator.encode(), random);
        let encrypted = EncryptedData::new(credential.key.etype, cipher);
        let token = gss_token::frame(AP_REQ, &ApReq::encode(true, &credential.ticket, &encrypted));
        let context = Context {
            side: Side::Initiator,
            key: subkey,
            has_acceptor_subkey: false,
            send_sequence: sequence.into(),
            receive_sequence: 0,
        };
        (Self { session_key: credential.key.clone(), time: now, context }, token)
    }

    /// Verifies the acceptor's token.
    pub(crate) fn verify(&mut self, token: &[u8]) -> Result<(), KerberosError> {
        let message = match gss_token::unframe(token)? {
            (AP_REP, message) => message,
            (KRB_ERROR, message) => return Err(refusal(message)),
            _ => return Err(KerberosError::Malformed("GSS token")),
        };
        let encrypted = ApRep::decode(message)?;
        let part = self.session_key.decrypt(KeyUsage::ApRep, &encrypted.cipher, "AP-REP")?;
        let part = EncApRepPart::decode(&part)?;
        if part.time != self.time {
            return Err(KerberosError::Mismatch("time of the authenticator"));
        }
        self.context.receive_sequence = part.sequence.unwrap_or(0).into();
        if let Some(subkey) = part.subkey {
            self.context.key = subkey;
            self.context.has_acceptor_subkey = true;
        }
        Ok(())
    }

    pub(crate) fn wrap(&mut self, text: &[u8]) -> Vec<u8> {
        self.context.wrap(text)
    }

    pub(crate) fn unwrap(&mut self, token: &[u8]) -> Result<Vec<u8>, KerberosError> {
        self.context.unwrap(token)
    }
}

fn refusal(message: &[u8]) -> KerberosError {
    match KrbErrorMessage::decode(message) {
        Ok(Some(error)) => error.error(),
        Ok(None) => KerberosError::Malformed("GSS token"),
        Err(error) => error,
    }
}
