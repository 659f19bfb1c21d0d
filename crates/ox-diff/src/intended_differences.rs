//! Requests to which Oxkeeper deliberately replies differently, and requests that must never be sent to Apache: one
//! table, with reasons.
//!
//! The generator avoids everything listed here; scenarios marked `!ours-only` specify our replies instead.

#![expect(clippy::wildcard_enum_match_arm, reason = "a table of exceptions: everything else may be sent")]

use crate::request::RequestBody;
use crate::script::{Action, Line};
use crate::value::FieldValue;
use ox_proto::OpCode;

#[derive(Clone, Copy, Debug)]
pub struct IntendedDifference {
    pub what: &'static str,
    /// What Apache 3.9.3 does.
    pub apache: &'static str,
    pub ours: &'static str,
    pub reason: &'static str,
    /// The scenario that pins our behaviour, or how the test avoids the situation.
    pub pinned_by: &'static str,
}

/// Every intended difference on the client port of a standalone server.
pub const INTENDED: &[IntendedDifference] = &[
    IntendedDifference {
        what: "createTTL with flags 0-4 and a negative ttl",
        apache: "logs a transaction it cannot apply, dies, and dies again at every start",
        ours: "-8",
        reason: "one request must not destroy a server",
        pinned_by: "ours-deadly",
    },
    IntendedDifference {
        what: "create /zookeeper/quota/zookeeper_limits",
        apache: "dies while applying, and at every start",
        ours: "-8; a plain node when the write is in a log",
        reason: "one request must not destroy a server, ours or the Apache one that opens our files",
        pinned_by: "ours-deadly",
    },
    IntendedDifference {
        what: "delete of a zookeeper_limits node whose parent starts with /zookeeper and is at most 16 characters long",
        apache: "dies while applying, and at every start",
        ours: "-8, also for a create of such a node that would be deleted automatically; a plain delete when the write is in a log",
        reason: "one request must not destroy a server, ours or the Apache one that opens our files",
        pinned_by: "ours-deadly",
    },
    IntendedDifference {
        what: "unparsable data in a zookeeper_stats node, then a change below the quota path",
        apache: "dies while applying, and at every start",
        ours: "-8; recounts the subtree of the quota path when the write is in a log",
        reason: "one request must not destroy a server, ours or the Apache one that opens our files",
        pinned_by: "ours-usage",
    },
    IntendedDifference {
        what: "deleteContainer (20) from a client",
        apache: "deletes any childless node without an ACL check",
        ours: "-6, close",
        reason: "an internal operation that would bypass access control",
        pinned_by: "ours-internal",
    },
    IntendedDifference {
        what: "createSession (-10) on an established connection",
        apache: "writes a transaction and sends a second handshake reply",
        ours: "-6, close",
        reason: "an internal operation; no client sends it",
        pinned_by: "ours-internal",
    },
    IntendedDifference {
        what: "requests pipelined after closeSession",
        apache: "-112, -12 or nothing, sometimes with a zxid",
        ours: "-112 or nothing, never a change",
        reason: "a race in Apache",
        pinned_by: "ours-internal; closeSession is always last in a batch",
    },
    IntendedDifference {
        what: "auth and sasl after other requests of a pipeline",
        apache: "replies overtake those of earlier requests",
        ours: "replies in order",
        reason: "kazoo expects order, all other clients accept it",
        pinned_by: "compared out of band; a new identity comes first in a batch, because whoAmI and event filters of \
                    earlier requests race with it",
    },
    IntendedDifference {
        what: "writes pipelined after a setACL of a node they need",
        apache: "judged by the old or the new list, depending on timing",
        ours: "judged by the new list",
        reason: "a race in Apache",
        pinned_by: "ours-internal; only reads follow setACL in a batch",
    },
    IntendedDifference {
        what: "writes pipelined after a createContainer with flags 1 or 3, also after a multi with one",
        apache: "the container counts as ephemeral until it is applied: children get -108, and closeSession deletes it, \
                 depending on timing",
        ours: "a container from the start",
        reason: "a race in Apache",
        pinned_by: "only reads follow such a create in a batch",
    },
    IntendedDifference {
        what: "writes pipelined after a multi that fails as a whole because of a null path or a null in an ACL entry",
        apache: "validated as if the elements before the null had been applied, depending on timing; a create may \
                 permanently store a wrong cversion",
        ours: "a failed multi leaves no trace",
        reason: "a race in Apache",
        pinned_by: "only reads follow such a multi in a batch",
    },
    IntendedDifference {
        what: "pipelined writes under an enforced quota",
        apache: "compared with the usage applied so far, depending on timing",
        ours: "compared with the usage applied so far",
        reason: "a race in both",
        pinned_by: "profile quota: at most one write into the quota subtree per batch",
    },
    IntendedDifference {
        what: "setWatches and setWatches2 for a node the client may not read",
        apache: "reveals by events whether it exists or changed",
        ours: "checks READ like the read that would set the watch",
        reason: "an access control leak (K167)",
        pinned_by: "ours-rearm; re-arming leaves the protected subtree out",
    },
    IntendedDifference {
        what: "a child of a container that was created with an ephemeral flag (1, 3) and is not applied yet",
        apache: "-108: it takes the container for an ephemeral node until it is applied",
        ours: "created",
        reason: "a container can have children, whether or not it is applied yet",
        pinned_by: "left out of the scenarios; too rare to be generated",
    },
    IntendedDifference {
        what: "ACL ids of scheme ip in IPv6 notation",
        apache: "-114 up to 3.9.3, accepted since 3.9.4",
        ours: "as 3.9.4",
        reason: "the peer of this test is 3.9.3",
        pinned_by: "not generated",
    },
    IntendedDifference {
        what: "characters above U+FFFF in replies",
        apache: "sent as two encoded surrogates",
        ours: "either form",
        reason: "clients decode both",
        pinned_by: "compared as characters",
    },
];

/// The reason why a line must not be sent to Apache, if any.
pub fn unfit_for_apache(line: &Line) -> Option<&'static str> {
    let Action::Request(request) = &line.action else { return None };
    match request.known() {
        Some(OpCode::DeleteContainer) => return Some("deleteContainer is refused by ours only"),
        Some(OpCode::CreateSession) => return Some("createSession is refused by ours only"),
        _ => (),
    }
    if request.cut.is_some() {
        return None;
    }
    match &request.body {
        RequestBody::Multi { elements, .. } => elements.iter().find_map(|element| kills(element.op, &element.body)),
        RequestBody::CreateTtl { flags: 0..=4, ttl_ms, .. } if *ttl_ms < 0 => Some("a negative ttl kills Apache"),
        body => kills(request.op, body),
    }
}

fn kills(op: i32, body: &RequestBody) -> Option<&'static str> {
    match body {
        RequestBody::Create { path, .. } | RequestBody::CreateTtl { path, .. } => (path.as_str()
            == Some("/zookeeper/quota/zookeeper_limits"))
        .then_some("a limit node at the quota root kills Apache"),
        RequestBody::PathVersion { path, .. } if op == OpCode::Delete.code() => {
            let parent = path.as_str()?.strip_suffix("/zookeeper_limits")?;
            (parent.starts_with("/zookeeper") && parent.len() <= 16).then_some("deleting this limit node kills Apache")
        }
        RequestBody::SetData { path, data, .. } => (path.as_str()?.ends_with("/zookeeper_stats") && !is_usage(data))
            .then_some("unparsable quota usage kills Apache"),
        _ => None,
    }
}

/// Whether Apache can parse the text as quota usage.
fn is_usage(data: &FieldValue) -> bool {
    let Some(text) = data.as_str() else { return false };
    let is_pair = |pair: &str| pair.split('=').nth(1).is_some_and(|number| number.parse::<i64>().is_ok());
    // Repeated separators count as one, except before the first pair.
    let mut pairs = text.split([',', ';']);
    text.is_empty() || (pairs.next().is_some_and(is_pair) && pairs.all(|pair| pair.is_empty() || is_pair(pair)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, unfit: bool) {
        assert_eq!(unfit_for_apache(&Line::parse(line).unwrap()).is_some(), unfit, "{line}");
    }

    #[test]
    fn fatal_requests_are_recognised() {
        check("A createTTL /a x world flags=0 ttl=-1", true);
        check("A createTTL /a x world flags=5 ttl=-1", false);
        check("A multi [ createTTL /a x world flags=0 ttl=-1 ]", false);
        check("A create /zookeeper/quota/zookeeper_limits x world", true);
        check("A multi [ create /zookeeper/quota/zookeeper_limits x world ]", true);
        check("A create /zookeeper/quota/a/zookeeper_limits x world", false);
        check("A delete /zookeeper/zookeeper_limits", true);
        check("A delete /zookeeper/quota/zookeeper_limits", true);
        check("A delete /zookeeper/quota/a/zookeeper_limits", false);
        check("A setData /zookeeper/quota/a/zookeeper_stats x", true);
        check("A setData /zookeeper/quota/a/zookeeper_stats null", true);
        check("A setData /zookeeper/quota/a/zookeeper_stats \"\"", false);
        check("A setData /zookeeper/quota/a/zookeeper_stats \"count=1,bytes=-1=;x=3\"", false);
        check("A op 20 000000022f61", true);
        check("A op -10 empty", true);
    }
}
