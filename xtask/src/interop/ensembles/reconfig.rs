//! Reconfiguration of mixed ensembles.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use ox_proto::OpCode;
use ox_proto::request::{PathWatch, ReconfigRequest};

use super::cases::Case;
use super::failover_client::{CONFIG, FailoverClient};
use super::mixed_ensemble::MixedEnsemble;
use crate::interop::servers::apache;
use crate::interop::wire::WireClient;
use crate::interop::workspace::Workspace;

const TIMEOUT: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(50);
/// The main class of `zkCli`.
const ZKCLI: &str = "org.apache.zookeeper.ZooKeeperMain";
/// The line that `zkCli` prints before the new configuration.
const COMMITTED_MESSAGE: &str = "Committed new configuration:";

pub(super) fn add_all(cases: &mut Vec<Case>) {
    let mut add = |name: String, is_short, run| cases.push(Case { name, is_short, run });
    for (letters, joiner, is_short) in [
        ("aao", 'a', true),
        ("ooa", 'o', true),
        ("aao", 'o', false),
        ("ooa", 'a', false),
        ("aoa", 'o', false),
        ("oao", 'a', false),
    ] {
        let run = move |workspace: &_, home: &_| changes_members(workspace, home, letters, joiner);
        add(format!("{letters}: {joiner} joins, changes its role and leaves"), is_short, Box::new(run));
    }
    for (letters, is_short) in
        [("aao", true), ("ooa", true), ("oao", false), ("aoa", false), ("aoaO", false), ("oaoA", false)]
    {
        let run = move |workspace: &_, home: &_| removes_leader(workspace, home, letters);
        add(format!("{letters}: leader is removed"), is_short, Box::new(run));
    }
    for (letters, joiner, is_short) in
        [("aao", 'o', true), ("ooa", 'a', false), ("oao", 'a', false), ("aoa", 'o', false), ("eeo", 'e', false)]
    {
        let run = move |workspace: &_, home: &_| reconfigures_by_zkcli(workspace, home, letters, joiner);
        add(format!("{letters}: {joiner} joins and leader leaves by zkCli"), is_short, Box::new(run));
    }
    for letters in ["ooo", "aaa"] {
        let run = move |workspace: &_, home: &_| refuses_invalid_requests(workspace, home, letters);
        add(format!("{letters}: invalid reconfigurations are refused"), true, Box::new(run));
    }
    for (letters, is_short) in [("aao", true), ("ooa", false)] {
        let run = move |workspace: &_, home: &_| migrates_dynamic_files(workspace, home, letters);
        add(format!("{letters}: dynamic files are migrated"), is_short, Box::new(run));
    }
}

fn start(workspace: &Workspace, home: &Path, letters: &str) -> Result<MixedEnsemble> {
    MixedEnsemble::start_with(workspace, home, letters, &[("reconfigEnabled", "true")], &[("zookeeper.skipACL", "yes")])
}

/// The arguments of a reconfig request.
#[derive(Clone, Copy, Default)]
struct ReconfigArguments<'a> {
    joining: Option<&'a str>,
    leaving: Option<&'a str>,
    members: Option<&'a str>,
    version: Option<i64>,
}

impl ReconfigArguments<'_> {
    /// Sends the request to one server. Returns the error code and the new configuration.
    fn send(&self, ensemble: &MixedEnsemble, index: usize) -> Result<(i32, String)> {
        let body = ReconfigRequest {
            joining: self.joining.map(Into::into),
            leaving: self.leaving.map(Into::into),
            members: self.members.map(Into::into),
            config: self.version.unwrap_or(-1),
        };
        let mut client = WireClient::connect(ensemble.address(index))?;
        let reply =
            client.call(OpCode::Reconfig, &body).with_context(|| format!("reconfigure by server {}", index + 1))?;
        let text = if reply.header.err == 0 { reply.body()?.get::<Option<&[u8]>>()?.unwrap_or_default() } else { &[] };
        Ok((reply.header.err, String::from_utf8(text.to_vec())?))
    }

    /// Repeats the request until it succeeds, because a quorum of the new configuration may not be synchronised yet.
    fn apply(&self, ensemble: &MixedEnsemble, index: usize) -> Result<String> {
        let until = Instant::now() + TIMEOUT;
        loop {
            match self.send(ensemble, index)? {
                (0, text) => return Ok(text),
                (-13 | -14, _) if Instant::now() < until => std::thread::sleep(POLL),
                (code, _) => bail!("reconfig fails with error {code}"),
            }
        }
    }
}

fn joining(spec: &str) -> ReconfigArguments<'_> {
    ReconfigArguments { joining: Some(spec), ..ReconfigArguments::default() }
}

fn leaving(ids: &str) -> ReconfigArguments<'_> {
    ReconfigArguments { leaving: Some(ids), ..ReconfigArguments::default() }
}

fn wait_until(failure: &str, mut condition: impl FnMut() -> Result<bool>) -> Result<()> {
    let until = Instant::now() + TIMEOUT;
    while !condition().unwrap_or(false) {
        ensure!(Instant::now() < until, "{failure}: {:?}", condition());
        std::thread::sleep(POLL);
    }
    Ok(())
}

fn config_of(ensemble: &MixedEnsemble, index: usize) -> Result<String> {
    let mut client = WireClient::connect(ensemble.address(index))?;
    let reply = client.call(OpCode::GetData, &PathWatch { path: Some(CONFIG.into()), watch: false })?;
    let text = reply.body()?.get::<Option<&[u8]>>()?.unwrap_or_default().to_vec();
    client.close()?;
    Ok(String::from_utf8(text)?)
}

/// Waits until all members report this configuration, byte for byte, and have stored it in their dynamic file.
fn wait_for_config(ensemble: &MixedEnsemble, text: &str) -> Result<()> {
    for index in 0..ensemble.len() {
        wait_until(&format!("server {} does not report the new configuration", index + 1), || {
            Ok(config_of(ensemble, index)? == text)
        })?;
        let version = text.rsplit_once("version=").context("the configuration has no version")?.1;
        let name = format!("zoo.cfg.dynamic.{version}");
        wait_until(&format!("server {} has no {name}", index + 1), || {
            let cfg = ensemble.file(index, "zoo.cfg").context("zoo.cfg cannot be read")?;
            Ok(cfg.ends_with(&format!("/{name}\n")) && ensemble.file(index, &name).is_some())
        })?;
        let first = ensemble.file(0, &name);
        ensure!(ensemble.file(index, &name) == first, "the dynamic files of servers 1 and {} differ", index + 1);
    }
    Ok(())
}

fn write_some(ensemble: &MixedEnsemble) -> Result<()> {
    let mut client = FailoverClient::new(ensemble.addresses())?;
    for number in 0..30 {
        client.create(&format!("/n/{}-{number}", client.session()), 0)?;
    }
    client.close()
}

fn wait_for_mode(ensemble: &MixedEnsemble, index: usize, mode: &str) -> Result<()> {
    wait_until(&format!("server {} does not become {mode}", index + 1), || {
        Ok(ensemble.mode(index).as_deref() == Some(mode))
    })
}

/// A server joins as participant, becomes an observer, a participant again, and leaves. Each request is sent to a
/// different server.
fn changes_members(workspace: &Workspace, home: &Path, letters: &str, joiner: char) -> Result<String> {
    let mut ensemble = start(workspace, home, letters)?;
    let first = config_of(&ensemble, 0)?;
    ensure!(first.ends_with("version=100000000"), "{first}");
    let (index, address) = ensemble.add_server(home, joiner)?;
    wait_for_mode(&ensemble, index, "follower")?;
    let client = ensemble.address(index);
    let member = format!("server.4={address}:participant;{client}");
    wait_for_config(&ensemble, &joining(&member).apply(&ensemble, 0)?)?;
    write_some(&ensemble)?;
    let observer = format!("server.4={address}:observer;{client}");
    wait_for_config(&ensemble, &joining(&observer).apply(&ensemble, 2)?)?;
    wait_for_mode(&ensemble, index, "observer")?;
    write_some(&ensemble)?;
    wait_for_config(&ensemble, &joining(&member).apply(&ensemble, 1)?)?;
    wait_for_mode(&ensemble, index, "follower")?;
    write_some(&ensemble)?;
    ensemble.check_trees_equal()?;
    wait_for_config(&ensemble, &leaving("4").apply(&ensemble, index)?)?;
    write_some(&ensemble)?;
    let tree = ensemble.check_trees_equal()?;
    Ok(format!("{} nodes", tree.len()))
}

fn removes_leader(workspace: &Workspace, home: &Path, letters: &str) -> Result<String> {
    let mut ensemble = start(workspace, home, letters)?;
    let leader = ensemble.leader()?;
    let before = config_of(&ensemble, leader)?;
    let line = before.lines().nth(leader).context("the configuration does not contain the leader")?.to_owned();
    let start = Instant::now();
    let text = leaving(&(leader + 1).to_string()).apply(&ensemble, leader)?;
    wait_for_mode(&ensemble, leader, "follower")?;
    let next = ensemble.leader()?;
    let duration = start.elapsed();
    ensure!(next != leader, "the removed leader still leads");
    wait_for_config(&ensemble, &text)?;
    write_some(&ensemble)?;
    ensemble.check_trees_equal()?;
    // The old leader joins again. Then a non-incremental reconfiguration sets the same members.
    let spec = format!("{line};{}", ensemble.address(leader));
    let text = joining(&spec).apply(&ensemble, next)?;
    wait_for_config(&ensemble, &text)?;
    let members = text.lines().filter(|line| !line.starts_with("version=")).collect::<Vec<_>>().join(",");
    let text =
        ReconfigArguments { members: Some(&members), ..ReconfigArguments::default() }.apply(&ensemble, leader)?;
    wait_for_config(&ensemble, &text)?;
    ensemble.kill(next)?;
    ensemble.start_members(&[next])?;
    wait_for_config(&ensemble, &text)?;
    write_some(&ensemble)?;
    ensemble.check_trees_equal()?;
    Ok(format!("server {} took over in {} ms", next + 1, duration.as_millis()))
}

/// Runs a zkCli command on one server. Returns its standard output.
fn zkcli(
    workspace: &Workspace,
    home: &Path,
    ensemble: &MixedEnsemble,
    index: usize,
    command: &[&str],
) -> Result<String> {
    let output = Command::new("java")
        .args([apache::ENCODING, "-cp", &apache::class_path(workspace, &home.join("shell"))?, ZKCLI, "-server"])
        .arg(ensemble.address(index).to_string())
        .args(command)
        .output()
        .context("run zkCli")?;
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(output.status.success(), "{command:?}: {}\n{stdout}", String::from_utf8_lossy(&output.stderr));
    Ok(stdout)
}

/// Runs zkCli's reconfig command. Waits until all members have the new configuration, and returns it.
fn reconfigure(
    workspace: &Workspace,
    home: &Path,
    ensemble: &MixedEnsemble,
    index: usize,
    options: &[&str],
) -> Result<String> {
    let before = config_of(ensemble, index)?;
    let text = match zkcli(workspace, home, ensemble, index, &[&["reconfig"], options].concat()) {
        Ok(output) => {
            let output = output.split_once(COMMITTED_MESSAGE).with_context(|| format!("{options:?}: {output}"))?.1;
            let is_member = |line: &&str| line.starts_with("server.") || line.starts_with("version=");
            output.lines().filter(is_member).collect::<Vec<_>>().join("\n")
        }
        // If the leader is removed, Apache's followers may close their connections before they send the reply.
        Err(e) if format!("{e:#}").contains("ConnectionLoss") => {
            wait_until("the configuration does not change", || Ok(config_of(ensemble, index)? != before))?;
            config_of(ensemble, index)?
        }
        Err(e) => return Err(e),
    };
    wait_for_config(ensemble, &text).with_context(|| format!("{options:?}"))?;
    Ok(text)
}

/// Adds a server, removes the leader and sets all members by zkCli, which must print the new configuration.
fn reconfigures_by_zkcli(workspace: &Workspace, home: &Path, letters: &str, joiner: char) -> Result<String> {
    let mut ensemble = start(workspace, home, letters)?;
    let (index, address) = ensemble.add_server(home, joiner)?;
    wait_for_mode(&ensemble, index, "follower")?;
    let leader = ensemble.leader()?;
    ensemble.wait_for_metric(leader, "synced_non_voting_followers", "1")?;
    let reconfigure =
        |ensemble: &MixedEnsemble, index, options: &[&str]| reconfigure(workspace, home, ensemble, index, options);
    let member = format!("server.4={address}:participant;{}", ensemble.address(index));
    let text = reconfigure(&ensemble, 0, &["-add", &member])?;
    let shown = zkcli(workspace, home, &ensemble, 1, &["config"])?;
    ensure!(shown.contains(&text), "zkCli prints {shown} instead of {text}");
    write_some(&ensemble)?;
    // The leader is removed by a request to a follower. Then the remaining members are set by a file.
    let text = reconfigure(&ensemble, 0, &["-remove", &(leader + 1).to_string()])?;
    wait_for_mode(&ensemble, leader, "follower")?;
    ensure!(ensemble.leader()? != leader, "the removed leader still leads");
    write_some(&ensemble)?;
    let (members, version) = text.rsplit_once("version=").context("the configuration has no version")?;
    let file = home.join("members");
    std::fs::write(&file, members)?;
    let file = file.to_str().context("the path is not UTF-8")?;
    let refused = zkcli(workspace, home, &ensemble, index, &["reconfig", "-file", file, "-v", "7"]);
    ensure!(refused.is_err(), "a reconfiguration of the wrong version is accepted: {refused:?}");
    reconfigure(&ensemble, index, &["-file", file, "-v", version])?;
    write_some(&ensemble)?;
    Ok(format!("{} nodes", ensemble.check_trees_equal()?.len()))
}

/// Oxkeeper and Apache refuse invalid requests with the same error codes.
fn refuses_invalid_requests(workspace: &Workspace, home: &Path, letters: &str) -> Result<String> {
    let ensemble = start(workspace, home, letters)?;
    let none = ReconfigArguments::default();
    let members = |members| ReconfigArguments { members: Some(members), ..none };
    let cases = [
        (ReconfigArguments { version: Some(5), ..none }, -103),
        (leaving("x"), -5),
        (leaving("1,2"), -8),
        (leaving("7"), 0),
        (joining("server.4"), -8),
        (joining("server.4=127.0.0.1:1:2"), -8),
        (joining("server.4=127.0.0.1:1:1;3"), -8),
        (joining("server.x=127.0.0.1:1:2;3"), -5),
        (joining("server.1=10.0.0.1:1:2;3,server.4=10.0.0.1:1:5;6"), -8),
        (members(""), -8),
        (members("server.7=127.0.0.1:1:2;3,server.8=127.0.0.1:4:5;6"), -13),
        (members("server.7=127.0.0.1:1:2:observer;3"), -5),
        (members("server.7=127.0.0.1:1:2;3"), -8),
        (members("tickTime=7"), -8),
        (none, 0),
    ];
    for index in 0..3 {
        for (arguments, expected) in &cases {
            let (code, _) = arguments.send(&ensemble, index)?;
            let shown = (arguments.joining, arguments.leaving, arguments.members);
            ensure!(code == *expected, "server {}: {shown:?}: error {code} instead of {expected}", index + 1);
        }
    }
    Ok(format!("{} replies", cases.len() * 3))
}

/// Each implementation starts with the dynamic files of the other.
fn migrates_dynamic_files(workspace: &Workspace, home: &Path, letters: &str) -> Result<String> {
    let mut ensemble = start(workspace, home, letters)?;
    let (index, address) = ensemble.add_server(home, 'o')?;
    let spec = format!("server.4={address}:participant;{}", ensemble.address(index));
    let text = joining(&spec).apply(&ensemble, 0)?;
    wait_for_config(&ensemble, &text)?;
    for (index, letter) in letters.chars().chain(['o']).enumerate() {
        ensemble.replace(index, if letter == 'o' { 'a' } else { 'o' })?;
        wait_for_config(&ensemble, &text)?;
    }
    write_some(&ensemble)?;
    let text = leaving("4").apply(&ensemble, 0)?;
    wait_for_config(&ensemble, &text)?;
    let tree = ensemble.check_trees_equal()?;
    Ok(format!("{} nodes", tree.len()))
}
