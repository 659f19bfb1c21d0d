//! Colours of text on terminals; none elsewhere.

use clap::builder::styling::{AnsiColor, Style};
use std::fmt;
use std::io::IsTerminal;

/// Whether a stream gets colours: it is a terminal that has some, and `NO_COLOR` is unset or empty.
pub(crate) fn has_colours(stream: &impl IsTerminal) -> bool {
    stream.is_terminal()
        && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
        && std::env::var_os("TERM").is_none_or(|value| value != "dumb")
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    Good,
    Warning,
    Bad,
    /// Details that a reader may skip.
    Faint,
    Heading,
}

/// Colours text if the stream has colours.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Paint {
    pub(crate) is_on: bool,
}

impl Paint {
    pub(crate) fn of(stream: &impl IsTerminal) -> Self {
        Self { is_on: has_colours(stream) }
    }

    /// The text in a tone. Width and alignment of the format apply to the text without the colours.
    pub(crate) fn text<T: fmt::Display>(self, tone: Tone, text: T) -> Painted<T> {
        Painted { style: self.is_on.then(|| style(tone)), text }
    }
}

fn style(tone: Tone) -> Style {
    match tone {
        Tone::Good => AnsiColor::Green.on_default(),
        Tone::Warning => AnsiColor::Yellow.on_default(),
        Tone::Bad => AnsiColor::Red.on_default().bold(),
        Tone::Faint => Style::new().dimmed(),
        Tone::Heading => Style::new().bold(),
    }
}

pub(crate) struct Painted<T> {
    style: Option<Style>,
    text: T,
}

impl<T: fmt::Display> fmt::Display for Painted<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(style) = self.style else { return self.text.fmt(f) };
        write!(f, "{style}")?;
        self.text.fmt(f)?;
        write!(f, "{style:#}")
    }
}
