//! Four-letter commands, which servers answer without a session.

use ox_client::{Client, ConnectCause, ServerAddress};
use std::io;
use std::net::IpAddr;
use std::time::Duration;

/// What to do if no process listens on a port of this machine.
pub fn no_server_hint(port: u16) -> String {
    match port {
        2181 => "hint: is a server running? `oxkeeper server` starts one".to_owned(),
        // The port of a member, maybe: a new server on it would be in the way.
        _ => format!("hint: is a server running, and is {port} its client port?"),
    }
}

/// Whether a host name or address is this machine.
pub fn is_local(host: &str) -> bool {
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Sends a four-letter command, with TLS if the client uses it, and returns the reply. The error is one or two words.
pub(crate) async fn send(
    client: &Client,
    server: &ServerAddress,
    command: &str,
    timeout: Duration,
) -> Result<String, String> {
    client.four_letter(server, command, timeout).await.map_err(|cause| {
        match matches!(cause, ConnectCause::Timeout | ConnectCause::NoReply) {
            true => "timeout".to_owned(),
            false => cause.to_string(),
        }
    })
}

/// The cause of a failed connection in one or two words.
pub fn cause(error: &io::Error) -> String {
    let names = [
        (io::ErrorKind::ConnectionRefused, "connection refused"),
        (io::ErrorKind::ConnectionReset, "connection reset"),
        (io::ErrorKind::TimedOut, "timeout"),
        (io::ErrorKind::WouldBlock, "timeout"),
    ];
    let name = names.into_iter().find(|(kind, _)| *kind == error.kind());
    match name {
        Some((_, name)) => name.to_owned(),
        None if error.to_string().starts_with("failed to lookup address") => "unknown host".to_owned(),
        None => error.to_string(),
    }
}

/// The statistics of a `srvr` reply.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct SrvrStats {
    pub(crate) version: String,
    pub(crate) mode: String,
    /// Minimum, average and maximum request latency in milliseconds.
    pub(crate) latency_ms: [f64; 3],
    pub(crate) received: u64,
    pub(crate) sent: u64,
    pub(crate) connections: u64,
    pub(crate) outstanding: u64,
    pub(crate) zxid: String,
    pub(crate) nodes: u64,
}

impl SrvrStats {
    /// Parses a `srvr` reply. The error is the server's refusal.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut stats = Self::default();
        for (label, value) in text.lines().filter_map(|line| line.split_once(": ")) {
            let number = || value.parse().unwrap_or(0);
            match label {
                "Zookeeper version" => {
                    value.split([',', ' ']).next().unwrap_or_default().clone_into(&mut stats.version)
                }
                "Latency min/avg/max" => {
                    for (place, part) in stats.latency_ms.iter_mut().zip(value.split('/')) {
                        *place = part.parse().unwrap_or(0.0);
                    }
                }
                "Received" => stats.received = number(),
                "Sent" => stats.sent = number(),
                "Connections" => stats.connections = number(),
                "Outstanding" => stats.outstanding = number(),
                "Zxid" => value.clone_into(&mut stats.zxid),
                "Mode" => value.clone_into(&mut stats.mode),
                "Node count" => stats.nodes = number(),
                _ => (),
            }
        }
        match stats.mode.is_empty() {
            true => Err(text.lines().next().unwrap_or("no reply").to_owned()),
            false => Ok(stats),
        }
    }
}

/// Extracts a metric from a `mntr` reply.
pub(crate) fn metric(mntr: &str, name: &str) -> Option<u64> {
    let value = mntr.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('\t'))?;
    value.trim().parse().ok()
}

/// A connection with a session in a `cons` reply.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Connection {
    pub(crate) address: String,
    pub(crate) session: String,
    pub(crate) received: u64,
    pub(crate) queued: u64,
    /// The last operation, as `cons` abbreviates it.
    pub(crate) last: String,
    pub(crate) average_ms: f64,
    pub(crate) most_ms: f64,
}

/// Parses a `cons` reply.
pub(crate) fn connections(cons: &str) -> Vec<Connection> {
    cons.lines().filter_map(connection).collect()
}

fn connection(line: &str) -> Option<Connection> {
    let (address, rest) = line.trim().trim_start_matches('/').rsplit_once('[')?;
    let fields = rest.split_once('(')?.1.trim_end_matches(')');
    let mut connection = Connection { address: address.to_owned(), ..Connection::default() };
    for (name, value) in fields.split(',').filter_map(|field| field.split_once('=')) {
        match name {
            "sid" => value.clone_into(&mut connection.session),
            "recved" => connection.received = value.parse().unwrap_or(0),
            "queued" => connection.queued = value.parse().unwrap_or(0),
            "lop" => value.clone_into(&mut connection.last),
            "avglat" => connection.average_ms = value.parse().unwrap_or(0.0),
            "maxlat" => connection.most_ms = value.parse().unwrap_or(0.0),
            _ => (),
        }
    }
    (!connection.session.is_empty()).then_some(connection)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn srvr_reply_is_parsed() {
        let text = "Zookeeper version: 3.9.3-c26634f, built on x\nLatency min/avg/max: 0/1.25/9\nReceived: 7\nSent: 6\n\
                    Connections: 2\nOutstanding: 1\nZxid: 0x10\nMode: leader\nNode count: 5\n";
        let stats = SrvrStats::parse(text).unwrap();
        assert_eq!((stats.version.as_str(), stats.mode.as_str(), stats.nodes), ("3.9.3-c26634f", "leader", 5));
        assert_eq!((stats.latency_ms, stats.received), ([0.0, 1.25, 9.0], 7));
        let refused = "srvr is not executed because it is not in the whitelist.\n";
        assert_eq!(SrvrStats::parse(refused).unwrap_err(), refused.trim());
        assert_eq!(SrvrStats::parse("").unwrap_err(), "no reply");
        assert_eq!(metric("zk_a\t1\nzk_watch_count\t12\n", "zk_watch_count"), Some(12));
        assert_eq!(metric("zk_watch_count_max\t12\n", "zk_watch_count"), None);
    }

    #[tokio::test]
    async fn failed_connections_have_a_cause() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let client = Client::builder().servers("127.0.0.1").unwrap().start().unwrap();
        let port = listener.local_addr().unwrap().port();
        let cause_at = async |host: &str, timeout_ms| {
            let server = ServerAddress { host: host.to_owned(), port };
            send(&client, &server, "srvr", Duration::from_millis(timeout_ms)).await.unwrap_err()
        };
        assert_eq!(cause_at("127.0.0.1", 50).await, "timeout");
        drop(listener);
        assert_eq!(cause_at("127.0.0.1", 10_000).await, "connection refused");
        assert_eq!(cause_at("no host", 10_000).await, "unknown host");
    }

    #[test]
    fn cons_reply_yields_connections_with_sessions() {
        let text = " /127.0.0.1:5000[1](queued=0,recved=9,sent=9,sid=0x1000,lop=GETD,est=1,to=30000,avglat=2,maxlat=7)\n \
                    /[::1]:5001[0](queued=0,recved=1,sent=0)\n";
        let found = connections(text);
        assert_eq!(found.len(), 1);
        let expected = Connection {
            address: "127.0.0.1:5000".to_owned(),
            session: "0x1000".to_owned(),
            received: 9,
            queued: 0,
            last: "GETD".to_owned(),
            average_ms: 2.0,
            most_ms: 7.0,
        };
        assert_eq!(found[0], expected);
    }
}
