//! Client connections: `connections`, `stats`, `connection_stat_reset`.

use super::{Outcome, Serving, is_too_long, server_status};
use crate::json::JsonWriter;
use ox_server::{ConnectionReport, SessionReport, Visit};
use std::net::SocketAddr;

/// How much is shown of a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Detail {
    Short,
    Full,
}

pub(super) fn connections(serving: &Serving<'_>, json: &mut JsonWriter) -> Outcome {
    put_connections(serving, Detail::Full, json)
}

pub(super) fn stats(serving: &Serving<'_>, json: &mut JsonWriter) -> Outcome {
    server_status::server_stats(serving, json);
    put_connections(serving, Detail::Short, json)
}

pub(super) fn reset(serving: &Serving<'_>, _: &mut JsonWriter) -> Outcome {
    serving.server.reset_connection_stats();
    Outcome::Done
}

fn put_connections(serving: &Serving<'_>, detail: Detail, json: &mut JsonWriter) -> Outcome {
    for (name, is_secure) in [("connections", false), ("secure_connections", true)] {
        json.key(name);
        json.begin_array();
        serving.server.connections(&mut |connection| {
            if connection.is_secure == is_secure {
                put_connection(connection, detail, json);
            }
            if is_too_long(json) { Visit::Stop } else { Visit::Continue }
        });
        json.end_array();
        if is_too_long(json) {
            return Outcome::TooLong;
        }
    }
    Outcome::Done
}

fn put_connection(connection: &ConnectionReport, detail: Detail, json: &mut JsonWriter) {
    json.begin_object();
    json.key("remote_socket_address");
    json.text(&address(connection.address));
    json.key("interest_ops");
    json.int(connection.interest_ops.into());
    json.key("outstanding_requests");
    json.int(connection.outstanding.into());
    json.key("packets_received");
    json.unsigned(connection.received);
    json.key("packets_sent");
    json.unsigned(connection.sent);
    if let Some(session) = connection.session.as_ref().filter(|_| detail == Detail::Full) {
        put_session(session, json);
    }
    json.end_object();
}

fn put_session(session: &SessionReport, json: &mut JsonWriter) {
    json.key("session_id");
    json.int(session.id);
    json.key("last_operation");
    json.text(session.last_operation);
    let fields = [
        ("established", session.established_ms),
        ("session_timeout", session.timeout_ms.into()),
        ("last_cxid", session.last_xid.into()),
        ("last_zxid", session.last_zxid),
        ("last_response_time", session.last_response_ms),
        ("last_latency", session.last_latency_ms),
        ("min_latency", session.min_latency_ms),
        ("avg_latency", session.avg_latency_ms),
        ("max_latency", session.max_latency_ms),
    ];
    for (name, value) in fields {
        json.key(name);
        json.int(value);
    }
}

/// As Jackson prints a socket address: `127.0.0.1:80`, `[0:0:0:0:0:0:0:1]:80`.
fn address(address: SocketAddr) -> String {
    ox_server::java_address(address).trim_start_matches('/').to_owned()
}
