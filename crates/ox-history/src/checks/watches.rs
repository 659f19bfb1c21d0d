//! Compares the events that each connection received with those that it must receive (P49, P50, P52).

use crate::history::{History, ReceivedFrame};
use crate::model::{Watches, ancestors};
use crate::violation::{Checked, Violation, ViolationKind, ViolationPlace};
use ox_proto::Zxid;
use ox_proto::event::EventType;
use std::collections::BTreeSet;

/// Whether a connection must receive an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    Must,
    /// Authentication was in flight: depends on the moment at which the server checked.
    May,
    MustNot,
}

/// An event that is due.
#[derive(Clone, Debug)]
pub(crate) struct Expected {
    pub(crate) kind: EventType,
    pub(crate) path: String,
    pub(crate) due: Due,
}

/// Why an unexpected event is wrong.
pub(crate) fn classify_unexpected(watches: &Watches, conn: usize, path: &str) -> ViolationKind {
    let is_of = |set: &BTreeSet<(usize, String)>, path: &str| set.contains(&(conn, path.to_owned()));
    let above = || std::iter::once(path).chain(ancestors(path));
    if is_of(&watches.fired, path) {
        ViolationKind::FiredTwice
    } else if above().any(|path| is_of(&watches.removed, path)) {
        ViolationKind::EventAfterRemoval
    } else {
        ViolationKind::InventedEvent
    }
}

/// Compares the events of one transaction on one connection. Returns the number of frames they take, or `None` if the
/// stream ends before the last of them.
pub(crate) fn compare(
    history: &History,
    watches: &Watches,
    (conn, cursor): (usize, usize),
    zxid: Zxid,
    expected: &[Expected],
) -> Checked<Option<usize>> {
    let connection = &history.connections[conn];
    let frames = &connection.received[cursor..];
    let seen: Vec<(i32, &str)> = frames
        .iter()
        .map_while(|frame| match frame {
            ReceivedFrame::Event { zxid: at, kind, path, .. } if *at == zxid => Some((*kind, path.as_str())),
            _ => None,
        })
        .collect();
    let mut taken = 0;
    for (at, event) in expected.iter().enumerate() {
        let wanted = (event.kind as i32, event.path.as_str());
        let place = ViolationPlace::Frame(conn, cursor + taken);
        // A multi may recreate a node that the client may then read.
        let may_come_later = || {
            let is_same = |later: &Expected| (later.kind as i32, later.path.as_str()) == wanted;
            expected[at + 1..].iter().any(|later| is_same(later) && later.due != Due::MustNot)
        };
        if seen.get(taken) == Some(&wanted) {
            if event.due == Due::MustNot && may_come_later() {
                continue;
            }
            if event.due == Due::MustNot {
                return Err(Violation::new(ViolationKind::LeakedEvent, place, format!("{wanted:?} at {zxid}")));
            }
            taken += 1;
        } else if event.due == Due::Must {
            let Some(other) = seen.get(taken) else {
                let may_be_cut = connection.closed.is_some() || !history.is_settled;
                // Also between the events of setWatches and its reply.
                let is_over = |frame: &ReceivedFrame| matches!(frame, ReceivedFrame::Event { zxid: Zxid(-1), .. });
                if frames[taken..].iter().all(is_over) && may_be_cut {
                    return Ok(None);
                }
                return Err(Violation::new(ViolationKind::LostEvent, place, format!("{wanted:?} at {zxid}")));
            };
            let is_later = seen[taken..].contains(&wanted);
            let is_expected = expected[at..].iter().any(|event| (event.kind as i32, event.path.as_str()) == *other);
            let reason = match (is_later, is_expected) {
                (true, true) => ViolationKind::EventsOutOfOrder,
                (true, false) => classify_unexpected(watches, conn, other.1),
                (false, _) => ViolationKind::LostEvent,
            };
            return Err(Violation::new(reason, place, format!("{other:?} instead of {wanted:?} at {zxid}")));
        }
    }
    if let Some(extra) = seen.get(taken) {
        let place = ViolationPlace::Frame(conn, cursor + taken);
        return Err(Violation::new(classify_unexpected(watches, conn, extra.1), place, format!("{extra:?} at {zxid}")));
    }
    Ok(Some(taken))
}
