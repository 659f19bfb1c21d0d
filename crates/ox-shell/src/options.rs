//! Parses words into options and operands, by the rules of commons-cli that scripts for `zkCli` rely on.
//!
//! Options may precede or follow operands. One-letter options may be combined (`-sR`), and a value may follow directly
//! (`-v5`, `-v=5`) or as the next word, which may be a negative number. `--` ends the options. Options that `zkCli`
//! does not have begin with two dashes.

use crate::command_error::CommandError;

/// An option that a command accepts.
#[derive(Clone, Copy, Debug)]
pub struct Opt {
    /// The name including its dashes.
    pub name: &'static str,
    /// Placeholder of the value in help; `None` for a switch.
    pub value: Option<&'static str>,
    /// One line of help. Compat: as `zkCli` prints it, for its options.
    pub help: &'static str,
    /// The help in the native style, where it differs.
    pub native_help: Option<&'static str>,
    /// Whether the option exists in the native style only.
    pub is_native: bool,
}

impl Opt {
    /// Creates an option without a value.
    pub const fn switch(name: &'static str, help: &'static str) -> Self {
        Self { name, value: None, help, native_help: None, is_native: false }
    }

    /// Creates an option without a value that a command of `zkCli` has in the native style only.
    pub const fn native(name: &'static str, help: &'static str) -> Self {
        Self { is_native: true, ..Self::switch(name, help) }
    }

    /// Explains the option in the native style.
    pub const fn explained(self, native_help: &'static str) -> Self {
        Self { native_help: Some(native_help), ..self }
    }

    /// Creates an option with a value.
    pub const fn with(name: &'static str, value: &'static str, help: &'static str) -> Self {
        Self { value: Some(value), ..Self::switch(name, help) }
    }
}

/// The parsed arguments of a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandArgs {
    options: Vec<(&'static str, Option<String>)>,
    operands: Vec<String>,
    /// The number of operands before `--`.
    plain_from: Option<usize>,
}

impl CommandArgs {
    /// Parses the words after the command name.
    pub fn parse(known: &[Opt], words: &[String]) -> Result<Self, CommandError> {
        let mut parser = Parser { known, args: Self::default(), open: None };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            if parser.open.is_some() && !parser.is_option(word) {
                parser.set_value(unquoted(word));
            } else if word == "--" {
                parser.args.plain_from = Some(parser.args.operands.len());
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

    /// Takes all words as operands.
    pub fn plain(words: &[String]) -> Self {
        Self { operands: words.to_vec(), ..Self::default() }
    }

    /// Whether an option is present; `name` includes the dashes.
    pub fn has(&self, name: &str) -> bool {
        self.options.iter().any(|(given, _)| *given == name)
    }

    /// The value of an option; the first occurrence counts.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.options.iter().find(|(given, _)| *given == name)?.1.as_deref()
    }

    /// The present options of a set, in order.
    pub fn given<'a>(&'a self, names: &'a [&str]) -> impl Iterator<Item = &'static str> + 'a {
        self.options.iter().map(|(given, _)| *given).filter(|given| names.contains(given))
    }

    /// Returns an operand by its index.
    pub fn operand(&self, at: usize) -> Option<&str> {
        self.operands.get(at).map(String::as_str)
    }

    /// Whether an operand is `-` and stands for standard input. After `--` it is only a dash.
    pub fn is_stdin(&self, at: usize) -> bool {
        self.operand(at) == Some("-") && self.plain_from.is_none_or(|from| at < from)
    }

    /// Returns a mandatory operand, or a usage error.
    pub fn required(&self, at: usize) -> Result<&str, CommandError> {
        self.operand(at).ok_or(CommandError::Usage)
    }

    /// Returns all operands in order.
    pub fn operands(&self) -> &[String] {
        &self.operands
    }
}

struct Parser<'a> {
    known: &'a [Opt],
    args: CommandArgs,
    /// The option whose value is expected next.
    open: Option<&'static str>,
}

impl Parser<'_> {
    fn find(&self, name: &str) -> Option<Opt> {
        self.known.iter().copied().find(|opt| opt.name == name)
    }

    /// Whether a word is an option rather than a value. Negative numbers are values.
    fn is_option(&self, word: &str) -> bool {
        let Some(rest) = word.strip_prefix('-') else { return false };
        let Some(letter) = rest.chars().next() else { return false };
        if word.parse::<f64>().is_ok() {
            return false;
        }
        let name = word.split_once('=').map_or(word, |(name, _)| name);
        letter == '-' || self.find(name).is_some() || self.find(&format!("-{letter}")).is_some()
    }

    fn open(&mut self, opt: Opt) -> Result<(), CommandError> {
        self.closed()?;
        self.args.options.push((opt.name, None));
        self.open = opt.value.map(|_| opt.name);
        Ok(())
    }

    fn set_value(&mut self, value: &str) {
        if let Some((_, place)) = self.args.options.last_mut() {
            *place = Some(value.to_owned());
        }
        self.open = None;
    }

    fn closed(&self) -> Result<(), CommandError> {
        match self.open {
            Some(name) => {
                Err(CommandError::parse("MissingArgument", format!("Missing argument for option: {}", bare(name))))
            }
            None => Ok(()),
        }
    }

    fn long(&mut self, word: &str) -> Result<(), CommandError> {
        let (name, value) = word.split_once('=').map_or((word, None), |(name, value)| (name, Some(value)));
        match (self.find(name), value) {
            (Some(opt), None) => self.open(opt),
            (Some(opt), Some(value)) if opt.value.is_some() => {
                self.open(opt)?;
                self.set_value(value);
                Ok(())
            }
            _ => Err(unrecognized(word)),
        }
    }

    fn short(&mut self, word: &str) -> Result<(), CommandError> {
        if let Some(opt) = self.find(word) {
            return self.open(opt);
        }
        if let Some((name, value)) = word.split_once('=')
            && let Some(opt) = self.find(name)
            && opt.value.is_some()
        {
            self.open(opt)?;
            self.set_value(value);
            return Ok(());
        }
        // Combined letters; a value may follow the last one.
        for (at, letter) in word.char_indices().skip(1) {
            let Some(opt) = self.find(&format!("-{letter}")) else { return Err(unrecognized(word)) };
            self.open(opt)?;
            let rest = &word[at + letter.len_utf8()..];
            if self.open.is_some() && !rest.is_empty() {
                self.set_value(rest);
                return Ok(());
            }
        }
        Ok(())
    }
}

fn unrecognized(word: &str) -> CommandError {
    CommandError::parse("UnrecognizedOption", format!("Unrecognized option: {word}"))
}

fn bare(name: &str) -> &str {
    name.trim_start_matches('-')
}

/// Strips a pair of double quotes from a value.
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
        match CommandArgs::parse(&KNOWN, &words) {
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
    fn options_and_operands_mix_in_any_order() {
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
    fn option_errors_match_commons_cli() {
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
