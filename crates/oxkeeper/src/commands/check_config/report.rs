//! The text of `check-config`: every setting with its verdict, what they result in, and a summary.

use super::facts::{directories, facts};
use crate::terminal::{Paint, Tone};
use anyhow::Result;
use ox_config::{Diagnostic, Explained, ExplainedSetting, Level, Place, SettingEffect};
use std::collections::BTreeSet;
use std::io::Write;

pub(super) struct Report<'a> {
    pub(super) explained: &'a Explained,
    /// Why the server would not start.
    pub(super) errors: &'a [String],
    /// Leave out settings without problems.
    pub(super) is_quiet: bool,
    pub(super) paint: Paint,
}

/// The verdict on a setting, in the order of the summary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Verdict {
    Ok,
    /// The server applies it, but it may not be what was intended.
    Warning,
    Ignored,
    Unused,
    NotYet,
    Overridden,
    NoEffect,
    Unknown,
    Wrong,
}

impl Verdict {
    const ALL: [Verdict; 9] = [
        Verdict::Ok,
        Verdict::Warning,
        Verdict::Ignored,
        Verdict::Unused,
        Verdict::NotYet,
        Verdict::Overridden,
        Verdict::NoEffect,
        Verdict::Unknown,
        Verdict::Wrong,
    ];

    pub(super) fn of(item: &ExplainedSetting) -> Self {
        match item.effect {
            SettingEffect::Honoured if item.diagnostics.iter().any(|diagnostic| Level::Info < diagnostic.level) => {
                Verdict::Warning
            }
            SettingEffect::Honoured => Verdict::Ok,
            SettingEffect::NothingToSet | SettingEffect::JavaOnly | SettingEffect::ClientOnly => Verdict::Ignored,
            SettingEffect::EnsembleOnly => Verdict::Unused,
            SettingEffect::NotBuilt(_) => Verdict::NotYet,
            SettingEffect::Overridden(_) => Verdict::Overridden,
            SettingEffect::Ineffective => Verdict::NoEffect,
            SettingEffect::Unknown => Verdict::Unknown,
            SettingEffect::Wrong(_) => Verdict::Wrong,
        }
    }

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Verdict::Ok => "ok",
            Verdict::Warning => "warning",
            Verdict::Ignored => "ignored",
            Verdict::Unused => "unused",
            Verdict::NotYet => "not yet",
            Verdict::Overridden => "overridden",
            Verdict::NoEffect => "no effect",
            Verdict::Unknown => "unknown",
            Verdict::Wrong => "WRONG",
        }
    }

    fn tone(self) -> Tone {
        match self {
            Verdict::Ok => Tone::Good,
            Verdict::Ignored | Verdict::Unused => Tone::Faint,
            Verdict::Warning | Verdict::NotYet | Verdict::Overridden | Verdict::NoEffect | Verdict::Unknown => {
                Tone::Warning
            }
            Verdict::Wrong => Tone::Bad,
        }
    }
}

impl Report<'_> {
    pub(super) fn print(&self, out: &mut dyn Write) -> Result<()> {
        self.items(out)?;
        self.whole(out)?;
        self.summary(out)
    }

    fn items(&self, out: &mut dyn Write) -> Result<()> {
        let (mut file, mut explained) = (None, BTreeSet::new());
        for item in &self.explained.items {
            if self.is_quiet && Verdict::of(item) == Verdict::Ok {
                continue;
            }
            let heading = match &item.place {
                Place::File { name, .. } => name.as_str(),
                Place::Argument(_) => "command line",
                Place::Property(_) => "properties and flags",
            };
            if file.replace(heading) != Some(heading) {
                writeln!(out, "{}", self.paint.text(Tone::Heading, heading))?;
            }
            let is_new = item.key.is_none_or(|key| explained.insert(key.name));
            self.item(item, is_new, out)?;
        }
        if file.is_some() {
            writeln!(out)?;
        }
        Ok(())
    }

    /// Prints a setting, with the meaning of its key unless an earlier setting had the same key.
    fn item(&self, item: &ExplainedSetting, with_meaning: bool, out: &mut dyn Write) -> Result<()> {
        let verdict = Verdict::of(item);
        let line = item.place.line().map(|line| line.to_string()).unwrap_or_default();
        let label = self.paint.text(verdict.tone(), verdict.as_str());
        writeln!(out, "  {label:<10} {line:>4}  {}", given(item))?;
        if let Some(key) = item.key.filter(|_| with_meaning) {
            let default = match (key.default, key.unit) {
                ("", _) => "no default".to_owned(),
                (default, "") => format!("default {default}"),
                (default, unit) => format!("default {default} {unit}"),
            };
            let meaning = match default.as_str() {
                "no default" => key.doc.trim().to_owned(), // the text says what an absent line means
                default => format!("{} ({default})", key.doc.trim()),
            };
            writeln!(out, "                   {}", self.paint.text(Tone::Faint, meaning))?;
        }
        // Do not repeat what the verdict contains.
        let is_said = |text: &str| matches!(item.effect, SettingEffect::NotBuilt(feature) if text.starts_with(feature));
        let loud = item.diagnostics.iter().filter(|found| Level::Info < found.level && !is_said(&found.text));
        for text in consequence(&item.effect).into_iter().chain(loud.map(|found| found.text.clone())) {
            writeln!(out, "                   {text}")?;
        }
        Ok(())
    }

    /// Prints what the configuration results in, and warnings that concern no single setting.
    fn whole(&self, out: &mut dyn Write) -> Result<()> {
        if let Ok(config) = &self.explained.outcome {
            for (name, text) in facts(config) {
                writeln!(out, "  {name:<10} {text}")?;
            }
            for (name, state) in directories(config) {
                writeln!(out, "  {name:<10} {}", state.unwrap_or_else(|why| why))?;
            }
        }
        let loud = self.explained.diagnostics.iter().filter(|diagnostic| Level::Info < diagnostic.level);
        for Diagnostic { level, text, .. } in loud {
            let (word, tone) = if *level == Level::Error { ("error", Tone::Bad) } else { ("warning", Tone::Warning) };
            writeln!(out, "  {:<10} {text}", self.paint.text(tone, word))?;
        }
        Ok(())
    }

    /// Prints the number of settings by verdict, all errors, and whether the server would start.
    fn summary(&self, out: &mut dyn Write) -> Result<()> {
        let items = &self.explained.items;
        if !items.is_empty() {
            let counts = Verdict::ALL.iter().filter_map(|verdict| {
                let count = items.iter().filter(|item| Verdict::of(item) == *verdict).count();
                (count != 0).then(|| format!("{count} {}", verdict.as_str().to_lowercase()))
            });
            let counts: Vec<String> = counts.collect();
            writeln!(out, "{}: {}", super::super::output::count(items.len() as u64, "setting"), counts.join(", "))?;
        }
        for error in self.errors {
            writeln!(out, "{} {error}", self.paint.text(Tone::Bad, "error:"))?;
        }
        match self.errors.len() as u64 {
            0 => writeln!(out, "{}", self.paint.text(Tone::Good, "The server would start."))?,
            count => {
                let text = format!("The server would not start: {}", super::super::output::count(count, "error"));
                writeln!(out, "{}", self.paint.text(Tone::Bad, text))?;
            }
        }
        Ok(())
    }
}

fn given(item: &ExplainedSetting) -> String {
    let value = item.text.as_deref().unwrap_or("(not shown)");
    match &item.place {
        Place::Property(_) if item.name.starts_with('-') => item.name.clone(),
        Place::Property(_) => format!("-D{}={value}", item.name),
        Place::File { .. } | Place::Argument(_) => format!("{}={value}", item.name),
    }
}

pub(super) fn consequence(effect: &SettingEffect) -> Option<String> {
    Some(match effect {
        SettingEffect::Honoured | SettingEffect::Ineffective | SettingEffect::Unknown => return None, // the remark has the reason
        SettingEffect::NothingToSet => "Accepted; Oxkeeper needs no such setting.".to_owned(),
        SettingEffect::EnsembleOnly => {
            "Accepted; it applies to ensembles only, and this is a standalone server.".to_owned()
        }
        SettingEffect::JavaOnly => "For a Java virtual machine only.".to_owned(),
        SettingEffect::ClientOnly => "Clients read this, servers do not.".to_owned(),
        SettingEffect::NotBuilt(feature) => format!("{feature} is not implemented yet; the server starts without it."),
        SettingEffect::Overridden(place) => {
            let place = place.to_string();
            format!("Has no effect, overridden by: {}", place.trim_end_matches([':', ' ']))
        }
        SettingEffect::Wrong(cause) => cause.to_string(),
    })
}
