//! All given settings with their places, before validation: the file's lines, the system properties, and precedence.
//!
//! Apache copies each line that it does not handle itself into the system property `zookeeper.<key>`, which overwrites
//! one given with `-D`. Likewise here: `lines` holds the file, `properties` the system properties after the file was
//! read.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use ox_proto::ensemble::is_member_key;
use ox_proto::properties;
use ox_proto::text::trim;

use crate::diagnostic::Diagnostic;
use crate::error::{self, Cause, ConfigError, Place};
use crate::key::{Key, OnBadText, PREFIX, Source, Value};
use crate::keys;
use crate::start_args::{Environment, StartArgs};
use crate::system_properties::SystemProperties;

pub struct Settings {
    place: Place,
    lines: BTreeMap<String, Entry>,
    properties: BTreeMap<String, Entry>,
    system: SystemProperties,
    /// The text of the configuration file, where there is one.
    file_text: Option<String>,
}

/// The text of a setting and its place.
pub(crate) struct Entry {
    /// The text without surrounding blanks.
    pub(crate) text: String,
    /// As written in the file.
    pub(crate) raw: String,
    pub(crate) place: Place,
}

/// A row of the key table with its effective text.
pub struct Effective<'a> {
    pub key: &'static Key,
    /// The given text or the default; `None` if it is secret.
    pub text: Option<&'a str>,
    /// `None` for a default.
    pub place: Option<&'a Place>,
}

impl Settings {
    /// Reads the configuration file, if any, and overlays it on the system properties.
    pub fn read(
        start: &StartArgs,
        system: &SystemProperties,
        environment: &Environment<'_>,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> Result<Settings, ConfigError> {
        let mut settings = Settings {
            place: Place::Argument("server"),
            lines: BTreeMap::new(),
            properties: BTreeMap::new(),
            system: system.clone(),
            file_text: None,
        };
        for (name, value) in system.iter() {
            let place = Place::Property(name.to_owned());
            settings.properties.insert(name.to_owned(), Entry::new(value, value, place));
        }
        for (key, value) in start.pairs() {
            settings.lines.insert(key.to_owned(), Entry::new(&value, &value, Place::Argument(key)));
        }
        if let StartArgs::File(path) = start {
            settings.read_file(path, environment, diagnostics)?;
        }
        Ok(settings)
    }

    fn read_file(
        &mut self,
        path: &Path,
        environment: &Environment<'_>,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> Result<(), ConfigError> {
        let name = path.display().to_string();
        self.place = Place::File { name: name.clone(), line: None, key: None };
        // No warning: the file was found, so its path is the intended one. The text names the file.
        let relative = relative_path_warning(&name, &self.place);
        diagnostics.extend(relative.map(|diagnostic| Diagnostic::info(None, diagnostic.text)));
        let bytes = (environment.read)(path).map_err(|error| {
            self.place.error(if error.kind() == io::ErrorKind::NotFound {
                Cause::FileMissing(name.clone())
            } else {
                error::unreadable(name.clone(), &error)
            })
        })?;
        let entries = parse_file(&name, &bytes)?;
        diagnostics.extend(repeated_members(&name, &bytes, &entries));
        for (key, entry) in entries {
            if keys::find(&key).is_none_or(Key::is_passed) {
                let passed = Entry::new(&entry.text, &entry.text, entry.place.clone());
                self.properties.insert(format!("{PREFIX}{key}"), passed);
            }
            self.lines.insert(key, entry);
        }
        self.file_text = Some(bytes.iter().copied().map(char::from).collect());
        Ok(())
    }

    /// The text of the configuration file, where there is one.
    pub(crate) fn file_text(&self) -> Option<&str> {
        self.file_text.as_deref()
    }

    /// Every row that is not a family, with its effective text.
    pub fn effective(&self) -> impl Iterator<Item = Effective<'_>> {
        keys::keys().filter(|key| key.family().is_none()).map(|key| {
            let entry = self.effective_entry(key);
            let text = entry.map_or(key.default, |entry| entry.text.as_str());
            let shown = key.reader != crate::key::ValueReader::Secret;
            Effective { key, text: shown.then_some(text), place: entry.map(|entry| &entry.place) }
        })
    }

    /// The configuration as a whole, for errors about missing settings.
    pub(crate) fn place(&self) -> &Place {
        &self.place
    }

    pub(crate) fn system(&self) -> &SystemProperties {
        &self.system
    }

    /// Lines of the file, or the settings that the arguments stand for, in order.
    pub(crate) fn lines(&self) -> Vec<(&str, &Entry)> {
        let mut lines: Vec<_> = self.lines.iter().map(|(key, entry)| (key.as_str(), entry)).collect();
        lines.sort_by_key(|(_, entry)| entry.place.line());
        lines
    }

    pub(crate) fn line(&self, key: &str) -> Option<&Entry> {
        self.lines.get(key)
    }

    /// A system property after the file was read.
    pub(crate) fn property(&self, name: &str) -> Option<&Entry> {
        self.properties.get(name)
    }

    /// System properties with a prefix, after the file was read.
    pub(crate) fn properties_under(&self, prefix: &str) -> impl Iterator<Item = (&str, &Entry)> {
        self.properties
            .iter()
            .filter(move |(name, _)| name.starts_with(prefix))
            .map(|(name, entry)| (name.as_str(), entry))
    }

    /// The texts given for a key, in order of precedence.
    pub(crate) fn given(&self, key: &Key) -> impl Iterator<Item = &Entry> {
        let prefixed = || self.properties.get(&format!("{PREFIX}{}", key.name));
        let (line, bare) = (self.lines.get(key.name), self.properties.get(key.name));
        let winners = match key.source {
            Source::File => [line, None],
            Source::FileOrProperty => [line, prefixed()],
            Source::FileUnder(property) => [self.properties.get(property), line],
            Source::Passed => [prefixed(), None],
            Source::PassedOrBare => [prefixed(), bare],
            Source::Property => [bare, None],
            Source::Own => [line, bare],
        };
        winners.into_iter().flatten()
    }

    /// The entry that determines a key's value; skips invalid text that counts as unset.
    pub(crate) fn effective_entry(&self, key: &Key) -> Option<&Entry> {
        self.given(key)
            .find(|entry| key.reader.on_bad_text() == OnBadText::Stop || key.reader.read(&entry.text).is_some())
    }

    /// Where a key is set, or the whole configuration if it is not.
    pub(crate) fn place_of(&self, name: &str) -> &Place {
        keys::find(name).and_then(|key| self.effective_entry(key)).map_or(&self.place, |entry| &entry.place)
    }

    /// The effective value: given or default; `None` if there is neither.
    pub(crate) fn value(&self, name: &str) -> Option<Value> {
        let key = keys::find(name).expect("callers use names of the key table");
        let given = self.effective_entry(key).and_then(|entry| key.reader.read(&entry.text));
        given.or_else(|| if key.default.is_empty() { None } else { key.reader.read(key.default) })
    }

    /// A 32-bit setting without a default.
    pub(crate) fn optional_int(&self, name: &str) -> Option<i32> {
        let value = self.value(name)?;
        let Value::Int(int) = value else { panic!("{name} is not read as a 32-bit number") };
        Some(int)
    }

    /// A 64-bit setting without a default.
    pub(crate) fn optional_long(&self, name: &str) -> Option<i64> {
        let value = self.value(name)?;
        let Value::Long(long) = value else { panic!("{name} is not read as a 64-bit number") };
        Some(long)
    }

    pub(crate) fn int(&self, name: &str) -> i32 {
        self.optional_int(name).expect("the table has a default")
    }

    pub(crate) fn long(&self, name: &str) -> i64 {
        self.optional_long(name).expect("the table has a default")
    }

    pub(crate) fn double(&self, name: &str) -> f64 {
        match self.value(name) {
            Some(Value::Double(double)) => double,
            _ => panic!("{name} is not read as a fraction"),
        }
    }

    /// What is written for a key, whether it is valid or not; `None` if nothing is.
    pub fn written(&self, name: &str) -> Option<&str> {
        let entry = keys::find(name).and_then(|key| self.given(key).next())?;
        Some(entry.text.as_str()).filter(|text| !text.is_empty())
    }

    /// # Panics
    /// If the key table does not read the name as a flag.
    pub fn flag(&self, name: &str) -> bool {
        match self.value(name) {
            Some(Value::Flag(flag)) => flag,
            _ => panic!("{name} is not read as a flag"),
        }
    }

    pub(crate) fn text(&self, name: &str) -> Option<String> {
        let value = self.value(name)?;
        let Value::Text(text) = value else { panic!("{name} is not read as text") };
        Some(text)
    }
}

impl Entry {
    pub(crate) fn new(text: &str, raw: &str, place: Place) -> Entry {
        Entry { text: text.to_owned(), raw: raw.to_owned(), place }
    }
}

/// The lines of a properties file by key; of equal keys the last one wins.
pub(crate) fn parse_file(name: &str, bytes: &[u8]) -> Result<BTreeMap<String, Entry>, ConfigError> {
    let place = |line, key| Place::File { name: name.to_owned(), line: Some(line), key };
    let pairs = properties::parse(bytes).map_err(|escape| place(escape.line, None).error(Cause::MalformedEscape))?;
    let entries = pairs.into_iter().map(|pair| {
        let key = trim(&pair.key).to_owned();
        let entry = Entry::new(trim(&pair.value), &pair.value, place(pair.line, Some(key.clone())));
        (key, entry)
    });
    Ok(entries.collect())
}

/// Member lines that are given twice: the first one is usually another server whose id is wrong.
fn repeated_members(name: &str, bytes: &[u8], last: &BTreeMap<String, Entry>) -> Vec<Diagnostic> {
    let pairs = properties::parse(bytes).unwrap_or_default();
    let repeated = pairs.into_iter().filter_map(|pair| {
        let key = trim(&pair.key);
        let entry = last.get(key).filter(|entry| is_member_key(key) && entry.place.line() != Some(pair.line))?;
        let text =
            format!("{key} is given twice: {name}:{} has no effect; correct the id in one of the lines", pair.line);
        Some(Diagnostic::warn(&entry.place, text))
    });
    repeated.collect()
}

/// Apache's warning about a path that may be relative by mistake, or one about a path that only a shell understands.
pub(crate) fn relative_path_warning(path: &str, place: &Place) -> Option<Diagnostic> {
    if path.starts_with(['~', '"', '\'']) || path.contains('$') {
        let text =
            format!("{path} is used literally: `~`, `$` and quotes have no meaning here; write the path in full");
        return Some(Diagnostic::warn(place, text));
    }
    let sure = Path::new(path).is_absolute() || path.starts_with("./");
    (!sure).then(|| Diagnostic::warn(place, format!("{path} is relative. Prepend ./ to indicate that you're sure!")))
}
