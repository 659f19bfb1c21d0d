//! The `Authorization` header: `<scheme>[ <auth data>]`.

use axum::http::StatusCode;
use ox_server::{Authorisation, Credentials, ServerHandle};
use std::net::IpAddr;

/// Who sends a request.
#[derive(Clone, Debug)]
pub(crate) struct Requester {
    pub(crate) authorization: Option<Vec<u8>>,
    /// The address of the connection, or of the last proxy's client if proxies are trusted.
    pub(crate) address: IpAddr,
    /// Subject of the verified certificate.
    pub(crate) certificate_subject: Option<String>,
}

/// Checks a request to a command that needs rights. Returns the status and the error of a refused one.
pub(crate) fn check(server: &ServerHandle, requester: &Requester) -> Result<(), (StatusCode, &'static str)> {
    let Some(header) = &requester.authorization else {
        return Err((StatusCode::UNAUTHORIZED, "Auth info is missing for the command"));
    };
    let not_authenticated = Err((StatusCode::UNAUTHORIZED, "Not authenticated"));
    let mut tokens = header.split(|byte| *byte == b' ');
    let (scheme, auth, rest) = (tokens.next().unwrap_or_default(), tokens.next(), tokens.next());
    let Ok(scheme) = std::str::from_utf8(scheme) else { return not_authenticated };
    if rest.is_some() {
        return not_authenticated;
    }
    let credentials = Credentials {
        scheme,
        auth,
        address: requester.address,
        certificate_subject: requester.certificate_subject.as_deref(),
    };
    match server.authorise(&credentials) {
        Authorisation::Granted => Ok(()),
        Authorisation::NotAuthenticated => not_authenticated,
        Authorisation::NotAuthorised => Err((StatusCode::FORBIDDEN, "Not authorized")),
    }
}
