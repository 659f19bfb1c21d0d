//! What a user sees first: on a terminal, in a log, and when a start fails.

use crate::process::{self, Running, Site};
use crate::terminal::{Terminal, without_colours};
use ox_testkit::free_port;
use std::path::Path;
use std::process::Command;

/// Columns of a usual terminal.
const WIDTH: usize = 80;

/// The lines without the warning that tests of the user root see.
fn without_root(mut lines: Vec<String>) -> Vec<String> {
    lines.retain(|line| !line.contains("the server runs as root"));
    lines
}

#[test]
fn terminal_shows_at_most_ten_lines_and_colours() {
    let directory = tempfile::tempdir().unwrap();
    let [port, admin] = [free_port(), free_port()];
    let line = format!("server {port} data -Dzookeeper.admin.serverPort={admin}");
    let mut terminal = Terminal::start(directory.path(), WIDTH, &line);
    let lines = without_root(terminal.lines_until("ready in "));
    assert!(lines[0].contains("\x1b[1m"), "{lines:#?}");
    let lines: Vec<String> = lines.iter().map(|line| without_colours(line)).collect();
    let version = env!("CARGO_PKG_VERSION");
    let expected = [
        format!("Oxkeeper {version} standalone server"),
        format!("  clients  127.0.0.1:{port}"),
        format!("  admin    127.0.0.1:{admin}, /commands"),
        "  data     data: 5 nodes, zxid 0x0".to_owned(),
        format!("  try      oxkeeper cli -s 127.0.0.1:{port}"),
        format!("           oxkeeper status 127.0.0.1:{port}"),
        "  stop     Ctrl-C".to_owned(),
    ];
    assert_eq!(lines[..lines.len() - 1], expected, "{lines:#?}");
    let ready = lines.last().unwrap();
    assert!(ready.starts_with("  ready in ") && ready.ends_with(" ms"), "{ready}");
}

/// Ports on every interface are visible at once, although no line of the configuration opens the first one's interface.
#[test]
fn terminal_shows_admin_server_and_metrics_with_their_interfaces() {
    let directory = tempfile::tempdir().unwrap();
    let [admin, metrics] = [free_port(), free_port()];
    let config = format!(
        "dataDir=d\nclientPort=0\nclientPortAddress=127.0.0.1\nadmin.serverPort={admin}\n\
         metricsProvider.className=org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider\n\
         metricsProvider.httpHost=127.0.0.1\nmetricsProvider.httpPort={metrics}\n"
    );
    std::fs::write(directory.path().join("zoo.cfg"), config).unwrap();
    let mut terminal = Terminal::start(directory.path(), WIDTH * 2, "server zoo.cfg");
    let lines = terminal.lines_until("ready in ");
    let lines: Vec<String> = lines.iter().map(|line| without_colours(line).replace("[::]", "0.0.0.0")).collect();
    for expected in [
        format!("  admin    0.0.0.0:{admin} (every interface), /commands"),
        format!("  metrics  127.0.0.1:{metrics}, /metrics"),
    ] {
        assert!(lines.contains(&expected), "{expected}: {lines:#?}");
    }
}

/// A second start in the same directory gets a command that works.
#[test]
fn second_server_is_sent_to_another_directory() {
    let directory = tempfile::tempdir().unwrap();
    let disabled = "-Dzookeeper.admin.enableServer=false";
    let running = Running::wait(process::start(&["server", "0", "d", disabled], directory.path()));
    let port = running.address.port();
    let [_, last] = first_and_last(&["server", &port.to_string(), "d", disabled], directory.path(), 1);
    let next = port.checked_add(1).unwrap_or(2182);
    let remedy = format!(
        "use another port and another directory, because d is in use as well: `oxkeeper server {next} d-{next}`"
    );
    assert!(last.contains(&remedy), "{last}");
    running.stop();
}

/// A member shows the same lines first, whatever its election logs meanwhile.
#[test]
fn terminal_shows_a_member_before_its_election() {
    let directory = tempfile::tempdir().unwrap();
    let [client, quorum, election] = [free_port(), free_port(), free_port()];
    let others = "server.2=127.0.0.1:1:2\nserver.3=127.0.0.2:1:2\n";
    let config = format!(
        "dataDir={}\nadmin.enableServer=false\nclientPort={client}\ninitLimit=5\nsyncLimit=5\nserver.1=127.0.0.1:{quorum}:{election}\n{others}",
        directory.path().join("data").display()
    );
    std::fs::create_dir(directory.path().join("data")).unwrap();
    std::fs::write(directory.path().join("data/myid"), "1").unwrap();
    std::fs::write(directory.path().join("zoo.cfg"), config).unwrap();
    let mut terminal = Terminal::start(directory.path(), WIDTH * 2, "server zoo.cfg");
    let lines = without_root(terminal.lines_until("started in "));
    let lines: Vec<String> = lines.iter().map(|line| without_colours(line)).collect();
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(lines[0], format!("Oxkeeper {version} server 1 of an ensemble of 3, participant"));
    assert!(lines.len() <= 10, "{lines:#?}");
    assert!(lines.last().unwrap().ends_with(" ms, needs 1 more voter"), "{lines:#?}");
    let failure = without_colours(terminal.lines_until("retry_in_ms").last().unwrap());
    for text in ["Cannot open channel to ", " at election address 127.0.0.", "refused", " retry_in_ms="] {
        assert!(failure.contains(text), "{text}: {failure}");
    }
}

#[test]
fn log_of_a_start_has_no_environment_but_says_ready() {
    let directory = tempfile::tempdir().unwrap();
    let site = Site::new(directory.path(), "");
    let mut running = site.start();
    let ready = running.process.wait_for("ready");
    for field in ["mode=\"standalone\"", "nodes=5", "zxid=0x0", "took_ms=", &format!("address={}", running.address)] {
        assert!(ready.contains(field), "{field}: {ready}");
    }
    let said = running.stop();
    for text in ["Server environment", "tickTime set to", "java."] {
        assert!(!said.contains(text), "{said}");
    }
    for text in ["Reading configuration from: zoo.cfg", "Snapshot loaded in", "Created server with tickTime 2000 ms"] {
        assert!(said.contains(text), "{said}");
    }
    assert!(said.lines().count() < 16, "{said}");
}

#[test]
fn debug_log_and_the_layout_of_zookeeper_contain_environment_and_settings() {
    let directory = tempfile::tempdir().unwrap();
    for flags in [["--log", "debug"], ["--log-format", "zookeeper"]] {
        let mut site = Site::new(directory.path(), "");
        site.flags = flags.map(str::to_owned).into();
        let said = site.start().stop();
        for text in ["Server environment:os.name=", "tickTime set to 2000", "minSessionTimeout set to 4000"] {
            assert!(said.contains(text), "{flags:?} {text}: {said}");
        }
        assert!(!said.contains("=<NA>"), "{said}");
    }
}

/// `2026-11-15 06:29:59,413 [myid:] - INFO  [main:startup_banner@152] - message`
#[test]
fn zookeeper_layout_has_date_id_level_and_origin() {
    let directory = tempfile::tempdir().unwrap();
    let mut site = Site::new(directory.path(), "");
    site.flags = vec!["--log-format".to_owned(), "zookeeper".to_owned()];
    let said = site.start().stop();
    for line in said.lines() {
        let shape: String = line.chars().take(23).map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
        assert_eq!(shape, "0000-00-00 00:00:00,000", "{line}");
        let rest = line[23..].strip_prefix(" [myid:] - ").unwrap_or_else(|| panic!("{line}"));
        assert!(["INFO  [", "WARN  ["].iter().any(|level| rest.starts_with(level)), "{line}");
        let origin = &rest[7..rest.find("] - ").unwrap()];
        let (thread, place) = origin.rsplit_once(':').unwrap();
        let (component, number) = place.split_once('@').unwrap();
        assert!(!thread.is_empty() && !component.is_empty() && number.parse::<u32>().is_ok(), "{line}");
    }
}

/// First and last line of a failed start, without time, level and origin.
fn first_and_last(arguments: &[&str], directory: &Path, code: i32) -> [String; 2] {
    let ended = process::start(arguments, directory).end();
    assert_eq!(ended.status.code(), Some(code), "{}", ended.said);
    let message =
        |line: &str| line.split_once("ERROR oxkeeper: ").unwrap_or_else(|| panic!("{}", ended.said)).1.to_owned();
    let lines: Vec<&str> = ended.said.lines().collect();
    [message(lines[0]), message(lines[lines.len() - 1])]
}

#[test]
fn failed_starts_say_what_why_and_what_to_do() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let check = |config: &str, code: i32, expected: [&str; 2]| {
        std::fs::write(path.join("zoo.cfg"), config).unwrap();
        assert_eq!(first_and_last(&["server", "zoo.cfg"], path, code), expected);
    };
    let members = "initLimit=5\nsyncLimit=5\nserver.1=a:1:2\nserver.2=b:1:2\nserver.3=c:1:2\n";
    let missing = format!(
        "zoo.cfg: myid is missing: write 1, 2 or 3 into ./data/myid; dataDir ./data does not exist: correct it, or create \
         it first; ./data/myid is {}: it is relative to the working directory of the server",
        path.canonicalize().unwrap().join("data/myid").display()
    );
    check(&format!("dataDir=./data\n{members}"), 2, [&format!("{missing} exit_code=2"); 2]);
    let port = "zoo.cfg:2: clientPort: port 99999 is out of range; expected 0 to 65535";
    check(&format!("dataDir=./data\nclientPort=99999\n{members}"), 2, [port, &format!("{missing} exit_code=2")]);
    let unset = "zoo.cfg: dataDir is not set; add a line such as dataDir=/var/lib/zookeeper";
    check("datadir=./data\nclientPort=0\n", 2, [unset, &format!("{unset} exit_code=2")]);
    std::fs::write(path.join("file"), "").unwrap();
    let ended = first_and_last(&["server", "0", "file"], path, 3);
    assert!(ended[0].starts_with("cannot use file/version-2: Not a directory"), "{ended:?}");
    assert!(ended[0].contains("; choose another directory: a part of this path is a file"), "{ended:?}");
    let ended = first_and_last(&["server", "missing.cfg"], path, 2);
    let text = "missing.cfg does not exist; give the path of a configuration file";
    assert_eq!(ended, [format!("{text} exit_code=2"), format!("{text} exit_code=2")]);
    let ended = first_and_last(&["server", "2182"], path, 2);
    let text = "2182 is a port, and the data directory is missing; use `oxkeeper server 2182 ./oxkeeper-data-2182`";
    assert_eq!(ended, [format!("{text} exit_code=2"), format!("{text} exit_code=2")]);
    let ended = first_and_last(&["server", "."], path, 2);
    assert_eq!(ended, ["cannot read .: it is a directory; expected a file exit_code=2"; 2]);
}

#[test]
fn port_in_use_names_the_process() {
    let directory = tempfile::tempdir().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let config = format!("dataDir=d\nadmin.enableServer=false\nclientPortAddress=127.0.0.1\nclientPort={port}\n");
    std::fs::write(directory.path().join("zoo.cfg"), config).unwrap();
    let [first, last] = first_and_last(&["server", "zoo.cfg"], directory.path(), 1);
    let process = format!("port {port} is in use by pid {} (", std::process::id());
    assert!(first.starts_with(&process), "{first}");
    assert!(last.starts_with(&process) && last.contains("): stop that process, or change clientPort"), "{last}");
    let [_, last] = first_and_last(&["server", &port.to_string(), "d"], directory.path(), 1);
    let remedy = format!("use another port: `oxkeeper server {} d`", port.saturating_add(1));
    assert!(last.contains(&remedy), "{last}");
    let mut terminal = Terminal::start(directory.path(), WIDTH, "server zoo.cfg");
    let lines: Vec<String> = terminal.lines_until("no such line").iter().map(|line| without_colours(line)).collect();
    assert!(lines.first().unwrap().starts_with(&format!("error: {process}")), "{lines:#?}");
    assert!(lines.last().unwrap().starts_with(&format!("error: {process}")), "{lines:#?}");
}

/// Nothing else is logged before, although Apache's number of attempts takes longer than lines are held back.
#[test]
fn election_port_in_use_names_the_process() {
    let directory = tempfile::tempdir().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let members = format!("server.1=127.0.0.1:1:{port}\nserver.2=127.0.0.1:1:2\nserver.3=127.0.0.1:1:2\n");
    let config = format!("dataDir=./d\nclientPort=0\ninitLimit=5\nsyncLimit=5\n{members}");
    std::fs::write(directory.path().join("zoo.cfg"), config).unwrap();
    std::fs::create_dir(directory.path().join("d")).unwrap();
    std::fs::write(directory.path().join("d/myid"), "1").unwrap();
    let ended = process::start(&["server", "zoo.cfg"], directory.path()).end();
    assert_eq!(ended.status.code(), Some(1), "{}", ended.said);
    let last = ended.said.lines().last().unwrap();
    let process = format!("port {port} is in use by pid {} (", std::process::id());
    assert!(last.contains(&process) && last.contains("or change the server.N line of this server"), "{last}");
    let retries: Vec<&str> = ended.said.lines().filter(|line| line.contains("cannot bind")).collect();
    assert!(
        !retries.is_empty() && retries.iter().all(|line| line.contains(&format!("127.0.0.1:{port}"))),
        "{retries:#?}"
    );
    assert!(!ended.said.contains("Created server") && !ended.said.contains("Snapshot loaded"), "{}", ended.said);
}

#[test]
fn version_contains_commit_date_and_target() {
    let output = Command::new(env!("CARGO_BIN_EXE_oxkeeper")).arg("--version").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let start = format!("oxkeeper {} (commit ", env!("CARGO_PKG_VERSION"));
    let rest = text.strip_prefix(&start).unwrap_or_else(|| panic!("{text}"));
    let fields: Vec<&str> = rest.split(", ").collect();
    let is_date = fields[1] == "unknown" || fields[1].len() == "2026-11-15 06:29 UTC".len();
    assert!(!fields[0].is_empty() && is_date && fields[2].contains(std::env::consts::ARCH), "{text}");
    assert_eq!(fields[3], "compatible with ZooKeeper 3.9.3)\n");
}

/// A server that has just started is not reported as ready before it accepts connections.
#[test]
fn ready_server_accepts_connections() {
    let directory = tempfile::tempdir().unwrap();
    let mut running: Running = Site::new(directory.path(), "").start();
    running.process.wait_for("ready");
    running.client().create("/a", b"");
    running.stop();
}
