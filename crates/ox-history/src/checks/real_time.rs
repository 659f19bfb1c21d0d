//! The order of writes respects real time (P23): a write that completed before another was sent precedes it. And no
//! reply shows a write before it was sent (P27).

use super::matching::Matching;
use super::streams::Stream;
use crate::history::{HandshakeReply, History, ReceivedFrame, Time};
use crate::violation::{Checked, Violation, ViolationKind, ViolationPlace};
use ox_proto::{SessionId, Zxid};

struct Write {
    zxid: Zxid,
    sent: Time,
    completed: Option<Time>,
    place: ViolationPlace,
}

pub(crate) fn check(history: &History, streams: &[Stream], matching: &Matching) -> Checked {
    let writes = writes(history, streams, matching);
    check_order(&writes)?;
    check_causes(history, &writes)
}

fn writes(history: &History, streams: &[Stream], matching: &Matching) -> Vec<Write> {
    let mut writes = Vec::new();
    for (number, connection) in history.connections.iter().enumerate() {
        if let (SessionId::NONE, Some(HandshakeReply::Session { at, session, .. })) =
            (connection.requested_session, connection.granted)
            && let Some(&opening) = matching.openings.get(&session)
            && !history.settings.local_sessions
        {
            let (zxid, place) = (history.log[opening].zxid, ViolationPlace::Connection(number));
            writes.push(Write { zxid, sent: connection.opened, completed: Some(at), place });
        }
        for (at, sent) in connection.requests.iter().enumerate() {
            let Some(zxid) = matching.zxid(history, number, at) else { continue };
            let completed = streams[number].reply_to(connection, at).map(|reply| reply.at);
            writes.push(Write { zxid, sent: sent.at, completed, place: ViolationPlace::Request(number, at) });
        }
    }
    writes.sort_by_key(|write| write.zxid);
    writes
}

fn check_order(writes: &[Write]) -> Checked {
    let mut completed: Vec<(Time, Zxid)> =
        writes.iter().filter_map(|write| write.completed.map(|at| (at, write.zxid))).collect();
    completed.sort_unstable();
    let mut by_sending: Vec<&Write> = writes.iter().collect();
    by_sending.sort_by_key(|write| write.sent);
    let (mut next, mut highest) = (0, Zxid(0));
    for write in by_sending {
        while completed.get(next).is_some_and(|(at, _)| *at < write.sent) {
            highest = highest.max(completed[next].1);
            next += 1;
        }
        if write.zxid < highest {
            let detail = format!("{} was sent after the reply to {highest}", write.zxid);
            return Err(Violation::new(ViolationKind::OutOfRealTime, write.place, detail));
        }
    }
    Ok(())
}

/// For each zxid, the latest moment at which a write up to it was sent.
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
        if let Some(HandshakeReply::Session { at, .. }) = connection.granted
            && cause(connection.last_zxid_seen).is_some_and(|sent| at < sent)
        {
            let detail = format!("the client had seen {}", connection.last_zxid_seen);
            return Err(Violation::new(ViolationKind::GrantedAhead, ViolationPlace::Connection(number), detail));
        }
        for (at, frame) in connection.received.iter().enumerate() {
            let (ReceivedFrame::Reply { zxid, .. } | ReceivedFrame::Event { zxid, .. }) = frame;
            if cause(*zxid).is_some_and(|sent| frame.at() < sent) {
                return Err(Violation::new(
                    ViolationKind::ReplyBeforeCause,
                    ViolationPlace::Frame(number, at),
                    format!("{frame:?}"),
                ));
            }
        }
    }
    Ok(())
}
