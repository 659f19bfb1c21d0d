//! Bytes read and written per namespace (the first path element).
//!
//! Consecutive requests usually have the same namespace, so the last one is tried first.

use crate::limits::{NAMESPACE_BYTES_MAX, NAMESPACES_MAX};
use ox_proto::OpCode;
use ox_proto::txn::Txn;
use ox_tree::MetricSummary;
use ox_tree::prefetch::request_path;
use std::collections::BTreeMap;

/// What a Stat counts in every read.
const STAT_BYTES: usize = 68;
/// A reply's length and header.
const REPLY_HEAD_BYTES: usize = 4 + 16;

#[derive(Debug, Default)]
pub struct NamespaceTraffic {
    spaces: Vec<(Box<str>, MetricSummary)>,
    index: BTreeMap<Box<str>, usize>,
    last: usize,
    /// Namespaces that were counted since the last drain.
    touched: Vec<usize>,
}

impl NamespaceTraffic {
    /// Counts a read by its request body and its reply frame. Only successful reads of a single node count.
    pub fn note_read(&mut self, op: OpCode, body: &[u8], reply: &[u8]) {
        let Some(answer) = reply.get(REPLY_HEAD_BYTES..).filter(|answer| !answer.is_empty()) else { return };
        #[expect(clippy::wildcard_enum_match_arm, reason = "nothing else is counted")]
        let returned = match op {
            OpCode::Exists => 0,
            OpCode::GetData => answer.len().saturating_sub(4 + STAT_BYTES),
            OpCode::GetChildren => names_bytes(answer),
            OpCode::GetChildren2 => names_bytes(answer).saturating_sub(STAT_BYTES),
            _ => return,
        };
        let Some(path) = request_path(body) else { return };
        self.note(path, path.len() + returned + STAT_BYTES);
    }

    pub fn note_write(&mut self, txn: &Txn<'_>) {
        let mut note =
            |path: &str, data: Option<&[u8]>| self.note(path.as_bytes(), path.len() + data.map_or(0, <[u8]>::len));
        match txn {
            Txn::Create(create) => note(&create.path, create.data),
            Txn::SetData { path, data, .. } => note(path, *data),
            Txn::Delete { path } | Txn::DeleteContainer { path } => note(path, None),
            Txn::CloseSession { paths } => paths.iter().flatten().for_each(|path| note(path, None)),
            Txn::Multi(elements) if elements.iter().any(|element| element.kind() == OpCode::Error) => (),
            Txn::Multi(elements) => elements.iter().for_each(|element| self.note_write(element)),
            Txn::CreateSession { .. }
            | Txn::SetAcl { .. }
            | Txn::Check { .. }
            | Txn::Error { .. }
            | Txn::Reconfig { .. } => (),
        }
    }

    /// Counts an event at a path that has no size.
    pub fn note_event(&mut self, path: &str) {
        self.note(path.as_bytes(), 0);
    }

    /// Passes on what was counted since the last call.
    pub fn drain(&mut self, mut take: impl FnMut(&str, MetricSummary)) {
        for at in self.touched.drain(..) {
            let (name, tally) = &mut self.spaces[at];
            take(name, std::mem::take(tally));
        }
    }

    pub fn is_empty(&self) -> bool {
        self.touched.is_empty()
    }

    fn note(&mut self, path: &[u8], bytes: usize) {
        let Some(name) = namespace(path) else { return };
        if self.spaces.get(self.last).is_none_or(|(last, _)| last.as_bytes() != name) {
            let Some(found) = self.find(name) else { return };
            self.last = found;
        }
        let tally = &mut self.spaces[self.last].1;
        if tally.count == 0 {
            self.touched.push(self.last);
        }
        tally.record(i64::try_from(bytes).unwrap_or(i64::MAX));
    }

    fn find(&mut self, name: &[u8]) -> Option<usize> {
        let name = std::str::from_utf8(name).ok()?;
        if let Some(found) = self.index.get(name) {
            return Some(*found);
        }
        if NAMESPACES_MAX <= self.spaces.len() {
            return None;
        }
        self.spaces.push((name.into(), MetricSummary::default()));
        self.index.insert(name.into(), self.spaces.len() - 1);
        Some(self.spaces.len() - 1)
    }
}

/// None for the root and for very long names.
fn namespace(path: &[u8]) -> Option<&[u8]> {
    let names = path.strip_prefix(b"/")?;
    let name = names.split(|byte| *byte == b'/').next()?;
    (1..=NAMESPACE_BYTES_MAX).contains(&name.len()).then_some(name)
}

/// Bytes of all names in an encoded list, and of what follows it.
fn names_bytes(answer: &[u8]) -> usize {
    let Some((count, names)) = answer.split_first_chunk::<4>() else { return 0 };
    names.len().saturating_sub(4 * usize::try_from(i32::from_be_bytes(*count)).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(path: &str) -> Vec<u8> {
        let mut body = Vec::new();
        ox_proto::jute::put_text(&mut body, path);
        body.push(0);
        body
    }

    fn drained(traffic: &mut NamespaceTraffic) -> Vec<(String, u64, i64)> {
        let mut found = Vec::new();
        traffic.drain(|name, tally| found.push((name.to_owned(), tally.count, tally.sum)));
        found
    }

    #[test]
    fn reads_count_path_data_and_stat() {
        let mut traffic = NamespaceTraffic::default();
        let data_reply = vec![0; REPLY_HEAD_BYTES + 4 + 10 + STAT_BYTES];
        traffic.note_read(OpCode::GetData, &body("/app/cfg"), &data_reply);
        traffic.note_read(OpCode::Exists, &body("/app/cfg"), &data_reply[..REPLY_HEAD_BYTES + STAT_BYTES]);
        let mut list = vec![0; REPLY_HEAD_BYTES];
        list.extend([0, 0, 0, 2, 0, 0, 0, 1, b'a', 0, 0, 0, 2, b'b', b'c']);
        traffic.note_read(OpCode::GetChildren, &body("/b"), &list);
        list.extend([0; STAT_BYTES]);
        traffic.note_read(OpCode::GetChildren2, &body("/b"), &list);
        let expected = [("app".to_owned(), 2, 8 + 10 + 68 + 8 + 68), ("b".to_owned(), 2, 2 * (2 + 3 + 68))];
        assert_eq!(drained(&mut traffic), expected);
        assert!(traffic.is_empty());
    }

    #[test]
    fn root_and_failed_reads_are_not_counted() {
        let mut traffic = NamespaceTraffic::default();
        traffic.note_read(OpCode::Exists, &body("/"), &[0; 88]);
        traffic.note_read(OpCode::Exists, &body("/a"), &[0; REPLY_HEAD_BYTES]);
        traffic.note_read(OpCode::Ping, &[], &[0; REPLY_HEAD_BYTES]);
        assert_eq!(drained(&mut traffic), []);
    }

    #[test]
    fn k151_names_are_bounded() {
        let mut traffic = NamespaceTraffic::default();
        for number in 0..=NAMESPACES_MAX {
            traffic.note_write(&Txn::Delete { path: format!("/n{number}/x").into() });
        }
        assert_eq!(drained(&mut traffic).len(), NAMESPACES_MAX);
        let mut traffic = NamespaceTraffic::default();
        for length in [NAMESPACE_BYTES_MAX, NAMESPACE_BYTES_MAX + 1, 1 << 20] {
            traffic.note_write(&Txn::Delete { path: format!("/{}/x", "n".repeat(length)).into() });
        }
        assert_eq!(drained(&mut traffic).len(), 1, "long ones are not kept");
    }
}
