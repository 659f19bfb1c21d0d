use super::*;

/// Pairs as `line:key=value`, joined with `|`, or `malformed` and the line of a bad escape.
fn check(text: &str, expected: &str) {
    let shown = match parse(text.as_bytes()) {
        Ok(pairs) => pairs.iter().map(|p| format!("{}:{}={}", p.line, p.key, p.value)).collect::<Vec<_>>().join("|"),
        Err(escape) => format!("malformed {}", escape.line),
    };
    assert_eq!(shown, expected, "{text:?}");
}

#[test]
fn separators_are_interchangeable() {
    for text in ["tickTime=2000", "tickTime : 2000", "tickTime 2000", "\t tickTime\x0c=\t2000", "tickTime:2000"] {
        check(text, "1:tickTime=2000");
    }
    check("a==b", "1:a==b");
    check("a : = b", "1:a== b");
    check("key", "1:key=");
    check("=value", "1:=value");
}

#[test]
fn blank_lines_and_comments_are_skipped() {
    check("", "");
    check(" \t\n\x0c\r\n\n", "");
    check("# a=1\n ! b=2\nc=3 # data", "3:c=3 # data");
    check("# not continued \\\na=1", "2:a=1");
    check("a=1  ", "1:a=1  ");
}

#[test]
fn lf_cr_and_crlf_end_lines() {
    check("a=1\nb=2\rc=3\r\nd=4", "1:a=1|2:b=2|3:c=3|4:d=4");
}

#[test]
fn continuation_lines_join() {
    check("a=b\\\n   c\nd=e", "1:a=bc|3:d=e");
    check("a=b\\\r\n\tc", "1:a=bc");
    check("a=b\\\\\nc=d", "1:a=b\\|2:c=d");
    check("a=b\\\n#c", "1:a=b#c");
    check("a=b\\\n\nc=d", "1:a=b|3:c=d");
    check("a=b\\", "1:a=b");
}

#[test]
fn continuation_of_empty_line_may_be_comment() {
    check("\\\n#c=d\na=b", "3:a=b");
    check("\\", "");
}

#[test]
fn escapes_are_resolved() {
    check("a\\=b\\ c=\\#\\:\\t.", "1:a=b c=#:\t.");
    check("dataDir=C:\\\\data", "1:dataDir=C:\\data");
    check("dataDir=C:\\data", "1:dataDir=C:data");
    check("a=\\u20ac\\ud83d\\ude00", "1:a=\u{20ac}\u{1f600}");
    check("a=\\ud83d", "1:a=\u{fffd}");
    check("a=1\nb=\\u12", "malformed 2");
    check("b=\\u12g4", "malformed 1");
}

#[test]
fn bytes_are_latin_1() {
    assert_eq!(parse(b"a=\xe9").unwrap()[0].value, "\u{e9}");
}

#[test]
fn text_may_contain_any_character() {
    let pairs = parse_text("gr\u{fc}n=\u{20ac}\\\u{1f600}\\u20ac\n").unwrap();
    assert_eq!((&*pairs[0].key, &*pairs[0].value), ("gr\u{fc}n", "\u{20ac}\u{1f600}\u{20ac}"));
}

fn from_hex(text: &str) -> Vec<u8> {
    let digits = text.as_bytes().chunks_exact(2);
    digits.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

fn utf16_hex(text: &str) -> String {
    text.encode_utf16().map(|unit| format!("{unit:04x}")).collect()
}

#[test]
fn parse_matches_recorded_java_results() {
    let recorded = include_str!("../../testdata/properties-java.txt");
    for case in recorded.lines().filter(|line| !line.starts_with('#')) {
        let (input, expected) = case.split_once(' ').unwrap_or((case, ""));
        let shown = match parse(&from_hex(&input[1..])) {
            Ok(pairs) => {
                let last: std::collections::BTreeMap<_, _> = pairs.iter().map(|p| (&p.key, &p.value)).collect();
                let shown = last.iter().map(|(key, value)| format!("k{}={}", utf16_hex(key), utf16_hex(value)));
                shown.collect::<Vec<_>>().join(" ")
            }
            Err(_) => "malformed".to_owned(),
        };
        // In a file that ends in the continuation of an empty line, Java reports an additional pair with empty key and
        // value. It has no effect, so it is ignored here.
        let counted = |pairs: &str| pairs.split(' ').filter(|pair| *pair != "k=").collect::<Vec<_>>().join(" ");
        assert_eq!(counted(&shown), counted(expected), "{input}");
    }
}
