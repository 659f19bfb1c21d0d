//! "Did you mean": finds a known word that is similar to a typed one.

/// The known word with the fewest edits from `typed`, at most a third of its length; case and dashes do not count.
pub(crate) fn similar<'a>(typed: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let plain = |word: &str| word.trim_start_matches('-').to_lowercase();
    let typed = plain(typed);
    let edits = |word: &str| match plain(word) {
        word if word == typed => 0,
        word if 2 < typed.len() && word.starts_with(&typed) => 1,
        word => strsim::osa_distance(&word, &typed),
    };
    let closest = known.map(|word| (edits(word), word)).min_by_key(|(edits, _)| *edits);
    let edits_max = (typed.len() / 3).max(usize::from(1 < typed.len()));
    closest.filter(|(edits, _)| *edits <= edits_max).map(|(_, word)| word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn similar_word_is_found() {
        let known = || ["ls", "get", "getAcl", "delete", "deleteall", "--json", "-server"].into_iter();
        for (typed, found) in [
            ("getacl", Some("getAcl")),
            ("gte", Some("get")),
            ("delet", Some("delete")),
            ("lss", Some("ls")),
            ("--jsn", Some("--json")),
            ("-sever", Some("-server")),
            ("frobnicate", None),
            ("q", None),
        ] {
            assert_eq!(similar(typed, known()), found, "{typed}");
        }
    }
}
