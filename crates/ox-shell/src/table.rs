//! Tables that fit into a terminal: columns of least importance are left out first.

use crate::output::{Output, Paint};

/// A column of a table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    pub(crate) title: &'static str,
    /// Numbers are aligned to the right.
    pub(crate) is_number: bool,
    /// Columns with a larger rank are left out first.
    pub(crate) rank: u8,
}

impl Column {
    pub(crate) const fn text(title: &'static str, rank: u8) -> Self {
        Self { title, is_number: false, rank }
    }

    pub(crate) const fn number(title: &'static str, rank: u8) -> Self {
        Self { title, is_number: true, rank }
    }
}

/// The cells of a row; a row with fewer cells than columns ends with a text of any length.
pub(crate) type Row = Vec<String>;

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

fn format(columns: &[Column], rows: &[Row], width_max: Option<usize>) -> Vec<String> {
    let length = |text: &str| text.chars().count();
    let widths: Vec<usize> = columns
        .iter()
        .enumerate()
        .map(|(at, column)| {
            let whole = rows.iter().filter(|row| row.len() == columns.len() || at == 0);
            whole.filter_map(|row| row.get(at)).map(|cell| length(cell)).max().unwrap_or(0).max(column.title.len())
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
    let line = |cells: &dyn Fn(usize) -> String| {
        let cells: Vec<_> = shown.iter().map(|at| pad(&cells(*at), widths[*at], columns[*at].is_number)).collect();
        cut(cells.join("  ").trim_end(), width_max)
    };
    let titles = line(&|at| columns[at].title.to_owned());
    let body = rows.iter().map(|row| match row.len() < columns.len() {
        true => {
            let first = row.first().map(|cell| pad(cell, widths[0], false)).unwrap_or_default();
            cut(&format!("{first}  {}", row.get(1..).unwrap_or_default().join(" ")), width_max)
        }
        false => line(&|at| row[at].clone()),
    });
    std::iter::once(titles).chain(body).collect()
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
