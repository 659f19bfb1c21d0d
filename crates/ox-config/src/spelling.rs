//! Suggests the known key closest to a misspelt one.

/// The candidate with the smallest edit distance, if that is small for the length of the name. Ignores case.
pub(crate) fn nearest<'c>(name: &str, candidates: impl Iterator<Item = &'c str>) -> Option<&'c str> {
    let wanted: Vec<char> = name.to_lowercase().chars().take(NAME_CHARS_MAX).collect();
    let most = 1 + wanted.len() / 5;
    let ranked = candidates.map(|candidate| {
        let letters: Vec<char> = candidate.to_lowercase().chars().collect();
        (edits(&wanted, &letters), candidate)
    });
    ranked.filter(|(edits, _)| *edits <= most).min_by_key(|(edits, _)| *edits).map(|(_, candidate)| candidate)
}

/// Longer names are truncated for the comparison: no key is as long, and the cost stays bounded.
const NAME_CHARS_MAX: usize = 100;

/// Edit distance by insertion, deletion and replacement; a transposition counts as two edits.
fn edits(from: &[char], to: &[char]) -> usize {
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in to.iter().enumerate() {
            let replaced = diagonal + usize::from(a != b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys;

    #[test]
    fn edit_distance_counts_changes() {
        for (from, to, count) in [("", "", 0), ("", "ab", 2), ("ab", "", 2), ("kitten", "sitting", 3), ("ab", "ba", 2)]
        {
            let letters = |text: &str| text.chars().collect::<Vec<_>>();
            assert_eq!(edits(&letters(from), &letters(to)), count, "{from} {to}");
        }
    }

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
