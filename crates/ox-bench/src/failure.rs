//! Errors that end a run, each with a hint.

use crate::stop_flag::StopFlag;
use anyhow::{Error, Result, anyhow, ensure};
use std::fmt;
use std::io;
use std::net::SocketAddr;

/// Linux's EMFILE, which has no name in the standard library.
const TOO_MANY_OPEN_FILES: i32 = 24;

pub fn cannot_connect(server: SocketAddr, error: &io::Error) -> Error {
    let hints = [
        (io::ErrorKind::ConnectionRefused, "is the server running, and is this its client port?"),
        (io::ErrorKind::AddrNotAvailable, "this machine is out of local ports; wait a minute or use fewer sessions"),
        (io::ErrorKind::TimedOut, "is the address right, and does a firewall drop the packets?"),
    ];
    let known = hints.into_iter().find(|(kind, _)| *kind == error.kind()).map(|(_, hint)| hint);
    let (cause, hint) = match (known, error.raw_os_error()) {
        (Some(hint), _) => (error.kind().to_string(), hint),
        (None, Some(TOO_MANY_OPEN_FILES)) => (error.to_string(), "raise the limit of open files: ulimit -n"),
        (None, _) => (error.to_string(), "can this machine reach the server?"),
    };
    anyhow!("cannot connect to {server}: {cause}\nhint: {hint}")
}

/// What a connection was doing when the server closed it before there was a session.
pub const OPENING: &str = "opening a session";

/// The server closed a connection in use.
#[derive(Debug)]
pub struct ClosedConnection {
    server: SocketAddr,
    doing: String,
}

impl ClosedConnection {
    /// Whether the server closed it before there was a session, as it does above its limit of connections.
    pub fn is_before_session(&self) -> bool {
        self.doing == OPENING
    }
}

impl std::error::Error for ClosedConnection {}

impl fmt::Display for ClosedConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { server, doing } = self;
        let hint = match self.is_before_session() {
            true => {
                "a server accepts maxClientCnxns connections from one address, 60 by default: use fewer, for example \
                 -c 50, or raise it on the server (0 means no limit)"
            }
            false => "see its log; a session timeout that is too short is a common reason",
        };
        write!(f, "the server at {server} closed a connection while {doing}\nhint: {hint}")
    }
}

pub fn closed(server: SocketAddr, doing: &str) -> Error {
    Error::new(ClosedConnection { server, doing: doing.to_owned() })
}

/// Fails after a signal: nothing is measured yet.
pub fn unless_interrupted(stop: &StopFlag) -> Result<()> {
    ensure!(!stop.is_set(), "interrupted before the measurement: there are no results");
    Ok(())
}

/// The bytes before the first reply, or the end of the connection, mean that the server speaks TLS.
pub fn needs_tls(server: SocketAddr) -> Error {
    anyhow!(
        "the server at {server} speaks TLS on this port, and this command does not\n\
         hint: give --client-configuration, or -D zookeeper.client.secure=true and the stores of zookeeper.ssl.*"
    )
}

/// No reply to the handshake in time: it may be another service.
fn silent_at_start(server: SocketAddr, seconds: u64) -> Error {
    anyhow!(
        "the server at {server} accepts connections but has not answered the handshake for {seconds} s\n\
         hint: is this the client port of a ZooKeeper server? If it is: the server is overloaded or stuck on its disk"
    )
}

/// The server has not replied in time.
pub fn silent(server: SocketAddr, seconds: u64) -> Error {
    anyhow!(
        "the server at {server} has not replied for {seconds} s\n\
         hint: is it overloaded, without a quorum, or stuck on its disk?"
    )
}

/// Any other socket error.
pub fn broken(server: SocketAddr, error: &io::Error, doing: &str) -> Error {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, TimedOut, UnexpectedEof, WouldBlock};
    if [ConnectionReset, BrokenPipe, UnexpectedEof].contains(&error.kind()) {
        closed(server, doing)
    } else if [TimedOut, WouldBlock].contains(&error.kind()) {
        match doing == OPENING {
            true => silent_at_start(server, crate::limits::HANDSHAKE_TIMEOUT.as_secs()),
            false => silent(server, crate::limits::REPLY_TIMEOUT.as_secs()),
        }
    } else {
        anyhow!("connection to {server} failed while {doing}: {error}")
    }
}

/// The reply does not match the request.
pub fn out_of_order(server: SocketAddr, expected: Option<i32>, xid: i32) -> Error {
    let expected = expected.map_or("none".to_owned(), |xid| format!("xid {xid}"));
    anyhow!(
        "unexpected reply from {server}: xid {xid} where {expected} was due\n\
         hint: the server broke the order of replies, or it is not a ZooKeeper server"
    )
}

/// The server refused a request that must succeed.
pub fn refused(doing: &str, code: i32) -> Error {
    anyhow!("cannot {doing}: {}", code_text(code))
}

/// Describes an error code.
pub fn code_text(code: i32) -> String {
    ox_proto::ErrorCode::try_from(code).map_or_else(|code| format!("error {code}"), |known| format!("{known} ({code})"))
}
