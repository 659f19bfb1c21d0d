//! What one row of the key table says: where a setting comes from, how its text is read, what becomes of it.
//!
//! The rows themselves are in [`crate::keys`]; nothing else in the crate knows a key's default or type.

use crate::java_values;

/// One setting, as the table holds it.
#[derive(Debug)]
pub struct Key {
    /// Name in `zoo.cfg`, or the system property where only that exists. A final `*` makes it a family.
    pub name: &'static str,
    /// Where its text comes from.
    pub source: Source,
    /// How its text is read.
    pub reader: Reader,
    /// Text that counts when none is given; empty where the setting is then unset or derived.
    pub default: &'static str,
    /// Unit of the number, or empty.
    pub unit: &'static str,
    /// What the setting is in Apache ZooKeeper.
    pub class: Class,
    /// What becomes of it here.
    pub status: Status,
    /// What it does, one sentence or two.
    pub doc: &'static str,
}

/// A titled part of the table, a chapter of the generated page.
#[derive(Debug)]
pub struct Section {
    /// Heading.
    pub title: &'static str,
    /// Its rows.
    pub keys: &'static [Key],
}

/// Where a setting's text comes from, and what wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// `zoo.cfg` only.
    File,
    /// `zoo.cfg`, else the system property `zookeeper.<name>`.
    FileOrProperty,
    /// The named system property, else `zoo.cfg`.
    FileUnder(&'static str),
    /// The system property `zookeeper.<name>`, which a line in `zoo.cfg` overwrites.
    Passed,
    /// As `Passed`, else the system property `<name>` without prefix.
    PassedOrBare,
    /// The system property `<name>` only; a line in `zoo.cfg` has no effect.
    Property,
    /// Oxkeeper's own: `zoo.cfg`, else the system property `<name>`.
    Own,
}

/// How a setting's text is read. What a bad text does differs: see [`Reader::on_bad_text`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    /// Decimal, 32 bits.
    Int,
    /// Decimal, 64 bits.
    Long,
    /// Decimal fraction.
    Double,
    /// 32 bits, also hexadecimal and octal; a bad text counts as unset.
    LenientInt,
    /// 64 bits, also hexadecimal and octal; a bad text counts as unset.
    LenientLong,
    /// Decimal, 32 bits; a bad text counts as unset.
    SoftInt,
    /// Decimal, 64 bits; a bad text counts as unset.
    SoftLong,
    /// Decimal fraction; a bad text counts as unset.
    SoftDouble,
    /// `true` in any case; everything else is false.
    Bool,
    /// `true` or `false` in any case.
    TrueFalse,
    /// Whether the text is exactly this word.
    Word(&'static str),
    /// One of these words, exactly.
    OneOf(&'static [&'static str]),
    /// Any text; the name says of which kind.
    Text(&'static str),
    /// Any text, never shown.
    Secret,
}

/// What a text that its reader cannot take does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnBadText {
    /// Stops the start.
    Stop,
    /// Counts as unset, with a warning.
    Default,
}

/// What a setting is in Apache ZooKeeper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Must be honoured with the same effect.
    M,
    /// Accepted, mapped onto an own mechanism or taken as a hint.
    P,
    /// Concerns the Java virtual machine alone.
    J,
    /// Exists for tests.
    T,
    /// Read by clients, not by servers.
    C,
    /// Oxkeeper's own.
    O,
}

/// What becomes of a setting here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// A single server honours it.
    Built,
    /// Accepted; there is nothing to set here.
    Hint,
    /// Accepted; it means something in an ensemble only.
    Ensemble,
    /// Accepted with a warning: the named feature is not built yet.
    Later(&'static str),
    /// Stops the start: it asks for the named protection, which is not built yet.
    Guard(&'static str),
}

/// What a reader made of a text.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// From `Int`, `LenientInt`, `SoftInt`.
    Int(i32),
    /// From `Long`, `LenientLong`, `SoftLong`.
    Long(i64),
    /// From `Double`, `SoftDouble`.
    Double(f64),
    /// From `Bool`, `TrueFalse`, `Word`.
    Flag(bool),
    /// From `OneOf`, `Text`, `Secret`.
    Text(String),
}

impl Key {
    /// Whether this row is the one for a name, or the family it belongs to.
    pub fn covers(&self, name: &str) -> bool {
        match self.family() {
            Some(prefix) => name.starts_with(prefix),
            None => self.name == name,
        }
    }

    /// What all names of a family begin with.
    pub fn family(&self) -> Option<&'static str> {
        self.name.strip_suffix('*')
    }

    /// The system property that has the same effect, `None` where there is none.
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

/// What Apache puts before a key of `zoo.cfg` that it passes on as a system property.
pub(crate) const PREFIX: &str = "zookeeper.";

impl Reader {
    /// The value of a text, `None` if it is not of the form.
    pub fn read(self, text: &str) -> Option<Value> {
        Some(match self {
            Reader::Int | Reader::SoftInt => Value::Int(java_values::int(text)?),
            Reader::Long | Reader::SoftLong => Value::Long(java_values::long(text)?),
            Reader::Double | Reader::SoftDouble => Value::Double(java_values::double(text)?),
            Reader::LenientInt => Value::Int(java_values::decode_int(text)?),
            Reader::LenientLong => Value::Long(java_values::decode_long(text)?),
            Reader::Bool => Value::Flag(text.eq_ignore_ascii_case("true")),
            Reader::TrueFalse if text.eq_ignore_ascii_case("true") => Value::Flag(true),
            Reader::TrueFalse if text.eq_ignore_ascii_case("false") => Value::Flag(false),
            Reader::TrueFalse => return None,
            Reader::Word(word) => Value::Flag(text == word),
            Reader::OneOf(words) if !words.contains(&text) => return None,
            Reader::OneOf(_) | Reader::Text(_) | Reader::Secret => Value::Text(text.to_owned()),
        })
    }

    /// What happens where [`read`](Self::read) gives nothing.
    pub fn on_bad_text(self) -> OnBadText {
        match self {
            Reader::LenientInt | Reader::LenientLong | Reader::SoftInt | Reader::SoftLong | Reader::SoftDouble => {
                OnBadText::Default
            }
            Reader::Int
            | Reader::Long
            | Reader::Double
            | Reader::Bool
            | Reader::TrueFalse
            | Reader::Word(_)
            | Reader::OneOf(_)
            | Reader::Text(_)
            | Reader::Secret => OnBadText::Stop,
        }
    }

    /// What a text has to be, for messages and the generated page.
    pub fn expected(self) -> String {
        match self {
            Reader::Int | Reader::SoftInt => "a whole number of 32 bits".to_owned(),
            Reader::Long | Reader::SoftLong => "a whole number of 64 bits".to_owned(),
            Reader::Double | Reader::SoftDouble => "a decimal number".to_owned(),
            Reader::LenientInt => "a whole number of 32 bits (0x.. and 0.. too)".to_owned(),
            Reader::LenientLong => "a whole number of 64 bits (0x.. and 0.. too)".to_owned(),
            Reader::Bool => "true, else false".to_owned(),
            Reader::TrueFalse => "true or false".to_owned(),
            Reader::Word(word) => format!("exactly {word}"),
            Reader::OneOf(words) => words.join(" or "),
            Reader::Text(kind) => kind.to_owned(),
            Reader::Secret => "secret".to_owned(),
        }
    }
}
