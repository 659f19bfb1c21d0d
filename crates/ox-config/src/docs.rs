//! Generates `docs/reference/config.md` from the key table.

use std::fmt::Write as _;

use crate::key::{Class, Key, Source, Status, ValueReader};
use crate::keys::{self, DEAD_NAMES};

/// The complete page. A test compares it with the committed file; `UPDATE_DOCS=1 cargo test -p ox-config` rewrites
/// that.
pub fn config_page() -> String {
    let mut page = HEAD.to_owned();
    for section in keys::SECTIONS {
        page += &format!("\n## {}\n\n", section.title);
        page += "| key | property | value | default | here | |\n|---|---|---|---|---|---|\n";
        section.keys.iter().for_each(|key| page += &row(key));
    }
    page += "\n## Names without effect\n\nSome documentation uses these names, but no server reads them.\n\n";
    page += "| name | use |\n|---|---|\n";
    for (dead, real) in DEAD_NAMES {
        writeln!(page, "| `{dead}` | `{real}` |").expect("writing to a String cannot fail");
    }
    page
}

const HEAD: &str = "\
# Configuration

<!-- Generated from crates/ox-config/src/keys.rs; UPDATE_DOCS=1 cargo test -p ox-config writes it. -->

A server reads `zoo.cfg` (Java properties: `key=value` lines) and system properties (`-Dname=value` on its command line
and in `SERVER_JVMFLAGS` and `JVMFLAGS`). The property `z.` stands for `zookeeper.` followed by the key; a line in
`zoo.cfg` takes precedence over it. Keys with the property `-` are read from `zoo.cfg` only; keys in brackets are read
from the property only.

| value | means |
|---|---|
| number, fraction | decimal; the server refuses to start with anything else |
| number?, fraction? | decimal; anything else counts as unset, with a warning |
| number* | also hexadecimal (`0x..`) and octal (`0..`); anything else counts as unset, with a warning |
| true, false | one of these in any case; the server refuses to start with anything else |
| true | in any case; anything else is false |
| exactly .. | only this word changes the default |

| here | means |
|---|---|
| yes | honoured by every server |
| hint | accepted; there is nothing to configure |
| ensemble | honoured by members of an ensemble |
| later | accepted with a warning; the feature is not built yet |
| stops | enables protection that is not built yet; the server refuses to start |
| java | accepted with a note; concerns the Java virtual machine |
| client | accepted; read by clients |
| test | accepted; used by Apache's tests |
";

fn row(key: &Key) -> String {
    let name = if key.in_file() { format!("`{}`", key.name) } else { format!("[`{}`]", key.name) };
    let property = match key.source {
        Source::File => "-".to_owned(),
        Source::FileOrProperty | Source::Passed => "z.".to_owned(),
        Source::PassedOrBare => format!("z., else `{}`", key.name),
        Source::FileUnder(property) => format!("`{property}` (wins)"),
        Source::Property | Source::Own => format!("`{}`", key.name),
    };
    let value = match key.unit {
        "" => value(key.reader),
        unit => format!("{}, {unit}", value(key.reader)),
    };
    let default = if key.default.is_empty() { String::new() } else { format!("`{}`", key.default) };
    let (here, doc) = (here(key), key.doc.trim());
    format!("| {name} | {property} | {value} | {default} | {here} | {doc} |\n")
}

fn value(reader: ValueReader) -> String {
    match reader {
        ValueReader::Int | ValueReader::Long => "number".to_owned(),
        ValueReader::SoftInt | ValueReader::SoftLong => "number?".to_owned(),
        ValueReader::LenientInt | ValueReader::LenientLong => "number*".to_owned(),
        ValueReader::Double => "fraction".to_owned(),
        ValueReader::SoftDouble => "fraction?".to_owned(),
        ValueReader::Bool => "true".to_owned(),
        ValueReader::TrueFalse => "true, false".to_owned(),
        ValueReader::Word(_) | ValueReader::OneOf(_) | ValueReader::Text(_) | ValueReader::Secret => reader.expected(),
    }
}

fn here(key: &Key) -> &'static str {
    match (key.class, key.status) {
        (Class::J, _) => "java",
        (Class::C, _) => "client",
        (Class::T, _) => "test",
        (_, Status::Built) => "yes",
        (_, Status::Hint) => "hint",
        (_, Status::Ensemble) => "ensemble",
        (_, Status::NotBuilt(_)) => "later",
        (_, Status::Refused(_)) => "stops",
    }
}
