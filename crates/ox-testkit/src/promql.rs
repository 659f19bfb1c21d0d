//! Which metrics Prometheus queries name.

use std::collections::BTreeSet;

/// Words of the query language that are followed by labels in parentheses, or stand alone.
const KEYWORDS: [&str; 14] = [
    "by",
    "on",
    "without",
    "ignoring",
    "group_left",
    "group_right",
    "and",
    "or",
    "unless",
    "bool",
    "offset",
    "inf",
    "nan",
    "e",
];

/// The metrics that queries name, without functions and labels. Suffixes such as `_bucket` stay.
pub fn promql_metrics(queries: &[String]) -> BTreeSet<String> {
    let mut metrics = BTreeSet::new();
    for query in queries {
        let mut rest = without_brackets(query);
        // Labels are in parentheses after these words.
        for word in ["by", "on", "without", "ignoring", "group_left", "group_right"] {
            rest = without_list_after(&rest, word);
        }
        let characters: Vec<char> = rest.chars().collect();
        let mut at = 0;
        while at < characters.len() {
            if !(characters[at].is_ascii_alphabetic() || characters[at] == '_') {
                // A number ends with its exponent.
                at += 1;
                while characters[at - 1].is_ascii_digit() && at < characters.len() && characters[at].is_alphanumeric() {
                    at += 1;
                }
                continue;
            }
            let begin = at;
            while at < characters.len()
                && (characters[at].is_ascii_alphanumeric() || matches!(characters[at], '_' | ':'))
            {
                at += 1;
            }
            let name: String = characters[begin..at].iter().collect();
            let next = characters[at..].iter().find(|character| !character.is_whitespace());
            if next != Some(&'(') && !KEYWORDS.contains(&name.as_str()) {
                metrics.insert(name);
            }
        }
    }
    metrics
}

/// The text without what is in braces, brackets or quotation marks.
fn without_brackets(query: &str) -> String {
    let (mut depth, mut quote, mut out) = (0, None, String::new());
    for character in query.chars() {
        match (quote, character) {
            (Some(open), _) if open == character => quote = None,
            (Some(_), _) => (),
            (None, '"') => quote = Some(character),
            (None, '{' | '[') => depth += 1,
            (None, '}' | ']') => depth -= 1,
            (None, '\'') => (),
            (None, _) if depth == 0 => out.push(character),
            (None, _) => (),
        }
    }
    out
}

/// The text without the list in parentheses after each `word`.
fn without_list_after(text: &str, word: &str) -> String {
    let (mut out, mut rest) = (String::new(), text);
    let opening = format!(" {word} (");
    while let Some((before, after)) = rest.split_once(&opening) {
        out.push_str(before);
        out.push(' ');
        rest = after.split_once(')').map_or("", |(_, after)| after);
    }
    out + rest
}

/// The values of a key in a JSON text, which has one key per line.
pub fn json_strings(text: &str, key: &str) -> Vec<String> {
    let prefix = format!("\"{key}\": \"");
    let values = text.lines().filter_map(|line| line.trim().strip_prefix(&prefix));
    values.map(|value| value.trim_end_matches(',').trim_end_matches('"').replace("\\\"", "\"")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_told_from_functions_labels_and_numbers() {
        let queries = [
            "histogram_quantile(0.99, sum by (job, le) (rate(a_bucket{op=\"x\"}[5m]))) > 1e9",
            "count by (job) (b) unless on (job) max by (job) (c{role=~\"x|y\"}) + 1",
            "x - on (job) group_right () y{instance=~\"$instance\"} < 268435456",
        ];
        let found = promql_metrics(&queries.map(str::to_owned));
        assert_eq!(found.into_iter().collect::<Vec<_>>(), ["a_bucket", "b", "c", "x", "y"]);
    }

    #[test]
    fn strings_of_json_are_unescaped() {
        let text = "{\n  \"expr\": \"a{x=\\\"y\\\"}\",\n  \"other\": \"z\"\n}";
        assert_eq!(json_strings(text, "expr"), ["a{x=\"y\"}"]);
    }
}
