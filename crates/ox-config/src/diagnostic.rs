//! Messages about a configuration that do not refuse it. The server logs them.

use std::fmt;

use crate::error::Place;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    pub level: Level,
    /// `None` if it concerns a setting that was not given.
    pub place: Option<Place>,
    /// Never contains the value of a secret.
    pub text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    Info,
    /// Unusual, but the server starts.
    Warn,
    /// Wrong, but the server starts as Apache does.
    Error,
}

impl Diagnostic {
    pub(crate) fn info(place: Option<&Place>, text: impl Into<String>) -> Diagnostic {
        Diagnostic { level: Level::Info, place: place.cloned(), text: text.into() }
    }

    pub(crate) fn warn(place: &Place, text: impl Into<String>) -> Diagnostic {
        Diagnostic { level: Level::Warn, place: Some(place.clone()), text: text.into() }
    }

    pub(crate) fn error(place: &Place, text: impl Into<String>) -> Diagnostic {
        Diagnostic { level: Level::Error, place: Some(place.clone()), text: text.into() }
    }
}

/// With file, line and key; the key only if the text does not name it.
impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(place) = &self.place else { return f.write_str(&self.text) };
        let is_named = place.setting().is_some_and(|setting| self.text.contains(setting));
        match place {
            Place::File { name, line, .. } if is_named => {
                let place = Place::File { name: name.clone(), line: *line, key: None };
                write!(f, "{place}{}", self.text)
            }
            Place::Argument(_) | Place::Property(_) if is_named => f.write_str(&self.text),
            Place::File { .. } | Place::Argument(_) | Place::Property(_) => write!(f, "{place}{}", self.text),
        }
    }
}
