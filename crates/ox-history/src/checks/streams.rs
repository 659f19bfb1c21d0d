//! The shape of each connection's stream: one reply per request, in order (P24, P32), zxids that never decrease (P27),
//! events before the state they announce and in order (P47, P48).

use crate::history::{History, ReceivedFrame, RecordedConnection};
use crate::model::{AuthIds, Authenticated, authenticate};
use crate::op::{Op, ReplyBody};
use crate::violation::{Checked, Violation, ViolationKind, ViolationPlace};
use ox_proto::Zxid;
use ox_proto::request::xid::PING;

/// Which reply belongs to which request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stream {
    /// For each request, the index of its reply.
    pub(crate) replies: Vec<Option<usize>>,
    /// For each frame, the index of the request it replies to.
    pub(crate) requests: Vec<Option<usize>>,
}

impl Stream {
    pub(crate) fn reply_to<'h>(&self, connection: &'h RecordedConnection, request: usize) -> Option<Reply<'h>> {
        reply(&connection.received[self.replies[request]?])
    }
}

/// A frame that is a reply.
#[derive(Clone, Copy)]
pub(crate) struct Reply<'h> {
    pub(crate) at: crate::history::Time,
    pub(crate) zxid: Zxid,
    pub(crate) err: i32,
    pub(crate) body: &'h ReplyBody,
}

pub(crate) fn reply(frame: &ReceivedFrame) -> Option<Reply<'_>> {
    match frame {
        ReceivedFrame::Reply { at, zxid, err, body, .. } => Some(Reply { at: *at, zxid: *zxid, err: *err, body }),
        ReceivedFrame::Event { .. } => None,
    }
}

pub(crate) fn check(history: &History) -> Checked<Vec<Stream>> {
    let mut streams = Vec::new();
    for (number, connection) in history.connections.iter().enumerate() {
        streams.push(pair(history, number, connection)?);
        check_zxids(number, connection)?;
    }
    Ok(streams)
}

/// Finds the request of each reply.
fn pair(history: &History, number: usize, connection: &RecordedConnection) -> Checked<Stream> {
    let mut stream = Stream { replies: vec![None; connection.requests.len()], requests: Vec::new() };
    let (mut next, mut ended) = (0, false);
    for (at, frame) in connection.received.iter().enumerate() {
        let place = ViolationPlace::Frame(number, at);
        if ended {
            return Err(Violation::new(ViolationKind::FrameAfterLastReply, place, format!("{frame:?}")));
        }
        let ReceivedFrame::Reply { at: received, xid, body, .. } = frame else {
            stream.requests.push(None);
            continue;
        };
        let is_next = connection.requests.get(next).is_some_and(|sent| sent.xid == *xid && sent.at <= *received);
        if !is_next {
            return Err(Violation::new(misplaced(connection, next, *xid), place, format!("{frame:?}")));
        }
        if *body == ReplyBody::Undecodable {
            let op = &connection.requests[next].op;
            return Err(Violation::new(ViolationKind::Undecodable, place, format!("{frame:?} to {op:?}")));
        }
        ended = is_last(history, connection, next, frame);
        stream.replies[next] = Some(at);
        stream.requests.push(Some(next));
        next += 1;
    }
    if history.is_settled
        && connection.closed.is_none()
        && connection.session().is_some()
        && next < stream.replies.len()
    {
        let detail = format!("{:?}", connection.requests[next]);
        return Err(Violation::new(ViolationKind::MissingReply, ViolationPlace::Request(number, next), detail));
    }
    Ok(stream)
}

/// Why a reply arrives where another one is due.
fn misplaced(connection: &RecordedConnection, next: usize, xid: i32) -> ViolationKind {
    let (before, after) = connection.requests.split_at(next);
    if xid != PING && after.iter().any(|sent| sent.xid == xid) {
        ViolationKind::RepliesOutOfOrder
    } else if xid != PING && before.iter().any(|sent| sent.xid == xid) {
        ViolationKind::DuplicateReply
    } else {
        ViolationKind::UnknownXid
    }
}

/// Whether the server closes the connection after this reply.
fn is_last(history: &History, connection: &RecordedConnection, request: usize, frame: &ReceivedFrame) -> bool {
    match &connection.requests[request].op {
        Op::CloseSession => reply(frame).is_some_and(|reply| reply.err == 0),
        Op::Unknown(_) => true,
        Op::Auth { scheme, auth } => {
            let super_id = history.settings.super_id.as_deref();
            authenticate(&mut AuthIds::default(), super_id, scheme, auth) == Authenticated::No
        }
        _ => false,
    }
}

/// Replies and events are in the order of their zxids, and a change's events precede every reply that shows it.
fn check_zxids(number: usize, connection: &RecordedConnection) -> Checked {
    let (mut replied, mut fired) = (Zxid(0), Zxid(0));
    for (at, frame) in connection.received.iter().enumerate() {
        let fail = |reason| Err(Violation::new(reason, ViolationPlace::Frame(number, at), format!("{frame:?}")));
        match frame {
            ReceivedFrame::Reply { zxid, .. } if Zxid(0) < *zxid => {
                if *zxid < replied {
                    return fail(ViolationKind::ZxidDecreased);
                }
                if *zxid < fired {
                    return fail(ViolationKind::EventOvertookReply);
                }
                replied = *zxid;
            }
            ReceivedFrame::Event { zxid, .. } if Zxid(0) < *zxid => {
                if *zxid < fired {
                    return fail(ViolationKind::EventsOutOfOrder);
                }
                if *zxid <= replied {
                    let reason =
                        if fired == *zxid { ViolationKind::EventsSplit } else { ViolationKind::EventAfterState };
                    return fail(reason);
                }
                fired = *zxid;
            }
            // Authentication and refused connections carry no zxid; events from setWatches carry -1.
            ReceivedFrame::Reply { .. } | ReceivedFrame::Event { .. } => (),
        }
    }
    Ok(())
}
