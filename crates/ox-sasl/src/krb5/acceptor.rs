//! The accepting side of a Kerberos context: verifies an AP-REQ with the keys of a keytab.

use super::crypto::KeyUsage;
use super::gss_token::{self, AP_REP, AP_REQ};
use super::keytab::Keytab;
use super::messages::{ApRep, ApReq, Authenticator, EncApRepPart, EncTicketPart, EncryptedData, Ticket};
use super::principal::Principal;
use super::replay_cache::ReplayCache;
use super::wrap_token::{Context, Side};
use super::{CLOCK_SKEW_MAX, KerberosError, WallTime, escaped};
use crate::mechanism::Random;

/// What an acceptor has for all its contexts.
#[derive(Clone, Debug)]
pub struct AcceptorCredentials {
    pub keytab: Keytab,
    /// The only principal whose tickets are accepted; `None` accepts those of every principal of the keytab.
    pub service: Option<Principal>,
}

/// A verified client, and the context that it has established.
#[derive(Debug)]
pub(crate) struct Accepted {
    pub(crate) client: Principal,
    /// AP-REP, if the client asked for it.
    pub(crate) reply: Option<Vec<u8>>,
    pub(super) context: Context,
}

impl Accepted {
    pub(crate) fn wrap(&mut self, text: &[u8]) -> Vec<u8> {
        self.context.wrap(text)
    }

    pub(crate) fn unwrap(&mut self, token: &[u8]) -> Result<Vec<u8>, KerberosError> {
        self.context.unwrap(token)
    }
}

impl AcceptorCredentials {
    /// Verifies the first token of a context.
    pub(crate) fn accept(
        &self,
        now: WallTime,
        token: &[u8],
        replays: &ReplayCache,
        random: Random<'_>,
    ) -> Result<Accepted, KerberosError> {
        let (AP_REQ, message) = gss_token::unframe(token)? else { return Err(KerberosError::Malformed("GSS token")) };
        let request = ApReq::decode(message)?;
        if request.uses_session_key() {
            return Err(KerberosError::Unsupported("user-to-user authentication"));
        }
        let ticket = self.decrypt_ticket(&request.ticket)?;
        check_ticket(&ticket, now)?;
        let key = &ticket.key;
        if request.authenticator.etype != key.etype.number() {
            return Err(KerberosError::Mismatch("encryption type of the authenticator"));
        }
        let cipher = &request.authenticator.cipher;
        let authenticator = key.decrypt(KeyUsage::ApReqAuthenticator, cipher, "authenticator")?;
        let authenticator = Authenticator::decode(&authenticator)?;
        if authenticator.client != ticket.client {
            return Err(KerberosError::Mismatch("client of the authenticator"));
        }
        let skew = (authenticator.time.0 - now.0) / 1_000_000;
        if CLOCK_SKEW_MAX < skew.abs() {
            return Err(KerberosError::Skew(skew));
        }
        let flags = gss_token::flags(authenticator.checksum.as_ref())?;
        replays.check_and_insert(now, cipher)?;

        let receive_sequence = authenticator.sequence.unwrap_or(0);
        let is_mutual = flags & gss_token::MUTUAL != 0;
        let send_sequence = if is_mutual { random_sequence(random) } else { receive_sequence };
        let reply = is_mutual.then(|| {
            let part = EncApRepPart { time: authenticator.time, subkey: None, sequence: Some(send_sequence) };
            let cipher = key.encrypt(KeyUsage::ApRep, &part.encode(), random);
            gss_token::frame(AP_REP, &ApRep::encode(&EncryptedData::new(key.etype, cipher)))
        });
        let context = Context {
            side: Side::Acceptor,
            key: authenticator.subkey.unwrap_or_else(|| key.clone()),
            has_acceptor_subkey: false,
            send_sequence: send_sequence.into(),
            receive_sequence: receive_sequence.into(),
        };
        Ok(Accepted { client: ticket.client, reply, context })
    }

    fn decrypt_ticket(&self, ticket: &Ticket) -> Result<EncTicketPart, KerberosError> {
        if let Some(expected) = self.service.as_ref().filter(|expected| **expected != ticket.service) {
            let (found, expected) = (escaped(&ticket.service.to_string()), expected.to_string());
            return Err(KerberosError::WrongService { found, expected });
        }
        let EncryptedData { etype, kvno, cipher } = &ticket.enc_part;
        for key in self.keytab.candidates(&ticket.service, *etype, *kvno)? {
            if let Ok(part) = key.decrypt(KeyUsage::Ticket, cipher, "ticket") {
                return EncTicketPart::decode(&part);
            }
        }
        Err(KerberosError::Integrity("ticket"))
    }
}

fn check_ticket(ticket: &EncTicketPart, now: WallTime) -> Result<(), KerberosError> {
    let now = now.seconds();
    if ticket.is_invalid() || now + CLOCK_SKEW_MAX < ticket.start {
        return Err(KerberosError::NotYetValid);
    }
    if ticket.end < now - CLOCK_SKEW_MAX {
        return Err(KerberosError::Expired);
    }
    if !ticket.is_path_trusted() {
        return Err(KerberosError::Unsupported("a path of realms that the KDC has not checked"));
    }
    Ok(())
}

/// A first sequence number. As in MIT's library it leaves the upper bits free, because some peers take it for signed.
pub(super) fn random_sequence(random: Random<'_>) -> u32 {
    let mut bytes = [0; 4];
    random(&mut bytes);
    u32::from_be_bytes(bytes) & 0x3FFF_FFFF
}

#[cfg(test)]
mod tests;
