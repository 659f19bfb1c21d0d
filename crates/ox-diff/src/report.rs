//! Human-readable results of a run.

use crate::compare::StreamDifference;
use crate::coverage::Coverage;
use crate::script::{Batch, Script};
use crate::stream::StreamItem;
use crate::value::hex;
use std::fmt;

/// Payload bytes to print per server.
const SHOWN_BYTES_MAX: usize = 400;

/// One difference with everything needed to investigate it.
#[derive(Clone, Debug)]
pub struct DifferenceReport {
    /// The scenario or seed that found it.
    pub origin: String,
    /// From 1; 0 for a restart.
    pub batch_number: usize,
    pub batch: Batch,
    pub difference: StreamDifference,
    /// The shortest script found that still shows a difference.
    pub shortest: Option<Script>,
}

/// The results of a run.
#[derive(Clone, Debug, Default)]
pub struct RunReport {
    /// Scripts run, scenarios and seeds.
    pub scripts: usize,
    /// Requests and other lines sent.
    pub lines: usize,
    /// Counts of replies and events.
    pub tally: Coverage,
    /// One per script that differed.
    pub reports: Vec<DifferenceReport>,
}

impl RunReport {
    pub fn is_clean(&self) -> bool {
        self.reports.is_empty()
    }

    /// Adds the results of another run.
    pub fn merge(&mut self, other: Self) {
        self.scripts += other.scripts;
        self.lines += other.lines;
        self.tally.merge(other.tally);
        self.reports.extend(other.reports);
    }
}

impl fmt::Display for RunReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.reports.iter().try_for_each(|report| writeln!(f, "{report}"))?;
        write!(f, "{} scripts, {} lines, {} differences", self.scripts, self.lines, self.reports.len())
    }
}

impl fmt::Display for DifferenceReport {
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
        for (side, received) in ["ours", "apache"].iter().zip(&difference.received) {
            writeln!(f, "  all that {} received from {side}:", difference.session)?;
            received.iter().try_for_each(|text| writeln!(f, "    {text}"))?;
        }
        match &self.shortest {
            Some(script) => write!(f, "  shortest script that shows a difference:\n{script}"),
            None => write!(f, "  batch:\n{}", self.batch),
        }
    }
}

fn print_item(side: &str, item: &StreamItem, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let shown = &item.payload[..item.payload.len().min(SHOWN_BYTES_MAX)];
    let more = if shown.len() < item.payload.len() { "..." } else { "" };
    writeln!(f, "  {side:<8} {}\n  {:<8} {}{more}", item.describe(), "", hex(shown))
}
