//! Log lines and metrics about the authentication of clients, in Apache's words. Texts of clients are escaped.

use crate::limits::LOG_LINES_BURST;
use crate::log_limit::LogLimit;
use crate::status::metrics::Metrics;
use ox_proto::SessionId;
use ox_replica::{AuthEvent, Conn, EnforcedSchemes, Now, SaslOutcome};
use ox_tree::auth::EnsembleName;
use std::net::SocketAddr;

/// The lines of one I/O thread: clients can trigger them, so there is a limit on each kind.
pub(super) struct AuthLog {
    successes: LogLimit,
    failures: LogLimit,
}

impl AuthLog {
    pub(super) fn new() -> Self {
        Self { successes: LogLimit::new(LOG_LINES_BURST), failures: LogLimit::new(LOG_LINES_BURST) }
    }

    pub(super) fn on_sasl(&mut self, session: SessionId, address: SocketAddr, outcome: &SaslOutcome, now: Now) {
        match outcome {
            SaslOutcome::Challenged => (),
            SaslOutcome::Authenticated { authentication_id, id } => {
                let Some(suppressed) = self.successes.allow(now.mono_ms) else { return };
                let (authentication_id, id) = (authentication_id.escape_debug(), id.escape_debug());
                tracing::info!(
                    %address,
                    suppressed,
                    "Successfully authenticated client: authenticationID={authentication_id};  authorizationID={id}."
                );
                tracing::info!("Session {session}: adding SASL authorization for authorizationID: {id}");
            }
            SaslOutcome::Failed(failure) => {
                let Some(suppressed) = self.failures.allow(now.mono_ms) else { return };
                tracing::warn!(
                    %session,
                    suppressed,
                    "Client {address} failed to SASL authenticate, closing client connection: {failure}"
                );
            }
            SaslOutcome::Kept(failure) => {
                let Some(suppressed) = self.failures.allow(now.mono_ms) else { return };
                tracing::warn!(
                    %session,
                    suppressed,
                    "Client {address} failed to SASL authenticate, maintaining client connection: {failure}"
                );
            }
        }
    }

    pub(super) fn on_event(
        &mut self,
        core: &Conn,
        address: SocketAddr,
        event: AuthEvent,
        (metrics, enforced, now): (&Metrics, EnforcedSchemes, Now),
    ) {
        let counter = match event {
            AuthEvent::Ensemble(EnsembleName::Matches) => Some(&metrics.ensemble_auth_success),
            AuthEvent::Ensemble(EnsembleName::Unnamed) => Some(&metrics.ensemble_auth_skip),
            AuthEvent::Ensemble(EnsembleName::Differs) => Some(&metrics.ensemble_auth_fail),
            AuthEvent::Failed | AuthEvent::WrongSuperPassword | AuthEvent::NotEnforced => None,
        };
        if let Some(counter) = counter {
            counter.add(1);
        }
        if matches!(event, AuthEvent::Ensemble(EnsembleName::Matches | EnsembleName::Unnamed)) {
            return;
        }
        let Some(suppressed) = self.failures.allow(now.mono_ms) else { return };
        match event {
            AuthEvent::Failed => tracing::warn!(%address, suppressed, "Authentication failed for an auth packet"),
            AuthEvent::WrongSuperPassword => {
                tracing::warn!(%address, suppressed, "Wrong password for the super user");
            }
            AuthEvent::Ensemble(_) => tracing::warn!(%address, suppressed, "Unexpected ensemble name"),
            AuthEvent::NotEnforced => {
                let schemes: Vec<&str> = core.ids().iter().map(|identity| &*identity.scheme).collect();
                let expected: Vec<&str> = enforced.names().collect();
                tracing::error!(
                    %address,
                    suppressed,
                    "Client authentication scheme(s) {schemes:?} does not match with any of the expected \
                     authentication scheme {expected:?}, closing session."
                );
            }
        }
    }
}
