//! Quotas (client protocol, 8): limits and usage, read from their nodes each time.

use super::Model;
use super::node::{Node, key};
use super::write::Undo;
use ox_proto::ErrorCode;
use std::collections::BTreeMap;

const LIMITS: &str = "/zookeeper_limits";
const STATS: &str = "/zookeeper_stats";
const ROOT: &str = "/zookeeper/quota";

type Figures = BTreeMap<String, i64>;

/// The data of all nodes with limits or usage, which quotas are checked against. Empty if quotas are not enforced.
#[derive(Clone, Debug, Default)]
pub struct Quotas(BTreeMap<String, Option<Vec<u8>>>);

/// The figures of a text as Apache parses it; `None` if it cannot.
fn parse(data: Option<&[u8]>) -> Option<Figures> {
    let text = String::from_utf8_lossy(data?).into_owned();
    // Consecutive separators count as one, trailing ones are ignored; then no part may be empty.
    let mut clean = String::new();
    for c in text.chars().map(|c| if c == ';' { ',' } else { c }) {
        if c != ',' || !clean.ends_with(',') {
            clean.push(c);
        }
    }
    let clean = clean.strip_suffix(',').unwrap_or(&clean);
    let mut figures = Figures::new();
    if clean.is_empty() {
        return Some(figures);
    }
    for pair in clean.split(',') {
        let mut parts = pair.trim_end_matches('=').split('=');
        let (name, value) = (parts.next()?, parts.next()?);
        figures.insert(name.to_owned(), if value.is_empty() { -1 } else { value.parse().ok()? });
    }
    Some(figures)
}

fn print(figures: &Figures) -> Vec<u8> {
    let get = |name| figures.get(name).copied().unwrap_or(-1);
    let others: Vec<String> = figures
        .iter()
        .filter(|(name, _)| *name != "count" && *name != "bytes")
        .map(|(name, value)| format!(";{name}={value}"))
        .collect();
    let odd = if others.is_empty() { "" } else { "=" };
    format!("count={},bytes={}{odd}{}", get("count"), get("bytes"), others.concat()).into_bytes()
}

/// Whether deleting this node crashes Apache.
pub(super) fn is_fatal_to_delete(path: &str) -> bool {
    let parent = path.strip_suffix(LIMITS);
    parent.is_some_and(|parent| parent.starts_with("/zookeeper") && parent.encode_utf16().count() <= 16)
}

/// The path whose usage a node shows.
fn counted(path: &str) -> Option<&str> {
    path.strip_prefix(ROOT)?.strip_suffix(STATS)
}

/// Whether this usage crashes Apache.
pub(super) fn is_fatal_usage(path: &str, data: Option<&[u8]>) -> bool {
    counted(path).is_some_and(|subject| subject.starts_with('/')) && parse(data).is_none()
}

/// The deepest path at or above `path` with limits.
fn limited(path: &str, has_node: impl Fn(&str) -> bool) -> Option<&str> {
    let mut at = path.trim_end_matches('/');
    while !at.is_empty() {
        if has_node(&format!("{ROOT}{at}{LIMITS}")) {
            return Some(at);
        }
        at = at.rfind('/').map_or("", |slash| &at[..slash]);
    }
    None
}

impl Model {
    /// What writes are checked against that are prepared in this state.
    pub fn quotas(&self) -> Quotas {
        if !self.settings.enforce_quota {
            return Quotas::default();
        }
        let is_quota = |path: &str| path.starts_with(ROOT) && (path.ends_with(LIMITS) || path.ends_with(STATS));
        let quotas = self.nodes.iter().filter(|(path, _)| is_quota(path));
        Quotas(quotas.map(|(path, node)| (path.clone(), node.data.clone())).collect())
    }

    pub(super) fn check_quota(&self, path: &str, count: i64, bytes: i64) -> Result<(), ErrorCode> {
        let nodes = &self.prepared_with.0;
        let Some(subject) = limited(path, |limits| nodes.contains_key(limits)) else { return Ok(()) };
        let figures = |kind: &str| nodes.get(&format!("{ROOT}{subject}{kind}")).map(|data| parse(data.as_deref()));
        let limits = figures(LIMITS).flatten().ok_or(ErrorCode::MarshallingError)?;
        let limit = |name| limits.get(name).copied().unwrap_or(-1);
        let checks_count = count != 0 && (limit("count") > -1 || limit("countHardLimit") > -1);
        let checks_bytes = bytes != 0 && (limit("bytes") > -1 || limit("byteHardLimit") > -1);
        let Some(used) = figures(STATS).filter(|_| checks_count || checks_bytes) else { return Ok(()) };
        let used = used.ok_or(ErrorCode::MarshallingError)?;
        let used = |name| used.get(name).copied().unwrap_or(-1);
        let exceeds = |hard, name, more| limit(hard) > -1 && limit(hard) < used(name).wrapping_add(more);
        let is_exceeded = (checks_count && exceeds("countHardLimit", "count", count))
            || (checks_bytes && exceeds("byteHardLimit", "bytes", bytes));
        if is_exceeded { Err(ErrorCode::QuotaExceeded) } else { Ok(()) }
    }

    fn usage(&self, subject: &str) -> Figures {
        let below = format!("{subject}/");
        let nodes = self.nodes.range(below.clone()..).take_while(|(path, _)| path.starts_with(&below));
        let (mut count, mut bytes) = (0, 0);
        let itself = self.nodes.get(subject).into_iter();
        for node in itself.chain(nodes.map(|(_, node)| node)) {
            count += 1;
            bytes += node.data_length();
        }
        Figures::from([("count".to_owned(), count), ("bytes".to_owned(), bytes)])
    }

    /// Writes the present usage into a new node that shows it.
    pub(super) fn count_usage(&mut self, path: &str) {
        if let Some(subject) = counted(path) {
            let usage = print(&self.usage(subject));
            self.nodes.entry(path.to_owned()).and_modify(|node: &mut Node| node.data = Some(usage));
        }
    }

    /// Updates the usage after a change at `path`.
    pub(super) fn adjust_usage(&mut self, path: &str, count: i64, bytes: i64) {
        let Some(subject) = limited(key(path), |limits| self.nodes.contains_key(limits)) else { return };
        let stats = format!("{ROOT}{subject}{STATS}");
        let Some(node) = self.nodes.get(&stats) else { return };
        let figures = match parse(node.data.as_deref()) {
            Some(mut figures) => {
                for (name, change) in [("count", count), ("bytes", bytes)] {
                    let value = figures.entry(name.to_owned()).or_insert(-1);
                    *value = value.wrapping_add(change);
                }
                figures
            }
            None => self.usage(subject),
        };
        if let Some(node) = self.nodes.get_mut(&stats) {
            let data = node.data.replace(print(&figures));
            self.undo.push(Undo::Usage { path: stats, data });
        }
    }
}
