//! The shape of each connection's stream: answers to requests, one each and in order (P24, P32), zxids that never
//! go back (P27), events before the state they announce and in order (P47, P48).

use crate::history::{Connection, History, Received};
use crate::model::{Authenticated, Identities, authenticate};
use crate::op::{Body, Op};
use crate::violation::{Checked, Place, Reason, Violation};
use ox_proto::Zxid;
use ox_proto::request::xid::PING;

/// Which answer belongs to which request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stream {
    /// For each request the frame that answers it.
    pub(crate) answers: Vec<Option<usize>>,
    /// For each frame the request that it answers.
    pub(crate) requests: Vec<Option<usize>>,
}

impl Stream {
    /// The answer to a request.
    pub(crate) fn answer<'h>(&self, connection: &'h Connection, request: usize) -> Option<Reply<'h>> {
        reply(&connection.received[self.answers[request]?])
    }
}

/// A frame that is an answer.
#[derive(Clone, Copy)]
pub(crate) struct Reply<'h> {
    pub(crate) at: crate::history::Time,
    pub(crate) zxid: Zxid,
    pub(crate) err: i32,
    pub(crate) body: &'h Body,
}

pub(crate) fn reply(frame: &Received) -> Option<Reply<'_>> {
    match frame {
        Received::Reply { at, zxid, err, body, .. } => Some(Reply { at: *at, zxid: *zxid, err: *err, body }),
        Received::Event { .. } => None,
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

/// Finds the request of each answer.
fn pair(history: &History, number: usize, connection: &Connection) -> Checked<Stream> {
    let mut stream = Stream { answers: vec![None; connection.requests.len()], requests: Vec::new() };
    let (mut next, mut ended) = (0, false);
    for (at, frame) in connection.received.iter().enumerate() {
        let place = Place::Frame(number, at);
        if ended {
            return Err(Violation::new(Reason::AfterTheEnd, place, format!("{frame:?}")));
        }
        let Received::Reply { at: received, xid, body, .. } = frame else {
            stream.requests.push(None);
            continue;
        };
        let is_next = connection.requests.get(next).is_some_and(|sent| sent.xid == *xid && sent.at <= *received);
        if !is_next {
            return Err(Violation::new(misplaced(connection, next, *xid), place, format!("{frame:?}")));
        }
        if *body == Body::Undecodable {
            let op = &connection.requests[next].op;
            return Err(Violation::new(Reason::Undecodable, place, format!("{frame:?} to {op:?}")));
        }
        ended = is_last(history, connection, next, frame);
        stream.answers[next] = Some(at);
        stream.requests.push(Some(next));
        next += 1;
    }
    if history.is_settled
        && connection.closed.is_none()
        && connection.session().is_some()
        && next < stream.answers.len()
    {
        let detail = format!("{:?}", connection.requests[next]);
        return Err(Violation::new(Reason::Unanswered, Place::Request(number, next), detail));
    }
    Ok(stream)
}

/// Why an answer stands where another one is due.
fn misplaced(connection: &Connection, next: usize, xid: i32) -> Reason {
    let (before, after) = connection.requests.split_at(next);
    if xid != PING && after.iter().any(|sent| sent.xid == xid) {
        Reason::RepliesOutOfOrder
    } else if xid != PING && before.iter().any(|sent| sent.xid == xid) {
        Reason::AnsweredTwice
    } else {
        Reason::UnknownXid
    }
}

/// Whether the server closes the connection behind this answer.
fn is_last(history: &History, connection: &Connection, request: usize, frame: &Received) -> bool {
    match &connection.requests[request].op {
        Op::CloseSession => reply(frame).is_some_and(|reply| reply.err == 0),
        Op::Unknown(_) => true,
        Op::Auth { scheme, auth } => {
            let super_id = history.settings.super_id.as_deref();
            authenticate(&mut Identities::default(), super_id, scheme, auth) == Authenticated::No
        }
        _ => false,
    }
}

/// Answers and events are in the order of their zxids, and a change's events come before every answer that shows it.
fn check_zxids(number: usize, connection: &Connection) -> Checked {
    let (mut replied, mut fired) = (Zxid(0), Zxid(0));
    for (at, frame) in connection.received.iter().enumerate() {
        let fail = |reason| Err(Violation::new(reason, Place::Frame(number, at), format!("{frame:?}")));
        match frame {
            Received::Reply { zxid, .. } if Zxid(0) < *zxid => {
                if *zxid < replied {
                    return fail(Reason::ZxidWentBack);
                }
                if *zxid < fired {
                    return fail(Reason::EventOvertookReply);
                }
                replied = *zxid;
            }
            Received::Event { zxid, .. } if Zxid(0) < *zxid => {
                if *zxid < fired {
                    return fail(Reason::EventsOutOfOrder);
                }
                if *zxid <= replied {
                    let reason = if fired == *zxid { Reason::EventsSplit } else { Reason::EventAfterState };
                    return fail(reason);
                }
                fired = *zxid;
            }
            // Authentication and refusals of whole connections carry no zxid; re-arming carries -1.
            Received::Reply { .. } | Received::Event { .. } => (),
        }
    }
    Ok(())
}
