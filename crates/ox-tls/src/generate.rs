//! A development CA, and certificates that it issues.
//!
//! For ensembles on a laptop and for tests. The CA has no intermediate, its key is not encrypted, and nothing renews
//! what it issues.

use crate::certificate::CertificateInfo;
use crate::error::StoreProblem;
use crate::settings::StorePassword;
use crate::store::{self, StoreType, StoreUse};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose, RevokedCertParams, SanType, SerialNumber,
};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use std::net::IpAddr;
use time::OffsetDateTime;
use zeroize::Zeroizing;

const PEM_LINE: usize = 64;

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GenerateError {
    #[error("cannot generate a certificate: {0}")]
    Library(#[from] rcgen::Error),
    #[error("the validity of a certificate is out of range")]
    Validity,
    #[error("the CA {problem}; {}", problem.remedy())]
    BadCa {
        #[from]
        problem: StoreProblem,
    },
}

/// Both ends in seconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    pub not_before: i64,
    pub not_after: i64,
}

/// The holder of a certificate. It may authenticate servers and clients, as links between servers need both.
#[derive(Clone, Debug)]
pub struct CertificateSubject {
    pub common_name: String,
    pub host_names: Vec<String>,
    pub addresses: Vec<IpAddr>,
}

/// A certificate and its private key, in PEM.
pub struct IssuedCertificate {
    pub certificate: String,
    pub key: Zeroizing<String>,
}

impl IssuedCertificate {
    /// The content of a PEM key store: the key, then the certificate.
    pub fn key_store(&self) -> Zeroizing<String> {
        Zeroizing::new(format!("{}{}", *self.key, self.certificate))
    }

    pub fn info(&self) -> Result<CertificateInfo, StoreProblem> {
        let der = CertificateDer::from_pem_slice(self.certificate.as_bytes());
        CertificateInfo::parse(&der.map_err(|_| StoreProblem::NoCertificate)?)
    }
}

pub struct DevelopmentCa {
    issuer: Issuer<'static, KeyPair>,
    certificate: String,
}

impl DevelopmentCa {
    pub fn create(common_name: &str, validity: Validity) -> Result<Self, GenerateError> {
        let params = ca_params(common_name, validity)?;
        let key = KeyPair::generate()?;
        let certificate = pem("CERTIFICATE", params.self_signed(&key)?.der());
        Ok(Self { issuer: Issuer::new(params, key), certificate })
    }

    /// A CA that was created before, from the PEM texts of its certificate and key.
    pub fn load(certificate: &str, key: &str) -> Result<Self, GenerateError> {
        let both = Zeroizing::new(format!("{key}\n{certificate}"));
        let none: Option<&StorePassword> = None;
        let mut entries = store::read(both.as_bytes(), StoreType::Pem, StoreUse::Keys, none)?;
        let entry = entries.keys.pop().ok_or(StoreProblem::NoPrivateKey)?;
        let info = CertificateInfo::parse(entry.chain.first().ok_or(StoreProblem::NoCertificate)?)?;
        let key = KeyPair::try_from(&entry.key.as_der())?;
        let validity = Validity { not_before: info.not_before, not_after: info.not_after };
        let params = ca_params(&info.common_name.unwrap_or_default(), validity)?;
        Ok(Self { issuer: Issuer::new(params, key), certificate: certificate.to_owned() })
    }

    /// The content of a PEM trust store.
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    pub fn key(&self) -> Zeroizing<String> {
        Zeroizing::new(pem("PRIVATE KEY", self.issuer.key().serialized_der()))
    }

    pub fn issue(&self, subject: &CertificateSubject, validity: Validity) -> Result<IssuedCertificate, GenerateError> {
        let mut params = CertificateParams::new(subject.host_names.clone())?;
        params.subject_alt_names.extend(subject.addresses.iter().map(|address| SanType::IpAddress(*address)));
        set_name_and_dates(&mut params, &subject.common_name, validity)?;
        params.use_authority_key_identifier_extension = true;
        params.is_ca = IsCa::ExplicitNoCa;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate()?;
        let certificate = pem("CERTIFICATE", params.signed_by(&key, &self.issuer)?.der());
        Ok(IssuedCertificate { certificate, key: Zeroizing::new(pem("PRIVATE KEY", key.serialized_der())) })
    }

    /// A list that revokes certificates of this CA, in PEM.
    pub fn revocation_list(&self, revoked: &[CertificateInfo], validity: Validity) -> Result<String, GenerateError> {
        let this_update = date(validity.not_before)?;
        let revoked = revoked.iter().map(|certificate| RevokedCertParams {
            serial_number: serial_of(certificate),
            revocation_time: this_update,
            reason_code: None,
            invalidity_date: None,
        });
        let params = CertificateRevocationListParams {
            this_update,
            next_update: date(validity.not_after)?,
            crl_number: SerialNumber::from(1_u64),
            issuing_distribution_point: None,
            revoked_certs: revoked.collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        Ok(pem("X509 CRL", params.signed_by(&self.issuer)?.der()))
    }
}

fn ca_params(common_name: &str, validity: Validity) -> Result<CertificateParams, GenerateError> {
    let mut params = CertificateParams::default();
    set_name_and_dates(&mut params, common_name, validity)?;
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    Ok(params)
}

fn set_name_and_dates(
    params: &mut CertificateParams,
    common_name: &str,
    validity: Validity,
) -> Result<(), GenerateError> {
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, common_name);
    params.not_before = date(validity.not_before)?;
    params.not_after = date(validity.not_after)?;
    Ok(())
}

fn date(seconds: i64) -> Result<OffsetDateTime, GenerateError> {
    OffsetDateTime::from_unix_timestamp(seconds).map_err(|_| GenerateError::Validity)
}

fn serial_of(certificate: &CertificateInfo) -> SerialNumber {
    let digits = certificate.serial.as_bytes().chunks(2);
    let bytes = digits.filter_map(|pair| std::str::from_utf8(pair).ok()).map(|pair| u8::from_str_radix(pair, 16));
    SerialNumber::from_slice(&bytes.map(Result::unwrap_or_default).collect::<Vec<_>>())
}

fn pem(label: &str, der: &[u8]) -> String {
    let body = Zeroizing::new(STANDARD.encode(der));
    let mut text = String::with_capacity(body.len() * 2 + 128);
    text.push_str(&format!("-----BEGIN {label}-----\n"));
    for line in body.as_bytes().chunks(PEM_LINE) {
        text.extend(line.iter().map(|byte| char::from(*byte)));
        text.push('\n');
    }
    text.push_str(&format!("-----END {label}-----\n"));
    text
}
