//! Writes near quotas that Apache dies of, now or when it opens the files: they are refused.

const LIMITS: &str = "/zookeeper_limits";
const STATS: &str = "/zookeeper_stats";
const ROOT: &str = "/zookeeper/quota";

/// Whether this limits node must not be removed: its parent's path is shorter than Apache takes for granted.
pub(super) fn must_stay(path: &str) -> bool {
    path.strip_suffix(LIMITS)
        .is_some_and(|parent| parent.starts_with("/zookeeper") && parent.encode_utf16().count() <= 16)
}

/// Whether a limits node would lie at the root of all quotas.
pub(super) fn is_about_nothing(path: &str) -> bool {
    path.strip_suffix(LIMITS) == Some(ROOT)
}

/// Whether this cannot be the usage of a quota.
pub(super) fn is_bad_usage(path: &str, data: Option<&[u8]>) -> bool {
    let subject = path.strip_prefix(ROOT).and_then(|rest| rest.strip_suffix(STATS));
    subject.is_some_and(|subject| subject.starts_with('/')) && !data.is_some_and(is_usage)
}

/// `key=number` pairs between separators; an empty number is fine if more follows it.
fn is_usage(data: &[u8]) -> bool {
    let text = String::from_utf8_lossy(data);
    let pairs = text.trim_end_matches([',', ';']);
    let is_pair = |pair: &str| {
        let mut parts = pair.trim_end_matches('=').split('=').skip(1);
        parts.next().is_some_and(|number| number.is_empty() || number.parse::<i64>().is_ok())
    };
    pairs.is_empty()
        || (!pairs.starts_with([',', ';']) && pairs.split([',', ';']).filter(|pair| !pair.is_empty()).all(is_pair))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_is_pairs_of_keys_and_numbers() {
        let check = |text: &str, expected| assert_eq!(is_usage(text.as_bytes()), expected, "{text}");
        for good in ["", ",", "count=1,bytes=2", "count=-1;;bytes=+3;", "a=1=2", "count==7"] {
            check(good, true);
        }
        for bad in ["count", "count=", ",count=1", "count=x", "count= 1", "=", "a=1,b"] {
            check(bad, false);
        }
        assert!(is_bad_usage("/zookeeper/quota/a/zookeeper_stats", None));
        assert!(!is_bad_usage("/zookeeper/quota/zookeeper_stats", None), "about no path");
        assert!(!is_bad_usage("/a/zookeeper_stats", Some(b"x")));
    }

    #[test]
    fn short_parents_keep_their_limits() {
        assert!(must_stay("/zookeeper/quota/zookeeper_limits") && must_stay("/zookeeperX/zookeeper_limits"));
        assert!(!must_stay("/zookeeper/quota/a/zookeeper_limits") && !must_stay("/a/zookeeper_limits"));
        assert!(
            is_about_nothing("/zookeeper/quota/zookeeper_limits") && !is_about_nothing("/zookeeper/zookeeper_limits")
        );
    }
}
