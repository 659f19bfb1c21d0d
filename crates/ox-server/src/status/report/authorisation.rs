//! Whether a request to the AdminServer may do what needs rights: its identities need all permissions on `/`.

use super::ServerHandle;
use ox_tree::State;
use ox_tree::auth::{Identities, Identity, X509_SCHEME, authenticate};
use std::net::IpAddr;

/// What a request proves its identity with.
#[derive(Clone, Debug)]
pub struct Credentials<'a> {
    pub scheme: &'a str,
    pub auth: Option<&'a [u8]>,
    /// For the scheme `ip`.
    pub address: IpAddr,
    /// Subject of the verified certificate, for the scheme `x509`.
    pub certificate_subject: Option<&'a str>,
}

/// The decision about a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Authorisation {
    Granted,
    NotAuthenticated,
    NotAuthorised,
}

impl ServerHandle {
    /// Decides whether the identities of a request have all permissions on `/`.
    pub fn authorise(&self, credentials: &Credentials<'_>) -> Authorisation {
        let state = self.shared().state.read();
        let Some(identities) = self.identities(&state, credentials) else { return Authorisation::NotAuthenticated };
        if state.grants_all("/", &identities) { Authorisation::Granted } else { Authorisation::NotAuthorised }
    }

    /// Decides whether a request is one of the super user. Neither an address nor an open ACL is enough.
    pub fn authorise_super(&self, credentials: &Credentials<'_>) -> Authorisation {
        let state = self.shared().state.read();
        match self.identities(&state, credentials) {
            None => Authorisation::NotAuthenticated,
            Some(identities) if identities.has_scheme("super") => Authorisation::Granted,
            Some(_) => Authorisation::NotAuthorised,
        }
    }

    /// What a request proves; `None` if that is nothing.
    fn identities(&self, state: &State, credentials: &Credentials<'_>) -> Option<Identities> {
        let shared = self.shared();
        let mut identities = Identities::none();
        let proven = match (credentials.scheme, credentials.certificate_subject) {
            ("ip", _) => {
                identities = Identities::of_address(credentials.address);
                Some(Vec::new())
            }
            (X509_SCHEME, Some(subject)) if state.options().schemes.x509 => {
                let super_user = shared.config.admin.as_ref().and_then(|admin| admin.super_subject.as_deref());
                let of = |scheme: &'static str| Identity { scheme: scheme.into(), id: subject.to_owned() };
                let is_super = super_user == Some(subject);
                Some(is_super.then(|| of("super")).into_iter().chain([of(X509_SCHEME)]).collect())
            }
            (scheme, _) => authenticate(state, Some(scheme), credentials.auth).proven(),
        };
        let is_proven = identities.add(proven?) && identities.iter().next().is_some();
        is_proven.then_some(identities)
    }
}
