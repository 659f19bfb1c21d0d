//! Changes of a running server: settings and certificates that are read again, log files, and sessions that an operator
//! closes.

use super::ServerHandle;
use crate::live_settings;
use crate::status::server_mode::ask_replica;
use ox_config::Config;
use ox_proto::SessionId;
use std::time::{Duration, Instant};

/// Time for a session to be closed.
const CLOSE_LIMIT: Duration = Duration::from_secs(5);
const CLOSE_CHECK_INTERVAL: Duration = Duration::from_millis(10);

/// Stores of one kind of port that were read again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReloadedStores {
    /// Whose certificates these are.
    pub port: &'static str,
    /// Whether they have changed; an error if they cannot be used, and the old ones stay.
    pub is_replaced: Result<bool, String>,
}

/// What became of a session that was to be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseSessionOutcome {
    Closed,
    /// The session does not exist, or its client uses another server and this one is not the leader.
    Unknown,
    /// It was not closed in time: there is no quorum, or another server is its owner.
    Pending,
}

impl ServerHandle {
    /// Applies the settings that can change while the server runs.
    pub fn apply_settings(&self, config: &Config) {
        live_settings::apply(self.shared(), config);
    }

    /// Reads the certificates for clients and for other servers again.
    pub fn reload_certificates(&self) -> Vec<ReloadedStores> {
        let shared = self.shared();
        let mut reloaded = Vec::new();
        if let Some(tls) = &shared.tls {
            reloaded.push(ReloadedStores { port: "client", is_replaced: tls.reload() });
        }
        if let Some(tls) = shared.peer_security.get().and_then(|security| security.tls.as_ref()) {
            reloaded.push(ReloadedStores { port: "quorum", is_replaced: tls.reload() });
        }
        reloaded
    }

    /// Opens the audit file again, because it was renamed or removed.
    pub fn reopen_audit_log(&self) {
        self.shared().audit.iter().for_each(crate::audit::AuditQueue::reopen);
    }

    /// Closes a session and waits until that is done.
    pub fn close_session(&self, session: i64) -> CloseSessionOutcome {
        let session = SessionId(session);
        let is_known = || ask_replica(self.shared(), move |replica| replica.status().knows_session(session));
        match is_known() {
            Some(true) => (),
            Some(false) => return CloseSessionOutcome::Unknown,
            None => return CloseSessionOutcome::Pending,
        }
        self.shared().inbox.put(|input| input.close_sessions.push(session));
        let until = Instant::now() + CLOSE_LIMIT;
        while Instant::now() < until {
            if is_known() == Some(false) {
                return CloseSessionOutcome::Closed;
            }
            self.shared().sleep(CLOSE_CHECK_INTERVAL);
        }
        CloseSessionOutcome::Pending
    }
}
