//! Health checks for Kubernetes and load balancers.
//!
//! | path | 200 while |
//! |---|---|
//! | `/livez` | the process answers |
//! | `/healthz` | the server runs: its data is read, and it does not stop; an election is no failure |
//! | `/readyz` | clients are served: standalone, or a member that has caught up with its leader |

use crate::json::JsonWriter;
use crate::reply::{self, Reply};
use axum::http::StatusCode;
use ox_server::ServerHandle;

pub(crate) fn live() -> Reply {
    reply::text(StatusCode::OK, "ok\n")
}

pub(crate) fn healthy(server: Option<&ServerHandle>) -> Reply {
    match server {
        None => reply::text(StatusCode::SERVICE_UNAVAILABLE, "starting\n"),
        Some(server) if server.is_stopping() => reply::text(StatusCode::SERVICE_UNAVAILABLE, "stopping\n"),
        Some(_) => reply::text(StatusCode::OK, "ok\n"),
    }
}

/// Whether a server that serves read-only clients only counts as ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadOnlyCounts {
    AsReady,
    AsNotReady,
}

/// A learner serves clients only after it has synchronised with its leader. May wait for the replica thread.
pub(crate) fn ready(server: Option<&ServerHandle>, read_only: ReadOnlyCounts) -> Reply {
    let mode = server.and_then(ServerHandle::mode);
    let reason = match (server, mode) {
        (None, _) => Some("the server reads its data, or waits for space on a full disk: see its log".to_owned()),
        (Some(server), _) if server.is_stopping() => Some("the server stops".to_owned()),
        (Some(server), None) => Some(match server.election_obstacles() {
            Some(obstacles) => format!("there is no leader: {obstacles}"),
            None => "there is no leader, or the server has not caught up with it".to_owned(),
        }),
        (Some(_), Some(mode)) if mode.is_read_only() && read_only == ReadOnlyCounts::AsNotReady => {
            Some("the server is in read-only mode".to_owned())
        }
        (Some(_), Some(_)) => None,
    };
    let mut json = JsonWriter::default();
    json.begin_object();
    json.key("ready");
    json.bool(reason.is_none());
    json.key("mode");
    match mode {
        Some(mode) => json.text(mode.name()),
        None => json.null(),
    }
    json.key("last_zxid");
    match server {
        Some(server) => json.text(&format!("{:#x}", server.last_zxid())),
        None => json.null(),
    }
    json.key("reason");
    match &reason {
        Some(reason) => json.text(reason),
        None => json.null(),
    }
    json.end_object();
    let status = if reason.is_none() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    reply::json(status, json.finish())
}
