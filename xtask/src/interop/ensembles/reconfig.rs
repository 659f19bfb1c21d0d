//! Mixed ensembles whose members change while they run.

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
/// Apache's shell.
const SHELL: &str = "org.apache.zookeeper.ZooKeeperMain";
/// What it says before the new members.
const COMMITTED: &str = "Committed new configuration:";

/// Letters are servers, as in the other cases; the last one leads.
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
        let run = move |workspace: &_, home: &_| changes(workspace, home, letters, joiner);
        add(format!("{letters}: {joiner} joins, changes its role and leaves"), is_short, Box::new(run));
    }
    for (letters, is_short) in
        [("aao", true), ("ooa", true), ("oao", false), ("aoa", false), ("aoaO", false), ("oaoA", false)]
    {
        let run = move |workspace: &_, home: &_| removes_leader(workspace, home, letters);
        add(format!("{letters}: the leader is removed"), is_short, Box::new(run));
    }
    for (letters, joiner, is_short) in
        [("aao", 'o', true), ("ooa", 'a', false), ("oao", 'a', false), ("aoa", 'o', false), ("eeo", 'e', false)]
    {
        let run = move |workspace: &_, home: &_| obeys_shell(workspace, home, letters, joiner);
        add(format!("{letters}: {joiner} joins and the leader leaves by zkCli"), is_short, Box::new(run));
    }
    for letters in ["ooo", "aaa"] {
        let run = move |workspace: &_, home: &_| refuses(workspace, home, letters);
        add(format!("{letters}: changes are refused"), true, Box::new(run));
    }
    for (letters, is_short) in [("aao", true), ("ooa", false)] {
        let run = move |workspace: &_, home: &_| migrates(workspace, home, letters);
        add(format!("{letters}: the files of new members are taken over"), is_short, Box::new(run));
    }
}

fn start(workspace: &Workspace, home: &Path, letters: &str) -> Result<MixedEnsemble> {
    MixedEnsemble::start_with(workspace, home, letters, &[("reconfigEnabled", "true")], &[("zookeeper.skipACL", "yes")])
}

/// What a client asks for.
#[derive(Clone, Copy, Default)]
struct Change<'a> {
    joining: Option<&'a str>,
    leaving: Option<&'a str>,
    members: Option<&'a str>,
    version: Option<i64>,
}

impl Change<'_> {
    /// Asks one server once. Returns the code, and the text of the new configuration.
    fn ask(&self, ensemble: &MixedEnsemble, index: usize) -> Result<(i32, String)> {
        let body = ReconfigRequest {
            joining: self.joining.map(Into::into),
            leaving: self.leaving.map(Into::into),
            members: self.members.map(Into::into),
            config: self.version.unwrap_or(-1),
        };
        let mut client = WireClient::connect(ensemble.address(index))?;
        let reply = client.call(OpCode::Reconfig, &body).with_context(|| format!("asked of server {}", index + 1))?;
        let text = if reply.header.err == 0 { reply.body()?.get::<Option<&[u8]>>()?.unwrap_or_default() } else { &[] };
        Ok((reply.header.err, String::from_utf8(text.to_vec())?))
    }

    /// The same; it has to succeed, at once or when everybody is synced.
    fn make(&self, ensemble: &MixedEnsemble, index: usize) -> Result<String> {
        let until = Instant::now() + TIMEOUT;
        loop {
            match self.ask(ensemble, index)? {
                (0, text) => return Ok(text),
                (-13 | -14, _) if Instant::now() < until => std::thread::sleep(POLL),
                (code, _) => bail!("error {code}"),
            }
        }
    }
}

fn joining(spec: &str) -> Change<'_> {
    Change { joining: Some(spec), ..Change::default() }
}

fn leaving(ids: &str) -> Change<'_> {
    Change { leaving: Some(ids), ..Change::default() }
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> Result<bool>) -> Result<()> {
    let until = Instant::now() + TIMEOUT;
    while !is_so().unwrap_or(false) {
        ensure!(Instant::now() < until, "{what}: {:?}", is_so());
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

/// Everybody shows the same configuration, byte for byte, and has written it down.
fn wait_for_config(ensemble: &MixedEnsemble, text: &str) -> Result<()> {
    for index in 0..ensemble.len() {
        wait_until(&format!("server {} does not know", index + 1), || Ok(config_of(ensemble, index)? == text))?;
        let version = text.rsplit_once("version=").context("a version")?.1;
        let name = format!("zoo.cfg.dynamic.{version}");
        wait_until(&format!("server {} has no {name}", index + 1), || {
            let cfg = ensemble.file(index, "zoo.cfg").context("a configuration")?;
            Ok(cfg.ends_with(&format!("/{name}\n")) && ensemble.file(index, &name).is_some())
        })?;
        let first = ensemble.file(0, &name);
        ensure!(ensemble.file(index, &name) == first, "servers 1 and {} have written different members", index + 1);
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
    wait_until(&format!("server {} is no {mode}", index + 1), || Ok(ensemble.mode(index).as_deref() == Some(mode)))
}

/// Every change is asked of another server.
fn changes(workspace: &Workspace, home: &Path, letters: &str, joiner: char) -> Result<String> {
    let mut ensemble = start(workspace, home, letters)?;
    let first = config_of(&ensemble, 0)?;
    ensure!(first.ends_with("version=100000000"), "{first}");
    let (index, address) = ensemble.join(home, joiner)?;
    wait_for_mode(&ensemble, index, "follower")?;
    let client = ensemble.address(index);
    let member = format!("server.4={address}:participant;{client}");
    wait_for_config(&ensemble, &joining(&member).make(&ensemble, 0)?)?;
    write_some(&ensemble)?;
    let observer = format!("server.4={address}:observer;{client}");
    wait_for_config(&ensemble, &joining(&observer).make(&ensemble, 2)?)?;
    wait_for_mode(&ensemble, index, "observer")?;
    write_some(&ensemble)?;
    wait_for_config(&ensemble, &joining(&member).make(&ensemble, 1)?)?;
    wait_for_mode(&ensemble, index, "follower")?;
    write_some(&ensemble)?;
    ensemble.check_trees_equal()?;
    wait_for_config(&ensemble, &leaving("4").make(&ensemble, index)?)?;
    write_some(&ensemble)?;
    let tree = ensemble.check_trees_equal()?;
    Ok(format!("{} nodes", tree.len()))
}

fn removes_leader(workspace: &Workspace, home: &Path, letters: &str) -> Result<String> {
    let mut ensemble = start(workspace, home, letters)?;
    let leader = ensemble.leader()?;
    let before = config_of(&ensemble, leader)?;
    let line = before.lines().nth(leader).context("the leader")?.to_owned();
    let start = Instant::now();
    let text = leaving(&(leader + 1).to_string()).make(&ensemble, leader)?;
    wait_for_mode(&ensemble, leader, "follower")?;
    let next = ensemble.leader()?;
    let took = start.elapsed();
    ensure!(next != leader, "it leads");
    wait_for_config(&ensemble, &text)?;
    write_some(&ensemble)?;
    ensemble.check_trees_equal()?;
    // It comes back, and another one is replaced by everything anew.
    let spec = format!("{line};{}", ensemble.address(leader));
    let text = joining(&spec).make(&ensemble, next)?;
    wait_for_config(&ensemble, &text)?;
    let members = text.lines().filter(|line| !line.starts_with("version=")).collect::<Vec<_>>().join(",");
    let text = Change { members: Some(&members), ..Change::default() }.make(&ensemble, leader)?;
    wait_for_config(&ensemble, &text)?;
    ensemble.kill(next)?;
    ensemble.start_members(&[next])?;
    wait_for_config(&ensemble, &text)?;
    write_some(&ensemble)?;
    ensemble.check_trees_equal()?;
    Ok(format!("server {} took over in {} ms", next + 1, took.as_millis()))
}

/// Runs a command of Apache's shell on one server. Returns what it prints.
fn shell(
    workspace: &Workspace,
    home: &Path,
    ensemble: &MixedEnsemble,
    index: usize,
    command: &[&str],
) -> Result<String> {
    let output = Command::new("java")
        .args([apache::ENCODING, "-cp", &apache::class_path(workspace, &home.join("shell"))?, SHELL, "-server"])
        .arg(ensemble.address(index).to_string())
        .args(command)
        .output()
        .context("run zkCli")?;
    let result = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(output.status.success(), "{command:?}: {}\n{result}", String::from_utf8_lossy(&output.stderr));
    Ok(result)
}

/// Changes the members by Apache's shell. Returns the new configuration, when everybody has it.
fn reconfigure(
    workspace: &Workspace,
    home: &Path,
    ensemble: &MixedEnsemble,
    index: usize,
    options: &[&str],
) -> Result<String> {
    let before = config_of(ensemble, index)?;
    let text = match shell(workspace, home, ensemble, index, &[&["reconfig"], options].concat()) {
        Ok(result) => {
            let result = result.split_once(COMMITTED).with_context(|| format!("{options:?}: {result}"))?.1;
            let is_member = |line: &&str| line.starts_with("server.") || line.starts_with("version=");
            result.lines().filter(is_member).collect::<Vec<_>>().join("\n")
        }
        // Where the leader leaves, Apache's followers may close their connections before they answer.
        Err(e) if format!("{e:#}").contains("ConnectionLoss") => {
            wait_until("the members are others", || Ok(config_of(ensemble, index)? != before))?;
            config_of(ensemble, index)?
        }
        Err(e) => return Err(e),
    };
    wait_for_config(ensemble, &text).with_context(|| format!("{options:?}"))?;
    Ok(text)
}

/// Apache's shell changes the members, and is told the new ones, which everybody then has.
fn obeys_shell(workspace: &Workspace, home: &Path, letters: &str, joiner: char) -> Result<String> {
    let mut ensemble = start(workspace, home, letters)?;
    let (index, address) = ensemble.join(home, joiner)?;
    wait_for_mode(&ensemble, index, "follower")?;
    let leader = ensemble.leader()?;
    ensemble.wait_for_metric(leader, "synced_non_voting_followers", "1")?;
    let reconfigure =
        |ensemble: &MixedEnsemble, index, options: &[&str]| reconfigure(workspace, home, ensemble, index, options);
    let member = format!("server.4={address}:participant;{}", ensemble.address(index));
    let text = reconfigure(&ensemble, 0, &["-add", &member])?;
    let shown = shell(workspace, home, &ensemble, 1, &["config"])?;
    ensure!(shown.contains(&text), "zkCli shows {shown}, not {text}");
    write_some(&ensemble)?;
    // It goes by the hand of a follower; then all that are left are named at once.
    let text = reconfigure(&ensemble, 0, &["-remove", &(leader + 1).to_string()])?;
    wait_for_mode(&ensemble, leader, "follower")?;
    ensure!(ensemble.leader()? != leader, "it leads");
    write_some(&ensemble)?;
    let (members, version) = text.rsplit_once("version=").context("a version")?;
    let file = home.join("members");
    std::fs::write(&file, members)?;
    let file = file.to_str().context("a path")?;
    let refused = shell(workspace, home, &ensemble, index, &["reconfig", "-file", file, "-v", "7"]);
    ensure!(refused.is_err(), "a change of another version is made: {refused:?}");
    reconfigure(&ensemble, index, &["-file", file, "-v", version])?;
    write_some(&ensemble)?;
    Ok(format!("{} nodes", ensemble.check_trees_equal()?.len()))
}

/// Both kinds refuse alike.
fn refuses(workspace: &Workspace, home: &Path, letters: &str) -> Result<String> {
    let ensemble = start(workspace, home, letters)?;
    let none = Change::default();
    let members = |members| Change { members: Some(members), ..none };
    let cases = [
        (Change { version: Some(5), ..none }, -103),
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
        for (change, expected) in &cases {
            let (code, _) = change.ask(&ensemble, index)?;
            let shown = (change.joining, change.leaving, change.members);
            ensure!(code == *expected, "server {}: {shown:?}: {code}, not {expected}", index + 1);
        }
    }
    Ok(format!("{} answers", cases.len() * 3))
}

/// The files that one software has written, the other one starts with.
fn migrates(workspace: &Workspace, home: &Path, letters: &str) -> Result<String> {
    let mut ensemble = start(workspace, home, letters)?;
    let (index, address) = ensemble.join(home, 'o')?;
    let spec = format!("server.4={address}:participant;{}", ensemble.address(index));
    let text = joining(&spec).make(&ensemble, 0)?;
    wait_for_config(&ensemble, &text)?;
    for (index, letter) in letters.chars().chain(['o']).enumerate() {
        ensemble.replace(index, if letter == 'o' { 'a' } else { 'o' })?;
        wait_for_config(&ensemble, &text)?;
    }
    write_some(&ensemble)?;
    let text = leaving("4").make(&ensemble, 0)?;
    wait_for_config(&ensemble, &text)?;
    let tree = ensemble.check_trees_equal()?;
    Ok(format!("{} nodes", tree.len()))
}
