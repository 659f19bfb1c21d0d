//! Suggests the known key closest to a misspelt one.

/// The candidate with the smallest edit distance, if that is small for the length of the name. Ignores case. A
/// transposition counts as two edits.
pub(crate) fn nearest<'c>(name: &str, candidates: impl Iterator<Item = &'c str>) -> Option<&'c str> {
    let wanted: String = name.to_lowercase().chars().take(NAME_CHARS_MAX).collect();
    let most = 1 + wanted.chars().count() / 5;
    let ranked = candidates.map(|candidate| (strsim::levenshtein(&wanted, &candidate.to_lowercase()), candidate));
    ranked.filter(|(edits, _)| *edits <= most).min_by_key(|(edits, _)| *edits).map(|(_, candidate)| candidate)
}

/// Longer names are truncated for the comparison: no key is as long, and the cost stays bounded.
const NAME_CHARS_MAX: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys;

    #[test]
    fn nearest_finds_misspelt_key() {
        let cases = [
            ("ticktime", Some("tickTime")),
            ("tikTime", Some("tickTime")),
            ("dataDirr", Some("dataDir")),
            ("autopurge.snapRetainCont", Some("autopurge.snapRetainCount")),
            ("maxClientConnections", None),
            ("noSuchKey", None),
            ("x", None),
            ("", None),
        ];
        for (name, expected) in cases {
            let names = keys::keys().filter(|key| key.family().is_none()).map(|key| key.name);
            assert_eq!(nearest(name, names), expected, "{name}");
        }
        assert_eq!(nearest(&"x".repeat(100_000), ["tickTime"].into_iter()), None);
    }
}
