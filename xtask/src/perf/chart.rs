//! Bar charts of the performance page as SVG files, drawn from the same report as its tables.
//!
//! Each row has a bar per server. Rows differ by orders of magnitude, so each row has its own scale: its longer bar has
//! the full width.

use super::report::{PerfReport, Row};
use anyhow::{Context, Result};
use ox_bench::statistics::{Statistics, short};
use std::fmt::Write as _;
use std::path::Path;

/// One chart of the performance page.
struct Chart {
    file: &'static str,
    title: &'static str,
    /// Tells the reader whether the longer or the shorter bar is the better one.
    hint: &'static str,
    /// Section and unit of the rows to draw.
    rows: &'static [(&'static str, &'static str)],
}

const LONGER: &str = "longer is better; each row has its own scale";
const SHORTER: &str = "shorter is better; each row has its own scale";

const CHARTS: &[Chart] = &[
    Chart {
        file: "requests.svg",
        title: "One server: operations per CPU second of the server",
        hint: LONGER,
        rows: &[("Requests", "per CPU s")],
    },
    Chart {
        file: "ensemble.svg",
        title: "Three servers: operations per second",
        hint: LONGER,
        rows: &[("Three servers", "per s")],
    },
    Chart {
        file: "latency.svg",
        title: "One server: 99th percentile of latency under full load, in microseconds",
        hint: SHORTER,
        rows: &[("Throughput and latency of the same rounds", "p99 us")],
    },
    Chart {
        file: "memory.svg",
        title: "Memory in bytes (resident set)",
        hint: SHORTER,
        rows: &[("Idle sessions and watches", "B of RSS"), ("The largest tree", "B of RSS")],
    },
    Chart {
        file: "pauses.svg",
        title: "Start, restart and loss of the leader",
        hint: SHORTER,
        rows: &[("Start", "s"), ("The largest tree", "s"), ("Three servers", "ms")],
    },
];

/// Writes all charts into a directory. A chart whose sections were never measured is not written.
pub(super) fn write_all(directory: &Path, report: &PerfReport) -> Result<()> {
    std::fs::create_dir_all(directory).with_context(|| format!("create {}", directory.display()))?;
    for chart in CHARTS {
        if let Some(svg) = draw(chart, report) {
            let path = directory.join(chart.file);
            std::fs::write(&path, svg).with_context(|| format!("write {}", path.display()))?;
        }
    }
    Ok(())
}

const WIDTH: f64 = 970.0;
/// Start of the bars; the names of the workloads are to the left of it.
const BARS_X: f64 = 440.0;
/// Length of the longer bar of a row. The rest of the width is for values.
const BAR_MAX: f64 = 360.0;
const BAR_HEIGHT: f64 = 14.0;
const ROW_HEIGHT: f64 = 44.0;
const HEAD_HEIGHT: f64 = 84.0;

/// Card, text and bars have their own colours, so that a chart is readable on light and on dark pages.
const STYLE: &str = "\
text{font:13px system-ui,sans-serif;fill:#1f2328}.title{font-size:16px;font-weight:600}.hint{fill:#57606a}\
.card{fill:#fff;stroke:#d0d7de}.ours{fill:#0969da}.baseline{fill:#9a6700}\
@media(prefers-color-scheme:dark){text{fill:#e6edf3}.hint{fill:#9198a1}.card{fill:#0d1117;stroke:#3d444d}\
.ours{fill:#4493f8}.baseline{fill:#d29922}}";

fn draw(chart: &Chart, report: &PerfReport) -> Option<String> {
    let is_drawn = |row: &&Row| chart.rows.contains(&(row.section.as_str(), row.unit.as_str()));
    let rows: Vec<(&Row, Statistics, Statistics)> = report
        .rows
        .iter()
        .filter(is_drawn)
        .filter_map(|row| row.summaries().map(|(ours, baseline)| (row, ours, baseline)))
        .collect();
    let height = HEAD_HEIGHT + ROW_HEIGHT * f64::from(u32::try_from(rows.len()).ok().filter(|count| *count != 0)?);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" role=\"img\">\n\
         <title>{title}</title>\n<style>{STYLE}</style>\n\
         <rect class=\"card\" x=\"0.5\" y=\"0.5\" width=\"{}\" height=\"{}\" rx=\"6\"/>\n",
        WIDTH - 1.0,
        height - 1.0,
        title = escape(chart.title),
    );
    text(&mut svg, "title", 16.0, 28.0, chart.title);
    text(&mut svg, "hint", 16.0, 50.0, chart.hint);
    let [ours, baseline] = &report.servers;
    for (class, name, x) in [("ours", ours, BARS_X), ("baseline", baseline, BARS_X + 120.0)] {
        bar(&mut svg, class, x, 62.0, BAR_HEIGHT);
        text(&mut svg, "name", x + 20.0, 73.0, name);
    }
    for (index, (row, ours, baseline)) in (0_u32..).zip(&rows) {
        let y = HEAD_HEIGHT + ROW_HEIGHT * f64::from(index);
        let longest = ours.median.max(baseline.median);
        text(&mut svg, "name", 16.0, y + 19.0, &row.name);
        for (class, value, y) in [("ours", ours.median, y), ("baseline", baseline.median, y + BAR_HEIGHT + 2.0)] {
            let length = if longest == 0.0 { 0.0 } else { BAR_MAX * value / longest };
            bar(&mut svg, class, BARS_X, y, length);
            text(&mut svg, "value", BARS_X + length + 6.0, y + 11.5, &format!("{} {}", short(value), row.unit));
        }
    }
    Some(svg + "</svg>\n")
}

fn bar(svg: &mut String, class: &str, x: f64, y: f64, length: f64) {
    let _ = writeln!(
        svg,
        "<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{length:.2}\" height=\"{BAR_HEIGHT}\" rx=\"2\"/>"
    );
}

fn text(svg: &mut String, class: &str, x: f64, y: f64, content: &str) {
    let _ = writeln!(svg, "<text class=\"{class}\" x=\"{x:.2}\" y=\"{y}\">{}</text>", escape(content));
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::super::goal::Goal;
    use super::*;

    const CHART: Chart = Chart { file: "a.svg", title: "A < B & \"C\"", hint: LONGER, rows: &[("A", "per s")] };

    fn report(rows: &[(&str, f64, f64)]) -> PerfReport {
        let mut report = PerfReport::new(["Ours".into(), "Theirs & others".into()]);
        report.rows.extend(rows.iter().map(|(name, ours, baseline)| Row {
            section: "A".into(),
            name: (*name).into(),
            unit: "per s".into(),
            rounds: 1,
            round_seconds: 1.0,
            ours: vec![*ours],
            baseline: vec![*baseline],
            goal: Goal::None,
        }));
        report
    }

    /// Widths of the bars of a class, without the one of the legend.
    fn widths(svg: &str, class: &str) -> Vec<f64> {
        let bars = svg.lines().filter(|line| line.starts_with(&format!("<rect class=\"{class}\"")));
        let width = |line: &str| line.split("width=\"").nth(1)?.split('"').next()?.parse().ok();
        bars.skip(1).map(|line| width(line).unwrap()).collect()
    }

    #[test]
    fn bars_are_proportional_within_a_row() {
        let svg = draw(&CHART, &report(&[("get", 300.0, 100.0), ("set", 1.0, 4.0), ("none", 0.0, 0.0)])).unwrap();
        assert_eq!(widths(&svg, "ours"), [BAR_MAX, BAR_MAX / 4.0, 0.0]);
        assert_eq!(widths(&svg, "baseline"), [(BAR_MAX / 3.0 * 100.0).round() / 100.0, BAR_MAX, 0.0]);
    }

    #[test]
    fn labels_are_escaped() {
        let svg = draw(&CHART, &report(&[("<script> & more", 1.0, 2.0)])).unwrap();
        assert!(svg.contains(">&lt;script&gt; &amp; more</text>"), "{svg}");
        assert!(svg.contains("<title>A &lt; B &amp; &quot;C&quot;</title>"), "{svg}");
        assert!(svg.contains(">Theirs &amp; others</text>"), "{svg}");
    }

    #[test]
    fn svg_is_well_formed() {
        let svg = draw(&CHART, &report(&[("a < b", 3.0, 1.0), ("c \"d\"", 1.0, 1.0)])).unwrap();
        let mut open = Vec::new();
        for piece in svg.split('<').skip(1) {
            let (tag, content) = piece.split_once('>').unwrap();
            assert!(!content.contains('>') && content.matches('&').count() <= content.matches(';').count(), "{piece}");
            assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
            if let Some(name) = tag.strip_prefix('/') {
                assert_eq!(open.pop(), Some(name));
            } else if !tag.ends_with('/') {
                open.push(tag.split(' ').next().unwrap());
            }
        }
        assert!(open.is_empty(), "{open:?}");
    }

    #[test]
    fn chart_without_rows_is_not_drawn() {
        assert!(draw(&CHART, &report(&[])).is_none());
    }

    #[test]
    fn page_and_charts_match_the_stored_measurements() {
        let docs = crate::interop::workspace::Workspace::find().root().join("docs/operate");
        let report = super::super::comparison::load(&docs.join("performance.json")).unwrap();
        let read = |path: &str| std::fs::read_to_string(docs.join(path)).unwrap();
        let page = read("performance.md");
        assert!(page.contains(&report.markdown()), "run `cargo xtask perf --render`");
        for chart in CHARTS {
            let path = format!("charts/{}", chart.file);
            assert!(draw(chart, &report).unwrap() == read(&path), "{path}: run `cargo xtask perf --render`");
            assert!(page.contains(&path), "{path} is not on the page");
        }
    }
}
