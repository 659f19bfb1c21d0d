//! `oxkeeper bench` on a server with default limits.

use crate::process::{self, Running};
use crate::tools::{CommandOutput, run_command};
use std::path::Path;
use std::process::Command;

fn start(directory: &Path) -> Running {
    std::fs::write(
        directory.join("zoo.cfg"),
        "dataDir=data\nclientPort=0\nclientPortAddress=127.0.0.1\nadmin.enableServer=false\n",
    )
    .unwrap();
    Running::wait(process::start(&["server", "zoo.cfg"], directory))
}

/// The address of the server from this machine.
fn address(running: &Running) -> String {
    format!("127.0.0.1:{}", running.address.port())
}

fn bench(directory: &Path, server: &str, options: &[&str]) -> CommandOutput {
    let fast = ["bench", "-s", server, "--time", "0.2", "--warm-up", "0", "--keys", "100"];
    run_command(directory, &[&fast, options].concat())
}

fn names(directory: &Path, server: &str) -> String {
    run_command(directory, &["cli", "-server", server, "ls", "/"]).out
}

#[test]
fn default_run_stays_below_the_connection_limit() {
    let directory = tempfile::tempdir().unwrap();
    let running = start(directory.path());
    let done = bench(directory.path(), &address(&running), &[]);
    assert_eq!(done.code, Some(0), "{}", done.err);
    assert_eq!(names(directory.path(), &address(&running)), "zookeeper\n");
    running.stop();
}

#[test]
fn run_above_the_connection_limit_names_it_and_cleans_up() {
    let directory = tempfile::tempdir().unwrap();
    let running = start(directory.path());
    for _ in 0..3 {
        let failed = bench(directory.path(), &address(&running), &["-c", "100"]);
        assert_eq!(failed.code, Some(1), "{}", failed.err);
        assert!(failed.err.contains(" closed a connection while opening a session\nhint: "), "{}", failed.err);
        assert!(failed.err.contains("maxClientCnxns") && failed.err.contains("-c 50"), "{}", failed.err);
        assert_eq!(names(directory.path(), &address(&running)), "zookeeper\n", "{}", failed.err);
    }
    let log = running.stop();
    assert!(!log.contains("Unable to read additional data"), "its sessions are closed: {log}");
}

#[test]
fn nodes_that_are_left_are_named_with_the_command_that_deletes_them() {
    let directory = tempfile::tempdir().unwrap();
    let running = start(directory.path());
    let server = address(&running);
    let load = ["bench", "-s", &server, "--time", "600", "--warm-up", "0", "--keys", "100", "--root", "/left"];
    let mut command = Command::new(env!("CARGO_BIN_EXE_oxkeeper"));
    let load = command.args(load).stderr(std::process::Stdio::piped()).spawn().unwrap();
    let shows_load = || process_count(directory.path(), &server);
    ox_testkit::wait_until("the load runs", || 50 <= shows_load());
    running.process.signal("KILL");
    let text = String::from_utf8(load.wait_with_output().unwrap().stderr).unwrap();
    let expected = format!(
        "warning: nodes below /left were left behind; `oxkeeper bench clean -s {server} --root /left` deletes them\n"
    );
    assert!(text.contains(&expected), "{text}");
    drop(running.process.end());
}

/// The connections of a server.
fn process_count(directory: &Path, server: &str) -> u64 {
    let reply = run_command(directory, &["4lw", "srvr", server]).out;
    let count = reply.lines().find_map(|line| line.strip_prefix("Connections: "));
    count.and_then(|count| count.parse().ok()).unwrap_or(0)
}

#[test]
fn server_comes_from_the_environment_or_a_profile() {
    let directory = tempfile::tempdir().unwrap();
    let running = start(directory.path());
    let profiles = directory.path().join("cli.conf");
    std::fs::write(&profiles, format!("[dev]\nserver = {}\n", address(&running))).unwrap();
    let clean = |options: &[&str], variables: &[(&str, &str)]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_oxkeeper"));
        command.args(["bench", "clean"]).args(options).env("OXKEEPER_CLI_CONFIG", &profiles);
        let output = command.envs(variables.iter().copied()).output().unwrap();
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap(), output.status.code())
    };
    let servers = format!("{},127.0.0.1:1", address(&running));
    let nothing = ("nothing to delete: /oxbench does not exist\n".to_owned(), String::new(), Some(0));
    assert_eq!(clean(&[], &[("OXKEEPER_SERVER", &servers)]), nothing);
    assert_eq!(clean(&[], &[("OXKEEPER_PROFILE", "dev")]), nothing);
    assert_eq!(clean(&["--profile", "dev"], &[("OXKEEPER_SERVER", "127.0.0.1:1")]), nothing);
    let (_, err, code) = clean(&[], &[("OXKEEPER_PROFILE", "nope")]);
    assert!(code == Some(1) && err.contains("has no profile nope"), "{err}");
    assert_eq!(bench(directory.path(), &address(&running), &["--keep"]).code, Some(0));
    assert_eq!(clean(&["--profile", "dev"], &[]).0, "deleted /oxbench\n");
    running.stop();
}

#[test]
fn missing_process_is_reported_with_its_cause_before_the_hint() {
    let directory = tempfile::tempdir().unwrap();
    let running = start(directory.path());
    let failed = bench(directory.path(), &address(&running), &["--pid", "4294967294"]);
    let expected = "error: cannot read the usage of process 4294967294: No such file or directory (os error 2)\n\
                    hint: is it still running?\n";
    assert!(failed.err.ends_with(expected), "{}", failed.err);
    running.stop();
}
