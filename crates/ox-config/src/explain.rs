//! Explains the effect of every given setting, for `oxkeeper check-config`.
//!
//! [`Config::load`] alone decides whether the server starts, and finds all errors; this assigns them to lines.

use std::path::Path;

use ox_proto::properties;
use ox_proto::text::trim;

use crate::config::Config;
use crate::diagnostic::Diagnostic;
use crate::error::{Cause, ConfigErrors, Place};
use crate::key::{Class, Key, PREFIX, Status, Value, ValueReader};
use crate::keys;
use crate::lint::{OWN_PREFIX, is_javas};
use crate::settings::{Entry, Settings};
use crate::start_args::{Environment, StartArgs};
use crate::system_properties::SystemProperties;
use crate::unsupported_protection;
use crate::weak_settings::weak_settings;

/// A configuration with the effect of each setting.
pub struct Explained {
    /// All settings given: lines of the file in order, lines of the dynamic file, system properties, JVM flags.
    pub items: Vec<ExplainedSetting>,
    /// Diagnostics that do not belong to one setting.
    pub diagnostics: Vec<Diagnostic>,
    /// The resulting configuration, or why the server refuses to start.
    pub outcome: Result<Config, ConfigErrors>,
}

/// One setting that was given.
pub struct ExplainedSetting {
    pub place: Place,
    pub name: String,
    /// `None` if the value is secret.
    pub text: Option<String>,
    /// The row of the key table, if the key is known.
    pub key: Option<&'static Key>,
    pub effect: SettingEffect,
    pub diagnostics: Vec<Diagnostic>,
}

/// What a setting does in this configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettingEffect {
    /// The server applies it.
    Honoured,
    /// Accepted, but this server has nothing to configure.
    NothingToSet,
    /// Applies to ensemble members only, and this server is standalone.
    EnsembleOnly,
    /// Concerns the Java virtual machine only.
    JavaOnly,
    /// Read by clients, not by servers.
    ClientOnly,
    /// The feature is not implemented yet; the server starts without it.
    NotBuilt(&'static str),
    /// The setting at the other place takes precedence.
    Overridden(Place),
    /// A known key in a form or place where no server reads it.
    Ineffective,
    Unknown,
    /// The server refuses to start because of it.
    Wrong(Cause),
}

/// Explains the configuration that these arguments result in.
pub fn explain(start: &StartArgs, system: &SystemProperties, environment: &Environment<'_>) -> Explained {
    let mut diagnostics = Vec::new();
    let outcome = Config::load(start, system, environment, &mut diagnostics);
    let Ok(settings) = Settings::read(start, system, environment, &mut Vec::new()) else {
        return Explained { items: Vec::new(), diagnostics, outcome };
    };
    if let Ok(config) = &outcome {
        diagnostics.extend(weak_remarks(config, &settings));
    }
    let view = View { settings: &settings, outcome: &outcome };
    let mut items = view.lines(start, environment);
    items.extend(view.member_file(environment));
    items.extend(system.iter().map(|(name, value)| view.property(name, value)));
    items.extend(system.jvm_flags().iter().map(|flag| java_flag(flag)));
    let mut general = Vec::new();
    for diagnostic in diagnostics {
        match items.iter_mut().find(|item| Some(&item.place) == diagnostic.place.as_ref()) {
            Some(item) => item.diagnostics.push(diagnostic),
            None => general.push(diagnostic),
        }
    }
    Explained { items, diagnostics: general, outcome }
}

/// The settings that weaken the protection and were chosen by the operator. The server logs them when it starts.
fn weak_remarks(config: &Config, settings: &Settings) -> Vec<Diagnostic> {
    let chosen = weak_settings(config).into_iter().filter(|weak| !weak.is_default);
    chosen
        .map(|weak| Diagnostic::warn(settings.place_of(weak.key), format!("weak protection: {}", weak.text)))
        .collect()
}

struct View<'a> {
    settings: &'a Settings,
    outcome: &'a Result<Config, ConfigErrors>,
}

impl View<'_> {
    /// Every line, including those that a later line of the same key overrides.
    fn lines(&self, start: &StartArgs, environment: &Environment<'_>) -> Vec<ExplainedSetting> {
        let StartArgs::File(path) = start else {
            let lines = self.settings.lines();
            return lines.into_iter().map(|(name, entry)| self.line(name, &entry.text, &entry.place)).collect();
        };
        let bytes = (environment.read)(path).unwrap_or_default();
        let items = pairs(path, &bytes).into_iter().map(|(name, text, place)| self.line(&name, &text, &place));
        items.collect()
    }

    fn line(&self, name: &str, text: &str, place: &Place) -> ExplainedSetting {
        let key = keys::find(name).or_else(|| keys::find_property(&format!("{PREFIX}{name}")));
        let effect = match self.settings.line(name) {
            Some(entry) if entry.place != *place => SettingEffect::Overridden(entry.place.clone()),
            Some(entry) => self.line_effect(name, entry, key),
            None => SettingEffect::Unknown,
        };
        item(place, name, text, key, effect)
    }

    fn line_effect(&self, name: &str, entry: &Entry, key: Option<&'static Key>) -> SettingEffect {
        if let Some(cause) = self.refusal(&entry.place) {
            return SettingEffect::Wrong(cause);
        }
        match key {
            None if name.strip_prefix(PREFIX).is_some_and(|bare| keys::find(bare).is_some()) => {
                SettingEffect::Ineffective
            }
            None => SettingEffect::Unknown,
            Some(key) if !key.in_file() => SettingEffect::Ineffective,
            Some(key) => self.effect(key, entry),
        }
    }

    /// Lines of the dynamic configuration file.
    fn member_file(&self, environment: &Environment<'_>) -> Vec<ExplainedSetting> {
        let Some(entry) = self.settings.line("dynamicConfigFile") else { return Vec::new() };
        let path = Path::new(&entry.text);
        let Ok(bytes) = (environment.read)(path) else { return Vec::new() };
        let all = pairs(path, &bytes);
        let last = |name: &str| all.iter().rfind(|(other, ..)| other == name).map(|(_, _, place)| place.clone());
        let items = all.iter().map(|(name, text, place)| {
            let key = keys::find(name).filter(|_| ox_proto::ensemble::is_member_key(name));
            let effect = match last(name).filter(|last| last != place) {
                Some(last) => SettingEffect::Overridden(last),
                None if name == "version" => SettingEffect::Wrong(Cause::VersionInDynamicFile),
                None if key.is_none() => SettingEffect::Wrong(Cause::NotDynamic(name.clone())),
                None => self.refusal(place).map_or(SettingEffect::Honoured, SettingEffect::Wrong),
            };
            item(place, name, text, key, effect)
        });
        items.collect()
    }

    fn property(&self, name: &str, value: &str) -> ExplainedSetting {
        let place = Place::Property(name.to_owned());
        let key = keys::find_property(name);
        let own = name.strip_prefix(PREFIX).or(name.starts_with(OWN_PREFIX).then_some(name));
        let effect = match (self.settings.property(name), key, own) {
            (Some(entry), ..) if entry.place != place => SettingEffect::Overridden(entry.place.clone()),
            (Some(entry), Some(key), _) => match self.refusal(&place) {
                Some(cause) => SettingEffect::Wrong(cause),
                None => self.effect(key, entry),
            },
            (_, None, Some(bare)) if keys::find(bare).is_some() => SettingEffect::Ineffective,
            (_, None, Some(_)) => SettingEffect::Unknown,
            (_, None, None) if !is_javas(name) => SettingEffect::Unknown,
            (_, None, None) | (None, Some(_), _) => SettingEffect::JavaOnly,
        };
        item(&place, name, value, key, effect)
    }

    /// The error at this place.
    fn refusal(&self, place: &Place) -> Option<Cause> {
        let mut errors = self.outcome.as_ref().err()?.iter();
        let error = errors.find(|error| error.place == *place && !error.cause.concerns_whole_config())?;
        Some(error.cause.clone())
    }

    /// The effect of a known key.
    fn effect(&self, key: &'static Key, entry: &Entry) -> SettingEffect {
        let effective = if key.family().is_none() { self.settings.effective_entry(key) } else { Some(entry) };
        if let Some(other) = effective.filter(|other| other.place != entry.place) {
            return SettingEffect::Overridden(other.place.clone());
        }
        let is_set = || unsupported_protection::places_set(self.settings, key).contains(&&entry.place);
        match (key.status, key.class) {
            (_, Class::J) => SettingEffect::JavaOnly,
            (_, Class::C) => SettingEffect::ClientOnly,
            (Status::Refused(feature), _) if is_set() => SettingEffect::Wrong(Cause::ProtectionNotBuilt { feature }),
            (Status::NotBuilt(feature), _) if !disables(key, &entry.text) => SettingEffect::NotBuilt(feature),
            (Status::Hint, _) => SettingEffect::NothingToSet,
            (Status::Ensemble, _) if self.outcome.as_ref().is_ok_and(|config| is_unused_standalone(config, key)) => {
                SettingEffect::EnsembleOnly
            }
            (Status::Built | Status::Ensemble | Status::Refused(_) | Status::NotBuilt(_), _) => SettingEffect::Honoured,
        }
    }
}

/// Whether a standalone server does not use a setting of ensembles. The AdminServer has the TLS settings of the
/// connections between servers.
fn is_unused_standalone(config: &Config, key: &Key) -> bool {
    let has_admin_tls = config.admin.as_ref().is_some_and(|admin| admin.tls.is_some());
    config.member.is_none() && !(has_admin_tls && key.name.starts_with("ssl.quorum."))
}

/// Whether a setting of a feature that is not implemented disables it, or chooses what there is without it.
fn disables(key: &Key, text: &str) -> bool {
    let is_flag = matches!(key.reader, ValueReader::Bool | ValueReader::TrueFalse | ValueReader::Word("true"));
    let is_off = is_flag && key.reader.read(text) == Some(Value::Flag(false));
    is_off || key.reader == ValueReader::Word("false") && text == "false" || has_default_provider(key, text)
}

fn has_default_provider(key: &Key, text: &str) -> bool {
    key.name == "metricsProvider.className" && text == key.default
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

fn java_flag(flag: &str) -> ExplainedSetting {
    let name = flag.split_once('=').map_or(flag, |(name, _)| name);
    item(&Place::Property(name.to_owned()), name, "", None, SettingEffect::JavaOnly)
}

fn item(place: &Place, name: &str, text: &str, key: Option<&'static Key>, effect: SettingEffect) -> ExplainedSetting {
    let sounds_secret = || {
        let name = name.to_lowercase();
        ["password", "secret", "token"].iter().any(|word| name.contains(word)) && !name.ends_with("path")
    };
    let is_secret = match key {
        Some(key) if key.family().is_none() => key.reader == ValueReader::Secret,
        Some(_) | None => sounds_secret(),
    };
    let text = (!is_secret).then(|| text.to_owned());
    ExplainedSetting { place: place.clone(), name: name.to_owned(), text, key, effect, diagnostics: Vec::new() }
}
