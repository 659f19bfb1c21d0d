//! The table of members, and a summary.

use super::member_status::{MemberReport, MemberStatus};
use super::{Health, Report};
use crate::terminal::{Paint, Tone};
use ox_shell::table::{self, Column, Row, or_dash};

const COLUMNS: [Column; 11] = [
    Column::text("ID", 2),
    Column::text("SERVER", 0),
    Column::text("ROLE", 1),
    Column::number("ZXID EPOCH", 8),
    Column::text("ZXID", 4),
    Column::number("LAG", 3),
    Column::number("MS MIN/AVG/MAX", 6),
    Column::number("CONNS", 5),
    Column::number("NODES", 7),
    Column::number("DISK", 9),
    Column::text("VERSION", 10),
];

/// The lines of the report, none longer than `width_max`.
pub(super) fn lines(report: &Report, width_max: Option<usize>, paint: Paint) -> Vec<String> {
    let Report { health, remark, members, configured } = report;
    let rows: Vec<Row> = members.iter().map(cells).collect();
    let mut table = table::format(&COLUMNS, &rows, width_max).into_iter();
    let mut lines: Vec<String> =
        table.next().map(|line| paint.text(Tone::Heading, line).to_string()).into_iter().collect();
    lines.extend(members.iter().zip(table).map(|(member, line)| match &member.report {
        Err(_) => paint.text(Tone::Bad, line).to_string(),
        Ok(report) if report.role == "read-only" => paint.text(Tone::Warning, line).to_string(),
        Ok(_) => line,
    }));
    lines.extend(remark.as_ref().map(|remark| format!("{} {remark}", paint.text(Tone::Warning, "warning:"))));
    let tone = match health {
        Health::Good => Tone::Good,
        Health::Unknown | Health::Degraded => Tone::Warning,
        Health::Down => Tone::Bad,
    };
    lines.push(format!("{}: {}", paint.text(tone, health.name()), summary(members, *configured)));
    lines
}

fn summary(members: &[MemberStatus], configured: usize) -> String {
    let serving = members.iter().filter(|member| member.is_serving()).count();
    let leader = members.iter().find(|member| member.report.as_ref().is_ok_and(|report| report.role == "leader"));
    let leader = match leader {
        Some(MemberStatus { member, .. }) => match (member.id, &member.address) {
            (Some(id), _) => format!(", server {id} leads"),
            (None, Some(address)) => format!(", {address} leads"),
            (None, None) => String::new(),
        },
        None if has_followers(members) => ", but no server reports that it leads".to_owned(),
        None => String::new(),
    };
    if members.len() < configured {
        let asked = members.len();
        return format!("{asked} of {configured} members asked, {serving} of these serve clients{leader}");
    }
    format!("{serving} of {} serve clients{leader}", members.len())
}

/// Whether members follow a leader, which must then be one of the servers.
fn has_followers(members: &[MemberStatus]) -> bool {
    let follows = |report: &MemberReport| matches!(report.role.as_str(), "follower" | "observer");
    members.iter().any(|member| member.report.as_ref().is_ok_and(follows))
}

fn cells(status: &MemberStatus) -> Row {
    let (id, address) = (or_dash(status.member.id), or_dash(status.member.address.as_ref()));
    let report = match &status.report {
        Err(cause) => return vec![id, address, cause.clone()],
        Ok(report) => report,
    };
    let MemberReport { role, zxid, latency, connections, nodes, version, disk_bytes, .. } = report;
    vec![
        id,
        address,
        role.clone(),
        or_dash(zxid.map(|zxid| zxid.epoch())),
        or_dash(*zxid),
        or_dash(status.lag),
        or_dash(latency.map(|latency| latency.to_string())),
        or_dash(*connections),
        or_dash(*nodes),
        or_dash(disk_bytes.map(bytes)),
        or_dash(version.as_ref()),
    ]
}

/// A size with three digits at most.
fn bytes(size: u64) -> String {
    let units = [("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10)];
    let unit = units.into_iter().find(|(_, unit)| *unit <= size);
    unit.map_or_else(|| format!("{size} B"), |(name, unit)| format!("{} {name}", size / unit))
}
