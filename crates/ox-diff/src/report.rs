//! What a run found, for people.

use crate::compare::Difference;
use crate::coverage::Tally;
use crate::script::{Batch, Script};
use crate::stream::Item;
use crate::value::hex;
use std::fmt;

/// Payload bytes shown of each side.
const SHOWN_BYTES_MAX: usize = 400;

/// One difference with everything needed to look into it.
#[derive(Clone, Debug)]
pub struct Report {
    /// Scenario or seed.
    pub origin: String,
    /// Number of the batch, from 1.
    pub batch_number: usize,
    /// The batch.
    pub batch: Batch,
    /// The difference.
    pub difference: Difference,
    /// The shortest script found that still shows a difference.
    pub shortest: Option<Script>,
}

/// The outcome of a run.
#[derive(Clone, Debug, Default)]
pub struct Verdict {
    /// Scripts played, scenarios and seeds.
    pub scripts: usize,
    /// Requests and other lines sent.
    pub lines: usize,
    /// What was met.
    pub tally: Tally,
    /// What was found.
    pub reports: Vec<Report>,
}

impl Verdict {
    /// True when nothing was found.
    pub fn is_clean(&self) -> bool {
        self.reports.is_empty()
    }

    /// Adds another run's outcome.
    pub fn merge(&mut self, other: Self) {
        self.scripts += other.scripts;
        self.lines += other.lines;
        self.tally.merge(other.tally);
        self.reports.extend(other.reports);
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.reports.iter().try_for_each(|report| writeln!(f, "{report}"))?;
        write!(f, "{} scripts, {} lines, {} differences", self.scripts, self.lines, self.reports.len())
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let difference = &self.difference;
        writeln!(f, "DIFFERENCE {} batch {}: {}", self.origin, self.batch_number, difference.what)?;
        writeln!(f, "  session  {}", difference.session)?;
        if let Some(line) = &difference.line {
            writeln!(f, "  request  {line}")?;
        }
        for (side, item) in [("ours", &difference.ours), ("apache", &difference.apache)] {
            match item {
                Some(item) => print_item(side, item, f)?,
                None => writeln!(f, "  {side:<8} -")?,
            }
        }
        for (side, heard) in ["ours", "apache"].iter().zip(&difference.heard) {
            writeln!(f, "  all that {} heard from {side}:", difference.session)?;
            heard.iter().try_for_each(|text| writeln!(f, "    {text}"))?;
        }
        match &self.shortest {
            Some(script) => write!(f, "  shortest script that shows a difference:\n{script}"),
            None => write!(f, "  batch:\n{}", self.batch),
        }
    }
}

fn print_item(side: &str, item: &Item, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let shown = &item.payload[..item.payload.len().min(SHOWN_BYTES_MAX)];
    let more = if shown.len() < item.payload.len() { "..." } else { "" };
    writeln!(f, "  {side:<8} {}\n  {:<8} {}{more}", item.describe(), "", hex(shown))
}
