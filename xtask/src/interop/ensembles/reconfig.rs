//! Reconfiguration of mixed ensembles.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use ox_testkit::{RawClient, ReconfigArguments, wait_for, wait_until};

use super::cases::Case;
use super::lifecycle::write_some;
use super::mixed_ensemble::MixedEnsemble;
use crate::interop::servers::apache;
use crate::interop::workspace::Workspace;

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
    MixedEnsemble::start_with(workspace, home, letters, "reconfigEnabled=true\n", &["zookeeper.skipACL=yes"])
}

/// Sends the request to one server. Returns the error code and the new configuration.
fn send(arguments: ReconfigArguments<'_>, ensemble: &MixedEnsemble, index: usize) -> (i32, String) {
    let mut client = RawClient::open(ensemble.addresses[index], 60_000);
    client.ask(|packet, xid| arguments.put(packet, xid)).config()
}

/// Repeats the request until it succeeds, because a quorum of the new configuration may not be synchronised yet.
fn apply(arguments: ReconfigArguments<'_>, ensemble: &MixedEnsemble, index: usize) -> Result<String> {
    let applied = wait_for(|| match send(arguments, ensemble, index) {
        (-13 | -14, _) => None,
        reply => Some(reply),
    });
    let (code, text) = applied.context("no quorum of the new configuration is synchronised")?;
    ensure!(code == 0, "reconfig fails with error {code}");
    Ok(text)
}

/// Waits until all members report this configuration, byte for byte, and have stored it in their dynamic file.
fn wait_for_config(ensemble: &MixedEnsemble, text: &str) -> Result<()> {
    for index in 0..ensemble.len() {
        wait_until(&format!("server {} reports the new configuration", index + 1), || {
            ensemble.config_of(index) == text
        });
        let version = text.rsplit_once("version=").context("the configuration has no version")?.1;
        let name = format!("zoo.cfg.dynamic.{version}");
        wait_until(&format!("server {} has {name}", index + 1), || {
            let cfg = ensemble.file(index, "zoo.cfg").unwrap_or_default();
            cfg.ends_with(&format!("/{name}\n")) && ensemble.file(index, &name).is_some()
        });
        let first = ensemble.file(0, &name);
        ensure!(ensemble.file(index, &name) == first, "the dynamic files of servers 1 and {} differ", index + 1);
    }
    Ok(())
}

/// A server joins as participant, becomes an observer, a participant again, and leaves. Each request is sent to a
/// different server.
fn changes_members(workspace: &Workspace, home: &Path, letters: &str, joiner: char) -> Result<String> {
    let mut ensemble = start(workspace, home, letters)?;
    let first = ensemble.config_of(0);
    ensure!(first.ends_with("version=100000000"), "{first}");
    let (index, address) = ensemble.add_server(joiner)?;
    ensemble.wait_for_mode(index, "follower");
    let client = ensemble.addresses[index];
    let member = format!("server.4={address}:participant;{client}");
    wait_for_config(&ensemble, &apply(ReconfigArguments::joining(&member), &ensemble, 0)?)?;
    write_some(&ensemble);
    let observer = format!("server.4={address}:observer;{client}");
    wait_for_config(&ensemble, &apply(ReconfigArguments::joining(&observer), &ensemble, 2)?)?;
    ensemble.wait_for_mode(index, "observer");
    write_some(&ensemble);
    wait_for_config(&ensemble, &apply(ReconfigArguments::joining(&member), &ensemble, 1)?)?;
    ensemble.wait_for_mode(index, "follower");
    write_some(&ensemble);
    ensemble.check_trees_equal();
    wait_for_config(&ensemble, &apply(ReconfigArguments::leaving("4"), &ensemble, index)?)?;
    write_some(&ensemble);
    let tree = ensemble.check_trees_equal();
    Ok(format!("{} nodes", tree.len()))
}

fn removes_leader(workspace: &Workspace, home: &Path, letters: &str) -> Result<String> {
    let mut ensemble = start(workspace, home, letters)?;
    let leader = ensemble.leader();
    let before = ensemble.config_of(leader);
    let line = before.lines().nth(leader).context("the configuration does not contain the leader")?.to_owned();
    let start = Instant::now();
    let text = apply(ReconfigArguments::leaving(&(leader + 1).to_string()), &ensemble, leader)?;
    ensemble.wait_for_mode(leader, "follower");
    let next = ensemble.leader();
    let duration = start.elapsed();
    ensure!(next != leader, "the removed leader still leads");
    wait_for_config(&ensemble, &text)?;
    write_some(&ensemble);
    ensemble.check_trees_equal();
    // The old leader joins again. Then a non-incremental reconfiguration sets the same members.
    let spec = format!("{line};{}", ensemble.addresses[leader]);
    let text = apply(ReconfigArguments::joining(&spec), &ensemble, next)?;
    wait_for_config(&ensemble, &text)?;
    let members = text.lines().filter(|line| !line.starts_with("version=")).collect::<Vec<_>>().join(",");
    let text = apply(ReconfigArguments::members(&members), &ensemble, leader)?;
    wait_for_config(&ensemble, &text)?;
    ensemble.kill(next);
    ensemble.start_members(&[next]);
    wait_for_config(&ensemble, &text)?;
    write_some(&ensemble);
    ensemble.check_trees_equal();
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
        .arg(ensemble.addresses[index].to_string())
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
    let before = ensemble.config_of(index);
    let text = match zkcli(workspace, home, ensemble, index, &[&["reconfig"], options].concat()) {
        Ok(output) => {
            let output = output.split_once(COMMITTED_MESSAGE).with_context(|| format!("{options:?}: {output}"))?.1;
            let is_member = |line: &&str| line.starts_with("server.") || line.starts_with("version=");
            output.lines().filter(is_member).collect::<Vec<_>>().join("\n")
        }
        // If the leader is removed, Apache's followers may close their connections before they send the reply.
        Err(e) if format!("{e:#}").contains("ConnectionLoss") => {
            wait_until("the configuration changes", || ensemble.config_of(index) != before);
            ensemble.config_of(index)
        }
        Err(e) => return Err(e),
    };
    wait_for_config(ensemble, &text).with_context(|| format!("{options:?}"))?;
    Ok(text)
}

/// Adds a server, removes the leader and sets all members by zkCli, which must print the new configuration.
fn reconfigures_by_zkcli(workspace: &Workspace, home: &Path, letters: &str, joiner: char) -> Result<String> {
    let mut ensemble = start(workspace, home, letters)?;
    let (index, address) = ensemble.add_server(joiner)?;
    ensemble.wait_for_mode(index, "follower");
    let leader = ensemble.leader();
    ensemble.wait_for_metric(leader, "synced_non_voting_followers", "1");
    let reconfigure =
        |ensemble: &MixedEnsemble, index, options: &[&str]| reconfigure(workspace, home, ensemble, index, options);
    let member = format!("server.4={address}:participant;{}", ensemble.addresses[index]);
    let text = reconfigure(&ensemble, 0, &["-add", &member])?;
    let shown = zkcli(workspace, home, &ensemble, 1, &["config"])?;
    ensure!(shown.contains(&text), "zkCli prints {shown} instead of {text}");
    write_some(&ensemble);
    // The leader is removed by a request to a follower. Then the remaining members are set by a file.
    let text = reconfigure(&ensemble, 0, &["-remove", &(leader + 1).to_string()])?;
    ensemble.wait_for_mode(leader, "follower");
    ensure!(ensemble.leader() != leader, "the removed leader still leads");
    write_some(&ensemble);
    let (members, version) = text.rsplit_once("version=").context("the configuration has no version")?;
    let file = home.join("members");
    std::fs::write(&file, members)?;
    let file = file.to_str().context("the path is not UTF-8")?;
    let refused = zkcli(workspace, home, &ensemble, index, &["reconfig", "-file", file, "-v", "7"]);
    ensure!(refused.is_err(), "a reconfiguration of the wrong version is accepted: {refused:?}");
    reconfigure(&ensemble, index, &["-file", file, "-v", version])?;
    write_some(&ensemble);
    Ok(format!("{} nodes", ensemble.check_trees_equal().len()))
}

/// Oxkeeper and Apache refuse invalid requests with the same error codes.
fn refuses_invalid_requests(workspace: &Workspace, home: &Path, letters: &str) -> Result<String> {
    let ensemble = start(workspace, home, letters)?;
    let none = ReconfigArguments::default();
    let members = ReconfigArguments::members;
    let cases = [
        (ReconfigArguments { version: Some(5), ..none }, -103),
        (ReconfigArguments::leaving("x"), -5),
        (ReconfigArguments::leaving("1,2"), -8),
        (ReconfigArguments::leaving("7"), 0),
        (ReconfigArguments::joining("server.4"), -8),
        (ReconfigArguments::joining("server.4=127.0.0.1:1:2"), -8),
        (ReconfigArguments::joining("server.4=127.0.0.1:1:1;3"), -8),
        (ReconfigArguments::joining("server.x=127.0.0.1:1:2;3"), -5),
        (ReconfigArguments::joining("server.1=10.0.0.1:1:2;3,server.4=10.0.0.1:1:5;6"), -8),
        (members(""), -8),
        (members("server.7=127.0.0.1:1:2;3,server.8=127.0.0.1:4:5;6"), -13),
        (members("server.7=127.0.0.1:1:2:observer;3"), -5),
        (members("server.7=127.0.0.1:1:2;3"), -8),
        (members("tickTime=7"), -8),
        (none, 0),
    ];
    for index in 0..3 {
        for (arguments, expected) in &cases {
            let (code, _) = send(*arguments, &ensemble, index);
            let shown = (arguments.joining, arguments.leaving, arguments.members);
            ensure!(code == *expected, "server {}: {shown:?}: error {code} instead of {expected}", index + 1);
        }
    }
    Ok(format!("{} replies", cases.len() * 3))
}

/// Each implementation starts with the dynamic files of the other.
fn migrates_dynamic_files(workspace: &Workspace, home: &Path, letters: &str) -> Result<String> {
    let mut ensemble = start(workspace, home, letters)?;
    let (index, address) = ensemble.add_server('o')?;
    let spec = format!("server.4={address}:participant;{}", ensemble.addresses[index]);
    let text = apply(ReconfigArguments::joining(&spec), &ensemble, 0)?;
    wait_for_config(&ensemble, &text)?;
    for (index, letter) in letters.chars().chain(['o']).enumerate() {
        ensemble.replace(index, if letter == 'o' { 'a' } else { 'o' })?;
        wait_for_config(&ensemble, &text)?;
    }
    write_some(&ensemble);
    let text = apply(ReconfigArguments::leaving("4"), &ensemble, 0)?;
    wait_for_config(&ensemble, &text)?;
    let tree = ensemble.check_trees_equal();
    Ok(format!("{} nodes", tree.len()))
}
