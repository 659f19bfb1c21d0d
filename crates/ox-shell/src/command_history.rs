//! The command lines of this shell, by number.

use std::collections::VecDeque;

/// Lines that are kept for `redo`.
const LINES_MAX: usize = 10_000;

/// Command lines, numbered from 0. Beyond the limit, the oldest are dropped.
#[derive(Clone, Debug, Default)]
pub struct CommandHistory {
    /// The number of dropped lines.
    dropped: usize,
    lines: VecDeque<String>,
}

impl CommandHistory {
    /// The number that the next line gets.
    pub fn next(&self) -> usize {
        self.dropped + self.lines.len()
    }

    /// Appends a command line.
    pub fn push(&mut self, line: &str) {
        if self.lines.len() == LINES_MAX {
            self.lines.pop_front();
            self.dropped += 1;
        }
        self.lines.push_back(line.to_owned());
    }

    /// Returns a line by its number.
    pub fn get(&self, number: usize) -> Option<&str> {
        self.lines.get(number.checked_sub(self.dropped)?).map(String::as_str)
    }

    /// Replaces the last line.
    pub fn replace_last(&mut self, line: &str) {
        self.lines.pop_back();
        self.lines.push_back(line.to_owned());
    }

    /// The last `count` lines with their numbers.
    pub fn last(&self, count: usize) -> impl Iterator<Item = (usize, &str)> {
        let skipped = self.lines.len().saturating_sub(count);
        self.lines.iter().enumerate().skip(skipped).map(|(at, line)| (self.dropped + at, line.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_numbers_survive_dropping_the_oldest() {
        let mut history = CommandHistory::default();
        for number in 0..=LINES_MAX {
            assert_eq!(history.next(), number);
            history.push(&number.to_string());
        }
        assert_eq!((history.get(0), history.get(1), history.get(LINES_MAX + 1)), (None, Some("1"), None));
        history.replace_last("again");
        assert_eq!(history.last(2).collect::<Vec<_>>(), [(LINES_MAX - 1, "9999"), (LINES_MAX, "again")]);
    }
}
