//! Warnings about the given settings: names that no server reads, values that are parsed differently than they look,
//! features that are not implemented yet. None of them changes a value.

use std::collections::BTreeMap;

use crate::diagnostic::Diagnostic;
use crate::error::{Place, comment_hint};
use crate::java_values;
use crate::key::{Class, Key, OnBadText, PREFIX, Source, Status, Value, ValueReader};
use crate::keys::{self, DEAD_NAMES};
use crate::settings::{Entry, Settings};
use crate::spelling;
use crate::unsupported_protection;

/// Appends all warnings, those about lines first.
pub(crate) fn lint(settings: &Settings, diagnostics: &mut Vec<Diagnostic>) {
    for (name, entry) in settings.lines() {
        diagnostics.extend(line_diagnostic(name, entry));
    }
    for (name, _) in settings.system().iter() {
        diagnostics.extend(property_diagnostic(settings, name));
    }
    diagnostics.extend(foreign_class(settings));
    unknown_commands(settings, diagnostics);
    not_built_yet(settings, diagnostics);
    for_java_only(settings, diagnostics);
}

fn line_diagnostic(name: &str, entry: &Entry) -> Option<Diagnostic> {
    let prefixed = format!("{PREFIX}{name}");
    let text = match keys::find(name).or_else(|| keys::find_property(&prefixed)) {
        Some(key) if !key.in_file() => format!("{name} has no effect here; give -D{name} instead"),
        Some(key) => line_value_warning(name, key, &entry.text)?,
        None => match name.strip_prefix(PREFIX).and_then(keys::find) {
            Some(key) => format!("{name} has no effect with the prefix; write {} instead", key.name),
            None => unknown(name, |key| key.in_file()),
        },
    };
    Some(Diagnostic::warn(&entry.place, text))
}

fn property_diagnostic(settings: &Settings, name: &str) -> Option<Diagnostic> {
    let effective_entry = settings.property(name)?;
    if effective_entry.place.line().is_some() {
        return Some(Diagnostic::info(Some(&effective_entry.place), format!("-D{name} is overwritten by this line")));
    }
    let own = name.starts_with(OWN_PREFIX).then_some(name);
    let text = match (keys::find_property(name), name.strip_prefix(PREFIX).or(own)) {
        (Some(key), _) => value_warning(&format!("-D{name}"), key, &effective_entry.text)?,
        (None, None) if is_javas(name) => return None,
        (None, None) => unknown_property(name),
        (None, Some(bare)) => match keys::find(bare) {
            Some(key) if key.source == Source::File => {
                format!("-D{name} has no effect; write {bare} into the configuration file instead")
            }
            Some(key) => format!("-D{name} has no effect; give -D{} instead", key.name),
            None => format!("-D{name}: {}", unknown(bare, |key| key.source != Source::File)),
        },
    };
    Some(Diagnostic::warn(&effective_entry.place, text))
}

/// Prefixes of properties that a Java virtual machine and its libraries read.
const JAVA_PREFIXES: [&str; 16] = [
    "java.",
    "javax.",
    "jdk.",
    "sun.",
    "com.sun.",
    "org.",
    "io.netty.",
    "log4j",
    "logback.",
    "slf4j.",
    "awt.",
    "file.",
    "user.",
    "os.",
    "networkaddress.",
    "visualvm.",
];

/// Whether a property without Apache's prefix and without ours concerns the Java virtual machine.
pub(crate) fn is_javas(name: &str) -> bool {
    JAVA_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

fn unknown_property(name: &str) -> String {
    let names: Vec<String> = keys::keys().filter(|key| key.family().is_none()).filter_map(Key::property).collect();
    let near = keys::find(name).and_then(Key::property);
    let near = near.as_deref().or_else(|| spelling::nearest(name, names.iter().map(String::as_str)));
    let hint = near.map(|near| format!("; did you mean -D{near}?")).unwrap_or_default();
    format!("-D{name} is not a known property and has no effect{hint}")
}

/// Names in the whitelist that no command has. Apache ignores them too.
fn unknown_commands(settings: &Settings, diagnostics: &mut Vec<Diagnostic>) {
    const KEY: &str = "4lw.commands.whitelist";
    let whitelist = settings.text(KEY).unwrap_or_default();
    let names = whitelist.split(',').map(ox_proto::text::trim).filter(|name| !name.is_empty() && *name != "*");
    for name in names.filter(|name| !FOUR_LETTER_COMMANDS.contains(name)) {
        let near = spelling::nearest(name, FOUR_LETTER_COMMANDS.into_iter());
        let hint = near.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
        let text = format!("{KEY}: {name} is not a four-letter command{hint}");
        diagnostics.push(Diagnostic::warn(settings.place_of(KEY), text));
    }
}

/// The four-letter commands that a server knows.
pub const FOUR_LETTER_COMMANDS: [&str; 18] = [
    "conf", "cons", "crst", "dirs", "dump", "envi", "gtmk", "hash", "isro", "mntr", "ruok", "srst", "srvr", "stat",
    "stmk", "wchc", "wchp", "wchs",
];

/// Prefix of all keys that are specific to Oxkeeper.
pub(crate) const OWN_PREFIX: &str = "oxkeeper.";

fn unknown(name: &str, settable: impl Fn(&Key) -> bool) -> String {
    if let Some((_, real)) = DEAD_NAMES.iter().find(|(dead, _)| *dead == name) {
        return format!("{name} has no effect; the effective name is {real}");
    }
    let names = keys::keys().filter(|key| settable(key) && key.family().is_none()).map(|key| key.name);
    match spelling::nearest(name, names) {
        Some(near) => format!("{name} is not a known key and has no effect; did you mean {near}?"),
        None => format!("{name} is not a known key and has no effect"),
    }
}

/// Like [`value_warning`], also for a value that contains what looks like a comment.
fn line_value_warning(name: &str, key: &Key, text: &str) -> Option<String> {
    let hint = if matches!(key.reader, ValueReader::Secret) { "" } else { comment_hint(text) };
    match value_warning(name, key, text) {
        Some(warning) => Some(warning + hint),
        None if hint.is_empty() || key.reader.read(text).is_none() => None, // an error has the hint, too
        None => Some(format!("{name}: the value is all of `{text}`{hint}")),
    }
}

/// How a value is parsed, if its author may have meant something else.
fn value_warning(name: &str, key: &Key, text: &str) -> Option<String> {
    let value = key.reader.read(text);
    match (key.reader, value) {
        (reader, None) if reader.on_bad_text() == OnBadText::Default => {
            let instead = if key.default.is_empty() {
                "it counts as unset".to_owned()
            } else {
                format!("the default {} is used", key.default)
            };
            Some(format!("{text} is not a valid value for {name}, expected {}; {instead}", reader.expected()))
        }
        (ValueReader::LenientInt, Some(Value::Int(number))) if java_values::is_octal(text) => {
            Some(format!("{name}: {text} is read as octal, {number}"))
        }
        (ValueReader::LenientLong, Some(Value::Long(number))) if java_values::is_octal(text) => {
            Some(format!("{name}: {text} is read as octal, {number}"))
        }
        (ValueReader::LenientInt, Some(Value::Int(1000))) if key.name == "globalOutstandingLimit" => {
            Some(format!("{name}: 1000, the default, means 100000 (as in the documentation of this key)"))
        }
        (ValueReader::Int, Some(Value::Int(..0))) if UNSIGNED.contains(&key.name) => {
            Some(format!("{name}: {text} is read as 0; write 0 if that is intended"))
        }
        (ValueReader::Bool, Some(Value::Flag(false))) if !text.eq_ignore_ascii_case("false") => {
            Some(format!("{name}: {text} is read as false; only true means true"))
        }
        (ValueReader::Word(word), Some(Value::Flag(false))) if text != key.default => {
            Some(format!("{name}: {text} is read as {}; only {word} makes a difference", key.default))
        }
        _ => None,
    }
}

/// Numbers of which negative ones count as 0.
const UNSIGNED: [&str; 2] = ["maxClientCnxns", "autopurge.purgeInterval"];

/// A connection class that does not ship with Apache.
fn foreign_class(settings: &Settings) -> Option<Diagnostic> {
    const KEY: &str = "serverCnxnFactory";
    let class = settings.text(KEY)?;
    let is_apaches = CNXN_FACTORIES.contains(&class.as_str());
    let text = || format!("{KEY}: {class} is a Java class and has no effect");
    (!is_apaches).then(|| Diagnostic::warn(settings.place_of(KEY), text()))
}

/// Connection classes that ship with Apache.
const CNXN_FACTORIES: [&str; 2] =
    ["org.apache.zookeeper.server.NIOServerCnxnFactory", "org.apache.zookeeper.server.NettyServerCnxnFactory"];

/// One warning per feature that settings require.
fn not_built_yet(settings: &Settings, diagnostics: &mut Vec<Diagnostic>) {
    let mut features: BTreeMap<&str, Vec<&Place>> = BTreeMap::new();
    for key in keys::keys() {
        if let Status::NotBuilt(feature) = key.status {
            features.entry(feature).or_default().extend(unsupported_protection::places_set(settings, key));
        }
    }
    for (feature, places) in features {
        let Some(first) = places.first() else {
            continue;
        };
        let names: Vec<_> = places.iter().map(|place| setting_name(place)).collect();
        let text = format!("{feature} is not implemented yet; no effect: {}", names.join(", "));
        diagnostics.push(Diagnostic::warn(first, text));
    }
}

fn setting_name(place: &Place) -> String {
    match place {
        Place::File { key: Some(key), .. } => key.clone(),
        Place::File { name, key: None, .. } => name.clone(),
        Place::Argument(key) => (*key).to_owned(),
        Place::Property(name) => format!("-D{name}"),
    }
}

/// One note for all settings that concern the Java virtual machine. Names only: values may be secret.
fn for_java_only(settings: &Settings, diagnostics: &mut Vec<Diagnostic>) {
    let flags = settings.system().jvm_flags().iter().map(|flag| {
        let name = flag.split_once('=').map_or(flag.as_str(), |(name, _)| name);
        name.to_owned()
    });
    let properties = settings.system().iter().filter_map(|(name, _)| {
        let java = match keys::find_property(name) {
            Some(key) => key.class == Class::J,
            None => !name.starts_with(PREFIX) && !name.starts_with(OWN_PREFIX) && is_javas(name),
        };
        java.then(|| format!("-D{name}"))
    });
    let is_java = |key: &Key| key.class == Class::J && key.in_file();
    let lines = settings.lines().into_iter().map(|(name, _)| name.to_owned());
    let lines = lines.filter(|name| keys::find(name).is_some_and(is_java));
    let names: Vec<_> = flags.chain(properties).chain(lines).collect();
    if !names.is_empty() {
        diagnostics
            .push(Diagnostic::info(None, format!("for a Java virtual machine only, no effect: {}", names.join(" "))));
    }
}
