//! The page `docs/config.md`, written from the key table.

use std::fmt::Write as _;

use crate::key::{Class, Key, Reader, Source, Status};
use crate::keys::{self, DEAD_NAMES};

/// The whole page. A test compares it with the committed one; `UPDATE_DOCS=1 cargo test -p ox-config` rewrites that.
pub fn config_page() -> String {
    let mut page = HEAD.to_owned();
    for section in keys::SECTIONS {
        page += &format!("\n## {}\n\n", section.title);
        page += "| key | property | value | default | here | |\n|---|---|---|---|---|---|\n";
        section.keys.iter().for_each(|key| page += &row(key));
    }
    page += "\n## Names without effect\n\nDocuments use these names, and no server reads them.\n\n";
    page += "| name | use |\n|---|---|\n";
    for (dead, real) in DEAD_NAMES {
        writeln!(page, "| `{dead}` | `{real}` |").expect("a string takes every write");
    }
    page
}

const HEAD: &str = "\
# Configuration

<!-- Generated from crates/ox-config/src/keys.rs; UPDATE_DOCS=1 cargo test -p ox-config writes it. -->

A server reads `zoo.cfg` (Java properties: `key=value` lines) and system properties (`-Dname=value` on its command line
and in `SERVER_JVMFLAGS` and `JVMFLAGS`). Where a key has a property `z.`, that is `zookeeper.` and the key's name, and a
line in `zoo.cfg` wins over it. Where the property is `-`, only `zoo.cfg` counts; where the key stands in brackets, only
the property does.

| value | means |
|---|---|
| number, fraction | decimal; anything else stops the start |
| number?, fraction? | decimal; anything else counts as unset, with a warning |
| number* | also hexadecimal (`0x..`) and octal (`0..`); anything else counts as unset, with a warning |
| true, false | one of these in any case; anything else stops the start |
| true | in any case; anything else is false |
| exactly .. | this word changes the default, nothing else does |

| here | means |
|---|---|
| yes | a single server honours it |
| hint | accepted; there is nothing to set here |
| ensemble | a member of an ensemble honours it |
| later | accepted with a warning; the feature is not built yet |
| stops | asks for protection that is not built yet; the server does not start with less than asked for |
| java | accepted with a note; it concerns a Java virtual machine |
| client | accepted; clients read it |
| test | accepted; Apache's tests use it |
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

fn value(reader: Reader) -> String {
    match reader {
        Reader::Int | Reader::Long => "number".to_owned(),
        Reader::SoftInt | Reader::SoftLong => "number?".to_owned(),
        Reader::LenientInt | Reader::LenientLong => "number*".to_owned(),
        Reader::Double => "fraction".to_owned(),
        Reader::SoftDouble => "fraction?".to_owned(),
        Reader::Bool => "true".to_owned(),
        Reader::TrueFalse => "true, false".to_owned(),
        Reader::Word(_) | Reader::OneOf(_) | Reader::Text(_) | Reader::Secret => reader.expected(),
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
        (_, Status::Later(_)) => "later",
        (_, Status::Guard(_)) => "stops",
    }
}
