//! `top`: live statistics of all servers.

use super::{CommandSpec, EXTENSION, JSON};
use crate::command_error::{CommandError, FAILED};
use crate::four_letter::{self, Connection, SrvrStats};
use crate::members;
use crate::options::{CommandArgs, Opt};
use crate::output::Output;
use crate::shell::Shell;
use crate::subtree_output;
use crate::table::{self, Column, Row, or_dash};
use jiff::Zoned;
use ox_client::{Client, ServerAddress};
use serde::Serialize;
use std::collections::HashMap;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// Upper bound of the reply timeout, after which a server counts as unreachable.
const TIMEOUT_MAX: Duration = Duration::from_secs(10);
/// Default interval between two samples.
const INTERVAL: Duration = Duration::from_secs(2);
/// Shortest interval: samples are a load for the servers.
const INTERVAL_MIN: Duration = Duration::from_millis(100);
/// Default number of sessions to list.
const SESSIONS: usize = 10;

pub(super) const COMMAND: CommandSpec = CommandSpec {
    name: "top",
    syntax: "[--count number] [--interval seconds] [-n sessions] [--json]",
    help: "Show requests, sessions and latencies of all servers, updated until Ctrl-C",
    options: &[
        Opt::with("--count", "number", "Stop after this many updates"),
        Opt::with("--interval", "seconds", "Time between updates, default 2"),
        Opt::with("-n", "sessions", "Number of busiest sessions to list, default 10"),
        JSON,
    ],
    operands: 0..=0,
    needs_session: false,
    runs_until_ctrl_c: true,
    paths: &[],
    run: |shell, args| Box::pin(run(shell, args)),
    ..EXTENSION
};

/// One server's reply at one moment.
struct Sample {
    server: String,
    reply: Result<ServerReply, String>,
}

struct ServerReply {
    at: Instant,
    figures: SrvrStats,
    watches: Option<u64>,
    ephemerals: Option<u64>,
    connections: Vec<Connection>,
}

/// Everything shown in one update.
#[derive(Serialize)]
struct View {
    time: String,
    servers: Vec<ServerRow>,
    sessions: Vec<SessionRow>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ServerRow {
    server: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(flatten)]
    figures: Option<StatsRow>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct StatsRow {
    version: String,
    mode: String,
    connections: u64,
    /// Rate since the previous sample.
    #[serde(skip_serializing_if = "Option::is_none")]
    requests_per_second: Option<f64>,
    received: u64,
    sent: u64,
    outstanding: u64,
    latency_min_ms: f64,
    latency_avg_ms: f64,
    latency_max_ms: f64,
    nodes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    watches: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ephemerals: Option<u64>,
    zxid: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SessionRow {
    session: String,
    client: String,
    server: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    requests_per_second: Option<f64>,
    received: u64,
    queued: u64,
    last: String,
    latency_avg_ms: f64,
    latency_max_ms: f64,
}

async fn run(shell: &mut Shell, args: &CommandArgs) -> Result<(), CommandError> {
    let servers = members::find(shell, &servers(&shell.invocation.server)?).await;
    let count = subtree_output::number(args, "--count")?.unwrap_or(usize::MAX);
    let interval = interval(args)?;
    let sessions_max = subtree_output::number(args, "-n")?.unwrap_or(SESSIONS);
    let patience = shell.timeout().min(TIMEOUT_MAX);
    let client = shell.session_client().ok_or(CommandError::NotConnected)?;
    let mut before: Vec<Sample> = Vec::new();
    for number in 1..=count {
        let samples = sample_all(&client, &servers, patience).await;
        let view = view(&samples, &before, sessions_max);
        match shell.is_json(args) {
            true => subtree_output::json_line(&shell.out, &view)?,
            false => print(&shell.out, &view, 1 < count)?,
        }
        shell.out.flush()?;
        if number == count && samples.iter().any(|sample| sample.reply.is_err()) {
            return Err(CommandError::Silent(FAILED));
        }
        before = samples;
        if number < count {
            tokio::time::sleep(interval).await;
        }
    }
    Ok(())
}

/// Parses the servers of a connection string.
fn servers(text: &str) -> Result<Vec<ServerAddress>, CommandError> {
    let list = text.split('/').next().unwrap_or_default();
    let names = list.split(',').map(str::trim).filter(|name| !name.is_empty());
    names.map(|name| name.parse().map_err(|error: ox_client::Error| CommandError::message(error.to_string()))).collect()
}

fn interval(args: &CommandArgs) -> Result<Duration, CommandError> {
    let Some(text) = args.value("--interval") else { return Ok(INTERVAL) };
    let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let wrong =
        || format!("--interval must be a number of seconds, at least {}, not `{text}`", INTERVAL_MIN.as_secs_f64());
    seconds.filter(|seconds| INTERVAL_MIN <= *seconds).ok_or_else(|| CommandError::message(wrong()))
}

async fn sample_all(client: &Client, servers: &[ServerAddress], patience: Duration) -> Vec<Sample> {
    let mut tasks = JoinSet::new();
    for (at, server) in servers.iter().cloned().enumerate() {
        let client = client.clone();
        tasks.spawn(async move {
            let reply = sample(&client, &server, patience).await;
            (at, Sample { server: server.to_string(), reply })
        });
    }
    let mut samples = tasks.join_all().await;
    samples.sort_unstable_by_key(|(at, _)| *at);
    samples.into_iter().map(|(_, sample)| sample).collect()
}

async fn sample(client: &Client, server: &ServerAddress, patience: Duration) -> Result<ServerReply, String> {
    let (srvr, mntr, cons) = tokio::join!(
        four_letter::send(client, server, "srvr", patience),
        four_letter::send(client, server, "mntr", patience),
        four_letter::send(client, server, "cons", patience),
    );
    let figures = SrvrStats::parse(&srvr?)?;
    // Servers permit only `srvr` by default; without the others, fewer columns are shown.
    let (mntr, cons) = (mntr.unwrap_or_default(), cons.unwrap_or_default());
    Ok(ServerReply {
        at: Instant::now(),
        figures,
        watches: four_letter::metric(&mntr, "zk_watch_count"),
        ephemerals: four_letter::metric(&mntr, "zk_ephemerals_count"),
        connections: four_letter::connections(&cons),
    })
}

fn view(samples: &[Sample], before: &[Sample], sessions_max: usize) -> View {
    let mut servers = Vec::new();
    let mut sessions = Vec::new();
    for (at, Sample { server, reply }) in samples.iter().enumerate() {
        let reply = match reply {
            Ok(reply) => reply,
            Err(error) => {
                servers.push(ServerRow { server: server.clone(), error: Some(error.clone()), figures: None });
                continue;
            }
        };
        let earlier = before.get(at).and_then(|sample| sample.reply.as_ref().ok());
        let seconds = earlier.map(|earlier| reply.at.duration_since(earlier.at).as_secs_f64());
        let rate = |now: u64, then: Option<u64>| Some(now.saturating_sub(then?) as f64 / seconds?.max(0.001));
        let figures = row(reply, rate(reply.figures.received, earlier.map(|earlier| earlier.figures.received)));
        servers.push(ServerRow { server: server.clone(), error: None, figures: Some(figures) });
        let received: HashMap<&str, u64> = earlier
            .iter()
            .flat_map(|earlier| &earlier.connections)
            .map(|connection| (connection.session.as_str(), connection.received))
            .collect();
        sessions.extend(reply.connections.iter().map(|connection| SessionRow {
            session: connection.session.clone(),
            client: connection.address.clone(),
            server: server.clone(),
            requests_per_second: rate(connection.received, received.get(connection.session.as_str()).copied()),
            received: connection.received,
            queued: connection.queued,
            last: connection.last.clone(),
            latency_avg_ms: connection.average_ms,
            latency_max_ms: connection.most_ms,
        }));
    }
    let busy = |row: &SessionRow| (row.requests_per_second.unwrap_or(0.0), row.received);
    sessions.sort_by(|one, other| busy(other).partial_cmp(&busy(one)).unwrap_or(std::cmp::Ordering::Equal));
    sessions.truncate(sessions_max);
    View { time: Zoned::now().strftime("%Y-%m-%d %H:%M:%S").to_string(), servers, sessions }
}

fn row(reply: &ServerReply, requests_per_second: Option<f64>) -> StatsRow {
    let figures = reply.figures.clone();
    let [latency_min_ms, latency_avg_ms, latency_max_ms] = figures.latency_ms;
    StatsRow {
        version: figures.version,
        mode: figures.mode,
        connections: figures.connections,
        requests_per_second,
        received: figures.received,
        sent: figures.sent,
        outstanding: figures.outstanding,
        latency_min_ms,
        latency_avg_ms,
        latency_max_ms,
        nodes: figures.nodes,
        watches: reply.watches,
        ephemerals: reply.ephemerals,
        zxid: figures.zxid,
    }
}

const SERVER_COLUMNS: &[Column] = &[
    Column::text("SERVER", 0),
    Column::text("MODE", 1),
    Column::number("CONNS", 3),
    Column::number("REQ/S", 2),
    Column::number("RECEIVED", 9),
    Column::number("WAITING", 5),
    Column::number("MS MIN/AVG/MAX", 4),
    Column::number("NODES", 6),
    Column::number("WATCHES", 8),
    Column::number("EPHEM", 10),
    Column::text("ZXID", 7),
];

const SESSION_COLUMNS: &[Column] = &[
    Column::text("SESSION", 0),
    Column::text("CLIENT", 3),
    Column::number("REQ/S", 1),
    Column::number("RECEIVED", 5),
    Column::number("WAITING", 4),
    Column::number("MS AVG/MAX", 2),
    Column::text("LAST", 6),
];

fn print(out: &Output, view: &View, is_repeated: bool) -> Result<(), CommandError> {
    let hint = if is_repeated { "  Ctrl-C stops" } else { "" };
    let mut lines = vec![format!("{}  {}{hint}", view.time, subtree_output::count(view.servers.len(), "server"))];
    let servers: Vec<Row> = view.servers.iter().map(server_cells).collect();
    lines.extend(table::lines(out, SERVER_COLUMNS, &servers));
    if !view.sessions.is_empty() {
        lines.push(String::new());
        let sessions: Vec<Row> = view.sessions.iter().map(session_cells).collect();
        lines.extend(table::lines(out, SESSION_COLUMNS, &sessions));
    }
    let Some((_, rows)) = out.size().filter(|_| is_repeated) else {
        lines.extend(is_repeated.then(String::new));
        return lines.iter().try_for_each(|line| out.line(line));
    };
    // Redrawn in place, without clearing the screen first, which would flicker.
    lines.truncate(rows.saturating_sub(1).max(1));
    out.bytes(b"\x1b[H")?;
    for line in lines {
        out.bytes(line.as_bytes())?;
        out.bytes(b"\x1b[K\n")?;
    }
    out.bytes(b"\x1b[J")
}

fn per_second(rate: Option<f64>) -> String {
    or_dash(rate.map(|rate| format!("{rate:.1}")))
}

/// Milliseconds, with two digits after the point where the server has more.
fn latencies(values_ms: &[f64]) -> String {
    let values: Vec<String> = values_ms.iter().map(|value| ((value * 100.0).round() / 100.0).to_string()).collect();
    values.join("/")
}

fn server_cells(row: &ServerRow) -> Row {
    let Some(figures) = &row.figures else {
        return vec![row.server.clone(), row.error.clone().unwrap_or_default()];
    };
    vec![
        row.server.clone(),
        figures.mode.clone(),
        figures.connections.to_string(),
        per_second(figures.requests_per_second),
        figures.received.to_string(),
        figures.outstanding.to_string(),
        latencies(&[figures.latency_min_ms, figures.latency_avg_ms, figures.latency_max_ms]),
        figures.nodes.to_string(),
        or_dash(figures.watches),
        or_dash(figures.ephemerals),
        figures.zxid.clone(),
    ]
}

fn session_cells(row: &SessionRow) -> Row {
    vec![
        row.session.clone(),
        row.client.clone(),
        per_second(row.requests_per_second),
        row.received.to_string(),
        row.queued.to_string(),
        latencies(&[row.latency_avg_ms, row.latency_max_ms]),
        row.last.clone(),
    ]
}
