//! A real Prometheus scrapes an ensemble of Oxkeeper, and evaluates the rules and the dashboard of `ops`.
//!
//! Checked are the rules with their tests (`promtool`), that every rule and every query of the dashboard can be
//! evaluated, that all targets are scraped without an error, that no alert is raised while all servers run, and that
//! alerts are raised when a member is killed.

use super::{Ports, Workspace};
use crate::interop::suites::debian;
use crate::interop::tool;
use anyhow::{Context, Result, ensure};
use ox_testkit::{MemberRole, OpCode, Process, Program, RawClient, TestEnsemble, free_port, http, wait_for};
use serde_json::Value;
use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Command;

const RULES: &str = "ops/prometheus/oxkeeper.rules.yml";
const DASHBOARD: &str = "ops/grafana/oxkeeper.json";
/// Metrics with these names come from scrapers and not from servers.
const OF_PROMETHEUS: [&str; 1] = ["up"];

pub(super) fn run(workspace: &Workspace, ours: &Program) -> Result<()> {
    debian::install(&[debian::Package { name: "prometheus", file: "/usr/bin/prometheus" }])?;
    let root: &Path = &workspace.root();
    tool::run(Command::new("promtool").args(["check", "rules"]).arg(root.join(RULES)))?;
    let tests = root.join("ops/prometheus/tests");
    tool::run(Command::new("promtool").args(["test", "rules", "oxkeeper.test.yml"]).current_dir(&tests))?;
    let home = tempfile::Builder::new().prefix("oxkeeper-prometheus-").tempdir()?;
    let members = [MemberRole::Participant; 3].into_iter().chain([MemberRole::Observer]);
    let members: Vec<_> = members.map(|role| (ours.clone(), role)).collect();
    let ports: Vec<Ports> = members.iter().map(|_| Ports::free()).collect();
    let ensemble = TestEnsemble::new(&home.path().join("ensemble"), members, "", &[]);
    for (server, ports) in ensemble.servers.iter().zip(&ports) {
        let file = server.dir.join("zoo.cfg");
        std::fs::write(&file, std::fs::read_to_string(&file)? + "\n" + &ports.settings())?;
    }
    let mut ensemble = ensemble.start();
    ensemble.wait_for_mode(3, "observer");
    let mut client = ensemble.client();
    for number in 0..50 {
        client.create(&format!("/app-{number}"), 0);
    }
    let mut reader = RawClient::open(ensemble.addresses[0], 60_000);
    reader.watch(OpCode::GetData, "/app-1");
    let prometheus = Prometheus::start(home.path(), &root.join(RULES), &ports)?;
    prometheus.wait_until("all servers are scraped", |server| {
        let up = server.query("sum(up)").ok()?;
        (up == ["4"]).then_some(())
    })?;
    let names = prometheus.check_rules(root)?;
    let queries = prometheus.check_dashboard(root)?;
    // Pending alerts count, too. Those that are pending because a server was scraped later than others end soon. The
    // files of a test are not protected.
    prometheus.wait_until("no alert is raised while all servers run", |server| {
        let raised = server.raised().ok()?;
        raised.iter().all(|alert| alert == "ZooKeeperWeakSettings").then_some(())
    })?;
    let follower = (0..3).find(|at| ensemble.mode(*at).as_deref() == Some("follower")).context("no follower")?;
    ensemble.kill(follower);
    let expected = ["ZooKeeperServerDown", "ZooKeeperFollowersMissing", "ZooKeeperQuorumAtRisk"];
    prometheus.wait_until("alerts of a killed server", |server| {
        let raised = server.raised().ok()?;
        expected.iter().all(|alert| raised.contains(*alert)).then_some(())
    })?;
    println!("prometheus: {names} metrics of rules and dashboard exist, {queries} queries evaluated, alerts raised");
    Ok(())
}

struct Prometheus {
    address: SocketAddr,
    _process: Process,
}

impl Prometheus {
    fn start(home: &Path, rules: &Path, ports: &[Ports]) -> Result<Self> {
        let address: SocketAddr = (Ipv4Addr::LOCALHOST, free_port()).into();
        let targets: Vec<String> = ports.iter().map(|ports| format!("'{}'", ports.metrics)).collect();
        let config = home.join("prometheus.yml");
        let text = format!(
            "global:\n  scrape_interval: 1s\n  evaluation_interval: 1s\nrule_files: ['{}']\nscrape_configs:\n  \
             - job_name: zookeeper\n    static_configs:\n      - targets: [{}]\n",
            rules.display(),
            targets.join(", ")
        );
        std::fs::write(&config, text)?;
        let mut command = Command::new("prometheus");
        command.arg(format!("--config.file={}", config.display()));
        command.arg(format!("--storage.tsdb.path={}", home.join("tsdb").display()));
        command.arg(format!("--web.listen-address={address}"));
        let process = Process::run_with_log(command, &home.join("prometheus.log")).context("start prometheus")?;
        Ok(Self { address, _process: process })
    }

    fn wait_until<T>(&self, what: &str, ready: impl Fn(&Self) -> Option<T>) -> Result<T> {
        wait_for(|| ready(self)).with_context(|| format!("{what}: not within the time limit"))
    }

    fn get(&self, path: &str) -> Result<Value> {
        let reply = http(self.address, "GET", path, &[], b"")?;
        let json: Value = serde_json::from_slice(&reply.body).with_context(|| format!("{path}: {}", reply.text()))?;
        ensure!(json["status"] == "success", "{path}: {json}");
        Ok(json["data"].clone())
    }

    /// The values of an instant query.
    fn query(&self, query: &str) -> Result<Vec<String>> {
        let data = self.get(&format!("/api/v1/query?query={}", encode(query)))?;
        let samples = data["result"].as_array().context("a list of samples")?;
        Ok(samples.iter().filter_map(|sample| sample["value"][1].as_str().map(str::to_owned)).collect())
    }

    /// The alerts that are pending or firing.
    fn raised(&self) -> Result<BTreeSet<String>> {
        let alerts = self.get("/api/v1/alerts")?;
        let alerts = alerts["alerts"].as_array().context("a list of alerts")?.clone();
        Ok(alerts.iter().filter_map(|alert| alert["labels"]["alertname"].as_str().map(str::to_owned)).collect())
    }

    /// Every rule has been evaluated without an error, and every metric that rules and dashboard name exists.
    fn check_rules(&self, root: &Path) -> Result<usize> {
        let unhealthy = |server: &Self| {
            let rules = server.get("/api/v1/rules").ok()?;
            let rules: Vec<Value> = rules["groups"]
                .as_array()?
                .iter()
                .flat_map(|group| group["rules"].as_array().cloned())
                .flatten()
                .collect();
            let open: Vec<String> =
                rules.iter().filter(|rule| rule["health"] != "ok").map(|rule| rule["name"].to_string()).collect();
            (!rules.is_empty()).then_some(open)
        };
        self.wait_until("rules are evaluated", |server| unhealthy(server).filter(Vec::is_empty))?;
        let data = self.get("/api/v1/label/__name__/values")?;
        let existing: BTreeSet<&str> =
            data.as_array().context("a list of names")?.iter().filter_map(Value::as_str).collect();
        let wanted = ox_testkit::promql_metrics(&queries(root)?);
        let missing: Vec<&String> = wanted
            .iter()
            .filter(|name| !existing.contains(name.as_str()) && !OF_PROMETHEUS.contains(&name.as_str()))
            // Only servers with TLS have certificates.
            .filter(|name| name.as_str() != "oxkeeper_certificate_days_left")
            .collect();
        ensure!(missing.is_empty(), "metrics of rules or dashboard that do not exist: {missing:?}");
        Ok(wanted.len())
    }

    /// Every query of the dashboard is accepted.
    fn check_dashboard(&self, root: &Path) -> Result<usize> {
        let queries = dashboard_queries(root)?;
        for query in &queries {
            let query = query.replace("$job", "zookeeper").replace("$instance", ".*");
            self.query(&query).with_context(|| format!("query of the dashboard: {query}"))?;
        }
        Ok(queries.len())
    }
}

fn dashboard_queries(root: &Path) -> Result<Vec<String>> {
    let text = std::fs::read_to_string(root.join(DASHBOARD))?;
    Ok(ox_testkit::json_strings(&text, "expr"))
}

/// All queries of rules and dashboard.
fn queries(root: &Path) -> Result<Vec<String>> {
    let rules = std::fs::read_to_string(root.join(RULES))?;
    let rules = rules.lines().filter_map(|line| line.trim().strip_prefix("expr: "));
    Ok(rules.map(str::to_owned).chain(dashboard_queries(root)?).collect())
}

fn encode(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => char::from(byte).to_string(),
            _ => format!("%{byte:02X}"),
        })
        .collect()
}
