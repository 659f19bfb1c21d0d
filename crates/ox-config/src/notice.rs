//! What the reader of a configuration has to say about it short of refusing it; the driver logs these.

use std::fmt;

/// One remark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// How loud it is.
    pub level: Level,
    /// Line of the configuration file it is about, from 1.
    pub line: Option<u32>,
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
    pub(crate) fn info(line: Option<u32>, text: impl Into<String>) -> Notice {
        Notice { level: Level::Info, line, text: text.into() }
    }

    pub(crate) fn warn(line: Option<u32>, text: impl Into<String>) -> Notice {
        Notice { level: Level::Warn, line, text: text.into() }
    }

    pub(crate) fn error(line: Option<u32>, text: impl Into<String>) -> Notice {
        Notice { level: Level::Error, line, text: text.into() }
    }
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "line {line}: {}", self.text),
            None => f.write_str(&self.text),
        }
    }
}
