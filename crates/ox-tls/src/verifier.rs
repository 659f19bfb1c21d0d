//! Verification of peers: a chain to the trust store, then the host name.
//!
//! rustls-webpki checks chains. Two rules come on top. A certificate that is itself in the trust store is trusted
//! directly, as in Java: ensembles with one self-signed certificate per server are common, and webpki refuses those
//! that openssl marks as CA. Host names follow the rules of `host_name.rs`.

use crate::certificate::CertificateInfo;
use crate::host_name::{HostNamePolicy, PeerDecision, PeerEndpoint};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, OtherError, RootCertStore, SignatureScheme,
};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The certificates of the trust store, as roots and as they are.
#[derive(Debug)]
pub(crate) struct Anchors {
    pub(crate) roots: Arc<RootCertStore>,
    pub(crate) certificates: BTreeSet<Vec<u8>>,
}

impl Anchors {
    /// The verdict on a certificate that is itself in the trust store: only its dates count. `None` for others.
    fn verify_directly(&self, certificate: &[u8], now: UnixTime) -> Option<Result<(), Error>> {
        self.certificates.contains(certificate).then(|| {
            let info = CertificateInfo::parse(certificate).map_err(|_| CertificateError::BadEncoding)?;
            let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
            match info {
                info if now < info.not_before => Err(CertificateError::NotValidYet.into()),
                info if info.not_after < now => Err(CertificateError::Expired.into()),
                _ => Ok(()),
            }
        })
    }
}

/// How a server verifies clients.
#[derive(Debug)]
pub(crate) struct ClientVerifier {
    pub(crate) anchors: Arc<Anchors>,
    pub(crate) chains: Arc<dyn ClientCertVerifier>,
}

impl ClientCertVerifier for ClientVerifier {
    fn offer_client_auth(&self) -> bool {
        self.chains.offer_client_auth()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.chains.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.chains.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        match self.anchors.verify_directly(end_entity, now) {
            Some(verdict) => verdict.map(|()| ClientCertVerified::assertion()),
            None => self.chains.verify_client_cert(end_entity, intermediates, now),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.chains.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.chains.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.chains.supported_verify_schemes()
    }
}

/// How a client verifies the server of one endpoint.
#[derive(Debug)]
pub(crate) struct ServerVerifier {
    pub(crate) anchors: Arc<Anchors>,
    pub(crate) chains: Arc<WebPkiServerVerifier>,
    pub(crate) names: HostNamePolicy,
    /// `None` refuses all servers.
    pub(crate) endpoint: Option<PeerEndpoint>,
}

impl ServerVerifier {
    fn verify_name(&self, end_entity: &[u8]) -> Result<(), Error> {
        let endpoint = self.endpoint.as_ref().ok_or(CertificateError::ApplicationVerificationFailure)?;
        let info = CertificateInfo::parse(end_entity).map_err(|_| CertificateError::BadEncoding)?;
        match self.names.decide(&info, endpoint) {
            PeerDecision::Accept | PeerDecision::AcceptMismatch(_) => Ok(()),
            PeerDecision::Refuse(mismatch) => Err(CertificateError::Other(OtherError(Arc::new(mismatch))).into()),
            PeerDecision::LookUpName(_) | PeerDecision::RefuseExpired => Err(CertificateError::NotValidForName.into()),
        }
    }
}

impl ServerCertVerifier for ServerVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match self.anchors.verify_directly(end_entity, now) {
            Some(verdict) => verdict?,
            None => {
                let verdict =
                    self.chains.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
                match verdict {
                    Ok(_) => {}
                    // webpki compares the name last, after it has accepted the chain.
                    Err(Error::InvalidCertificate(
                        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
                    )) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        self.verify_name(end_entity)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.chains.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.chains.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.chains.supported_verify_schemes()
    }
}
