//! The TGS exchange: tickets for a ticket-granting ticket.

use super::{KdcStep, LIFETIME, error_of, random_nonce};
use crate::krb5::crypto::{Etype, KeyUsage};
use crate::krb5::initiator::Credential;
use crate::krb5::messages::{
    ApReq, Authenticator, EncKdcRepPart, EncryptedData, KdcOptions, KdcRep, KdcReqBody, KrbErrorMessage, PaData,
    encode_kdc_req,
};
use crate::krb5::principal::Principal;
use crate::krb5::{KerberosError, WallTime};
use crate::mechanism::Random;

/// Realms between that of the client and that of the service.
const HOPS_MAX: u8 = 8;

/// Asks for one ticket. A service of another realm is reached through tickets of the realms between.
#[derive(Debug)]
pub struct TgsExchange {
    ticket: Credential,
    /// What the caller wants, and what the pending request asks for.
    target: Principal,
    service: Principal,
    kind: Kind,
    etypes: Vec<Etype>,
    nonce: u32,
    hops: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    NewTicket,
    Renewal,
}

impl TgsExchange {
    /// A ticket for `service`, with a ticket-granting ticket.
    pub fn new(ticket: Credential, service: Principal, etypes: &[Etype]) -> Self {
        Self::of_kind(Kind::NewTicket, ticket, service, etypes)
    }

    /// The same ticket with a later end.
    pub fn renewal(ticket: Credential, etypes: &[Etype]) -> Self {
        let service = ticket.service.clone();
        Self::of_kind(Kind::Renewal, ticket, service, etypes)
    }

    fn of_kind(kind: Kind, ticket: Credential, target: Principal, etypes: &[Etype]) -> Self {
        let etypes = etypes.to_vec();
        Self { ticket, service: target.clone(), target, kind, etypes, nonce: 0, hops: 0 }
    }

    /// The realm whose KDC gets the next request. It changes when a reply leads to another realm.
    pub fn realm(&self) -> &str {
        self.ticket.service.granted_realm().unwrap_or(&self.ticket.service.realm)
    }

    /// The first request, or the next one after the realm has changed.
    pub fn request(&mut self, now: WallTime, random: Random<'_>) -> Vec<u8> {
        self.nonce = random_nonce(random);
        let realm = self.realm().to_owned();
        self.service = self.target.clone();
        if self.target.realm != realm {
            self.service = Principal::ticket_granting(&self.target.realm, &realm);
        }
        let body = KdcReqBody {
            options: if self.kind == Kind::Renewal { KdcOptions::RENEW } else { KdcOptions::NONE },
            client: None,
            service: &self.service,
            till: self.ticket.end.max(now.seconds().saturating_add(LIFETIME)),
            renew_till: None,
            nonce: self.nonce,
            etypes: &self.etypes,
        };
        let body = body.encode();
        let key = &self.ticket.key;
        let checksum = key.checksum(KeyUsage::TgsReqChecksum, &[&body]);
        let authenticator = Authenticator {
            client: self.ticket.client.clone(),
            checksum: Some((key.etype.checksum_number(), checksum)),
            time: now,
            subkey: None,
            sequence: None,
        };
        let cipher = key.encrypt(KeyUsage::TgsReqAuthenticator, &authenticator.encode(), random);
        let value = ApReq::encode(false, &self.ticket.ticket, &EncryptedData::new(key.etype, cipher));
        encode_kdc_req(12, &[PaData { kind: PaData::TGS_REQ, value }], body)
    }

    /// Processes a reply. `Send` goes to a KDC of [`Self::realm`], which may have changed.
    pub fn on_reply(&mut self, now: WallTime, reply: &[u8], random: Random<'_>) -> Result<KdcStep, KerberosError> {
        match error_of(reply)? {
            Some(error) if error.code == KrbErrorMessage::RESPONSE_TOO_BIG => return Ok(KdcStep::RepeatOverTcp),
            Some(error) => return Err(error.error()),
            None => (),
        }
        let credential = self.grant(reply)?;
        if credential.service == self.target {
            return Ok(KdcStep::Granted(Box::new(credential)));
        }
        self.hops += 1;
        if HOPS_MAX < self.hops {
            return Err(KerberosError::Mismatch("no path to the realm of the service"));
        }
        self.ticket = credential;
        Ok(KdcStep::Send(self.request(now, random)))
    }

    fn grant(&self, reply: &[u8]) -> Result<Credential, KerberosError> {
        let reply = KdcRep::decode(reply, 13)?;
        let part = self.ticket.key.decrypt(KeyUsage::TgsRepSessionKey, &reply.enc_part.cipher, "reply of the KDC")?;
        let part = EncKdcRepPart::decode(&part)?;
        if part.nonce != self.nonce {
            return Err(KerberosError::Mismatch("nonce"));
        }
        // A KDC may answer a request for a distant realm with a ticket of a nearer one.
        let is_nearer_realm = self.service.granted_realm().is_some() && part.service.granted_realm().is_some();
        let is_expected = part.service == self.service || is_nearer_realm && self.kind == Kind::NewTicket;
        if !is_expected || reply.service != part.service || reply.client != self.ticket.client {
            return Err(KerberosError::Mismatch("client or service"));
        }
        let EncKdcRepPart { key, start, end, renew_till, service, .. } = part;
        Ok(Credential { client: reply.client, service, ticket: reply.ticket, key, start, end, renew_till })
    }
}
