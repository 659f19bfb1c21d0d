//! The order of writes respects real time (P23): what was answered before another was sent comes before it. And
//! nothing is known before it was sent (P27).

use super::matching::Matching;
use super::streams::Stream;
use crate::history::{Granted, History, Received, Time};
use crate::violation::{Checked, Place, Reason, Violation};
use ox_proto::{SessionId, Zxid};

struct Write {
    zxid: Zxid,
    sent: Time,
    answered: Option<Time>,
    place: Place,
}

pub(crate) fn check(history: &History, streams: &[Stream], matching: &Matching) -> Checked {
    let writes = writes(history, streams, matching);
    check_order(&writes)?;
    check_causes(history, &writes)
}

fn writes(history: &History, streams: &[Stream], matching: &Matching) -> Vec<Write> {
    let mut writes = Vec::new();
    for (number, connection) in history.connections.iter().enumerate() {
        if let (SessionId::NONE, Some(Granted::Session { at, session, .. })) = (connection.asked, connection.granted)
            && let Some(&opening) = matching.openings.get(&session)
            && !history.settings.local_sessions
        {
            let (zxid, place) = (history.log[opening].zxid, Place::Connection(number));
            writes.push(Write { zxid, sent: connection.opened, answered: Some(at), place });
        }
        for (at, sent) in connection.requests.iter().enumerate() {
            let Some(zxid) = matching.zxid(history, number, at) else { continue };
            let answered = streams[number].answer(connection, at).map(|reply| reply.at);
            writes.push(Write { zxid, sent: sent.at, answered, place: Place::Request(number, at) });
        }
    }
    writes.sort_by_key(|write| write.zxid);
    writes
}

fn check_order(writes: &[Write]) -> Checked {
    let mut answered: Vec<(Time, Zxid)> =
        writes.iter().filter_map(|write| write.answered.map(|at| (at, write.zxid))).collect();
    answered.sort_unstable();
    let mut by_sending: Vec<&Write> = writes.iter().collect();
    by_sending.sort_by_key(|write| write.sent);
    let (mut next, mut highest) = (0, Zxid(0));
    for write in by_sending {
        while answered.get(next).is_some_and(|(at, _)| *at < write.sent) {
            highest = highest.max(answered[next].1);
            next += 1;
        }
        if write.zxid < highest {
            let detail = format!("{} was sent after {highest} had been answered", write.zxid);
            return Err(Violation::new(Reason::OutOfRealTime, write.place, detail));
        }
    }
    Ok(())
}

/// For each zxid the latest moment at which one of the writes up to it was sent.
fn check_causes(history: &History, writes: &[Write]) -> Checked {
    let mut latest: Vec<(Zxid, Time)> = Vec::new();
    let mut sent = Time(i64::MIN);
    for write in writes {
        sent = sent.max(write.sent);
        latest.push((write.zxid, sent));
    }
    let cause = |zxid: Zxid| {
        let upto = latest.partition_point(|(at, _)| *at <= zxid);
        upto.checked_sub(1).map(|at| latest[at].1)
    };
    for (number, connection) in history.connections.iter().enumerate() {
        if let Some(Granted::Session { at, .. }) = connection.granted
            && cause(connection.last_zxid_seen).is_some_and(|sent| at < sent)
        {
            let detail = format!("the client had seen {}", connection.last_zxid_seen);
            return Err(Violation::new(Reason::GrantedAhead, Place::Connection(number), detail));
        }
        for (at, frame) in connection.received.iter().enumerate() {
            let (Received::Reply { zxid, .. } | Received::Event { zxid, .. }) = frame;
            if cause(*zxid).is_some_and(|sent| frame.at() < sent) {
                return Err(Violation::new(Reason::ReplyBeforeCause, Place::Frame(number, at), format!("{frame:?}")));
            }
        }
    }
    Ok(())
}
