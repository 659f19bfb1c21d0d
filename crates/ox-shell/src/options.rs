//! Words into options and operands, by the rules that scripts written for `zkCli` know.
//!
//! Options stand before or behind operands. Those of one letter may be written together (`-sR`), and a value may follow at once
//! (`-v5`, `-v=5`) or as the next word, which may be a negative number. `--` ends the options. Ours that `zkCli` does not have
//! begin with two dashes.

use crate::command_error::Failure;

/// An option of a command.
#[derive(Clone, Copy, Debug)]
pub struct Opt {
    /// With its dash or dashes.
    pub name: &'static str,
    /// What it is followed by, for those who read help; `None` for a switch.
    pub value: Option<&'static str>,
    /// What it is for.
    pub help: &'static str,
}

impl Opt {
    /// An option that stands alone.
    pub const fn switch(name: &'static str, help: &'static str) -> Self {
        Self { name, value: None, help }
    }

    /// An option with a value.
    pub const fn with(name: &'static str, value: &'static str, help: &'static str) -> Self {
        Self { name, value: Some(value), help }
    }
}

/// What a command was given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Args {
    options: Vec<(&'static str, Option<String>)>,
    operands: Vec<String>,
}

impl Args {
    /// Sorts the words behind the name of a command.
    pub fn parse(known: &[Opt], words: &[String]) -> Result<Self, Failure> {
        let mut parser = Parser { known, args: Self::default(), open: None };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            if parser.open.is_some() && !parser.is_option(word) {
                parser.give(unquoted(word));
            } else if word == "--" {
                parser.args.operands.extend(words.by_ref().cloned());
            } else if word.starts_with("--") {
                parser.long(word)?;
            } else if word.starts_with('-') && word != "-" {
                parser.short(word)?;
            } else {
                parser.args.operands.push(word.clone());
            }
        }
        parser.closed()?;
        Ok(parser.args)
    }

    /// Words of which none is an option.
    pub fn plain(words: &[String]) -> Self {
        Self { options: Vec::new(), operands: words.to_vec() }
    }

    /// Whether an option was given, by its name with dashes.
    pub fn has(&self, name: &str) -> bool {
        self.options.iter().any(|(given, _)| *given == name)
    }

    /// The value of an option; the first one counts.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.options.iter().find(|(given, _)| *given == name)?.1.as_deref()
    }

    /// The options of a set that were given, in order.
    pub fn given<'a>(&'a self, names: &'a [&str]) -> impl Iterator<Item = &'static str> + 'a {
        self.options.iter().map(|(given, _)| *given).filter(|given| names.contains(given))
    }

    /// An operand, counted from 0.
    pub fn operand(&self, at: usize) -> Option<&str> {
        self.operands.get(at).map(String::as_str)
    }

    /// An operand that must be there.
    pub fn required(&self, at: usize) -> Result<&str, Failure> {
        self.operand(at).ok_or(Failure::Usage)
    }

    /// All operands.
    pub fn operands(&self) -> &[String] {
        &self.operands
    }
}

struct Parser<'a> {
    known: &'a [Opt],
    args: Args,
    /// The option whose value comes next.
    open: Option<&'static str>,
}

impl Parser<'_> {
    fn find(&self, name: &str) -> Option<Opt> {
        self.known.iter().copied().find(|opt| opt.name == name)
    }

    /// Whether a word begins an option rather than being a value. Negative numbers are values.
    fn is_option(&self, word: &str) -> bool {
        let Some(rest) = word.strip_prefix('-') else { return false };
        let Some(letter) = rest.chars().next() else { return false };
        if word.parse::<f64>().is_ok() {
            return false;
        }
        let name = word.split_once('=').map_or(word, |(name, _)| name);
        letter == '-' || self.find(name).is_some() || self.find(&format!("-{letter}")).is_some()
    }

    fn open(&mut self, opt: Opt) -> Result<(), Failure> {
        self.closed()?;
        self.args.options.push((opt.name, None));
        self.open = opt.value.map(|_| opt.name);
        Ok(())
    }

    fn give(&mut self, value: &str) {
        if let Some((_, place)) = self.args.options.last_mut() {
            *place = Some(value.to_owned());
        }
        self.open = None;
    }

    fn closed(&self) -> Result<(), Failure> {
        match self.open {
            Some(name) => {
                Err(Failure::parse("MissingArgument", &format!("Missing argument for option: {}", bare(name))))
            }
            None => Ok(()),
        }
    }

    fn long(&mut self, word: &str) -> Result<(), Failure> {
        let (name, value) = word.split_once('=').map_or((word, None), |(name, value)| (name, Some(value)));
        match (self.find(name), value) {
            (Some(opt), None) => self.open(opt),
            (Some(opt), Some(value)) if opt.value.is_some() => {
                self.open(opt)?;
                self.give(value);
                Ok(())
            }
            _ => Err(unrecognized(word)),
        }
    }

    fn short(&mut self, word: &str) -> Result<(), Failure> {
        if let Some(opt) = self.find(word) {
            return self.open(opt);
        }
        if let Some((name, value)) = word.split_once('=')
            && let Some(opt) = self.find(name)
            && opt.value.is_some()
        {
            self.open(opt)?;
            self.give(value);
            return Ok(());
        }
        // Letters written together; a value may follow the last one.
        for (at, letter) in word.char_indices().skip(1) {
            let Some(opt) = self.find(&format!("-{letter}")) else { return Err(unrecognized(word)) };
            self.open(opt)?;
            let rest = &word[at + letter.len_utf8()..];
            if self.open.is_some() && !rest.is_empty() {
                self.give(rest);
                return Ok(());
            }
        }
        Ok(())
    }
}

fn unrecognized(word: &str) -> Failure {
    Failure::parse("UnrecognizedOption", &format!("Unrecognized option: {word}"))
}

fn bare(name: &str) -> &str {
    name.trim_start_matches('-')
}

/// A value of an option without a pair of double quotes around it.
fn unquoted(word: &str) -> &str {
    word.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).filter(|rest| !rest.contains('"')).unwrap_or(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: [Opt; 5] = [
        Opt::switch("-s", ""),
        Opt::switch("-R", ""),
        Opt::with("-v", "version", ""),
        Opt::with("-file", "path", ""),
        Opt::switch("--json", ""),
    ];

    fn parse(line: &str) -> String {
        let words: Vec<_> = line.split(' ').map(str::to_owned).collect();
        match Args::parse(&KNOWN, &words) {
            Ok(args) => {
                let options = args.options.iter().map(|(name, value)| match value {
                    Some(value) => format!("{name}({value})"),
                    None => (*name).to_owned(),
                });
                let all: Vec<_> = options.chain(args.operands.iter().cloned()).collect();
                all.join(" ")
            }
            Err(failure) => failure.to_string(),
        }
    }

    #[test]
    fn options_and_operands_in_any_order() {
        for (line, parsed) in [
            ("/a -s", "-s /a"),
            ("-s /a -v 5", "-s -v(5) /a"),
            ("-v -5 /a", "-v(-5) /a"),
            ("-v=5 /a", "-v(5) /a"),
            ("-v5 /a", "-v(5) /a"),
            ("-sR /a", "-s -R /a"),
            ("-sv 5 /a", "-s -v(5) /a"),
            ("-file=x", "-file(x)"),
            ("-v -x /a", "-v(-x) /a"),
            ("/a -- -s", "/a -s"),
            ("/a -", "/a -"),
            ("--json /a", "--json /a"),
        ] {
            assert_eq!(parse(line), parsed, "{line}");
        }
    }

    #[test]
    fn what_is_wrong_is_said_as_scripts_know_it() {
        for (line, text) in [
            ("-q /a", "org.apache.commons.cli.UnrecognizedOptionException: Unrecognized option: -q"),
            ("/a -5", "org.apache.commons.cli.UnrecognizedOptionException: Unrecognized option: -5"),
            ("-sx /a", "org.apache.commons.cli.UnrecognizedOptionException: Unrecognized option: -sx"),
            ("--what", "org.apache.commons.cli.UnrecognizedOptionException: Unrecognized option: --what"),
            ("/a -v", "org.apache.commons.cli.MissingArgumentException: Missing argument for option: v"),
            ("-v -s /a", "org.apache.commons.cli.MissingArgumentException: Missing argument for option: v"),
        ] {
            assert_eq!(parse(line), text, "{line}");
        }
    }
}
