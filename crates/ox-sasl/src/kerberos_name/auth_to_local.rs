//! `security.auth_to_local`: rules that map Kerberos names to short names, in Hadoop's notation.
//!
//! ```text
//! RULE:[n:format](regex)s/from/to/g/L   applies to names of n components whose formatted text matches the regex
//! DEFAULT                               applies to names of the default realm: the first component
//! ```
//!
//! The first rule that applies gives the short name. `$0` in the format is the realm, `$1` and `$2` are the components.
//! Regexes are those of the `regex` crate, which takes linear time; patterns with look-around or back-references, which
//! Java knows, are refused when the rules are parsed. `/L` (lower case) is Hadoop's; Apache ZooKeeper refuses it.

use super::{KerberosName, NameError};
use regex::{Regex, RegexBuilder};

/// Memory that one compiled regex may take.
const REGEX_BYTES_MAX: usize = 1 << 18;
/// More rules, or longer text, are a mistake.
const RULES_MAX: usize = 1000;
const RULES_BYTES_MAX: usize = 1 << 16;

#[derive(Clone, Debug)]
pub struct AuthToLocal {
    rules: Vec<Rule>,
}

#[derive(Clone, Debug)]
enum Rule {
    Default,
    Mapping(Mapping),
}

#[derive(Clone, Debug)]
struct Mapping {
    text: String,
    components: usize,
    format: Vec<Part>,
    matches: Option<Regex>,
    substitution: Option<Substitution>,
    lower_case: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Literal(String),
    /// A parameter of the format, or a group of the regex in a replacement.
    Parameter(usize),
}

#[derive(Clone, Debug)]
struct Substitution {
    from: Regex,
    to: Vec<Part>,
    repeat: bool,
}

impl AuthToLocal {
    /// Parses the value of `security.auth_to_local`: rules that follow each other, with or without blanks.
    pub fn parse(rules: &str) -> Result<Self, NameError> {
        let mut rest = rules.trim();
        let mut parsed = Vec::new();
        if RULES_BYTES_MAX < rest.len() {
            return Err(invalid("..", "the rules are too long"));
        }
        while !rest.is_empty() {
            if parsed.len() == RULES_MAX {
                return Err(invalid(rest, "too many rules"));
            }
            let (rule, after) = parse_rule(rest)?;
            parsed.push(rule);
            rest = after.trim_start();
        }
        Ok(Self { rules: parsed })
    }

    /// The short name, by the first rule that applies. A name without host and realm is its own short name.
    pub fn short_name(&self, name: &KerberosName, default_realm: &str) -> Result<String, NameError> {
        let Some(realm) = &name.realm else { return Ok(name.service.clone()) };
        let mut parameters = vec![realm.as_str(), name.service.as_str()];
        parameters.extend(name.host.as_deref());
        for rule in &self.rules {
            if let Some(short) = rule.apply(&parameters, default_realm) {
                if short.contains(['/', '@']) {
                    return Err(NameError::NotSimple { name: short, rule: rule.text().to_owned() });
                }
                return Ok(short);
            }
        }
        Err(NameError::NoRule(name.to_string()))
    }
}

impl Default for AuthToLocal {
    fn default() -> Self {
        Self { rules: vec![Rule::Default] }
    }
}

impl Rule {
    fn text(&self) -> &str {
        match self {
            Self::Default => "DEFAULT",
            Self::Mapping(mapping) => &mapping.text,
        }
    }

    fn apply(&self, parameters: &[&str], default_realm: &str) -> Option<String> {
        match self {
            Self::Default => (parameters[0] == default_realm).then(|| parameters[1].to_owned()),
            Self::Mapping(mapping) => mapping.apply(parameters),
        }
    }
}

impl Mapping {
    fn apply(&self, parameters: &[&str]) -> Option<String> {
        if parameters.len() != self.components + 1 {
            return None;
        }
        let base = fill(&self.format, |index| parameters.get(index).copied());
        if self.matches.as_ref().is_some_and(|regex| !regex.is_match(&base)) {
            return None;
        }
        let result = match &self.substitution {
            None => base,
            Some(Substitution { from, to, repeat }) => {
                let replace =
                    |found: &regex::Captures<'_>| fill(to, |group| found.get(group).map(|text| text.as_str()));
                from.replacen(&base, if *repeat { 0 } else { 1 }, replace).into_owned()
            }
        };
        Some(if self.lower_case { result.to_lowercase() } else { result })
    }
}

fn fill<'a>(parts: &'a [Part], parameter: impl Fn(usize) -> Option<&'a str>) -> String {
    let text = |part: &'a Part| match part {
        Part::Literal(text) => text.as_str(),
        Part::Parameter(index) => parameter(*index).unwrap_or_default(),
    };
    parts.iter().map(text).collect()
}

fn invalid(rule: &str, reason: impl Into<String>) -> NameError {
    NameError::InvalidRule { rule: rule.chars().take(200).collect(), reason: reason.into() }
}

/// Parses one rule, and returns the text after it.
fn parse_rule(text: &str) -> Result<(Rule, &str), NameError> {
    if let Some(rest) = text.strip_prefix("DEFAULT") {
        return Ok((Rule::Default, rest));
    }
    let rest = text.strip_prefix("RULE:[").ok_or_else(|| invalid(text, "it begins with neither DEFAULT nor RULE:["))?;
    let (head, mut rest) = rest.split_once(']').ok_or_else(|| invalid(text, "']' is missing"))?;
    let (components, format) = head.split_once(':').ok_or_else(|| invalid(text, "':' is missing"))?;
    let components: usize = components.parse().map_err(|_| invalid(text, "the number of components is missing"))?;
    let format = parse_parts(format, components).map_err(|reason| invalid(text, reason))?;
    let mut matches = None;
    if let Some(after) = rest.strip_prefix('(') {
        let (pattern, after) = after.split_once(')').ok_or_else(|| invalid(text, "')' is missing"))?;
        matches = Some(compile(&format!(r"\A(?:{pattern})\z"), text)?);
        rest = after;
    }
    let mut substitution = None;
    if let Some(after) = rest.strip_prefix("s/") {
        let mut parts = after.splitn(3, '/');
        let (Some(from), Some(to), Some(after)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(invalid(text, "the substitution has not the form s/from/to/"));
        };
        let from = compile(from, text)?;
        let to = parse_replacement(to, from.captures_len() - 1).map_err(|reason| invalid(text, reason))?;
        let (repeat, after) = after.strip_prefix('g').map_or((false, after), |after| (true, after));
        substitution = Some(Substitution { from, to, repeat });
        rest = after;
    }
    let lower_case = rest.strip_prefix("/L").or_else(|| rest.strip_prefix('L'));
    let rest = lower_case.unwrap_or(rest);
    let own_text = text[..text.len() - rest.len()].to_owned();
    let mapping =
        Mapping { text: own_text, components, format, matches, substitution, lower_case: lower_case.is_some() };
    Ok((Rule::Mapping(mapping), rest))
}

fn compile(pattern: &str, rule: &str) -> Result<Regex, NameError> {
    let regex = RegexBuilder::new(pattern).size_limit(REGEX_BYTES_MAX).dfa_size_limit(REGEX_BYTES_MAX).build();
    regex.map_err(|error| invalid(rule, format!("unsupported regular expression: {error}")))
}

/// Parses a format: `$n` is a parameter. A parameter that no name of the rule's length has is refused here; Apache fails
/// when the rule is applied.
fn parse_parts(text: &str, components: usize) -> Result<Vec<Part>, String> {
    let mut pieces = text.split('$');
    let mut parts = vec![Part::Literal(pieces.next().unwrap_or_default().to_owned())];
    for piece in pieces {
        let digits = piece.len() - piece.trim_start_matches(|char: char| char.is_ascii_digit()).len();
        let (number, literal) = piece.split_at(digits);
        let index = number.parse().map_err(|_| "'$' without the number of a component".to_owned())?;
        if components < index || 2 < index {
            return Err(format!("${index} refers to no component"));
        }
        parts.push(Part::Parameter(index));
        parts.push(Part::Literal(literal.to_owned()));
    }
    Ok(parts)
}

/// Parses a replacement as Java does: `\x` is x, `$n` is a group, with as many digits as a group exists for.
fn parse_replacement(text: &str, groups: usize) -> Result<Vec<Part>, String> {
    let mut parts = Vec::new();
    let mut literal = String::new();
    let mut chars = text.chars().peekable();
    while let Some(char) = chars.next() {
        match char {
            '\\' => literal.push(chars.next().ok_or("'\\' at the end of the replacement")?),
            '$' => {
                let digit =
                    chars.next().and_then(|char| char.to_digit(10)).ok_or("'$' without the number of a group")?;
                let mut group = digit as usize;
                if groups < group {
                    return Err(format!("${group} refers to no group"));
                }
                while let Some(digit) = chars.peek().and_then(|char| char.to_digit(10)) {
                    let longer = group * 10 + digit as usize;
                    if groups < longer {
                        break;
                    }
                    group = longer;
                    chars.next();
                }
                parts.push(Part::Literal(std::mem::take(&mut literal)));
                parts.push(Part::Parameter(group));
            }
            char => literal.push(char),
        }
    }
    parts.push(Part::Literal(literal));
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn short(rules: &str, name: &str) -> Result<String, NameError> {
        AuthToLocal::parse(rules)?.short_name(&KerberosName::parse(name)?, "EXAMPLE.COM")
    }

    #[test]
    fn first_rule_that_applies_gives_the_short_name() {
        for (rules, name, expected) in [
            ("DEFAULT", "bob@EXAMPLE.COM", "bob"),
            ("DEFAULT", "zk/host@EXAMPLE.COM", "zk"),
            ("DEFAULT", "bob", "bob"),
            ("RULE:[1:$1] RULE:[2:$1]DEFAULT", "zk/host@OTHER", "zk"),
            ("RULE:[1:$1@$0](.*@OTHER)s/@.*//\nDEFAULT", "bob@OTHER", "bob"),
            ("RULE:[2:$1;$2](^.*;admin$)s/;admin$//", "johndoe/admin@R", "johndoe"),
            ("RULE:[2:$2](root)", "a/root@R", "root"),
            ("RULE:[1:$1](b.*)s/b/x/g", "bobby@R", "xoxxy"),
            ("RULE:[1:$1](b.*)s/b/x/", "bobby@R", "xobby"),
            ("RULE:[1:$1](b.*)s/(.)(o)/$2$1\\$/", "bobby@R", "ob$bby"),
            ("RULE:[1:$1]/L", "BOB@R", "bob"),
            ("RULE:[1:$1]s/O/0/g/LDEFAULT", "BOB@R", "b0b"),
            ("RULE:[1:$1]s/(b)/$12/", "bob@R", "b2ob"),
            ("RULE:[1:x](x)", "bob@R", "x"),
        ] {
            assert_eq!(short(rules, name).as_deref(), Ok(expected), "{rules} {name}");
        }
    }

    #[test]
    fn names_without_a_rule_and_results_that_are_not_simple_fail() {
        assert_eq!(short("DEFAULT", "bob@OTHER"), Err(NameError::NoRule("bob@OTHER".to_owned())));
        assert_eq!(short("", "bob@EXAMPLE.COM"), Err(NameError::NoRule("bob@EXAMPLE.COM".to_owned())));
        assert!(short("RULE:[1:$1](bo)", "bob@R").is_err(), "the whole text must match");
        let error = short("RULE:[1:$1@$0] DEFAULT", "bob@R").unwrap_err();
        assert_eq!(error.to_string(), "Non-simple name bob@R after auth_to_local rule RULE:[1:$1@$0]");
    }

    #[test]
    fn malformed_rules_are_refused() {
        for rules in [
            "RULE",
            "RULE:[1:$1",
            "RULE:[:$1]",
            "RULE:[1]",
            "RULE:[1:$2]",
            "RULE:[9:$3]",
            "RULE:[1:$]",
            "RULE:[1:$1](a",
            "RULE:[1:$1](a)s/b/",
            "RULE:[1:$1](()",
            "RULE:[1:$1]s/a/$1/",
            "RULE:[1:$1]s/a/\\/",
            "DEFAULT,DEFAULT",
            "RULE:[1:$1](a(?=b))",
            "RULE:[1:$1]s/(a){1000}{1000}//",
            "RULE:[99999999999999999999999:$1]",
        ] {
            assert!(AuthToLocal::parse(rules).is_err(), "{rules}");
        }
        assert!(AuthToLocal::parse(&"DEFAULT ".repeat(RULES_MAX)).is_ok());
        assert!(AuthToLocal::parse(&"DEFAULT ".repeat(RULES_MAX + 1)).is_err());
        assert!(AuthToLocal::parse(&"R".repeat(RULES_BYTES_MAX + 1)).is_err());
    }
}
