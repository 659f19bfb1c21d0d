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
        page += "| key | property | value | default | status | meaning |\n|---|---|---|---|---|---|\n";
        section.keys.iter().for_each(|key| page += &row(key));
    }
    page += "\n## Names without effect\n\nSome documentation uses these names, but no server reads them.\n\n";
    page += "| name | use instead |\n|---|---|\n";
    for (dead, real) in DEAD_NAMES {
        writeln!(page, "| `{dead}` | `{real}` |").expect("writing to a String cannot fail");
    }
    page
}

const HEAD: &str = "\
# Configuration

<!-- Generated from crates/ox-config/src/keys.rs; UPDATE_DOCS=1 cargo test -p ox-config writes it. -->

This page lists every setting of a server, for operators. A server reads `zoo.cfg` (Java properties: `key=value` lines)
and system properties: `-Dname=value` in the environment variables `SERVER_JVMFLAGS` and `JVMFLAGS` and on the command
line. If a property is set more than once, the command line takes precedence, then `JVMFLAGS`.

A key in brackets is a system property only; a line in `zoo.cfg` has no effect. A key that ends with `*` stands for all
keys with that prefix.

The column *property* names the system property of a key:

| property | means |
|---|---|
| z. | `zookeeper.` followed by the key; a line in `zoo.cfg` takes precedence over it |
| - | the key is read from `zoo.cfg` only |
| a name | the property of that name; a line in `zoo.cfg` takes precedence, unless the cell says otherwise |
| z., else a name | as for z.; if neither is set, the property of that name |

The column *value* names the accepted values, and after a comma the unit:

| value | means |
|---|---|
| number, fraction | decimal; the server refuses to start with anything else |
| number?, fraction? | decimal; anything else counts as unset, with a warning |
| number* | decimal, hexadecimal (`0x..`) or octal (`0..`); anything else counts as unset, with a warning |
| true, false | one of these, in upper or lower case; the server refuses to start with anything else |
| true | `true` in upper or lower case; anything else counts as `false` |
| exactly .. | exactly this word; anything else means the opposite |
| secret | text that is never logged or printed |

The column *status* says what Oxkeeper does with the setting:

| status | means |
|---|---|
| yes | takes effect on every server |
| ensemble | takes effect on members of an ensemble; a standalone server ignores it |
| hint | accepted without effect; Oxkeeper has no such part, or chooses the value itself |
| later | accepted with a warning; the feature does not exist yet |
| stops | enables protection that does not exist yet; the server refuses to start |
| java | accepted with a note in the log, without effect; concerns the Java virtual machine |
| client | accepted without effect; only clients read it |
| test | accepted; for tests only |
";

fn row(key: &Key) -> String {
    let name = if key.in_file() { format!("`{}`", key.name) } else { format!("[`{}`]", key.name) };
    let property = match key.source {
        Source::File => "-".to_owned(),
        Source::FileOrProperty | Source::Passed => "z.".to_owned(),
        Source::PassedOrBare => format!("z., else `{}`", key.name),
        Source::FileUnder(property) => format!("`{property}` (takes precedence)"),
        Source::Property | Source::Own => format!("`{}`", key.name),
    };
    let value = match key.unit {
        "" => value(key.reader),
        unit => format!("{}, {unit}", value(key.reader)),
    };
    let default = if key.default.is_empty() { String::new() } else { format!("`{}`", key.default) };
    let (status, doc) = (status(key), key.doc.trim());
    format!("| {name} | {property} | {value} | {default} | {status} | {doc} |\n")
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

fn status(key: &Key) -> &'static str {
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
