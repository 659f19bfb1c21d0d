//! Errors that end a run, each with a hint.

use anyhow::{Error, anyhow};
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
    let hint = match error.raw_os_error() {
        Some(TOO_MANY_OPEN_FILES) => "raise the limit of open files: ulimit -n",
        _ => known.unwrap_or("can this machine reach the server?"),
    };
    anyhow!("cannot connect to {server}: {error}\nhint: {hint}")
}

/// The server closed a connection in use.
pub fn closed(server: SocketAddr, doing: &str) -> Error {
    anyhow!(
        "the server at {server} closed a connection while {doing}\n\
         hint: see its log; maxClientCnxns and a session timeout that is too short are common reasons"
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
        silent(server, crate::limits::REPLY_TIMEOUT.as_secs())
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
