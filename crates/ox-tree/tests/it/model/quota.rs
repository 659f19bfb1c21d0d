//! Quotas of the model, derived from the limits and stats nodes each time.

use super::{MARSHALLING, Model, Node, length, parent};
use std::collections::BTreeMap;

const LIMITS: &str = "/zookeeper_limits";
const STATS: &str = "/zookeeper_stats";
const ROOT: &str = "/zookeeper/quota";

fn parse(data: &Option<Vec<u8>>) -> Option<BTreeMap<String, i64>> {
    let text = String::from_utf8_lossy(data.as_ref()?).into_owned();
    // Consecutive separators count as one, trailing ones are ignored; then no part may be empty.
    let mut clean = String::new();
    for c in text.chars().map(|c| if c == ';' { ',' } else { c }) {
        if c != ',' || !clean.ends_with(',') {
            clean.push(c);
        }
    }
    let clean = clean.strip_suffix(',').unwrap_or(&clean);
    let mut figures = BTreeMap::new();
    if clean.is_empty() {
        return Some(figures);
    }
    for pair in clean.split(',') {
        let parts: Vec<&str> = pair.split('=').collect();
        let filled = parts.iter().rposition(|part| !part.is_empty())? + 1;
        let value = if filled < 2 { return None } else { parts[1] };
        figures.insert(parts[0].to_owned(), if value.is_empty() { -1 } else { value.parse().ok()? });
    }
    Some(figures)
}

fn print(figures: &BTreeMap<String, i64>) -> Vec<u8> {
    let get = |key| figures.get(key).copied().unwrap_or(-1);
    let others: Vec<String> = figures
        .iter()
        .filter(|(key, _)| *key != "count" && *key != "bytes")
        .map(|(key, value)| format!(";{key}={value}"))
        .collect();
    let odd = if others.is_empty() { "" } else { "=" };
    format!("count={},bytes={}{odd}{}", get("count"), get("bytes"), others.concat()).into_bytes()
}

/// Whether Apache crashes when this node is deleted.
pub(super) fn is_deadly_to_remove(path: &str) -> bool {
    let above = path.strip_suffix(LIMITS);
    above.is_some_and(|above| above.starts_with("/zookeeper") && above.chars().count() <= 16)
}

/// Whether Apache crashes on this usage.
pub(super) fn is_deadly_usage(path: &str, data: &Option<Vec<u8>>) -> bool {
    let subject = path.strip_prefix(ROOT).and_then(|rest| rest.strip_suffix(STATS));
    subject.is_some_and(|subject| subject.starts_with('/')) && parse(data).is_none()
}

impl Model {
    /// The deepest path with a limits node, at or above `path`.
    fn quota_over(nodes: &BTreeMap<String, Node>, path: &str) -> Option<String> {
        let mut at = path.to_owned();
        while !at.is_empty() {
            if nodes.contains_key(&format!("{ROOT}{at}{LIMITS}")) {
                return Some(at);
            }
            at = parent(&at).to_owned();
        }
        None
    }

    fn usage(&self, subject: &str) -> BTreeMap<String, i64> {
        let below = format!("{subject}/");
        let counted: Vec<_> =
            self.nodes.iter().filter(|(path, _)| *path == subject || path.starts_with(&below)).collect();
        let bytes = counted.iter().map(|(_, node)| length(&node.data)).sum();
        BTreeMap::from([("count".to_owned(), i64::try_from(counted.len()).unwrap()), ("bytes".to_owned(), bytes)])
    }

    /// Writes the present usage into a new stats node.
    pub(super) fn quota_created(&mut self, path: &str) {
        let subject = path.strip_prefix(ROOT).and_then(|rest| rest.strip_suffix(STATS));
        if let Some(subject) = subject {
            let usage = print(&self.usage(subject));
            self.nodes.get_mut(path).unwrap().data = Some(usage);
        }
    }

    pub(super) fn adjust_quota(&mut self, path: &str, count: i64, bytes: i64) {
        let Some(subject) = Self::quota_over(&self.nodes, path) else { return };
        let stats = format!("{ROOT}{subject}{STATS}");
        let Some(node) = self.nodes.get(&stats) else { return };
        let figures = match parse(&node.data) {
            Some(mut figures) => {
                *figures.entry("count".to_owned()).or_insert(-1) += count;
                *figures.entry("bytes".to_owned()).or_insert(-1) += bytes;
                figures
            }
            None => self.usage(&subject),
        };
        self.nodes.get_mut(&stats).unwrap().data = Some(print(&figures));
    }

    pub(super) fn check_quota(&self, path: &str, count: i64, bytes: i64) -> Result<(), i32> {
        let over = Self::quota_over(&self.applied, path);
        let Some(subject) = over.filter(|_| self.settings.enforce_quota) else { return Ok(()) };
        let limits = parse(&self.applied[&format!("{ROOT}{subject}{LIMITS}")].data).ok_or(MARSHALLING)?;
        let limit = |key| limits.get(key).copied().unwrap_or(-1);
        let checks_count = count != 0 && (limit("count") > -1 || limit("countHardLimit") > -1);
        let checks_bytes = bytes != 0 && (limit("bytes") > -1 || limit("byteHardLimit") > -1);
        let Some(stats) = self.applied.get(&format!("{ROOT}{subject}{STATS}")) else { return Ok(()) };
        if !checks_count && !checks_bytes {
            return Ok(());
        }
        let used = parse(&stats.data).ok_or(MARSHALLING)?;
        let used = |key| used.get(key).copied().unwrap_or(-1);
        let over = |hard, now, more| hard > -1 && now + more > hard;
        let count_over = checks_count && over(limit("countHardLimit"), used("count"), count);
        let bytes_over = checks_bytes && over(limit("byteHardLimit"), used("bytes"), bytes);
        if count_over || bytes_over { Err(-125) } else { Ok(()) }
    }
}
