//! Apache's programs, run by their names from an installation as Apache's users have it, compared with the recordings.

use crate::tools::{CommandOutput, testdata};
use ox_testkit::{RawClient, free_port, wait_until};
use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// The client port of the recordings, in whose place a free port is used.
const RECORDED_PORT: &str = "21913";

/// `bin`, `conf` and `data`; a server that runs is stopped when this is dropped.
pub(crate) struct Installation {
    pub(crate) root: TempDir,
    port: u16,
}

impl Installation {
    /// With links from Apache's names to the binary, and with these additional settings.
    pub(crate) fn new(settings: &str) -> Self {
        let root = tempfile::tempdir().unwrap();
        let this = Self { root, port: free_port() };
        for directory in ["bin", "conf"] {
            fs::create_dir(this.path(directory)).unwrap();
        }
        symlink(env!("CARGO_BIN_EXE_oxkeeper"), this.path("bin/oxkeeper")).unwrap();
        for entry in fs::read_dir(scripts_dir()).unwrap() {
            let name = entry.unwrap().file_name();
            if name != "zkEnv.sh" {
                symlink("oxkeeper", this.path("bin").join(name)).unwrap();
            }
        }
        let (data, port) = (this.path("data").display().to_string(), this.port);
        let text = format!(
            "dataDir={data}\nclientPort={port}\nclientPortAddress=127.0.0.1\nadmin.enableServer=false\n{settings}"
        );
        fs::write(this.path("conf/zoo.cfg"), text).unwrap();
        this
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    fn address(&self) -> SocketAddr {
        ([127, 0, 0, 1], self.port).into()
    }

    /// A program by its path, with an environment of its own.
    pub(crate) fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.path("bin").join(program));
        command.args(arguments).stdin(Stdio::null()).current_dir(self.root.path()).env_clear();
        command.env("PATH", std::env::var_os("PATH").unwrap()).env("USER", "zookeeper");
        command
    }

    pub(crate) fn run(&self, program: &str, arguments: &[&str]) -> CommandOutput {
        output(self.command(program, arguments))
    }

    /// Runs a program and compares it with Apache's, except for the lines about JMX, which is not there.
    pub(crate) fn check(&self, recording: &str, program: &str, arguments: &[&str]) -> CommandOutput {
        let ran = self.run(program, arguments);
        let expected = recorded(recording, &format!("{program} {}", arguments.join(" ")), ran.code);
        assert_eq!(self.as_recorded(&ran.out), expected.out, "{program} {arguments:?}");
        let errors: String =
            expected.err.lines().filter(|line| !line.contains("JMX")).map(|l| l.to_owned() + "\n").collect();
        let said: String =
            self.as_recorded(&ran.err).lines().take(errors.lines().count()).map(|l| l.to_owned() + "\n").collect();
        assert_eq!(said, errors, "{program} {arguments:?}");
        ran
    }

    /// With the paths and the port of the recordings.
    fn as_recorded(&self, text: &str) -> String {
        let text = text.replace(&self.path("data").display().to_string(), "/data");
        let text = text.replace(&self.root.path().display().to_string(), "/opt/zookeeper");
        text.replace(&self.port.to_string(), RECORDED_PORT)
    }

    fn is_serving(&self) -> bool {
        self.run("zkServer.sh", &["status"]).code == Some(0)
    }
}

impl Drop for Installation {
    fn drop(&mut self) {
        if self.path("data/zookeeper_server.pid").exists() {
            self.run("zkServer.sh", &["stop"]);
        }
    }
}

fn scripts_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../ops/bin")
}

pub(crate) fn output(mut command: Command) -> CommandOutput {
    let ended = command.output().expect("the program runs");
    CommandOutput {
        code: ended.status.code(),
        out: String::from_utf8(ended.stdout).unwrap(),
        err: String::from_utf8(ended.stderr).unwrap(),
    }
}

/// What Apache's program printed, where it ended with this code.
pub(crate) fn recorded(file: &str, command: &str, code: Option<i32>) -> CommandOutput {
    let all = fs::read_to_string(testdata(file)).unwrap();
    let start = format!("$ {command}\n--- stdout\n");
    let ends = all.match_indices(&start).map(|(at, _)| {
        let (out, rest) = all[at + start.len()..].split_once("--- stderr\n").unwrap();
        let (err, rest) = rest.split_once("--- exit code ").unwrap();
        let code = rest.lines().next().and_then(|code| code.parse().ok());
        CommandOutput { code, out: out.to_owned(), err: err.to_owned() }
    });
    let found: Vec<CommandOutput> = ends.collect();
    let codes: Vec<_> = found.iter().map(|found| found.code).collect();
    let mut found = found.into_iter().filter(|found| found.code == code);
    found.next().unwrap_or_else(|| panic!("{command} ended with {code:?}, Apache with {codes:?}"))
}

#[test]
fn zk_server_starts_and_stops_as_recorded() {
    let installed = Installation::new("");
    let check = |arguments: &[&str]| installed.check("zkServer.txt", "zkServer.sh", arguments);
    check(&["status"]);
    check(&["start"]);
    let pid = fs::read_to_string(installed.path("data/zookeeper_server.pid")).unwrap();
    assert_eq!(pid.trim(), pid, "without a newline, as Apache writes it");
    wait_until("it serves", || installed.is_serving());
    assert!(check(&["status"]).out.ends_with("Mode: standalone\n"));
    let again = installed.run("zkServer.sh", &["start"]);
    assert_eq!(
        (again.code, again.out),
        (Some(1), format!("Starting zookeeper ... already running as process {pid}.\n"))
    );
    RawClient::open(installed.address(), 30_000).create("/kept", b"");
    check(&["restart"]);
    assert_ne!(fs::read_to_string(installed.path("data/zookeeper_server.pid")).unwrap(), pid);
    wait_until("it serves", || installed.is_serving());
    assert_eq!(RawClient::open(installed.address(), 30_000).exists("/kept").err, 0);
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let out = installed.path(&format!("logs/zookeeper-zookeeper-server-{}.out", host.trim()));
    assert!(fs::read_to_string(&out).unwrap().contains("- INFO  [main:"), "Apache's layout in {}", out.display());
    assert_eq!(check(&["stop"]).out, "Stopping zookeeper ... STOPPED\n");
    let again = installed.run("zkServer.sh", &["stop"]);
    let missing = "Stopping zookeeper ... no zookeeper to stop (could not find file /data/zookeeper_server.pid)\n";
    assert_eq!((again.code, installed.as_recorded(&again.out).as_str()), (Some(0), missing));
    wait_until("it has stopped", || !installed.is_serving());
}

#[test]
fn zk_server_explains_itself_as_recorded() {
    let installed = Installation::new("");
    installed.check("zkServer.txt", "zkServer.sh", &[]);
    installed.check("zkServer.txt", "zkServer.sh", &["bogus"]);
    let conf = installed.path("conf");
    let status = installed.run("zkServer.sh", &["--config", conf.to_str().unwrap(), "status"]);
    assert_eq!(status.code, Some(1));
    assert!(status.out.ends_with("Error contacting service. It is probably not running.\n"), "{}", status.out);
    let version = installed.run("zkServer.sh", &["version"]);
    assert!(version.out.starts_with("Apache ZooKeeper, version 3.9.3-oxkeeper-"), "{}", version.out);
    let printed = installed.run("zkServer.sh", &["print-cmd"]).out;
    assert!(printed.contains("\"-Dzookeeper.log.dir=") && printed.contains("zoo.cfg\" > \""), "{printed}");
    assert!(printed.ends_with(".out\" 2>&1 < /dev/null\n") && printed.lines().count() == 1, "{printed}");
}

#[test]
fn server_without_its_data_directory_is_refused_as_recorded() {
    let installed = Installation::new("");
    let mut command = installed.command("zkServer.sh", &["start"]);
    command.env("ZOO_DATADIR_AUTOCREATE_DISABLE", "1");
    let ran = output(command);
    let expected = recorded("zkServer-initialize.txt", "zkServer.sh start", Some(1));
    assert_eq!((ran.code, installed.as_recorded(&ran.out)), (Some(1), expected.out));
}

#[test]
fn server_that_cannot_start_is_reported_with_its_cause() {
    let installed = Installation::new("tickTime=fast\n");
    let ran = installed.run("zkServer.sh", &["start"]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(1), "Starting zookeeper ... FAILED TO START\n"));
    assert!(ran.err.contains("tickTime"), "{}", ran.err);
    assert!(!installed.path("data/zookeeper_server.pid").exists());
    let foreground = installed.run("zkServer.sh", &["start-foreground"]);
    assert_eq!(foreground.code, Some(2), "{}", foreground.err);
    assert!(foreground.out.contains("tickTime"), "the log is on stdout: {}", foreground.out);
}

#[test]
fn process_of_another_program_is_not_stopped() {
    let installed = Installation::new("");
    let mut other = Command::new("sleep").arg("600").spawn().unwrap();
    fs::create_dir(installed.path("data")).unwrap();
    fs::write(installed.path("data/zookeeper_server.pid"), other.id().to_string()).unwrap();
    let ran = installed.run("zkServer.sh", &["stop"]);
    assert_eq!(ran.code, Some(0));
    assert!(ran.err.contains("is not a ZooKeeper server"), "{}", ran.err);
    assert!(other.try_wait().unwrap().is_none(), "it runs on");
    other.kill().and_then(|()| other.wait()).unwrap();
}

#[test]
fn foreground_server_becomes_the_process_and_reads_java_env() {
    let installed = Installation::new("");
    let file = "export SERVER_JVMFLAGS=\"-Xmx1g -Dzookeeper.log.file=zk.log $SERVER_JVMFLAGS\"\n";
    fs::write(installed.path("conf/java.env"), file).unwrap();
    fs::write(installed.path("conf/zookeeper-env.sh"), "ZOO_LOG_DIR=\"${ZOO_LOG_DIR:-logs of mine}\"\n").unwrap();
    let mut child = installed.command("zkServer.sh", &["start-foreground"]).stdout(Stdio::null()).spawn().unwrap();
    wait_until("it serves", || installed.is_serving());
    let command_line = fs::read_to_string(format!("/proc/{}/cmdline", child.id())).unwrap();
    assert!(command_line.contains("conf/zoo.cfg"), "scripts look for the configuration: {command_line}");
    let log = fs::read_to_string(installed.path("logs of mine/zk.log")).unwrap();
    assert!(log.contains("oxkeeper starts") && log.contains("- INFO  [main:"), "{log}");
    Command::new("kill").arg(child.id().to_string()).status().unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn environment_that_needs_a_shell_is_refused_by_the_binary_and_read_by_the_script() {
    let installed = Installation::new("");
    fs::write(installed.path("conf/java.env"), "if true; then ZOO_LOG_FILE=shell.log; fi\n").unwrap();
    let refused = installed.run("zkServer.sh", &["print-cmd"]);
    assert_eq!(refused.code, Some(1));
    assert!(refused.err.contains("java.env, line 1: `if..` needs a shell\nhint: "), "{}", refused.err);
    for entry in fs::read_dir(scripts_dir()).unwrap() {
        let entry = entry.unwrap();
        let target = installed.path("bin").join(entry.file_name());
        let _ = fs::remove_file(&target);
        fs::copy(entry.path(), &target).unwrap();
    }
    let ran = installed.run("zkServer.sh", &["print-cmd"]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert!(ran.out.contains("-Dzookeeper.log.file=shell.log"), "{}", ran.out);
    installed.check("zkServer.txt", "zkServer.sh", &["status"]);
}
