//! The table of members, with aligned columns, and a summary.

use super::Health;
use super::member_status::{MemberReport, MemberStatus};
use crate::terminal::{Paint, Tone};
use anyhow::Result;
use std::io::Write;

const HEADINGS: [&str; 11] =
    ["ID", "SERVER", "ROLE", "EPOCH", "ZXID", "LAG", "LATENCY MS", "CONNS", "NODES", "DISK", "VERSION"];
const ROLE: usize = 2;
/// What a cell without a value shows.
const NONE: &str = "-";

pub(super) fn print(
    members: &[MemberStatus],
    health: Health,
    remark: Option<&str>,
    paint: Paint,
    out: &mut dyn Write,
) -> Result<()> {
    let rows: Vec<Vec<String>> = members.iter().map(cells).collect();
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row.get(column).map_or(0, |cell| cell.chars().count()));
        cells.max().unwrap_or(0).max(HEADINGS[column].len())
    };
    let widths: Vec<usize> = (0..HEADINGS.len()).map(width).collect();
    let line = |cells: &[String], tone: Option<Tone>| {
        let mut text = String::new();
        for (at, cell) in cells.iter().enumerate() {
            let width = widths[at];
            let padded = format!("{cell:<width$}");
            match tone {
                Some(tone) if at == ROLE => text += &paint.text(tone, padded).to_string(),
                _ => text += &padded,
            }
            text += "  ";
        }
        text.trim_end().to_owned()
    };
    writeln!(out, "{}", paint.text(Tone::Heading, line(&HEADINGS.map(str::to_owned), None)))?;
    for (member, row) in members.iter().zip(&rows) {
        let tone = match &member.report {
            Err(_) => Tone::Bad,
            Ok(report) if report.role == "read-only" => Tone::Warning,
            Ok(_) => Tone::Good,
        };
        writeln!(out, "{}", line(row, Some(tone)))?;
    }
    if let Some(remark) = remark {
        writeln!(out, "{} {remark}", paint.text(Tone::Warning, "warning:"))?;
    }
    let tone = match health {
        Health::Good => Tone::Good,
        Health::Degraded => Tone::Warning,
        Health::Down => Tone::Bad,
    };
    writeln!(out, "{}: {}", paint.text(tone, health.name()), summary(members))?;
    Ok(())
}

fn summary(members: &[MemberStatus]) -> String {
    let serving = members.iter().filter(|member| member.is_serving()).count();
    let leader = members.iter().find(|member| member.report.as_ref().is_ok_and(|report| report.role == "leader"));
    let leader = match leader {
        Some(MemberStatus { member, .. }) => match (member.id, &member.address) {
            (Some(id), _) => format!(", server {id} leads"),
            (None, Some(address)) => format!(", {address} leads"),
            (None, None) => String::new(),
        },
        None => String::new(),
    };
    format!("{serving} of {} serve clients{leader}", members.len())
}

fn cells(status: &MemberStatus) -> Vec<String> {
    let id = status.member.id.map_or(NONE.to_owned(), |id| id.to_string());
    let address = status.member.address.clone().unwrap_or(NONE.to_owned());
    let report = match &status.report {
        Err(cause) => return vec![id, address, cause.clone()],
        Ok(report) => report,
    };
    let MemberReport { role, zxid, latency, connections, nodes, version, disk_bytes, .. } = report;
    vec![
        id,
        address,
        role.clone(),
        or_none(zxid.map(|zxid| zxid.epoch())),
        or_none(*zxid),
        or_none(status.lag),
        or_none(latency.as_ref()),
        or_none(*connections),
        or_none(*nodes),
        or_none(disk_bytes.map(bytes)),
        or_none(version.as_ref()),
    ]
}

fn or_none<T: ToString>(value: Option<T>) -> String {
    value.map_or(NONE.to_owned(), |value| value.to_string())
}

/// A size with three digits at most.
fn bytes(size: u64) -> String {
    let units = [("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10)];
    let unit = units.into_iter().find(|(_, unit)| *unit <= size);
    unit.map_or_else(|| format!("{size} B"), |(name, unit)| format!("{} {name}", size / unit))
}
