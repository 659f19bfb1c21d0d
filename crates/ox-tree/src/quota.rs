//! Quotas: limits and usage, stored as text in nodes below `/zookeeper/quota`.
//!
//! A quota on `/p` is active while `/zookeeper/quota/p/zookeeper_limits` exists. The usage is stored as data of the
//! node `zookeeper_stats` beside it; updating it changes no Stat, no version and no digest.

use crate::State;
use crate::ops::signed;
use crate::path;
use ox_proto::jute::decode_text;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

pub(crate) const LIMITS: &str = "zookeeper_limits";
pub(crate) const STATS: &str = "zookeeper_stats";

/// The contents of a limits or stats node (Apache's `StatsTrack`). A missing key has the value -1.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct StatsTrack(BTreeMap<String, i64>);

/// The maximum length of a path in a log line.
const LOGGED_PATH_CHARS_MAX: usize = 1024;

/// The text does not have the form `key=number,...`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MalformedQuota;

impl StatsTrack {
    pub(crate) fn usage(count: i64, bytes: i64) -> Self {
        Self(BTreeMap::from([("count".to_owned(), count), ("bytes".to_owned(), bytes)]))
    }

    // Compat: the grammar follows from Java's split and parseLong: trailing separators are ignored, a leading one is an
    // error, and a key with an empty value has the value -1.
    pub(crate) fn parse(data: Option<&[u8]>) -> Result<Self, MalformedQuota> {
        let text = decode_text(data.ok_or(MalformedQuota)?);
        let mut track = BTreeMap::new();
        let trimmed = text.trim_end_matches([',', ';']);
        if trimmed.is_empty() {
            return Ok(Self(track));
        }
        if trimmed.starts_with([',', ';']) {
            return Err(MalformedQuota);
        }
        for pair in trimmed.split([',', ';']).filter(|pair| !pair.is_empty()) {
            let mut parts = pair.trim_end_matches('=').split('=');
            let (Some(key), Some(value)) = (parts.next(), parts.next()) else { return Err(MalformedQuota) };
            let number = if value.is_empty() { -1 } else { value.parse().map_err(|_| MalformedQuota)? };
            track.insert(key.to_owned(), number);
        }
        Ok(Self(track))
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

    /// The stored form. The `=` before the first semicolon is for parsers of old versions.
    pub(crate) fn to_text(&self) -> String {
        let mut text = format!("count={},bytes={}", self.count(), self.bytes());
        let others = self.0.iter().filter(|(key, _)| !matches!(key.as_str(), "count" | "bytes"));
        for (at, (key, value)) in others.enumerate() {
            text += if at == 0 { "=;" } else { ";" };
            text += &format!("{key}={value}");
        }
        text
    }

    /// Whether a soft or hard limit applies to this growth.
    pub(crate) fn is_concerned(&self, count: i64, bytes: i64) -> bool {
        let is_set = |soft, hard| -1 < self.get(soft) || -1 < self.get(hard);
        (count != 0 && is_set("count", "countHardLimit")) || (bytes != 0 && is_set("bytes", "byteHardLimit"))
    }

    /// The limits that this growth of `usage` exceeds, the node count first. A hard limit replaces the soft one.
    pub(crate) fn exceeded(
        &self,
        path: &str,
        usage: &StatsTrack,
        count: i64,
        bytes: i64,
    ) -> [Option<QuotaExceeded>; 2] {
        let look = |resource, (soft, hard), used: i64, more: i64| {
            let is_hard = -1 < self.get(hard);
            let limit = self.get(if is_hard { hard } else { soft });
            let used = used.wrapping_add(more);
            let is_over = more != 0 && -1 < limit && limit < used;
            is_over.then(|| QuotaExceeded { path: path.to_owned(), resource, is_hard, used, limit })
        };
        [
            look(Resource::Count, ("count", "countHardLimit"), usage.count(), count),
            look(Resource::Bytes, ("bytes", "byteHardLimit"), usage.bytes(), bytes),
        ]
    }
}

/// What a limit restricts: nodes or bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Resource {
    Count,
    Bytes,
}

/// A limit that a write exceeds. If the limit is hard, the write is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuotaExceeded {
    /// The root of the limited subtree.
    pub path: String,
    pub is_hard: bool,
    resource: Resource,
    /// The usage after the write.
    used: i64,
    limit: i64,
}

impl fmt::Display for QuotaExceeded {
    /// Formats the line that Apache logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, is_hard, resource, used, limit } = self;
        let (current, kind) = match resource {
            Resource::Count => ("count", "Count"),
            Resource::Bytes => ("bytes", "Byte"),
        };
        let hard = if *is_hard { "hard" } else { "soft" };
        let path: String = path.chars().take(LOGGED_PATH_CHARS_MAX).collect();
        write!(f, "Quota exceeded: {path} [current {current}={used}, {hard}{kind}Limit={limit}]")
    }
}

/// Limits and usage of a quota; a limit of -1 means none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuotaStatus {
    /// The root of the limited subtree.
    pub path: String,
    /// The hard limit of nodes if there is one, otherwise the soft limit.
    pub count_limit: i64,
    /// As `count_limit`, for bytes of data.
    pub bytes_limit: i64,
    /// The number of nodes in the subtree.
    pub count: i64,
    /// The bytes of data in the subtree.
    pub bytes: i64,
}

impl QuotaStatus {
    pub(crate) fn new(path: &str, limits: &StatsTrack, usage: &StatsTrack) -> Self {
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

#[derive(Debug, Default)]
pub(crate) struct Quotas(BTreeSet<Box<str>>);

impl Quotas {
    pub(crate) fn add(&mut self, path: &str) {
        // A limits node directly below the quota root limits nothing. Apache crashes on it.
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
    pub(crate) fn find_covering<'a>(&self, node_path: &'a str) -> Option<&'a str> {
        if self.0.is_empty() {
            return None;
        }
        std::iter::once(node_path).chain(path::ancestors(node_path)).find(|above| self.0.contains(*above))
    }
}

impl State {
    /// Recounts the subtree of a quota and writes the result into its stats node.
    pub(crate) fn recount_quota(&mut self, quota_path: &str) {
        let (mut count, mut bytes) = (0, 0);
        if let Some(top) = self.tree.find(quota_path) {
            for id in self.tree.subtree(top) {
                count += 1;
                bytes += signed(self.tree.get(id).data_length());
            }
        }
        self.write_quota(quota_path, &StatsTrack::usage(count, bytes));
    }

    fn write_quota(&mut self, quota_path: &str, usage: &StatsTrack) {
        let stats_path = format!("{}{quota_path}/{}", path::QUOTA, STATS);
        if let Some(id) = self.tree.find(&stats_path) {
            self.tree.set_data(id, &stats_path, Some(usage.to_text().as_bytes()), |_| ());
        }
    }

    pub(crate) fn adjust_quota(&mut self, node_path: &str, count: i64, bytes: i64) {
        let Some(quota_path) = self.quotas.find_covering(node_path) else { return };
        match self.quota_track(quota_path, STATS) {
            Some(Ok(mut usage)) => {
                usage.add(count, bytes);
                self.write_quota(quota_path, &usage);
            }
            Some(Err(_)) => self.recount_quota(quota_path),
            None => (),
        }
    }

    /// The parsed limits or stats node of a quota; `None` if the node does not exist.
    pub(crate) fn quota_track(&self, quota_path: &str, name: &str) -> Option<Result<StatsTrack, MalformedQuota>> {
        let id = self.tree.find(&format!("{}{quota_path}/{name}", path::QUOTA))?;
        Some(StatsTrack::parse(self.tree.get(id).data()))
    }
}

/// The path that is limited by the quota nodes below `parent_of_track`.
// Compat: Apache compares text, so `/zookeeper/quotaX` refers to "X", which is not a path of any node.
pub(crate) fn quota_path(parent_of_track: &str) -> Option<&str> {
    parent_of_track.strip_prefix(path::QUOTA)
}

/// The longest parent path, in UTF-16 units, of a limits node whose deletion crashes Apache.
const CRASHING_PARENT_UNITS_MAX: usize = 16;

/// Whether Apache crashes when it applies the deletion of this node, and again at every start, because it assumes a
/// longer parent path. Such a transaction must not be logged: Apache may read the log after a downgrade or as a peer.
pub(crate) fn removal_crashes_apache(node_path: &str) -> bool {
    path::split(node_path).is_some_and(|(parent, name)| {
        name == LIMITS && parent.starts_with(path::SYSTEM) && parent.encode_utf16().count() <= CRASHING_PARENT_UNITS_MAX
    })
}

/// Whether Apache crashes on this data of a stats node as soon as it updates the quota.
pub(crate) fn usage_crashes_apache(node_path: &str, data: Option<&[u8]>) -> bool {
    let is_stats = path::split(node_path).is_some_and(|(parent, name)| {
        name == STATS && quota_path(parent).is_some_and(|quota_path| quota_path.starts_with('/'))
    });
    is_stats && StatsTrack::parse(data).is_err()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Result<&str, MalformedQuota>) {
        assert_eq!(
            StatsTrack::parse(Some(text.as_bytes())).map(|track| track.to_text()).as_deref(),
            expected.as_ref().map(|text| *text),
            "{text}"
        );
    }

    #[test]
    fn grammar_matches_apache() {
        check("count=3,bytes=-1", Ok("count=3,bytes=-1"));
        check("", Ok("count=-1,bytes=-1"));
        check(",;", Ok("count=-1,bytes=-1"));
        check("count==7", Ok("count=-1,bytes=-1"));
        check("count=1,;bytes=2;", Ok("count=1,bytes=2"));
        check("count=+5", Ok("count=5,bytes=-1"));
        let full = "count=-1,bytes=-1=;byteHardLimit=20;countHardLimit=3";
        check(full, Ok(full));
        for bad in [",count=1", "count=", "count", "count= 1", "count=x", "count=9223372036854775808"] {
            check(bad, Err(MalformedQuota));
        }
        assert_eq!(StatsTrack::parse(None), Err(MalformedQuota));
    }

    #[test]
    fn deepest_quota_applies() {
        let mut quotas = Quotas::default();
        quotas.add("/a");
        quotas.add("/a/b");
        quotas.add("");
        assert_eq!(quotas.find_covering("/a/b/c"), Some("/a/b"));
        assert_eq!(quotas.find_covering("/a/bc"), Some("/a"));
        assert_eq!(quotas.find_covering("/ab"), None);
        quotas.remove("/a/b");
        assert_eq!(quotas.find_covering("/a/b/c"), Some("/a"));
    }

    #[test]
    fn hard_limits_refuse_growth() {
        let limits = StatsTrack::parse(Some(b"countHardLimit=3;byteHardLimit=10")).unwrap();
        let usage = StatsTrack::usage(3, 9);
        let forbids =
            |count, bytes| limits.exceeded("/p", &usage, count, bytes).iter().flatten().any(|over| over.is_hard);
        assert!(forbids(1, 0) && forbids(0, 2) && !forbids(0, 1));
    }

    #[test]
    fn exceeded_limits_are_logged_as_in_apache() {
        let check = |limits: &[u8], (count, bytes), expected: &[&str]| {
            let limits = StatsTrack::parse(Some(limits)).unwrap();
            let exceeded = limits.exceeded("/p", &StatsTrack::usage(3, 9), count, bytes);
            assert_eq!(exceeded.iter().flatten().map(QuotaExceeded::to_string).collect::<Vec<_>>(), expected);
        };
        let (count, bytes) = ("[current count=4, softCountLimit=2]", "[current bytes=19, hardByteLimit=10]");
        let expected = [count, bytes].map(|text| format!("Quota exceeded: /p {text}"));
        check(b"count=2,bytes=1;byteHardLimit=10", (1, 10), &expected.each_ref().map(|text| &**text));
        check(b"count=2,bytes=-1;countHardLimit=9", (1, 10), &[]);
        check(b"count=3,bytes=8", (0, -1), &[]);
    }
}
