//! The output of a suite: one line per case and a summary line, in the same form for every language.
//!
//! ```text
//! ok   <case> <milliseconds>
//! fail <case> <reason, on one line>
//! skip <case> <reason>
//! <suite>: <n> passed, <n> failed, <n> skipped
//! ```
//!
//! Other lines are copied to the log of the suite and ignored. A suite without a summary line has crashed.

/// The results of one suite so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Report {
    pub(crate) passed: usize,
    /// Name and reason of each case that failed.
    pub(crate) failed: Vec<String>,
    /// Name and reason of each case that could not run.
    pub(crate) skipped: Vec<String>,
    /// Whether the summary line was received.
    pub(crate) is_complete: bool,
}

impl Report {
    /// Evaluates one line of output of the suite called `suite`.
    pub(crate) fn add_line(&mut self, suite: &str, line: &str) {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let rest = rest.trim();
        match word {
            "ok" => self.passed += 1,
            "fail" => self.failed.push(rest.to_owned()),
            "skip" => self.skipped.push(rest.to_owned()),
            _ => self.is_complete |= word.strip_suffix(':') == Some(suite) && rest.ends_with("skipped"),
        }
    }

    /// Whether the suite ran to its end, without a failure and with at least one passed case.
    pub(crate) fn is_success(&self) -> bool {
        self.is_complete && self.failed.is_empty() && 0 < self.passed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(output: &str, expected: Report) {
        let mut report = Report::default();
        output.lines().for_each(|line| report.add_line("go", line));
        assert_eq!(report, expected);
    }

    #[test]
    fn suite_output_is_counted_by_result() {
        check(
            "ok   create 3\nother output\nfail delete no such node\nskip ttl off\ngo: 1 passed, 1 failed, 1 skipped\n",
            Report {
                passed: 1,
                failed: vec!["delete no such node".to_owned()],
                skipped: vec!["ttl off".to_owned()],
                is_complete: true,
            },
        );
    }

    #[test]
    fn suite_without_its_summary_line_is_incomplete() {
        check("ok create 3\njava: 1 passed, 0 failed, 0 skipped\n", Report { passed: 1, ..Report::default() });
    }
}
