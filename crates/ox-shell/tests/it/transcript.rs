//! Replays recorded sessions of Apache's `zkCli` 3.9.3 and compares both output streams.
//!
//! Zxids, times and session ids are excluded from the comparison; intended differences are listed.

use crate::capture::{Session, Written};
use ox_server::{Server, TestServer};
use ox_shell::commands::COMMANDS;

/// A command line and its recorded output.
struct Step {
    typed: String,
    written: Written,
}

fn read(text: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with("[exit code")) {
        if let Some(typed) = line.strip_prefix("> ") {
            steps.push(Step { typed: typed.to_owned(), written: Written::default() });
        } else if let Some(step) = steps.last_mut() {
            let (stream, line) = match line.strip_prefix("[stderr] ") {
                Some(line) => (&mut step.written.err, line),
                None => (&mut step.written.out, line),
            };
            stream.push_str(line);
            stream.push('\n');
        }
    }
    steps
}

/// Replaces values that differ between runs.
fn normal(text: &str) -> String {
    let ours = |line: &&str| {
        let name = line.strip_prefix('\t').and_then(|rest| rest.split(' ').next());
        !name.is_some_and(|name| COMMANDS.iter().any(|command| command.name == name && !command.is_zkcli))
    };
    text.lines().filter(ours).map(|line| normal_line(line) + "\n").collect()
}

fn normal_line(line: &str) -> String {
    let labels = ["cZxid = ", "ctime = ", "mZxid = ", "mtime = ", "pZxid = ", "ZooKeeper CLI version: "];
    if let Some(label) = labels.iter().find(|label| line.starts_with(**label)) {
        return format!("{label}*");
    }
    if line.starts_with("ephemeralOwner = 0x") && !line.ends_with("= 0x0") {
        return "ephemeralOwner = *".to_owned();
    }
    match line.split_once(" zxid: ") {
        Some((event, zxid)) if zxid != "-1" => format!("{event} zxid: *"),
        _ => line.to_owned(),
    }
}

/// Replays a transcript. `known` lists lines that may differ, with the reason.
fn check(session: &mut Session, text: &str, known: &[(&str, &str)]) {
    let mut differences = Vec::new();
    for Step { typed, written } in read(text) {
        let here = session.run(&typed);
        let (wanted, found) = ((normal(&written.out), normal(&written.err)), (normal(&here.out), normal(&here.err)));
        if wanted != found && !known.iter().any(|(line, _)| *line == typed) {
            differences.push(format!("> {typed}\nwanted {wanted:?}\nfound  {found:?}"));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

fn server() -> TestServer {
    TestServer::start(|config| (config.enforce_quota, config.extended_types) = (true, true)).unwrap()
}

#[test]
fn data_commands_match_zkcli() {
    let server = server();
    let known = [("help", "a command of ours, not an unknown one")];
    check(&mut Session::with(&server), include_str!("../../testdata/01-basic.txt"), &known);
}

#[test]
fn errors_and_usage_match_zkcli() {
    let server = server();
    check(&mut Session::with(&server), include_str!("../../testdata/02-errors.txt"), &[]);
}

#[test]
fn acls_and_identities_match_zkcli() {
    let server = server();
    let known = [("whoami", "the server names identities in any order")];
    check(&mut Session::with(&server), include_str!("../../testdata/03-acl-auth.txt"), &known);
}

#[test]
fn quotas_match_zkcli() {
    let server = server();
    check(&mut Session::with(&server), include_str!("../../testdata/04-quota.txt"), &[]);
}

#[test]
fn watches_match_zkcli() {
    let server = server();
    check(&mut Session::with(&server), include_str!("../../testdata/05-watches.txt"), &[]);
}

#[test]
fn history_and_connections_match_zkcli() {
    let (server, other) = (server(), Server::ephemeral().unwrap());
    Session::with(&server).ok("create /e x");
    Session::with(&other).ok("create /app x");
    let text = include_str!("../../testdata/06-history-connect.txt");
    // The recorded port is replaced by that of the test server.
    let text = text.replace("127.0.0.1:21893", &other.address().to_string());
    let text = text.replace("127.0.0.1:21890", &server.address().to_string());
    // Compat: zkCli prints `Not connected` after the history.
    let text = text.replace("12 - history\nNot connected\n", "12 - history\n");
    check(&mut Session::with(&server), &text, &[]);
}

#[test]
fn addauth_without_credentials_matches_zkcli() {
    let server = server();
    check(&mut Session::with(&server), include_str!("../../testdata/08-addauth-without-data.txt"), &[]);
}

#[test]
fn bad_redo_number_ends_the_script() {
    let server = server();
    let mut session = Session::with(&server);
    session.ok("create /e x");
    let steps = read(include_str!("../../testdata/09-redo-bad-number.txt"));
    assert_eq!(session.run(&steps[0].typed), steps[0].written);
    let done = session.runtime.block_on(session.shell.run_line(&steps[1].typed));
    assert!(matches!(done, Err(ox_shell::command_error::CommandError::Fatal(_))));
    assert_eq!(session.shell.status(), 1);
}
