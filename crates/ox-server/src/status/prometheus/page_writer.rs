//! The text format 0.0.4, as the Java client libraries of 3.9 and 3.10 print it.

use crate::status::java_text;
use crate::status::metrics::Kind;
use ox_config::MetricsCompatibility;
use std::fmt::Write as _;

/// The name and value of a label.
pub(super) type Label<'a> = (&'static str, &'a str);

/// Writes families and their samples.
pub(super) struct PageWriter<'a> {
    text: String,
    compatibility: MetricsCompatibility,
    /// Names of families and samples to which the page is reduced; all if there are none.
    names: &'a [String],
    family: String,
    /// HELP and TYPE of the family, until they are written.
    head: String,
    /// Families that have been written.
    written: Vec<String>,
}

impl<'a> PageWriter<'a> {
    pub(super) fn new(compatibility: MetricsCompatibility, names: &'a [String]) -> Self {
        let (text, family, head, written) = (String::new(), String::new(), String::new(), Vec::new());
        Self { text, compatibility, names, family, head, written }
    }

    pub(super) fn compatibility(&self) -> MetricsCompatibility {
        self.compatibility
    }

    pub(super) fn finish(mut self) -> String {
        self.put_head_of_all();
        self.text
    }

    /// Begins a metric of the table.
    pub(super) fn family(&mut self, name: &str, kind: Kind) {
        let (type_name, description) = match kind {
            Kind::Gauge | Kind::GaugeSet => ("gauge", ""),
            Kind::Counter => ("counter", " counter"),
            Kind::CounterSet => ("counter", " counter set"),
            Kind::Summary | Kind::SummarySet | Kind::ServerSummary | Kind::Percentiles | Kind::ServerPercentiles => {
                ("summary", " summary")
            }
        };
        match self.compatibility {
            MetricsCompatibility::V3_9 => self.described_family(name, type_name, name),
            MetricsCompatibility::V3_10 => {
                let suffix = if type_name == "counter" && !name.ends_with("_total") { "_total" } else { "" };
                self.described_family(&format!("{name}{suffix}"), type_name, &format!("{name}{description}"));
            }
        }
    }

    /// Begins a metric with a description.
    pub(super) fn described_family(&mut self, name: &str, type_name: &str, help: &str) {
        self.put_head_of_all();
        self.head = format!("# HELP {name} {help}\n# TYPE {name} {type_name}\n");
        name.clone_into(&mut self.family);
        self.written.push(name.to_owned());
    }

    /// Writes a family without samples, unless it has been written.
    pub(super) fn empty_family(&mut self, name: &str, kind: Kind) {
        if !self.written.iter().any(|written| written == name) {
            self.family(name, kind);
        }
    }

    /// Writes a sample of the family; its name ends with `suffix`.
    pub(super) fn sample(&mut self, suffix: &str, labels: &[Label<'_>], value: f64) {
        let name = format!("{}{suffix}", self.family);
        let is_wanted =
            self.names.is_empty() || self.names.iter().any(|wanted| *wanted == name || *wanted == self.family);
        if !is_wanted {
            return;
        }
        self.text.push_str(&std::mem::take(&mut self.head));
        self.text.push_str(&name);
        if !labels.is_empty() {
            self.put_labels(labels);
        }
        let value = if value == f64::INFINITY { "+Inf".to_owned() } else { java_text::double(value) };
        writeln!(self.text, " {value}").expect("a string takes every write");
    }

    /// The Java client of 3.9 prints a comma after the last label, too.
    fn put_labels(&mut self, labels: &[Label<'_>]) {
        self.text.push('{');
        for (at, (name, value)) in labels.iter().enumerate() {
            if at != 0 && self.compatibility == MetricsCompatibility::V3_10 {
                self.text.push(',');
            }
            write!(self.text, "{name}=\"").expect("a string takes every write");
            for character in value.chars() {
                match character {
                    '\\' => self.text.push_str("\\\\"),
                    '"' => self.text.push_str("\\\""),
                    '\n' => self.text.push_str("\\n"),
                    other => self.text.push(other),
                }
            }
            self.text.push('"');
            if self.compatibility == MetricsCompatibility::V3_9 {
                self.text.push(',');
            }
        }
        self.text.push('}');
    }

    /// Writes the head of a family without samples, on a page that is not reduced.
    fn put_head_of_all(&mut self) {
        let head = std::mem::take(&mut self.head);
        if self.names.is_empty() {
            self.text.push_str(&head);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_escaped_and_end_with_a_comma_in_3_9_only() {
        for (compatibility, expected) in [
            (MetricsCompatibility::V3_9, "x{key=\"a\\\"\\\\\\nb\",quantile=\"0.5\",} NaN\n"),
            (MetricsCompatibility::V3_10, "x{key=\"a\\\"\\\\\\nb\",quantile=\"0.5\"} NaN\n"),
        ] {
            let mut page = PageWriter::new(compatibility, &[]);
            page.described_family("x", "summary", "x");
            page.sample("", &[("key", "a\"\\\nb"), ("quantile", "0.5")], f64::NAN);
            let text = page.finish();
            assert_eq!(text.lines().last().map(|line| format!("{line}\n")).as_deref(), Some(expected));
        }
    }
}
