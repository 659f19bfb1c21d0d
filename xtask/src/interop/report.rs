//! What a suite says: one line per case and a closing line, in the same form for every language.
//!
//! ```text
//! ok   <case> <milliseconds>
//! fail <case> <why, on one line>
//! skip <case> <why>
//! <suite>: <n> passed, <n> failed, <n> skipped
//! ```
//!
//! Anything else is talk and only goes to the log. A suite without its closing line has crashed.

/// The cases of one suite so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Report {
    /// Cases that passed.
    pub(crate) passed: usize,
    /// `name why` of each case that failed.
    pub(crate) failed: Vec<String>,
    /// `name why` of each case that could not run.
    pub(crate) skipped: Vec<String>,
    /// Whether the closing line was seen.
    pub(crate) closed: bool,
}

impl Report {
    /// Takes one line of output of the suite called `suite`.
    pub(crate) fn take(&mut self, suite: &str, line: &str) {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let rest = rest.trim();
        match word {
            "ok" => self.passed += 1,
            "fail" => self.failed.push(rest.to_owned()),
            "skip" => self.skipped.push(rest.to_owned()),
            _ => self.closed |= word.strip_suffix(':') == Some(suite) && rest.ends_with("skipped"),
        }
    }

    /// Whether the suite ran to its end without a failure and did check something.
    pub(crate) fn is_good(&self) -> bool {
        self.closed && self.failed.is_empty() && 0 < self.passed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(output: &str, expected: Report) {
        let mut report = Report::default();
        output.lines().for_each(|line| report.take("go", line));
        assert_eq!(report, expected);
    }

    #[test]
    fn reads_the_lines_of_a_suite() {
        check(
            "ok   create 3\nsome talk\nfail delete no such node\nskip ttl off\ngo: 1 passed, 1 failed, 1 skipped\n",
            Report {
                passed: 1,
                failed: vec!["delete no such node".to_owned()],
                skipped: vec!["ttl off".to_owned()],
                closed: true,
            },
        );
    }

    #[test]
    fn a_crash_has_no_closing_line() {
        check("ok create 3\njava: 1 passed, 0 failed, 0 skipped\n", Report { passed: 1, ..Report::default() });
    }
}
