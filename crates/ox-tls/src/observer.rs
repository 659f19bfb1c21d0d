//! A verifier for tools: it accepts every certificate of a server, and keeps the chain.

use crate::certificate::CertificateInfo;
use crate::error::StoreProblem;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, SignatureScheme, SupportedProtocolVersion};
use std::sync::{Arc, OnceLock};

/// Keeps the certificates that a server shows in a handshake. Nothing else may be read through such a connection, or sent:
/// the server is not verified.
#[derive(Debug)]
pub struct ChainObserver {
    provider: Arc<CryptoProvider>,
    chain: OnceLock<Vec<CertificateDer<'static>>>,
}

impl ChainObserver {
    /// An observer, and the configuration of a client that uses it for one version of TLS.
    pub fn new(version: &'static SupportedProtocolVersion) -> Result<(Arc<Self>, ClientConfig), Error> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let observer = Arc::new(Self { provider: Arc::clone(&provider), chain: OnceLock::new() });
        let config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[version])?
            .dangerous()
            .with_custom_certificate_verifier(observer.clone())
            .with_no_client_auth();
        Ok((observer, config))
    }

    /// What the server has shown, its own certificate first; empty before that part of the handshake.
    pub fn chain(&self) -> Result<Vec<CertificateInfo>, StoreProblem> {
        self.chain.get().into_iter().flatten().map(|certificate| CertificateInfo::parse(certificate)).collect()
    }
}

impl ServerCertVerifier for ChainObserver {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let chain = std::iter::once(end_entity).chain(intermediates);
        let chain = chain.map(|certificate| certificate.clone().into_owned()).collect();
        let _ = self.chain.set(chain); // a connection has one handshake
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
