//! What each setting that was given means here: for people who want to know before they start a server.
//!
//! Whether the server starts is decided by [`Config::load`] alone; this says the same line by line, with the same checks,
//! so that all wrong lines are told and not only the first.

use std::path::Path;

use ox_proto::properties;
use ox_proto::text::trim;

use crate::checks;
use crate::config::Config;
use crate::diagnostic::Notice;
use crate::error::{Cause, ConfigError, Place};
use crate::key::{Class, Key, PREFIX, Reader, Status};
use crate::keys;
use crate::lint::OWN_PREFIX;
use crate::settings::{Entry, Settings};
use crate::start_args::{Outside, Start};
use crate::system_properties::SystemProperties;
use crate::unsupported_protection;

/// A configuration, explained.
pub struct Explained {
    /// Everything that was given: lines of the file in their order, those of the file of the members, properties, flags.
    pub items: Vec<Item>,
    /// Remarks about the whole.
    pub remarks: Vec<Notice>,
    /// What the server starts with, or why it does not.
    pub outcome: Result<Config, ConfigError>,
}

/// One setting that was given.
pub struct Item {
    /// Where.
    pub place: Place,
    /// Its name as written.
    pub name: String,
    /// Its text; `None` for one that must not be shown.
    pub text: Option<String>,
    /// Its row in the table.
    pub key: Option<&'static Key>,
    /// What becomes of it.
    pub effect: Effect,
    /// What else there is to know.
    pub remarks: Vec<Notice>,
}

/// What becomes of a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The server does as it says.
    Honoured,
    /// Accepted; there is nothing to set here.
    NothingToSet,
    /// Means something in an ensemble only, and this is none.
    EnsembleOnly,
    /// Means something to a Java virtual machine only.
    JavaOnly,
    /// Read by clients, not by servers.
    ClientOnly,
    /// The feature is not built yet; the server starts without.
    NotBuilt(&'static str),
    /// Another one counts in its place.
    Overridden(Place),
    /// Known, but not where it stands or as it is written.
    Ineffective,
    /// No such key.
    Unknown,
    /// The server does not start with it.
    Wrong(Cause),
}

impl Effect {
    /// One word or two.
    pub fn word(&self) -> &'static str {
        match self {
            Effect::Honoured => "ok",
            Effect::NothingToSet | Effect::JavaOnly | Effect::ClientOnly => "ignored",
            Effect::EnsembleOnly => "unused",
            Effect::NotBuilt(_) => "not built",
            Effect::Overridden(_) => "overridden",
            Effect::Ineffective => "no effect",
            Effect::Unknown => "unknown",
            Effect::Wrong(_) => "WRONG",
        }
    }
}

/// Explains what a server would be started with.
pub fn explain(start: &Start, system: &SystemProperties, outside: &Outside<'_>) -> Explained {
    let mut notices = Vec::new();
    let outcome = Config::load(start, system, outside, &mut notices);
    let Ok(settings) = Settings::read(start, system, outside, &mut Vec::new()) else {
        return Explained { items: Vec::new(), remarks: notices, outcome };
    };
    let view = View { settings: &settings, outcome: &outcome };
    let mut items = view.lines(start, outside);
    items.extend(view.member_file(outside));
    items.extend(system.iter().map(|(name, value)| view.property(name, value)));
    items.extend(system.jvm_flags().iter().map(|flag| java_flag(flag)));
    let mut remarks = Vec::new();
    for notice in notices {
        match items.iter_mut().find(|item| Some(&item.place) == notice.place.as_ref()) {
            Some(item) => item.remarks.push(notice),
            None => remarks.push(notice),
        }
    }
    Explained { items, remarks, outcome }
}

struct View<'a> {
    settings: &'a Settings,
    outcome: &'a Result<Config, ConfigError>,
}

impl View<'_> {
    /// Every line, also those that a later one of the same key makes void.
    fn lines(&self, start: &Start, outside: &Outside<'_>) -> Vec<Item> {
        let Start::File(path) = start else {
            let lines = self.settings.lines();
            return lines.into_iter().map(|(name, entry)| self.line(name, &entry.text, &entry.place)).collect();
        };
        let bytes = (outside.read)(path).unwrap_or_default();
        let items = pairs(path, &bytes).into_iter().map(|(name, text, place)| self.line(&name, &text, &place));
        items.collect()
    }

    fn line(&self, name: &str, text: &str, place: &Place) -> Item {
        let key = keys::find(name).or_else(|| keys::find_property(&format!("{PREFIX}{name}")));
        let effect = match self.settings.line(name) {
            Some(entry) if entry.place != *place => Effect::Overridden(entry.place.clone()),
            Some(entry) => self.line_effect(name, entry, key),
            None => Effect::Unknown,
        };
        item(place, name, text, key, effect)
    }

    fn line_effect(&self, name: &str, entry: &Entry, key: Option<&'static Key>) -> Effect {
        if let Some(cause) = self.refusal(&entry.place) {
            return Effect::Wrong(cause);
        }
        if let Err(cause) = checks::check_line(name, entry, self.settings.line("dynamicConfigFile").is_some()) {
            return Effect::Wrong(cause);
        }
        match key {
            None if name.strip_prefix(PREFIX).is_some_and(|bare| keys::find(bare).is_some()) => Effect::Ineffective,
            None => Effect::Unknown,
            Some(key) if !key.in_file() => Effect::Ineffective,
            Some(key) => self.effect(key, entry),
        }
    }

    /// Lines of the file of the members.
    fn member_file(&self, outside: &Outside<'_>) -> Vec<Item> {
        let Some(entry) = self.settings.line("dynamicConfigFile") else { return Vec::new() };
        let path = Path::new(&entry.text);
        let Ok(bytes) = (outside.read)(path) else { return Vec::new() };
        let all = pairs(path, &bytes);
        let last = |name: &str| all.iter().rfind(|(other, ..)| other == name).map(|(_, _, place)| place.clone());
        let items = all.iter().map(|(name, text, place)| {
            let key = keys::find(name).filter(|_| ox_proto::ensemble::is_member_key(name));
            let effect = match last(name).filter(|last| last != place) {
                Some(last) => Effect::Overridden(last),
                None if name == "version" => Effect::Wrong(Cause::VersionInDynamicFile),
                None if key.is_none() => Effect::Wrong(Cause::NotDynamic(name.clone())),
                None => self.refusal(place).map_or(Effect::Honoured, Effect::Wrong),
            };
            item(place, name, text, key, effect)
        });
        items.collect()
    }

    fn property(&self, name: &str, value: &str) -> Item {
        let place = Place::Property(name.to_owned());
        let key = keys::find_property(name);
        let own = name.strip_prefix(PREFIX).or(name.starts_with(OWN_PREFIX).then_some(name));
        let effect = match (self.settings.property(name), key, own) {
            (Some(entry), ..) if entry.place != place => Effect::Overridden(entry.place.clone()),
            (Some(entry), Some(key), _) => match self.refusal(&place) {
                Some(cause) => Effect::Wrong(cause),
                None => self.effect(key, entry),
            },
            (_, None, Some(bare)) if keys::find(bare).is_some() => Effect::Ineffective,
            (_, None, Some(_)) => Effect::Unknown,
            (_, None, None) | (None, Some(_), _) => Effect::JavaOnly,
        };
        item(&place, name, value, key, effect)
    }

    /// Why the server does not start, if it is this place.
    fn refusal(&self, place: &Place) -> Option<Cause> {
        let error = self.outcome.as_ref().err()?;
        (error.place == *place && !is_about_the_whole(&error.cause)).then(|| error.cause.clone())
    }

    /// What a row of the table, set here, leads to.
    fn effect(&self, key: &'static Key, entry: &Entry) -> Effect {
        let counting = if key.family().is_none() { self.settings.counting(key) } else { Some(entry) };
        if let Some(other) = counting.filter(|other| other.place != entry.place) {
            return Effect::Overridden(other.place.clone());
        }
        if let Err(cause) = checks::check_passed(key, entry) {
            return Effect::Wrong(cause);
        }
        let asks = || unsupported_protection::asks(self.settings, key).contains(&&entry.place);
        match (key.status, key.class) {
            (_, Class::J) => Effect::JavaOnly,
            (_, Class::C) => Effect::ClientOnly,
            (Status::Guard(feature), _) if asks() => Effect::Wrong(Cause::ProtectionNotBuilt { feature }),
            (Status::Later(feature), _) if asks() => Effect::NotBuilt(feature),
            (Status::Hint, _) => Effect::NothingToSet,
            (Status::Ensemble, _) if self.outcome.as_ref().is_ok_and(|config| config.member.is_none()) => {
                Effect::EnsembleOnly
            }
            (Status::Built | Status::Ensemble | Status::Guard(_) | Status::Later(_), _) => Effect::Honoured,
        }
    }
}

/// No line is wrong then, though one stands for where it was noticed.
fn is_about_the_whole(cause: &Cause) -> bool {
    use Cause::{MyIdMissing, MyIdNotANumber, NoParticipants, NotAMember, ObserversAlone, ObserversOfOne};
    matches!(
        cause,
        MyIdMissing(_) | MyIdNotANumber { .. } | NotAMember(_) | NoParticipants | ObserversAlone | ObserversOfOne
    )
}

/// Name, text and place of each line.
fn pairs(path: &Path, bytes: &[u8]) -> Vec<(String, String, Place)> {
    let file = path.display().to_string();
    let pairs = properties::parse(bytes).unwrap_or_default().into_iter().map(|pair| {
        let name = trim(&pair.key).to_owned();
        let place = Place::File { name: file.clone(), line: Some(pair.line), key: Some(name.clone()) };
        (name, trim(&pair.value).to_owned(), place)
    });
    pairs.collect()
}

fn java_flag(flag: &str) -> Item {
    let name = flag.split_once('=').map_or(flag, |(name, _)| name);
    item(&Place::Property(name.to_owned()), name, "", None, Effect::JavaOnly)
}

fn item(place: &Place, name: &str, text: &str, key: Option<&'static Key>, effect: Effect) -> Item {
    let is_secret = match key {
        Some(key) => key.reader == Reader::Secret,
        None => ["password", "secret", "token"].iter().any(|word| name.to_lowercase().contains(word)),
    };
    let text = (!is_secret).then(|| text.to_owned());
    Item { place: place.clone(), name: name.to_owned(), text, key, effect, remarks: Vec::new() }
}
