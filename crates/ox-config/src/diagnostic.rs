//! What the reader of a configuration has to say about it short of refusing it; the driver logs these.

use std::fmt;

use crate::error::Place;

/// One remark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// How loud it is.
    pub level: Level,
    /// What it is about; `None` where that is nothing that was given.
    pub place: Option<Place>,
    /// What there is to know; the value of a secret never is.
    pub text: String,
}

/// Loudness of a [`Notice`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Good to know.
    Info,
    /// Odd; the server goes on.
    Warn,
    /// Wrong, though the server goes on as Apache does.
    Error,
}

impl Notice {
    pub(crate) fn info(place: Option<&Place>, text: impl Into<String>) -> Notice {
        Notice { level: Level::Info, place: place.cloned(), text: text.into() }
    }

    pub(crate) fn warn(place: &Place, text: impl Into<String>) -> Notice {
        Notice { level: Level::Warn, place: Some(place.clone()), text: text.into() }
    }

    pub(crate) fn error(place: &Place, text: impl Into<String>) -> Notice {
        Notice { level: Level::Error, place: Some(place.clone()), text: text.into() }
    }
}

/// With file, line and key; the key only where the text does not name it.
impl fmt::Display for Notice {
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
