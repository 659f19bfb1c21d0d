//! The AS exchange: a ticket-granting ticket for a keytab or a password.

use super::{KdcStep, LIFETIME, error_of, random_nonce};
use crate::krb5::crypto::{Etype, KerberosKey, KeyUsage};
use crate::krb5::initiator::Credential;
use crate::krb5::keytab::Keytab;
use crate::krb5::messages::{
    EncKdcRepPart, EncryptedData, EtypeInfo2, KdcOptions, KdcRep, KdcReqBody, KrbErrorMessage, PaData, encode_kdc_req,
    encode_pa_timestamp,
};
use crate::krb5::principal::Principal;
use crate::krb5::{CLOCK_SKEW_MAX, KerberosError, WallTime};
use crate::mechanism::Random;
use crate::secret::SecretBytes;

/// What proves the client's identity to the KDC.
#[derive(Clone, Debug)]
pub enum InitialSecret {
    Keytab(Keytab),
    Password(SecretBytes),
}

#[derive(Debug)]
pub struct AsExchange {
    client: Principal,
    service: Principal,
    secret: InitialSecret,
    etypes: Vec<Etype>,
    lifetime: i64,
    renew_lifetime: Option<i64>,
    nonce: u32,
    has_preauthenticated: bool,
}

impl AsExchange {
    /// `etypes` are those of the configuration; with a keytab, those without a key are left out.
    pub fn new(client: Principal, secret: InitialSecret, etypes: &[Etype]) -> Result<Self, KerberosError> {
        let mut etypes = etypes.to_vec();
        if let InitialSecret::Keytab(keytab) = &secret {
            let known = keytab.etypes(&client);
            etypes.retain(|etype| known.contains(etype));
        }
        if etypes.is_empty() {
            return Err(KerberosError::NoCredentials(client.to_string()));
        }
        let service = Principal::ticket_granting(&client.realm, &client.realm);
        let (lifetime, renew_lifetime) = (LIFETIME, None);
        Ok(Self { client, service, secret, etypes, lifetime, renew_lifetime, nonce: 0, has_preauthenticated: false })
    }

    /// Lifetimes in seconds to ask for, instead of a day without renewal.
    pub fn with_lifetimes(mut self, lifetime: Option<i64>, renew_lifetime: Option<i64>) -> Self {
        self.lifetime = lifetime.unwrap_or(self.lifetime);
        self.renew_lifetime = renew_lifetime.or(self.renew_lifetime);
        self
    }

    /// The realm whose KDC gets the requests.
    pub fn realm(&self) -> &str {
        &self.client.realm
    }

    /// The first request, without pre-authentication.
    pub fn start(&mut self, now: WallTime, random: Random<'_>) -> Vec<u8> {
        self.has_preauthenticated = false;
        self.request(now, &[], random)
    }

    /// Processes a reply to the previous request.
    pub fn on_reply(&mut self, now: WallTime, reply: &[u8], random: Random<'_>) -> Result<KdcStep, KerberosError> {
        match error_of(reply)? {
            Some(error) if error.code == KrbErrorMessage::RESPONSE_TOO_BIG => Ok(KdcStep::RepeatOverTcp),
            Some(error) if error.code == KrbErrorMessage::PREAUTH_REQUIRED && !self.has_preauthenticated => {
                self.has_preauthenticated = true;
                let hints = PaData::decode_list(error.data.as_deref().unwrap_or_default())?;
                let key = self.key(&hints)?;
                let cipher = key.encrypt(KeyUsage::PaEncTimestamp, &encode_pa_timestamp(now), random);
                let value = EncryptedData::new(key.etype, cipher).encode();
                let mut pa_data = vec![PaData { kind: PaData::ENC_TIMESTAMP, value }];
                pa_data.extend(hints.into_iter().find(|hint| hint.kind == PaData::FX_COOKIE));
                Ok(KdcStep::Send(self.request(now, &pa_data, random)))
            }
            Some(error) => Err(error.error()),
            None => self.grant(now, reply).map(|credential| KdcStep::Granted(Box::new(credential))),
        }
    }

    fn request(&mut self, now: WallTime, pa_data: &[PaData], random: Random<'_>) -> Vec<u8> {
        self.nonce = random_nonce(random);
        let body = KdcReqBody {
            options: if self.renew_lifetime.is_some() { KdcOptions::RENEWABLE } else { KdcOptions::NONE },
            client: Some(&self.client),
            service: &self.service,
            till: now.seconds().saturating_add(self.lifetime),
            renew_till: self.renew_lifetime.map(|lifetime| now.seconds().saturating_add(lifetime)),
            nonce: self.nonce,
            etypes: &self.etypes,
        };
        encode_kdc_req(10, pa_data, body.encode())
    }

    /// The client's key for the first encryption type of the KDC's list that is permitted here.
    fn key(&self, hints: &[PaData]) -> Result<KerberosKey, KerberosError> {
        let info = hints.iter().find(|hint| hint.kind == PaData::ETYPE_INFO2);
        let entries = info.map(|hint| EtypeInfo2::decode_list(&hint.value)).transpose()?.unwrap_or_default();
        let permitted = |entry: &&EtypeInfo2| self.etypes.iter().any(|etype| etype.number() == entry.etype);
        let entry = entries.iter().find(permitted);
        let etype = entry.map_or(Ok(self.etypes[0]), |entry| Etype::from_number(entry.etype))?;
        self.key_of(etype, entry)
    }

    fn key_of(&self, etype: Etype, entry: Option<&EtypeInfo2>) -> Result<KerberosKey, KerberosError> {
        match &self.secret {
            InitialSecret::Keytab(keytab) => {
                let key = keytab.newest_key(&self.client, etype).cloned();
                key.ok_or_else(|| KerberosError::NoCredentials(self.client.to_string()))
            }
            InitialSecret::Password(password) => {
                let salt = entry.and_then(|entry| entry.salt.clone()).map(String::into_bytes);
                let salt = salt.unwrap_or_else(|| self.client.default_salt());
                let parameters = entry.and_then(|entry| entry.parameters.as_deref());
                KerberosKey::from_password(etype, password.bytes(), &salt, parameters)
            }
        }
    }

    fn grant(&self, now: WallTime, reply: &[u8]) -> Result<Credential, KerberosError> {
        let reply = KdcRep::decode(reply, 11)?;
        let etype = Etype::from_number(reply.enc_part.etype)?;
        if !self.etypes.contains(&etype) {
            return Err(KerberosError::Mismatch("encryption type"));
        }
        let info = reply.pa_data.iter().find(|hint| hint.kind == PaData::ETYPE_INFO2);
        let entries = info.map(|hint| EtypeInfo2::decode_list(&hint.value)).transpose()?.unwrap_or_default();
        let entry = entries.iter().find(|entry| entry.etype == etype.number());
        let key = self.key_of(etype, entry)?;
        let part = key.decrypt(KeyUsage::AsRep, &reply.enc_part.cipher, "reply of the KDC")?;
        let part = EncKdcRepPart::decode(&part)?;
        if part.nonce != self.nonce {
            return Err(KerberosError::Mismatch("nonce"));
        }
        if reply.client != self.client || part.service != self.service || reply.service != self.service {
            return Err(KerberosError::Mismatch("client or service"));
        }
        if CLOCK_SKEW_MAX < (part.start - now.seconds()).abs() {
            return Err(KerberosError::Skew(part.start - now.seconds()));
        }
        let EncKdcRepPart { key, start, end, renew_till, service, .. } = part;
        Ok(Credential { client: reply.client, service, ticket: reply.ticket, key, start, end, renew_till })
    }
}
