//! Explains why no server established a session.

use crate::four_letter;
use ox_client::{Client, ConnectCause, ConnectFailure};
use std::time::Duration;

/// Time limit for asking a server that accepts connections why it serves no clients.
const TIMEOUT: Duration = Duration::from_secs(1);

/// One line for a single server, a list for several.
pub(crate) async fn text(client: &Client) -> String {
    let mut causes = Vec::new();
    for failure in client.connect_failures() {
        causes.push((failure.server.to_string(), cause(client, &failure).await));
    }
    let failures = client.connect_failures();
    let hint = match failures.first() {
        Some(first) if failures.iter().all(is_local_refusal) => {
            format!("\n{}", four_letter::no_server_hint(first.server.port))
        }
        Some(_) if failures.iter().any(|failure| matches!(failure.cause, ConnectCause::ServerSpeaksTls)) => {
            "\nhint: --client-configuration names a file with the TLS settings of a client".to_owned()
        }
        Some(_) | None => String::new(),
    };
    match causes.as_slice() {
        [] => "Connection lost; the shell reconnects".to_owned(),
        [(server, cause)] => format!("Cannot connect to {server}: {cause}{hint}"),
        causes => {
            let width = causes.iter().map(|(server, _)| server.len()).max().unwrap_or(0);
            let line = |(server, cause): &(String, String)| format!("\n  {server:width$}  {cause}");
            format!("Cannot connect to any server:{}{hint}", causes.iter().map(line).collect::<String>())
        }
    }
}

fn is_local_refusal(failure: &ConnectFailure) -> bool {
    matches!(failure.cause, ConnectCause::Refused) && four_letter::is_local(&failure.server.host)
}

/// The client cannot see why a server opens no session; the reply to `srvr` tells whether it lacks a quorum.
async fn cause(client: &Client, failure: &ConnectFailure) -> String {
    let is_running = matches!(failure.cause, ConnectCause::NotServing | ConnectCause::NoReply);
    if is_running && let Ok(reply) = four_letter::send(client, &failure.server, "srvr", TIMEOUT).await {
        if reply.contains("not currently serving requests") {
            return "no quorum: the server runs, but its ensemble has no leader".to_owned();
        }
        if reply.contains("Mode: read-only") {
            return "the server is read-only, because it has no quorum; -r connects to read-only servers, too"
                .to_owned();
        }
        if reply.contains("Mode: ") {
            return "the server runs but refuses this connection: too many connections, its data is older than what \
                    this session has seen, or the timeout is too short"
                .to_owned();
        }
    }
    match matches!(failure.cause, ConnectCause::NoReply) {
        true => format!("{}; is this a client port of ZooKeeper?", failure.cause),
        false => failure.cause.to_string(),
    }
}
