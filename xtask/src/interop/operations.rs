//! The same HTTP requests to the AdminServers of Apache and Oxkeeper, in each role, and their Prometheus pages.
//!
//! With `--only prometheus` or without `--only`, a real Prometheus scrapes our ensemble and evaluates the rules and the
//! dashboard of `ops` ([`prometheus_server`]).
//!
//! Compared are fields, their order and types, status codes, and texts that do not depend on the machine; of the pages
//! the families with their types, and the names and labels of the samples.

mod prometheus_server;

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};

use anyhow::{Context, Result, ensure};
use ox_testkit::{MemberRole, Program, TestEnsemble, free_port, http, wait_for};

use super::servers::{Software, apache, oxkeeper};
use super::workspace::Workspace;

const PROMETHEUS: &str = "org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider";

/// Requests whose replies have the same form on both. Not among them: `environment`, `system_properties` and
/// `initial_configuration` (the machine), `hash` and the watches (the data), `monitor` (compared by names).
const REQUESTS: &[(&str, &str)] = &[
    ("GET", "/commands"),
    ("GET", "/commands/configuration"),
    ("GET", "/commands/conf"),
    ("GET", "/commands/connection_stat_reset"),
    ("GET", "/commands/connections"),
    ("GET", "/commands/dirs"),
    ("GET", "/commands/get_trace_mask"),
    ("GET", "/commands/set_trace_mask"),
    ("GET", "/commands/set_trace_mask?traceMask=x"),
    ("GET", "/commands/set_trace_mask?traceMask=7"),
    ("GET", "/commands/hash"),
    ("GET", "/commands/is_read_only"),
    ("GET", "/commands/last_snapshot"),
    ("GET", "/commands/leader"),
    ("GET", "/commands/nosuch"),
    ("GET", "/commands/observer_connection_stat_reset"),
    ("GET", "/commands/ruok"),
    ("HEAD", "/commands/ruok"),
    ("TRACE", "/commands/ruok"),
    ("GET", "/commands/snapshot"),
    ("POST", "/commands/restore"),
    ("GET", "/commands/server_stats"),
    ("GET", "/commands/stat_reset"),
    ("GET", "/commands/voting_view"),
    ("GET", "/commands/watch_summary"),
    ("GET", "/commands/watches"),
    ("GET", "/commands/watches_by_path"),
    ("GET", "/commands/zabstate"),
];

/// Requests to a member without a quorum. Apache answers `monitor` with an error page of Jetty there.
const WITHOUT_QUORUM: &[(&str, &str)] = &[
    ("GET", "/commands"),
    ("GET", "/commands/configuration"),
    ("GET", "/commands/get_trace_mask"),
    ("GET", "/commands/leader"),
    ("GET", "/commands/nosuch"),
    ("GET", "/commands/ruok"),
    ("GET", "/commands/srvr"),
    ("GET", "/commands/stats"),
    ("GET", "/commands/snapshot"),
    ("POST", "/commands/restore"),
    ("GET", "/commands/voting_view"),
    ("GET", "/commands/zabstate"),
];

/// Requests to a member in read-only mode.
const READ_ONLY: &[(&str, &str)] = &[
    ("GET", "/commands/configuration"),
    ("GET", "/commands/is_read_only"),
    ("GET", "/commands/leader"),
    ("GET", "/commands/ruok"),
    ("GET", "/commands/server_stats"),
    ("GET", "/commands/voting_view"),
    ("GET", "/commands/watch_summary"),
    ("GET", "/commands/zabstate"),
];

/// Replies in which Java's reflection orders some fields differently from start to start.
const UNORDERED: &[&str] = &["/commands/server_stats", "/commands/zabstate"];

/// The ports of one server.
#[derive(Clone, Copy)]
struct Ports {
    admin: SocketAddr,
    metrics: SocketAddr,
}

impl Ports {
    fn free() -> Self {
        let at = || (Ipv4Addr::LOCALHOST, free_port()).into();
        Self { admin: at(), metrics: at() }
    }

    /// The lines of `zoo.cfg`.
    fn settings(self) -> String {
        format!(
            "admin.enableServer=true\nadmin.serverAddress=127.0.0.1\nadmin.serverPort={}\n\
             metricsProvider.className={PROMETHEUS}\nmetricsProvider.httpHost=127.0.0.1\nmetricsProvider.httpPort={}\n",
            self.admin.port(),
            self.metrics.port()
        )
    }
}

pub(super) fn run(workspace: &Workspace, only: Option<&str>) -> Result<()> {
    apache::fetch(workspace)?;
    let binary = oxkeeper::build(workspace, workspace.profile())?.display().to_string();
    let ours = Program::new("Oxkeeper", &[&binary, "server", "{config}", "{properties}"]);
    let theirs = Software::Apache.program(workspace)?;
    let is_wanted = |part: &str| only.is_none_or(|only| part.contains(only));
    if is_wanted("prometheus") {
        prometheus_server::run(workspace, &ours)?;
    }
    if !is_wanted("admin") {
        return Ok(());
    }
    compare_restore(&theirs, &ours)?;
    for (role, requests) in [("not serving", WITHOUT_QUORUM), ("read-only", READ_ONLY)] {
        let [apache, oxkeeper] = [&theirs, &ours].map(|program| without_quorum(program, role, requests));
        let (apache, oxkeeper) = (apache.context("Apache")?, oxkeeper.context("Oxkeeper")?);
        compare(role, &apache, &oxkeeper)?;
    }
    for roles in [&["standalone"][..], &["follower", "leader", "observer"]] {
        let [apache, oxkeeper] = [&theirs, &ours].map(|program| replies(program, roles));
        let (apache, oxkeeper) = (apache.context("Apache")?, oxkeeper.context("Oxkeeper")?);
        for ((role, theirs), ours) in roles.iter().zip(&apache).zip(&oxkeeper) {
            compare(role, theirs, ours)?;
        }
    }
    Ok(())
}

/// What a server has answered: the replies in the order of [`REQUESTS`], the names of `monitor`, and the page.
struct Answers {
    replies: Vec<String>,
    families: BTreeSet<String>,
    samples: BTreeSet<String>,
}

/// Starts one server, or an ensemble of three voters and an observer, and asks a server of each role.
fn replies(program: &Program, roles: &[&str]) -> Result<Vec<Answers>> {
    let home = tempfile::Builder::new().prefix("oxkeeper-operations-").tempdir()?;
    let properties = ["zookeeper.admin.rateLimiterIntervalInMS=1"];
    if roles == ["standalone"] {
        let ports = Ports::free();
        let mut spec = ox_testkit::ServerSpec::new(program.clone());
        spec.settings = ports.settings();
        let server = spec.start_in(home.path())?;
        let mut client = ox_testkit::RawClient::open(server.address(), 30_000);
        client.create("/app", b"x");
        return Ok(vec![answers(ports, REQUESTS)?]);
    }
    let members = [MemberRole::Participant; 3].into_iter().chain([MemberRole::Observer]);
    let members = members.map(|role| (program.clone(), role)).collect();
    let ensemble = TestEnsemble::new(home.path(), members, "", &properties);
    let ports: Vec<Ports> = (0..ensemble.len()).map(|_| Ports::free()).collect();
    for (server, ports) in ensemble.servers.iter().zip(&ports) {
        let file = server.dir.join("zoo.cfg");
        let text = std::fs::read_to_string(&file)? + "\n" + &ports.settings();
        std::fs::write(&file, text)?;
    }
    let ensemble = ensemble.start();
    ensemble.wait_for_mode(3, "observer");
    let at_role = |role: &&str| (0..4).find(|at| ensemble.mode(*at).as_deref() == Some(role));
    roles.iter().map(|role| answers(ports[at_role(role).with_context(|| format!("no {role}"))?], REQUESTS)).collect()
}

/// One of three voters, while the others are down.
fn without_quorum(program: &Program, role: &str, requests: &[(&str, &str)]) -> Result<Answers> {
    let home = tempfile::Builder::new().prefix("oxkeeper-operations-").tempdir()?;
    let read_only = format!("readonlymode.enabled={}", role == "read-only");
    let members = vec![(program.clone(), MemberRole::Participant); 3];
    let mut ensemble = TestEnsemble::new(home.path(), members, "", &[&read_only]);
    let ports = Ports::free();
    let file = ensemble.directory(0).join("zoo.cfg");
    std::fs::write(&file, std::fs::read_to_string(&file)? + "\n" + &ports.settings())?;
    // The member needs data: Oxkeeper's abstains without.
    std::fs::write(ensemble.servers[0].data_dir().join("initialize"), "")?;
    ensemble.launch(0);
    let answers_commands = || http(ports.admin, "GET", "/commands/ruok", &[], b"").ok().map(drop);
    wait_for(answers_commands).with_context(|| format!("no AdminServer\n{}", ensemble.servers[0].log_tail()))?;
    if role == "read-only" {
        ensemble.wait_for_mode(0, "read-only");
    }
    answers(ports, requests)
}

/// `snapshot`, and `restore` of what it returned, on standalone servers: the same headers and replies, and the restored
/// data. What Oxkeeper has restored, Apache can open.
fn compare_restore(theirs: &Program, ours: &Program) -> Result<()> {
    let [apache, oxkeeper] = [theirs, ours].map(|program| restore(program, theirs));
    let (apache, oxkeeper) = (apache.context("Apache")?, oxkeeper.context("Oxkeeper")?);
    ensure!(apache == oxkeeper, "snapshot and restore differ\n--- Apache\n{apache}\n--- Oxkeeper\n{oxkeeper}");
    println!("snapshot and restore: the same replies, and Apache opens the restored data");
    Ok(())
}

fn restore(program: &Program, successor: &Program) -> Result<String> {
    let home = tempfile::Builder::new().prefix("oxkeeper-restore-").tempdir()?;
    let ports = Ports::free();
    let mut spec = ox_testkit::ServerSpec::new(program.clone()).property("zookeeper.admin.rateLimiterIntervalInMS", 1);
    spec.settings = ports.settings();
    let mut server = spec.start_in(home.path())?;
    let auth = [("Authorization", "ip")];
    let mut client = ox_testkit::RawClient::open(server.address(), 30_000);
    client.create("/app", b"before");
    let snapshot = http(ports.admin, "GET", "/commands/snapshot", &auth, b"")?;
    client.set("/app", b"after");
    client.create("/later", b"");
    let mut told = format!("{} {:?}\n", snapshot.status, snapshot.header("last_zxid"));
    for body in [&snapshot.body[..], b"garbage"] {
        let reply = http(ports.admin, "POST", "/commands/restore", &auth, body)?;
        told += &format!("{} {}\n", reply.status, reply.text());
    }
    drop(client);
    let read = |address| {
        let mut client = ox_testkit::RawClient::open(address, 30_000);
        format!("{:?} {}\n", client.get("/app").data(), client.exists("/later").err)
    };
    told += &read(server.address());
    if program.name != successor.name {
        server.terminate()?;
        let opened = ox_testkit::ServerSpec::new(successor.clone()).start_in(home.path())?;
        ensure!(told.ends_with(&read(opened.address())), "Apache opens other data than {told}");
    }
    Ok(told)
}

fn answers(ports: Ports, requests: &[(&str, &str)]) -> Result<Answers> {
    let mut replies = Vec::new();
    for (method, path) in requests {
        let reply = http(ports.admin, method, path, &[], b"")?;
        let (status, kind) = (reply.status, reply.header("content-type").unwrap_or("-").to_owned());
        let mut form = shape(&reply.text());
        if UNORDERED.contains(path) {
            let mut lines: Vec<&str> = form.lines().map(|line| line.trim_end_matches(',')).collect();
            lines.sort_unstable();
            form = lines.join("\n");
        }
        replies.push(format!("{method} {path}\n{status} {kind}\n{form}"));
    }
    let page = http(ports.metrics, "GET", "/metrics", &[], b"")?.text();
    let is_compared = |line: &&str| !["jvm_", "oxkeeper_"].iter().any(|prefix| line.contains(prefix));
    let types = page.lines().filter(|line| line.starts_with("# ")).filter(is_compared);
    let samples = page.lines().filter(|line| !line.starts_with('#') && !line.contains("key=")).filter(is_compared);
    let samples = samples.filter_map(|line| line.rsplit_once(' ')).map(|(name, _)| name.to_owned());
    Ok(Answers { replies, families: types.map(str::to_owned).collect(), samples: samples.collect() })
}

fn compare(role: &str, theirs: &Answers, ours: &Answers) -> Result<()> {
    for (theirs, ours) in theirs.replies.iter().zip(&ours.replies) {
        ensure!(theirs == ours, "{role}: replies differ\n--- Apache\n{theirs}\n--- Oxkeeper\n{ours}");
    }
    for (what, theirs, ours) in
        [("families", &theirs.families, &ours.families), ("samples", &theirs.samples, &ours.samples)]
    {
        let (missing, extra): (Vec<_>, Vec<_>) = (theirs.difference(ours).collect(), ours.difference(theirs).collect());
        ensure!(missing.is_empty() && extra.is_empty(), "{role}: {what}: missing {missing:#?}, extra {extra:#?}");
    }
    let (replies, samples) = (ours.replies.len(), ours.samples.len());
    println!("{role}: {replies} replies of the same form, {samples} samples with the same names and types");
    Ok(())
}

/// The text with numbers and texts replaced by their types, except for `command`, `error` and flags. A list of objects
/// counts as its first one.
fn shape(text: &str) -> String {
    let lines = text.lines().map(|line| {
        let Some((key, value)) = line.split_once(" : ") else { return line.to_owned() };
        let (value, comma) = value.strip_suffix(',').map_or((value, ""), |value| (value, ","));
        let is_kept =
            ["\"command\"", "\"error\"", "\"zabstate\"", "\"learner_type\""].iter().any(|kept| key.contains(kept));
        let value = match value.as_bytes() {
            _ if is_kept => value,
            [b'"', ..] => "TEXT",
            [b'-' | b'0'..=b'9', ..] => "NUMBER",
            [b'[', b' ', b'"' | b'0'..=b'9', ..] => "LIST",
            _ => value,
        };
        format!("{key} : {value}{comma}")
    });
    lines.collect::<Vec<_>>().join("\n")
}
