//! Invocations without a terminal, recorded with `zkCli` 3.9.3 and repeated here: standard output, standard error, exit
//! code.

use crate::capture::{Session, UnusedPort, streams};
use ox_server::{Server, TestServer};
use ox_shell::{Invocation, script};
use std::io::Cursor;

#[derive(Debug, Default)]
struct Call {
    title: String,
    words: Vec<String>,
    input: String,
    out: String,
    err: String,
    status: u8,
}

fn read(text: &str) -> Vec<Call> {
    let mut calls: Vec<Call> = Vec::new();
    let mut part = "";
    for line in text.lines() {
        if let Some(title) = line.strip_prefix("### ") {
            calls.push(Call { title: title.to_owned(), ..Call::default() });
            continue;
        }
        let Some(call) = calls.last_mut() else { continue };
        if let Some(typed) = line.strip_prefix("$ zkCli") {
            let (words, input) = typed.split_once("(stdin: '").unwrap_or((typed, ""));
            call.words = words.split_whitespace().map(str::to_owned).collect();
            call.input = input.trim_end_matches("')").replace("\\n", "\n");
        } else if let Some(rest) = line.strip_prefix("--- exit code ") {
            call.status = rest.split(',').next().unwrap().parse().unwrap();
            part = "";
        } else if let Some(name) = line.strip_prefix("--- ") {
            part = if name == "stdout" { "out" } else { "err" };
        } else if !part.is_empty() {
            let stream = if part == "out" { &mut call.out } else { &mut call.err };
            stream.push_str(line);
            stream.push('\n');
        }
    }
    calls
}

/// Runs an invocation; returns both streams and the exit code.
pub(crate) fn run(words: &[String], input: &str) -> (String, String, u8) {
    let (output, out, err) = streams();
    let invocation = match Invocation::parse(words.iter().cloned()) {
        Ok(invocation) => invocation,
        Err((text, status)) => return (String::new(), text + "\n", status),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let status = runtime.block_on(script::run(invocation, output, Cursor::new(input.to_owned().into_bytes())));
    (out.take(), err.take(), status)
}

/// Runs a single command on a server.
pub(crate) fn call(server: &TestServer, line: &str) -> (String, String, u8) {
    let words = ["-server".to_owned(), server.address().to_string()];
    let words: Vec<_> = words.into_iter().chain(line.split(' ').map(str::to_owned)).collect();
    run(&words, "")
}

#[test]
fn invocations_match_zkcli() {
    let server = Server::ephemeral().unwrap();
    Session::with(&server).ok("create /e x");
    let nobody = UnusedPort::new();
    let text = include_str!("../../testdata/10-non-interactive.txt");
    let text = text.replace("127.0.0.1:21890", &server.address().to_string());
    let text = text.replace("127.0.0.1:21919", &nobody.address());
    // For these, `zkCli` prints a Java exception; this shell prints a message.
    let own_texts =
        ["wait for the connection, no listener, 3 s", "timeout not a number", "client configuration file missing"];
    // These need a server on the default port, or another line editor.
    let others = ["option without value", "line editor present, stdin not a terminal"];
    let mut differences = Vec::new();
    for call in read(&text).into_iter().filter(|call| !others.contains(&call.title.as_str())) {
        let mut words = call.words.clone();
        words.insert(0, "--zkcli".to_owned());
        if let Some(at) = words.iter().position(|word| word == "y") {
            words.splice(at - 1..=at, ["x y".to_owned()]); // the recording omits its quotes
        }
        let (out, err, status) = run(&words, &call.input);
        let usage = |line: &&str| !line.starts_with('\t') || call.err.contains(*line);
        let err: String = err.lines().filter(usage).map(|line| format!("{line}\n")).collect();
        let is_same = match own_texts.contains(&call.title.as_str()) {
            true => status == call.status && !err.is_empty(),
            // Compat: for an invocation without a server, it is random whether an event precedes the end.
            false => (err == call.err && status == call.status) && (out == call.out || out.starts_with(&call.out)),
        };
        if !is_same {
            differences.push(format!("{}\nwanted {call:?}\nfound {:?}", call.title, (out, err, status)));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n\n"));
}

#[test]
fn exit_code_is_that_of_the_last_command() {
    let server = Server::ephemeral().unwrap();
    let words = ["--zkcli".to_owned(), "-server".to_owned(), server.address().to_string()];
    for (input, status) in [
        ("ls /\n", 0),
        ("get /missing\n", 1),
        ("get /missing\nls /\n", 0),
        ("nonsense\n", 127),
        ("get /missing\nquit\n", 1),
        ("get /missing\nexit\nls /\n", 1),
        ("get /missing\nclose\nls /\n", 0),
        ("\n   \r\nls /\r\n", 0),
        ("set -v x / y\nls /\n", 1),
        ("", 0),
    ] {
        assert_eq!(run(&words, input).2, status, "{input:?}");
    }
}

#[test]
fn json_output_contains_json_only() {
    let server = Server::ephemeral().unwrap();
    Session::with(&server).ok("create /a hello");
    assert_eq!(
        call(&server, "--json ls /"),
        ("{\"path\":\"/\",\"children\":[\"a\",\"zookeeper\"]}\n".into(), String::new(), 0)
    );
    assert_eq!(call(&server, "--json get /a"), ("{\"path\":\"/a\",\"data\":\"hello\"}\n".into(), String::new(), 0));
    assert_eq!(call(&server, "--json create -s /n-").0, "{\"path\":\"/n-0000000001\"}\n");
    for line in [
        "version",
        "stat /a",
        "getAcl -s /a",
        "listquota /a",
        "getEphemerals",
        "whoami",
        "config -s",
        "ls -R /",
        "get -s /a",
        "history",
    ] {
        let (out, err, status) = call(&server, &format!("--json {line}"));
        assert!(status == 0 && err.is_empty(), "{line}: {err}");
        assert!(serde_json::from_str::<serde_json::Value>(&out).is_ok(), "{line}: {out}");
    }
}

#[test]
fn odd_input_does_not_end_the_shell() {
    let server = Server::ephemeral().unwrap();
    let mut session = Session::with(&server);
    let lines = [
        "\"",
        "'",
        "\" \"",
        "-",
        "--",
        "ls -",
        "ls --",
        "ls -- -R",
        "ls \"\"",
        "get ''",
        "create -t",
        "create /\u{1}",
        "create /a/../b",
        "create /\u{10348} x",
        "create /ä ö",
        "set",
        "set -v",
        "set / -b x",
        "reconfig -v zz -add 1",
        "removewatches / -c -d -p -r -a -l",
        "setquota -n 1 -n 2 /ä",
        "delquota -n -b /ä",
        "history -x",
        "redo -1",
        "cd",
        "cd ..",
        "cd nowhere",
        "pwd x",
        "help nonsense",
        "help help",
        "addWatch -m / /",
        "deleteall -b -1 /ä",
        "connect :",
        "printwatches maybe",
        "getEphemerals x y z",
        "setAcl / :::",
        "setAcl / ,",
        "create /c x a:b:c,,",
    ];
    for line in lines {
        session.run(line);
    }
    session.run(&"x".repeat(1 << 20));
    session.run(&format!("create /big {}", "x".repeat(2 << 20)));
}
