//! The commands `cons`, `stat` and `crst`.

use super::{Listing, ListingStatus, status};
use crate::io::connection_table::{ClientPort, ConnStats};
use crate::limits::LISTING_BATCH_MAX;
use crate::shared::Shared;
use crate::status::java_text;
use crate::status::server_mode::ServerMode;
use ox_proto::SessionId;
use ox_replica::ConnId;
use std::fmt::Write as _;
use std::sync::atomic::Ordering::Relaxed;

/// How much is shown of a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Detail {
    Short,
    Full,
}

pub(super) fn cons(_: ServerMode, port: ClientPort) -> Listing {
    let mut after = None;
    Box::new(move |shared, text| {
        after = put_connections(shared, port, after, Detail::Full, text);
        if after.is_some() {
            return ListingStatus::More;
        }
        text.push('\n');
        ListingStatus::Last
    })
}

pub(super) fn stat(mode: ServerMode, port: ClientPort) -> Listing {
    let (mut begun, mut after) = (false, None);
    Box::new(move |shared, text| {
        if !begun {
            begun = true;
            text.push_str(&status::head(shared, mode));
            text.push_str("Clients:\n");
        }
        after = put_connections(shared, port, after, Detail::Short, text);
        if after.is_some() {
            return ListingStatus::More;
        }
        text.push('\n');
        text.push_str(&status::stats_lines(shared, mode));
        ListingStatus::Last
    })
}

pub(super) fn crst(shared: &Shared, port: ClientPort) -> String {
    reset(shared, port);
    "Connection stats reset.\n".to_owned()
}

/// Resets the statistics of the connections of a port.
pub(crate) fn reset(shared: &Shared, port: ClientPort) {
    let mut after = None;
    loop {
        let conns = shared.connections.list_after(after, LISTING_BATCH_MAX);
        conns.iter().filter(|(_, stats)| stats.port == port).for_each(|(_, stats)| stats.reset());
        match conns.last() {
            Some((last, _)) => after = Some(*last),
            None => return,
        }
    }
}

/// Appends those connections of a batch that have the given port; returns the last one of the batch, `None` at the end.
fn put_connections(
    shared: &Shared,
    port: ClientPort,
    after: Option<ConnId>,
    detail: Detail,
    text: &mut String,
) -> Option<ConnId> {
    let conns = shared.connections.list_after(after, LISTING_BATCH_MAX);
    for (_, stats) in conns.iter().filter(|(_, stats)| stats.port == port) {
        put_connection(stats, detail, text);
    }
    conns.last().map(|(conn, _)| *conn)
}

fn put_connection(conn: &ConnStats, detail: Detail, text: &mut String) {
    let (address, interest) = (java_text::address(conn.address), conn.interest.load(Relaxed));
    let (queued, received) = (conn.queued.load(Relaxed), conn.received.load(Relaxed));
    let sent = conn.sent.load(Relaxed);
    write!(text, " {address}[{interest}](queued={queued},recved={received},sent={sent}")
        .expect("a string takes every write");
    if detail == Detail::Full && conn.session() != SessionId::NONE {
        text.push_str(&session(conn));
    }
    text.push_str(")\n");
}

fn session(conn: &ConnStats) -> String {
    let (last, latency) = (conn.last_reply(), conn.latency.totals());
    let average = latency.sum.checked_div(latency.count.cast_signed()).unwrap_or(0);
    let xid = if last.xid < 0 { String::new() } else { format!(",lcxid={:#x}", last.xid) };
    format!(
        ",sid={},lop={},est={},to={}{xid},lzxid={:#x},lresp={},llat={},minlat={},avglat={average},maxlat={}",
        conn.session(),
        last.op_text(),
        conn.established_ms,
        conn.timeout_ms(),
        last.zxid,
        last.at_ms,
        last.latency_ms,
        latency.min,
        latency.max,
    )
}
