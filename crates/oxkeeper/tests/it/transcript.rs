//! A recorded session of Apache's `zkCli` 3.9.3 with an ensemble that is reconfigured, repeated with our shell and
//! servers: equal lines on the same streams.

use crate::process;
use ox_testkit::{Process, free_port};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

const RECORDED: &str = include_str!("../../../ox-shell/testdata/07-config-reconfig.txt");

/// Ports of a recorded server: quorum, election, clients. Ours have as many digits, so that lengths are equal.
const PORTS: [[&str; 3]; 4] = [
    ["21901", "21905", "21893"],
    ["21902", "21906", "21894"],
    ["21903", "21907", "21895"],
    ["21904", "21908", "21896"],
];

#[test]
fn config_and_reconfig_match_the_recorded_session() {
    let home = tempfile::tempdir().unwrap();
    let text = with_own_ports(RECORDED.split_once("\n\n").unwrap().1);
    let ensemble = text.split("> config\n").nth(1).unwrap();
    let members: String =
        ensemble.lines().take_while(|line| line.starts_with("server.")).map(|line| format!("{line}\n")).collect();
    let mut servers: Vec<Process> = Vec::new();
    // A removed server must not lead: the first two elect one of them before the others start.
    for ids in [[1, 2], [3, 4]] {
        let mut some: Vec<_> =
            ids.into_iter().map(|id| launch(&home.path().join(id.to_string()), id, &members)).collect();
        some.iter_mut().for_each(|server| drop(server.wait_for(" - broadcast")));
        servers.append(&mut some);
    }
    let (typed, wanted) = read(&text);
    let address = text.lines().next().unwrap().strip_prefix("Connecting to ").unwrap();
    let mut shell = Command::new(env!("CARGO_BIN_EXE_oxkeeper"))
        .args(["cli", "--zkcli", "-server", address])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    shell.stdin.take().unwrap().write_all(typed.as_bytes()).unwrap();
    let ended = shell.wait_with_output().unwrap();
    let found = [ended.stdout, ended.stderr].map(|stream| normal(&String::from_utf8(stream).unwrap()));
    assert_eq!(ended.status.code(), Some(0));
    for (wanted, found) in wanted.into_iter().zip(found) {
        assert_eq!(found.lines().collect::<Vec<_>>(), wanted.lines().collect::<Vec<_>>());
    }
}

fn with_own_ports(text: &str) -> String {
    let ports = PORTS.as_flattened().iter();
    ports.fold(text.to_owned(), |text, recorded| text.replace(recorded, &free_port().to_string()))
}

fn launch(directory: &Path, id: u32, members: &str) -> Process {
    std::fs::create_dir_all(directory.join("data")).unwrap();
    std::fs::write(directory.join("data/myid"), format!("{id}\n")).unwrap();
    let settings = "dataDir=data\nadmin.enableServer=false\ntickTime=2000\ninitLimit=30\nsyncLimit=30\n\
                    preAllocSize=1024\nreconfigEnabled=true\nskipACL=yes";
    std::fs::write(directory.join("zoo.cfg"), format!("{settings}\n{members}")).unwrap();
    process::start(&["server", "zoo.cfg"], directory)
}

/// The input, and the output on both streams.
fn read(text: &str) -> (String, [String; 2]) {
    let (mut typed, mut out, mut err) = (String::new(), String::new(), String::new());
    for line in text.lines().filter(|line| !line.starts_with("[exit code")) {
        let (stream, line) = match (line.strip_prefix("> "), line.strip_prefix("[stderr] ")) {
            (Some(line), _) => (&mut typed, line),
            (None, Some(line)) => (&mut err, line),
            (None, None) => (&mut out, line),
        };
        stream.push_str(line);
        stream.push('\n');
    }
    (typed, [normal(&out), normal(&err)])
}

/// The text without what always differs: zxids and times.
fn normal(text: &str) -> String {
    text.lines().map(|line| normal_line(line) + "\n").collect()
}

fn normal_line(line: &str) -> String {
    let labels = ["version=", "mZxid = ", "mtime = "];
    if let Some(label) = labels.iter().find(|label| line.starts_with(**label)) {
        return format!("{label}*");
    }
    match (line.split_once(" zxid: "), line.split_once(' ')) {
        (Some((event, zxid)), _) if zxid != "-1" => format!("{event} zxid: *"),
        // Compat: Apache prints the addresses of `config -c` in the order of a hash map.
        (None, Some((version, addresses))) if u64::from_str_radix(version, 16).is_ok() => {
            let mut addresses: Vec<_> = addresses.split(',').collect();
            addresses.sort_unstable();
            format!("* {}", addresses.join(","))
        }
        _ => line.to_owned(),
    }
}
