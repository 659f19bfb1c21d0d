//! Quotas: limits and usage, kept as text in nodes below `/zookeeper/quota`.
//!
//! A quota on `/p` is active while `/zookeeper/quota/p/zookeeper_limits` exists; usage is written into the data of
//! the `zookeeper_stats` node beside it, which changes no stat, no version and no digest.

use crate::path;
use ox_proto::jute::decode_text;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Name of the node with the limits.
pub(crate) const LIMITS: &str = "zookeeper_limits";
/// Name of the node with the usage.
pub(crate) const STATS: &str = "zookeeper_stats";

/// The numbers of a limits or stats node. A missing key is -1.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Figures(BTreeMap<String, i64>);

/// Of a path in a log line.
const PATH_SHOWN_MAX: usize = 1024;

/// Text that is not `key=number,...`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unparsable;

impl Figures {
    pub(crate) fn usage(count: i64, bytes: i64) -> Self {
        Self(BTreeMap::from([("count".to_owned(), count), ("bytes".to_owned(), bytes)]))
    }

    // Compat: the grammar is what Java's split and parseLong make of it: separators at the end do not count, one at the
    // start does, and a key without a value stands for -1.
    pub(crate) fn parse(data: Option<&[u8]>) -> Result<Self, Unparsable> {
        let text = decode_text(data.ok_or(Unparsable)?);
        let mut figures = BTreeMap::new();
        let trimmed = text.trim_end_matches([',', ';']);
        if trimmed.is_empty() {
            return Ok(Self(figures));
        }
        if trimmed.starts_with([',', ';']) {
            return Err(Unparsable);
        }
        for pair in trimmed.split([',', ';']).filter(|pair| !pair.is_empty()) {
            let mut parts = pair.trim_end_matches('=').split('=');
            let (Some(key), Some(value)) = (parts.next(), parts.next()) else { return Err(Unparsable) };
            let number = if value.is_empty() { -1 } else { value.parse().map_err(|_| Unparsable)? };
            figures.insert(key.to_owned(), number);
        }
        Ok(Self(figures))
    }

    fn get(&self, key: &str) -> i64 {
        self.0.get(key).copied().unwrap_or(-1)
    }

    pub(crate) fn count(&self) -> i64 {
        self.get("count")
    }

    pub(crate) fn bytes(&self) -> i64 {
        self.get("bytes")
    }

    pub(crate) fn add(&mut self, count: i64, bytes: i64) {
        let (count, bytes) = (self.count().wrapping_add(count), self.bytes().wrapping_add(bytes));
        self.0.insert("count".to_owned(), count);
        self.0.insert("bytes".to_owned(), bytes);
    }

    /// The written form. The odd `=` keeps very old parsers working.
    pub(crate) fn to_text(&self) -> String {
        let mut text = format!("count={},bytes={}", self.count(), self.bytes());
        let others = self.0.iter().filter(|(key, _)| !matches!(key.as_str(), "count" | "bytes"));
        for (at, (key, value)) in others.enumerate() {
            text += if at == 0 { "=;" } else { ";" };
            text += &format!("{key}={value}");
        }
        text
    }

    /// Whether these limits, soft or hard, have anything to say about growing by so much.
    pub(crate) fn concern(&self, count: i64, bytes: i64) -> bool {
        let is_set = |soft, hard| -1 < self.get(soft) || -1 < self.get(hard);
        (count != 0 && is_set("count", "countHardLimit")) || (bytes != 0 && is_set("bytes", "byteHardLimit"))
    }

    /// The limits that growing `usage` by so much passes, the number of nodes first. A hard limit stands in for the
    /// soft one.
    pub(crate) fn passed(&self, path: &str, usage: &Figures, count: i64, bytes: i64) -> [Option<OverQuota>; 2] {
        let look = |measure, (soft, hard), used: i64, more: i64| {
            let is_hard = -1 < self.get(hard);
            let limit = self.get(if is_hard { hard } else { soft });
            let used = used.wrapping_add(more);
            let is_over = more != 0 && -1 < limit && limit < used;
            is_over.then(|| OverQuota { path: path.to_owned(), measure, is_hard, used, limit })
        };
        [
            look(Measure::Count, ("count", "countHardLimit"), usage.count(), count),
            look(Measure::Bytes, ("bytes", "byteHardLimit"), usage.bytes(), bytes),
        ]
    }
}

/// What a limit is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Measure {
    Count,
    Bytes,
}

/// A write that passes a limit: refused if the limit is a hard one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OverQuota {
    /// The top of the subtree.
    pub path: String,
    /// Whether the write is refused.
    pub is_hard: bool,
    measure: Measure,
    /// What would be used.
    used: i64,
    limit: i64,
}

impl fmt::Display for OverQuota {
    /// The line that Apache logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, is_hard, measure, used, limit } = self;
        let (current, kind) = match measure {
            Measure::Count => ("count", "Count"),
            Measure::Bytes => ("bytes", "Byte"),
        };
        let hard = if *is_hard { "hard" } else { "soft" };
        let path: String = path.chars().take(PATH_SHOWN_MAX).collect();
        write!(f, "Quota exceeded: {path} [current {current}={used}, {hard}{kind}Limit={limit}]")
    }
}

/// What a quota allows and what is used of it; -1 is no limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuotaUse {
    /// The top of the subtree.
    pub path: String,
    /// Nodes allowed: the hard limit if there is one, else the soft one.
    pub count_limit: i64,
    /// Bytes allowed.
    pub bytes_limit: i64,
    /// Nodes there are.
    pub count: i64,
    /// Bytes there are.
    pub bytes: i64,
}

impl QuotaUse {
    pub(crate) fn new(path: &str, limits: &Figures, usage: &Figures) -> Self {
        let limit = |hard, soft| if -1 < limits.get(hard) { limits.get(hard) } else { limits.get(soft) };
        Self {
            path: path.to_owned(),
            count_limit: limit("countHardLimit", "count"),
            bytes_limit: limit("byteHardLimit", "bytes"),
            count: usage.count(),
            bytes: usage.bytes(),
        }
    }
}

/// The paths that have a quota.
#[derive(Debug, Default)]
pub(crate) struct Quotas(BTreeSet<Box<str>>);

impl Quotas {
    pub(crate) fn add(&mut self, path: &str) {
        // A limit node directly below the quota root limits nothing (it kills Apache).
        if path.starts_with('/') {
            self.0.insert(path.into());
        }
    }

    pub(crate) fn remove(&mut self, path: &str) {
        self.0.remove(path);
    }

    pub(crate) fn paths(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|path| &**path)
    }

    /// The deepest path with a quota at or above `node_path`.
    pub(crate) fn over<'a>(&self, node_path: &'a str) -> Option<&'a str> {
        if self.0.is_empty() {
            return None;
        }
        std::iter::once(node_path).chain(path::ancestors(node_path)).find(|above| self.0.contains(*above))
    }
}

/// The path whose quota a limits or stats node below `/zookeeper/quota` is about.
// Compat: Apache compares texts, so `/zookeeper/quotaX` is about "X", which is no path and has no nodes.
pub(crate) fn subject(parent_of_figures: &str) -> Option<&str> {
    parent_of_figures.strip_prefix(path::QUOTA)
}

/// Longest parent of a limits node whose removal ends Apache.
const DEADLY_PARENT_UNITS_MAX: usize = 16;

/// Whether Apache dies when this node is removed, at once and again at every start: it takes the parent's
/// path apart as if it lay deeper. Those who may go back to Apache must not have such a transaction in their logs.
pub(crate) fn is_deadly_to_remove(node_path: &str) -> bool {
    path::split(node_path).is_some_and(|(parent, name)| {
        name == LIMITS && parent.starts_with(path::SYSTEM) && parent.encode_utf16().count() <= DEADLY_PARENT_UNITS_MAX
    })
}

/// Whether Apache dies of this data in a stats node as soon as its quota is used.
pub(crate) fn is_deadly_usage(node_path: &str, data: Option<&[u8]>) -> bool {
    let is_stats = path::split(node_path)
        .is_some_and(|(parent, name)| name == STATS && subject(parent).is_some_and(|subject| subject.starts_with('/')));
    is_stats && Figures::parse(data).is_err()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Result<&str, Unparsable>) {
        assert_eq!(
            Figures::parse(Some(text.as_bytes())).map(|figures| figures.to_text()).as_deref(),
            expected.as_ref().map(|text| *text),
            "{text}"
        );
    }

    #[test]
    fn grammar() {
        check("count=3,bytes=-1", Ok("count=3,bytes=-1"));
        check("", Ok("count=-1,bytes=-1"));
        check(",;", Ok("count=-1,bytes=-1"));
        check("count==7", Ok("count=-1,bytes=-1"));
        check("count=1,;bytes=2;", Ok("count=1,bytes=2"));
        check("count=+5", Ok("count=5,bytes=-1"));
        let full = "count=-1,bytes=-1=;byteHardLimit=20;countHardLimit=3";
        check(full, Ok(full));
        for bad in [",count=1", "count=", "count", "count= 1", "count=x", "count=9223372036854775808"] {
            check(bad, Err(Unparsable));
        }
        assert_eq!(Figures::parse(None), Err(Unparsable));
    }

    #[test]
    fn the_deepest_quota_counts() {
        let mut quotas = Quotas::default();
        quotas.add("/a");
        quotas.add("/a/b");
        quotas.add("");
        assert_eq!(quotas.over("/a/b/c"), Some("/a/b"));
        assert_eq!(quotas.over("/a/bc"), Some("/a"));
        assert_eq!(quotas.over("/ab"), None);
        quotas.remove("/a/b");
        assert_eq!(quotas.over("/a/b/c"), Some("/a"));
    }

    #[test]
    fn hard_limits_forbid() {
        let limits = Figures::parse(Some(b"countHardLimit=3;byteHardLimit=10")).unwrap();
        let usage = Figures::usage(3, 9);
        let forbids =
            |count, bytes| limits.passed("/p", &usage, count, bytes).iter().flatten().any(|over| over.is_hard);
        assert!(forbids(1, 0) && forbids(0, 2) && !forbids(0, 1));
    }

    #[test]
    fn what_is_logged() {
        let check = |limits: &[u8], (count, bytes), expected: &[&str]| {
            let limits = Figures::parse(Some(limits)).unwrap();
            let passed = limits.passed("/p", &Figures::usage(3, 9), count, bytes);
            assert_eq!(passed.iter().flatten().map(OverQuota::to_string).collect::<Vec<_>>(), expected);
        };
        let (count, bytes) = ("[current count=4, softCountLimit=2]", "[current bytes=19, hardByteLimit=10]");
        let expected = [count, bytes].map(|text| format!("Quota exceeded: /p {text}"));
        check(b"count=2,bytes=1;byteHardLimit=10", (1, 10), &expected.each_ref().map(|text| &**text));
        check(b"count=2,bytes=-1;countHardLimit=9", (1, 10), &[]);
        check(b"count=3,bytes=8", (0, -1), &[]);
    }
}
