//! What was typed in this shell, by number.

use std::collections::VecDeque;

/// Lines that can be run again.
const LINES_MAX: usize = 10_000;

/// Lines with their numbers, from 0. The oldest go when there are too many.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// How many have gone.
    gone: usize,
    lines: VecDeque<String>,
}

impl History {
    /// The number of the next line.
    pub fn next(&self) -> usize {
        self.gone + self.lines.len()
    }

    /// Takes a line.
    pub fn push(&mut self, line: &str) {
        if self.lines.len() == LINES_MAX {
            self.lines.pop_front();
            self.gone += 1;
        }
        self.lines.push_back(line.to_owned());
    }

    /// A line by its number.
    pub fn get(&self, number: usize) -> Option<&str> {
        self.lines.get(number.checked_sub(self.gone)?).map(String::as_str)
    }

    /// Puts another line in the place of the last one.
    pub fn replace_last(&mut self, line: &str) {
        self.lines.pop_back();
        self.lines.push_back(line.to_owned());
    }

    /// The last lines with their numbers.
    pub fn last(&self, count: usize) -> impl Iterator<Item = (usize, &str)> {
        let skipped = self.lines.len().saturating_sub(count);
        self.lines.iter().enumerate().skip(skipped).map(|(at, line)| (self.gone + at, line.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_when_the_oldest_go() {
        let mut history = History::default();
        for number in 0..=LINES_MAX {
            assert_eq!(history.next(), number);
            history.push(&number.to_string());
        }
        assert_eq!((history.get(0), history.get(1), history.get(LINES_MAX + 1)), (None, Some("1"), None));
        history.replace_last("again");
        assert_eq!(history.last(2).collect::<Vec<_>>(), [(LINES_MAX - 1, "9999"), (LINES_MAX, "again")]);
    }
}
