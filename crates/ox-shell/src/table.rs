//! Tables that fit into a terminal: columns of least importance are left out first.

use crate::output::{Output, Paint};

/// A column of a table.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    title: &'static str,
    /// Numbers are aligned to the right.
    is_number: bool,
    /// Columns with a larger rank are left out first.
    rank: u8,
}

impl Column {
    pub const fn text(title: &'static str, rank: u8) -> Self {
        Self { title, is_number: false, rank }
    }

    pub const fn number(title: &'static str, rank: u8) -> Self {
        Self { title, is_number: true, rank }
    }
}

/// The cells of a row; a row with fewer cells than columns ends with a text of any length.
pub type Row = Vec<String>;

/// Formats a title line and rows, none longer than the terminal.
pub(crate) fn lines(out: &Output, columns: &[Column], rows: &[Row]) -> Vec<String> {
    let formatted = format(columns, rows, out.width());
    let mut lines = formatted.into_iter();
    let title = lines.next().map(|title| out.paint(Paint::Label, &title));
    let is_short = |row: Option<&Row>| row.is_some_and(|row| row.len() < columns.len());
    let rows = lines.enumerate().map(|(at, line)| match is_short(rows.get(at)) {
        true => out.paint(Paint::Error, &line),
        false => line,
    });
    title.into_iter().chain(rows).collect()
}

/// Formats a title line and rows without colours, none longer than `width_max`.
pub fn format(columns: &[Column], rows: &[Row], width_max: Option<usize>) -> Vec<String> {
    let is_short = |row: &Row| row.len() < columns.len();
    let is_last = |row: &Row, at: usize| at + 1 == row.len();
    let widths: Vec<usize> = columns
        .iter()
        .enumerate()
        .map(|(at, column)| {
            let aligned = rows.iter().filter(|row| !is_short(row) || !is_last(row, at));
            let lengths = aligned.filter_map(|row| row.get(at)).map(|cell| cell.chars().count());
            lengths.max().unwrap_or(0).max(column.title.len())
        })
        .collect();
    let mut shown: Vec<usize> = (0..columns.len()).collect();
    let total = |shown: &[usize]| shown.iter().map(|at| widths[*at] + 2).sum::<usize>().saturating_sub(2);
    while width_max.is_some_and(|width_max| width_max < total(&shown))
        && let Some(least) = shown.iter().copied().max_by_key(|at| columns[*at].rank)
        && 1 < shown.len()
    {
        shown.retain(|at| *at != least);
    }
    let line = |row: &Row| {
        let cell = |at: usize| match is_short(row) && is_last(row, at) {
            true => row[at].clone(),
            false => pad(&row[at], widths[at], columns[at].is_number),
        };
        let cells: Vec<String> = match is_short(row) {
            true => (0..row.len()).map(cell).collect(),
            false => shown.iter().copied().map(cell).collect(),
        };
        cut(cells.join("  ").trim_end(), width_max)
    };
    let titles: Row = columns.iter().map(|column| column.title.to_owned()).collect();
    std::iter::once(&titles).chain(rows).map(line).collect()
}

/// The text of a cell: a dash if there is no value.
pub fn or_dash<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

fn pad(text: &str, width: usize, is_number: bool) -> String {
    if is_number { format!("{text:>width$}") } else { format!("{text:width$}") }
}

fn cut(text: &str, width_max: Option<usize>) -> String {
    match width_max {
        Some(width_max) if width_max < text.chars().count() => text.chars().take(width_max).collect(),
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_fits_the_width() {
        let columns = [Column::text("SERVER", 0), Column::number("CONNS", 1), Column::number("NODES", 9)];
        let rows = [
            vec!["zk1:2181".to_owned(), "5".to_owned(), "100000".to_owned()],
            vec!["zk2:2181".to_owned(), "connection refused".to_owned()],
        ];
        let wide = ["SERVER    CONNS   NODES", "zk1:2181      5  100000", "zk2:2181  connection refused"];
        assert_eq!(format(&columns, &rows, None), wide);
        assert_eq!(format(&columns, &rows, Some(20)), ["SERVER    CONNS", "zk1:2181      5", "zk2:2181  connection"]);
        assert_eq!(format(&columns, &rows, Some(4)), ["SERV", "zk1:", "zk2:"]);
    }
}
