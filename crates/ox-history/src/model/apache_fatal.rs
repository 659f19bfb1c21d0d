//! Requests that would crash an Apache server, immediately or when it opens our files: all refused.

/// Deleting this node crashes Apache.
pub(super) fn is_fatal_to_delete(path: &str) -> bool {
    let parent = path.strip_suffix("/zookeeper_limits");
    parent.is_some_and(|parent| parent.starts_with("/zookeeper") && parent.encode_utf16().count() <= 16)
}

/// Quota usage that Apache cannot parse.
pub(super) fn is_fatal_usage(path: &str, data: Option<&Vec<u8>>) -> bool {
    let is_stats = path.strip_suffix("/zookeeper_stats").is_some_and(|parent| parent.starts_with("/zookeeper/quota/"));
    is_stats && !data.is_some_and(|data| is_usage(&String::from_utf8_lossy(data)))
}

fn is_usage(text: &str) -> bool {
    let is_pair = |pair: &str| {
        let value = pair.trim_end_matches('=').split('=').nth(1);
        value.is_some_and(|value| value.is_empty() || value.parse::<i64>().is_ok())
    };
    let mut pairs = text.trim_end_matches([',', ';']).split([',', ';']);
    let first = pairs.next().unwrap_or_default();
    (first.is_empty() && pairs.clone().next().is_none())
        || (is_pair(first) && pairs.all(|pair| pair.is_empty() || is_pair(pair)))
}
