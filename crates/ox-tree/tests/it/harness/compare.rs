//! Comparisons of the tree with the model.

use super::{CONNS, Harness, NEVER_USED_MS, Seen, Work};
use crate::image::{Image, digest};
use crate::request::Bytes;
use ox_history::model::{Caller, WatchTrigger};
use ox_history::wire::decode_body;
use ox_history::{Op, OpResult};
use ox_proto::acl::perms;
use ox_tree::auth::SchemeSettings;
use std::collections::HashSet;

impl Harness {
    pub(super) fn compare_refusal(&mut self, work: &Work, code: i32) {
        match work {
            Work::Write { conn, xid, op, .. } => {
                assert!(!op.is_write(), "{op:?} takes no zxid");
                assert_eq!(OpResult::error(code), self.model.read(self.caller(*conn), op), "{op:?}");
                self.replies.push(Bytes::default().int(16).int(*xid).long(self.applied.0).int(code).0);
            }
            Work::DeleteContainer { path, time } => {
                let refused = self.model.check_expired(path, *time, NEVER_USED_MS).map_err(|(code, _)| code.code());
                assert_eq!(refused, Err(code), "{path}");
            }
            Work::Open { .. } | Work::Close { .. } | Work::Reconfig { .. } => unreachable!("never refused"),
        }
    }

    pub(super) fn caller(&self, conn: usize) -> Caller<'_> {
        Caller { session: self.conns[conn].session, ids: &self.conns[conn].auth }
    }

    /// Compares header and body of a reply.
    pub(super) fn compare_reply(&self, conn: usize, op: &Op, xid: i32, frame: &[u8], expected: &OpResult) {
        let header = Bytes::default().int(i32::try_from(frame.len()).unwrap() - 4).int(xid).long(self.applied.0);
        assert_eq!(frame[..20], header.int(expected.err).0, "{op:?}: header");
        let body = match (op, expected.err) {
            // What was gathered before a null path is sent.
            (Op::MultiRead(elements), -5) => {
                let upto = elements.iter().position(|element| matches!(element, Op::NullPath(_))).unwrap();
                self.model.read(self.caller(conn), &Op::MultiRead(elements[..upto].to_vec())).body
            }
            (_, 0) => expected.body.clone(),
            (_, _) => return assert_eq!(frame.len(), 20, "{op:?}: no body"),
        };
        assert_eq!(decode_body(op, 0, &frame[20..]), body.normal(), "{op:?}");
    }

    /// Compares the events of each connection, in order.
    pub(super) fn compare_events(&mut self, triggers: &[WatchTrigger]) {
        let mut actual = vec![Vec::new(); CONNS];
        for (watcher, seen, readers) in std::mem::take(&mut self.events.0) {
            let at = self.conns.iter().position(|conn| conn.id == watcher).expect("events are for open connections");
            if readers.is_none_or(|list| self.conns[at].ids.may(&SchemeSettings::default(), &list, perms::READ)) {
                actual[at].push(seen);
            }
        }
        let mut expected = vec![Vec::new(); CONNS];
        for trigger in triggers {
            for conn in self.watches.fire(trigger) {
                if self.conns[conn].auth.may(&trigger.readers, perms::READ) {
                    expected[conn].push((trigger.kind as i32, trigger.path.clone(), self.applied.0));
                }
            }
        }
        assert_eq!(actual, expected, "events");
        self.delivered.iter_mut().zip(actual).for_each(|(all, new)| all.extend(new));
    }

    /// Compares the complete contents.
    pub(crate) fn compare_all(&self) {
        let seen = Image::of(&self.state);
        assert_eq!(seen, Image::of_model(&self.model, self.applied));
        assert_eq!(self.state.digest(), digest(&self.model));
        let nodes = self.model.nodes();
        assert_eq!(self.state.node_count(), nodes.len() + 1);
        // The root counts under both of its names, "" and "/".
        let bytes = nodes.iter().map(|(path, node)| path.len() + node.data.as_ref().map_or(0, Vec::len));
        assert_eq!(self.state.data_bytes(), bytes.sum::<usize>() as u64);
        let lists: HashSet<_> = nodes.values().filter_map(|node| node.acl.as_ref()).collect();
        assert_eq!(self.state.acl_count(), lists.len(), "number of lists in use");
        for never_used in [0, NEVER_USED_MS] {
            let mut expired = self.state.expired_nodes(self.time, never_used);
            expired.sort();
            let is_expired = |path: &&String| self.model.check_expired(path, self.time, never_used).is_ok();
            assert_eq!(expired.iter().collect::<Vec<_>>(), nodes.keys().filter(is_expired).collect::<Vec<_>>());
        }
        assert_eq!(self.state.watches().lock().total(), self.watches.total());
    }
}

/// The events before a reply, and the reply.
pub(super) fn frames(mut rest: &[u8]) -> (Vec<&[u8]>, &[u8]) {
    let mut events = Vec::new();
    loop {
        let length = usize::try_from(i32::from_be_bytes(rest[..4].try_into().unwrap())).unwrap();
        if rest.len() == 4 + length {
            return (events, rest);
        }
        let (event, after) = rest.split_at(4 + length);
        events.push(event);
        rest = after;
    }
}

pub(super) fn seen(frame: &[u8]) -> Seen {
    let int = |at: usize| i32::from_be_bytes(frame[at..at + 4].try_into().unwrap());
    assert_eq!((int(4), int(16), int(24)), (-1, 0, 3), "xid, error and state of an event");
    let length = usize::try_from(int(28)).unwrap();
    assert_eq!(frame.len(), 32 + length);
    let path = String::from_utf8(frame[32..32 + length].to_vec()).unwrap();
    (int(20), path, i64::from_be_bytes(frame[8..16].try_into().unwrap()))
}
