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

/// Why a request is refused: the status and the error.
type Refusal = (StatusCode, &'static str);

/// Checks a request to a command that needs rights on `/`.
pub(crate) fn check(server: &ServerHandle, requester: &Requester) -> Result<(), Refusal> {
    check_with(requester, |credentials| server.authorise(credentials))
}

/// Checks a request to a command that needs the super user.
pub(crate) fn check_super(server: &ServerHandle, requester: &Requester) -> Result<(), Refusal> {
    check_with(requester, |credentials| server.authorise_super(credentials))
}

fn check_with(requester: &Requester, authorise: impl FnOnce(&Credentials<'_>) -> Authorisation) -> Result<(), Refusal> {
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
    match authorise(&credentials) {
        Authorisation::Granted => Ok(()),
        Authorisation::NotAuthenticated => not_authenticated,
        Authorisation::NotAuthorised => Err((StatusCode::FORBIDDEN, "Not authorized")),
    }
}
