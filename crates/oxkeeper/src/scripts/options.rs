//! Options as Apache's toolkits parse them: short ones, also several in one word, and long ones, before and after the
//! operands.

/// An option of a toolkit.
pub(super) struct OptionSpec {
    pub(super) short: char,
    pub(super) long: &'static str,
    pub(super) takes_value: bool,
}

/// A parsed command line.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ParsedOptions {
    given: Vec<(char, String)>,
    pub(super) operands: Vec<String>,
}

impl ParsedOptions {
    pub(super) fn has(&self, short: char) -> bool {
        self.given.iter().any(|(given, _)| *given == short)
    }

    /// The value of an option, the first one if it is given more than once.
    pub(super) fn value(&self, short: char) -> Option<&str> {
        self.given.iter().find(|(given, _)| *given == short).map(|(_, value)| value.as_str())
    }
}

/// Parses a command line. An error has Apache's text.
pub(super) fn parse(words: &[String], specs: &[OptionSpec]) -> Result<ParsedOptions, String> {
    let (mut parsed, mut words) = (ParsedOptions::default(), words.iter());
    while let Some(word) = words.next() {
        let unknown = || format!("Unrecognized option: {word}");
        if word == "--" {
            parsed.operands.extend(words.cloned());
            break;
        } else if let Some(long) = word.strip_prefix("--") {
            let (name, value) =
                long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value.to_owned())));
            let spec = specs.iter().find(|spec| spec.long == name).ok_or_else(unknown)?;
            let value = if spec.takes_value { value.or_else(|| words.next().cloned()) } else { Some(String::new()) };
            parsed.given.push((spec.short, value.ok_or_else(|| missing(spec))?));
        } else if let Some(letters) = word.strip_prefix('-').filter(|letters| !letters.is_empty()) {
            for (at, letter) in letters.char_indices() {
                let spec = specs.iter().find(|spec| spec.short == letter).ok_or_else(unknown)?;
                if !spec.takes_value {
                    parsed.given.push((letter, String::new()));
                    continue;
                }
                let rest = letters[at + letter.len_utf8()..].trim_start_matches('=');
                let value = if rest.is_empty() { words.next().cloned() } else { Some(rest.to_owned()) };
                parsed.given.push((letter, value.ok_or_else(|| missing(spec))?));
                break;
            }
        } else {
            parsed.operands.push(word.clone());
        }
    }
    Ok(parsed)
}

fn missing(spec: &OptionSpec) -> String {
    format!("Missing argument for option: {}", spec.short)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPECS: [OptionSpec; 3] = [
        OptionSpec { short: 'r', long: "recover", takes_value: false },
        OptionSpec { short: 'y', long: "yes", takes_value: false },
        OptionSpec { short: 'z', long: "zxid", takes_value: true },
    ];

    fn parsed(line: &str) -> Result<ParsedOptions, String> {
        parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>(), &SPECS)
    }

    #[test]
    fn all_forms_are_understood() {
        for line in [
            "-r -y -z 5 file",
            "file -ryz5",
            "--recover --yes --zxid=5 file",
            "-r --zxid 5 file -y",
            "-z=5 -yr -- file",
        ] {
            let found = parsed(line).unwrap();
            assert_eq!((found.has('r'), found.has('y'), found.value('z')), (true, true, Some("5")), "{line}");
            assert_eq!(found.operands, ["file"], "{line}");
        }
    }

    #[test]
    fn errors_are_apaches() {
        assert_eq!(parsed("-q file"), Err("Unrecognized option: -q".to_owned()));
        assert_eq!(parsed("--quiet"), Err("Unrecognized option: --quiet".to_owned()));
        assert_eq!(parsed("file -z"), Err("Missing argument for option: z".to_owned()));
    }
}
