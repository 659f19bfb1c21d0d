//! Remarks about what was given: names nobody reads, texts that mean something else than they seem to, features that
//! are not built yet. None of them changes a value.

use std::collections::BTreeMap;

use crate::diagnostic::Notice;
use crate::error::Place;
use crate::java_values;
use crate::key::{Class, Key, OnBadText, PREFIX, Reader, Source, Status, Value};
use crate::keys::{self, ADMIN, DEAD_NAMES};
use crate::settings::{Entry, Settings};
use crate::spelling;
use crate::unsupported_protection;

/// All remarks, those about lines first.
pub(crate) fn lint(settings: &Settings, notices: &mut Vec<Notice>) {
    for (name, entry) in settings.lines() {
        notices.extend(line_notice(name, entry));
    }
    for (name, _) in settings.system().iter() {
        notices.extend(property_notice(settings, name));
    }
    notices.extend(foreign_class(settings));
    not_built_yet(settings, notices);
    for_java_only(settings, notices);
}

fn line_notice(name: &str, entry: &Entry) -> Option<Notice> {
    let prefixed = format!("{PREFIX}{name}");
    let text = match keys::find(name).or_else(|| keys::find_property(&prefixed)) {
        Some(key) if !key.in_file() => format!("{name} has no effect here; give -D{name} instead"),
        Some(key) => text_remark(name, key, &entry.text)?,
        None => match name.strip_prefix(PREFIX).and_then(keys::find) {
            Some(key) => format!("{name} has no effect with the prefix; write {} instead", key.name),
            None => unknown(name, |key| key.in_file()),
        },
    };
    Some(Notice::warn(&entry.place, text))
}

fn property_notice(settings: &Settings, name: &str) -> Option<Notice> {
    let counting = settings.property(name)?;
    if counting.place.line().is_some() {
        return Some(Notice::info(Some(&counting.place), format!("-D{name} is overwritten by this line")));
    }
    let own = name.starts_with(OWN_PREFIX).then_some(name);
    let text = match (keys::find_property(name), name.strip_prefix(PREFIX).or(own)) {
        (Some(key), _) => text_remark(&format!("-D{name}"), key, &counting.text)?,
        (None, None) => return None,
        (None, Some(bare)) => match keys::find(bare) {
            Some(key) if key.source == Source::File => {
                format!("-D{name} has no effect; write {bare} into the configuration file instead")
            }
            Some(key) => format!("-D{name} has no effect; give -D{} instead", key.name),
            None => format!("-D{name}: {}", unknown(bare, |key| key.source != Source::File)),
        },
    };
    Some(Notice::warn(&counting.place, text))
}

/// What all of our own keys begin with.
pub(crate) const OWN_PREFIX: &str = "oxkeeper.";

fn unknown(name: &str, settable: impl Fn(&Key) -> bool) -> String {
    if let Some((_, real)) = DEAD_NAMES.iter().find(|(dead, _)| *dead == name) {
        return format!("{name} has no effect; the name that has is {real}");
    }
    let names = keys::keys().filter(|key| settable(key) && key.family().is_none()).map(|key| key.name);
    match spelling::nearest(name, names) {
        Some(near) => format!("{name} is not a known key and has no effect; did you mean {near}?"),
        None => format!("{name} is not a known key and has no effect"),
    }
}

/// What a text is taken for, where its writer may have meant something else.
fn text_remark(name: &str, key: &Key, text: &str) -> Option<String> {
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
        (Reader::LenientInt, Some(Value::Int(number))) if java_values::is_octal(text) => {
            Some(format!("{name}: {text} is read as octal, {number}"))
        }
        (Reader::LenientLong, Some(Value::Long(number))) if java_values::is_octal(text) => {
            Some(format!("{name}: {text} is read as octal, {number}"))
        }
        (Reader::Bool, Some(Value::Flag(false))) if !text.eq_ignore_ascii_case("false") => {
            Some(format!("{name}: {text} is read as false; only true means true"))
        }
        (Reader::Word(word), Some(Value::Flag(false))) if text != key.default => {
            Some(format!("{name}: {text} is read as {}; only {word} makes a difference", key.default))
        }
        _ => None,
    }
}

/// A class that somebody has written to serve connections in Apache's place.
fn foreign_class(settings: &Settings) -> Option<Notice> {
    const KEY: &str = "serverCnxnFactory";
    let class = settings.text(KEY)?;
    let is_apaches = CNXN_FACTORIES.contains(&class.as_str());
    let text = || format!("{KEY}: {class} is a Java class and has no effect");
    (!is_apaches).then(|| Notice::warn(settings.place_of(KEY), text()))
}

/// Apache's own classes that serve connections.
const CNXN_FACTORIES: [&str; 2] =
    ["org.apache.zookeeper.server.NIOServerCnxnFactory", "org.apache.zookeeper.server.NettyServerCnxnFactory"];

/// One warning per feature that settings ask for.
fn not_built_yet(settings: &Settings, notices: &mut Vec<Notice>) {
    let mut features: BTreeMap<&str, Vec<&Place>> = BTreeMap::new();
    for key in keys::keys() {
        if let Status::Later(feature) = key.status {
            features.entry(feature).or_default().extend(unsupported_protection::asks(settings, key));
        }
    }
    if settings.flag("admin.enableServer") {
        features.remove(ADMIN); // the flag is up when it is turned off
    }
    for (feature, places) in features {
        let Some(first) = places.first() else {
            continue;
        };
        let names: Vec<_> = places.iter().map(|place| setting_name(place)).collect();
        let text = format!("{feature} is not built yet; no effect: {}", names.join(", "));
        notices.push(Notice::warn(first, text));
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

/// One note for all that concerns a Java virtual machine. Names only: values may be secret.
fn for_java_only(settings: &Settings, notices: &mut Vec<Notice>) {
    let flags = settings.system().jvm_flags().iter().map(|flag| {
        let name = flag.split_once('=').map_or(flag.as_str(), |(name, _)| name);
        name.to_owned()
    });
    let properties = settings.system().iter().filter_map(|(name, _)| {
        let java = match keys::find_property(name) {
            Some(key) => key.class == Class::J,
            None => !name.starts_with(PREFIX) && !name.starts_with(OWN_PREFIX),
        };
        java.then(|| format!("-D{name}"))
    });
    let is_java = |key: &Key| key.class == Class::J && key.in_file();
    let lines = settings.lines().into_iter().map(|(name, _)| name.to_owned());
    let lines = lines.filter(|name| keys::find(name).is_some_and(is_java));
    let names: Vec<_> = flags.chain(properties).chain(lines).collect();
    if !names.is_empty() {
        notices.push(Notice::info(None, format!("for a Java virtual machine only, no effect: {}", names.join(" "))));
    }
}
