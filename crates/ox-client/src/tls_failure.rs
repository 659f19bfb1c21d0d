//! Why a TLS handshake with a server failed.

#[cfg(feature = "security")]
use std::io;

/// The cause of a [`ConnectCause::Tls`](crate::ConnectCause::Tls).
///
/// ```
/// use ox_client::TlsFailure;
/// assert!(TlsFailure::NotTls.to_string().contains("does not speak TLS"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TlsFailure {
    /// No CA of the trust store has issued the server's certificate.
    #[error("TLS: the server's certificate is not issued by a CA of the trust store")]
    UnknownIssuer,
    /// The certificate belongs to another host; the text says to which.
    #[error("TLS: the server's certificate is not valid for this host: {0}")]
    WrongHostName(String),
    /// The server's certificate has expired.
    #[error("TLS: the server's certificate has expired")]
    Expired,
    /// The server's certificate is valid only later, or the clock of this machine is wrong.
    #[error("TLS: the server's certificate is not valid yet; check the clocks")]
    NotValidYet,
    /// The CA has revoked the server's certificate.
    #[error("TLS: the server's certificate is revoked")]
    Revoked,
    /// The server has replied with something else than TLS.
    #[error("TLS: the server does not speak TLS on this port")]
    NotTls,
    /// The server closed the connection during the handshake. Servers do that on a port without TLS.
    #[error("TLS: the server closed the connection during the handshake; perhaps it does not speak TLS on this port")]
    Closed,
    /// The server closed the connection after the handshake, and the client has no certificate.
    #[error("TLS: the server closed the connection; perhaps it requires a client certificate, or has no quorum")]
    ClosedWithoutCertificate,
    /// The server requires a certificate, and the client has none.
    #[error("TLS: the server requires a client certificate; set a key store")]
    CertificateRequired,
    /// The server refuses the client's certificate, for the reason in the text.
    #[error("TLS: the server refuses the client's certificate: {0}")]
    CertificateRefused(String),
    /// Client and server have no version or cipher suite of TLS in common.
    #[error("TLS: no common protocol version or cipher suite: {0}")]
    NothingInCommon(String),
    /// Another error of the TLS library.
    #[error("TLS: {0}")]
    Other(String),
}

#[cfg(feature = "security")]
impl TlsFailure {
    /// The cause of an error during the handshake of rustls. For tools that use TLS without a session.
    pub fn in_handshake(error: &io::Error, has_certificate: bool) -> Self {
        let closed = [io::ErrorKind::UnexpectedEof, io::ErrorKind::ConnectionReset, io::ErrorKind::BrokenPipe];
        Self::of_library(error, has_certificate).unwrap_or_else(|| match closed.contains(&error.kind()) {
            true => Self::Closed,
            false => Self::Other(error.to_string()),
        })
    }

    /// The cause if the error is one of rustls. A server may refuse a certificate after the handshake.
    #[expect(clippy::wildcard_enum_match_arm, reason = "all other errors are reported as they are")]
    pub fn of_library(error: &io::Error, has_certificate: bool) -> Option<Self> {
        use rustls::CertificateError as Bad;
        use rustls::Error;
        let error = error.get_ref()?.downcast_ref::<Error>()?;
        Some(match error {
            // A CA of the same name with another key, for example one that was made again, gives a bad signature.
            Error::InvalidCertificate(Bad::UnknownIssuer | Bad::BadSignature) => Self::UnknownIssuer,
            Error::InvalidCertificate(Bad::Expired | Bad::ExpiredContext { .. }) => Self::Expired,
            Error::InvalidCertificate(Bad::NotValidYet | Bad::NotValidYetContext { .. }) => Self::NotValidYet,
            Error::InvalidCertificate(Bad::Revoked) => Self::Revoked,
            Error::InvalidCertificate(Bad::NotValidForName | Bad::NotValidForNameContext { .. }) => {
                Self::WrongHostName(error.to_string())
            }
            Error::InvalidCertificate(Bad::Other(other)) => Self::WrongHostName(other.0.to_string()),
            Error::InvalidMessage(_) => Self::NotTls,
            Error::AlertReceived(alert) => Self::of_alert(*alert, has_certificate),
            Error::PeerIncompatible(why) => Self::NothingInCommon(format!("{why:?}")),
            _ => Self::Other(error.to_string()),
        })
    }

    fn of_alert(alert: rustls::AlertDescription, has_certificate: bool) -> Self {
        use rustls::AlertDescription as Alert;
        #[expect(clippy::wildcard_enum_match_arm, reason = "all other alerts are reported as they are")]
        match alert {
            Alert::CertificateRequired => Self::CertificateRequired,
            // Java sends these for a missing certificate, too.
            Alert::BadCertificate | Alert::HandshakeFailure if !has_certificate => Self::CertificateRequired,
            Alert::BadCertificate
            | Alert::UnsupportedCertificate
            | Alert::CertificateRevoked
            | Alert::CertificateExpired
            | Alert::CertificateUnknown
            | Alert::UnknownCA
            | Alert::DecryptError
            | Alert::AccessDenied => Self::CertificateRefused(format!("{alert:?}")),
            Alert::ProtocolVersion | Alert::InsufficientSecurity | Alert::HandshakeFailure => {
                Self::NothingInCommon(format!("{alert:?}"))
            }
            _ => Self::Other(format!("the server sends the alert {alert:?}")),
        }
    }
}
