//! One row of the key table: the sources of a setting, its value type, and its support status.
//!
//! The rows are in [`crate::keys`]; no other module knows a key's default or type.

use crate::java_values;

#[derive(Debug)]
pub struct Key {
    /// Name in `zoo.cfg`, or the system property if only that exists. A trailing `*` makes it a family.
    pub name: &'static str,
    pub source: Source,
    pub reader: ValueReader,
    /// Value if none is given; empty if the setting is then unset or derived.
    pub default: &'static str,
    /// Unit of the number, or empty.
    pub unit: &'static str,
    /// Its role in Apache ZooKeeper.
    pub class: Class,
    /// Its support in Oxkeeper.
    pub status: Status,
    /// One or two sentences for the generated page.
    pub doc: &'static str,
}

/// A titled part of the table; a chapter of the generated page.
#[derive(Debug)]
pub struct Section {
    pub title: &'static str,
    pub keys: &'static [Key],
}

/// Where a setting is read from, in order of precedence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    File,
    /// `zoo.cfg`, else the system property `zookeeper.<name>`.
    FileOrProperty,
    /// The named system property, else `zoo.cfg`.
    FileUnder(&'static str),
    /// The system property `zookeeper.<name>`, which a line in `zoo.cfg` overwrites.
    Passed,
    /// Like `Passed`, else the system property `<name>` without the prefix.
    PassedOrBare,
    /// The system property `<name>` only; a line in `zoo.cfg` has no effect.
    Property,
    /// Specific to Oxkeeper: `zoo.cfg`, else the system property `<name>`.
    Own,
}

/// How a value is parsed. [`ValueReader::on_bad_text`] decides what happens to invalid text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueReader {
    Int,
    Long,
    Double,
    /// 32 bits, also hexadecimal and octal; invalid text counts as unset.
    LenientInt,
    /// 64 bits, also hexadecimal and octal; invalid text counts as unset.
    LenientLong,
    /// Decimal, 32 bits; invalid text counts as unset.
    SoftInt,
    /// Decimal, 64 bits; invalid text counts as unset.
    SoftLong,
    /// Decimal fraction; invalid text counts as unset.
    SoftDouble,
    /// True for `true` in any case, false for everything else.
    Bool,
    /// `true` or `false` in any case.
    TrueFalse,
    /// True if the text is exactly this word.
    Word(&'static str),
    OneOf(&'static [&'static str]),
    /// Any text; the name describes its kind.
    Text(&'static str),
    /// Any text, never shown or logged.
    Secret,
}

/// The consequence of text that does not parse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnBadText {
    /// The server refuses to start.
    Stop,
    /// The setting counts as unset, with a warning.
    Default,
}

/// The role of a setting in Apache ZooKeeper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Must be honoured with the same effect.
    M,
    /// Performance or implementation detail: mapped to a mechanism of Oxkeeper or ignored.
    P,
    /// Concerns the Java virtual machine only.
    J,
    /// Exists for tests only.
    T,
    /// Read by clients, not by servers.
    C,
    /// Specific to Oxkeeper; unknown to Apache.
    O,
}

/// How Oxkeeper supports a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Honoured by every server.
    Built,
    /// Accepted, but there is nothing to configure.
    Hint,
    /// Honoured by ensemble members only.
    Ensemble,
    /// Accepted with a warning: the named feature is not implemented yet.
    NotBuilt(&'static str),
    /// Refused: it enables the named protection, which is not implemented yet.
    Refused(&'static str),
}

/// The parsed value of a setting.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// From `Int`, `LenientInt` and `SoftInt`.
    Int(i32),
    /// From `Long`, `LenientLong` and `SoftLong`.
    Long(i64),
    /// From `Double` and `SoftDouble`.
    Double(f64),
    /// From `Bool`, `TrueFalse` and `Word`.
    Flag(bool),
    /// From `OneOf`, `Text` and `Secret`.
    Text(String),
}

impl Key {
    /// Whether this row describes the name, exactly or as a family.
    pub fn covers(&self, name: &str) -> bool {
        match self.family() {
            Some(prefix) => name.starts_with(prefix),
            None => self.name == name,
        }
    }

    /// The common prefix of a family's names.
    pub fn family(&self) -> Option<&'static str> {
        self.name.strip_suffix('*')
    }

    /// The system property with the same effect.
    pub fn property(&self) -> Option<String> {
        match self.source {
            Source::File => None,
            Source::FileOrProperty | Source::Passed | Source::PassedOrBare => Some(format!("{PREFIX}{}", self.name)),
            Source::FileUnder(property) => Some(property.to_owned()),
            Source::Property | Source::Own => Some(self.name.to_owned()),
        }
    }

    /// Whether a line in `zoo.cfg` sets it.
    pub fn in_file(&self) -> bool {
        self.source != Source::Property
    }

    /// Whether a line in `zoo.cfg` sets it by becoming a system property.
    pub(crate) fn is_passed(&self) -> bool {
        matches!(self.source, Source::Passed | Source::PassedOrBare | Source::Property)
    }
}

/// Prefix of the system property that Apache derives from a `zoo.cfg` key.
pub(crate) const PREFIX: &str = "zookeeper.";

impl ValueReader {
    /// `None` if the text is invalid.
    pub fn read(self, text: &str) -> Option<Value> {
        Some(match self {
            ValueReader::Int | ValueReader::SoftInt => Value::Int(java_values::int(text)?),
            ValueReader::Long | ValueReader::SoftLong => Value::Long(java_values::long(text)?),
            ValueReader::Double | ValueReader::SoftDouble => Value::Double(java_values::double(text)?),
            ValueReader::LenientInt => Value::Int(java_values::decode_int(text)?),
            ValueReader::LenientLong => Value::Long(java_values::decode_long(text)?),
            ValueReader::Bool => Value::Flag(text.eq_ignore_ascii_case("true")),
            ValueReader::TrueFalse if text.eq_ignore_ascii_case("true") => Value::Flag(true),
            ValueReader::TrueFalse if text.eq_ignore_ascii_case("false") => Value::Flag(false),
            ValueReader::TrueFalse => return None,
            ValueReader::Word(word) => Value::Flag(text == word),
            ValueReader::OneOf(words) if !words.contains(&text) => return None,
            ValueReader::OneOf(_) | ValueReader::Text(_) | ValueReader::Secret => Value::Text(text.to_owned()),
        })
    }

    /// The consequence if [`read`](Self::read) returns `None`.
    pub fn on_bad_text(self) -> OnBadText {
        match self {
            ValueReader::LenientInt
            | ValueReader::LenientLong
            | ValueReader::SoftInt
            | ValueReader::SoftLong
            | ValueReader::SoftDouble => OnBadText::Default,
            ValueReader::Int
            | ValueReader::Long
            | ValueReader::Double
            | ValueReader::Bool
            | ValueReader::TrueFalse
            | ValueReader::Word(_)
            | ValueReader::OneOf(_)
            | ValueReader::Text(_)
            | ValueReader::Secret => OnBadText::Stop,
        }
    }

    /// Description of valid text, for messages and the generated page.
    pub fn expected(self) -> String {
        match self {
            ValueReader::Int | ValueReader::SoftInt => "a whole number of 32 bits".to_owned(),
            ValueReader::Long | ValueReader::SoftLong => "a whole number of 64 bits".to_owned(),
            ValueReader::Double | ValueReader::SoftDouble => "a decimal number".to_owned(),
            ValueReader::LenientInt => "a whole number of 32 bits (0x.. and 0.. too)".to_owned(),
            ValueReader::LenientLong => "a whole number of 64 bits (0x.. and 0.. too)".to_owned(),
            ValueReader::Bool => "true, else false".to_owned(),
            ValueReader::TrueFalse => "true or false".to_owned(),
            ValueReader::Word(word) => format!("exactly {word}"),
            ValueReader::OneOf(words) => words.join(" or "),
            ValueReader::Text(kind) => kind.to_owned(),
            ValueReader::Secret => "secret".to_owned(),
        }
    }
}
