//! A server process and its log lines.

use ox_testkit::RawClient;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// Longer than any start or stop takes; a test that waits this long has failed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Long enough for tests in which no session expires.
pub(crate) const TIMEOUT_MS: i32 = 30_000;

/// The log line of a server that accepts connections.
pub(crate) const LISTENS: &str = "binding to port ";

/// A process that is killed at the end of the test.
pub(crate) struct Process {
    child: Child,
    lines: Receiver<String>,
    pub(crate) said: Vec<String>,
}

/// CPU time that a process or thread has used.
fn cpu(of: &str) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{of}/stat")).expect("it runs");
    let fields: Vec<&str> = stat.rsplit_once(") ").expect("the name is in parentheses").1.split(' ').collect();
    let ticks: u64 = fields[11..13].iter().map(|ticks| ticks.parse::<u64>().expect("a number")).sum();
    Duration::from_millis(ticks * 10)
}

/// Exit status of a process, and its whole output.
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    pub(crate) said: String,
}

fn spawn(mut command: Command, stderr: Stdio) -> Child {
    for variable in ["SERVER_JVMFLAGS", "JVMFLAGS", "OXKEEPER_LOG", "OXKEEPER_LOG_FORMAT"] {
        command.env_remove(variable);
    }
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr).spawn().expect("the binary runs")
}

impl Process {
    /// Starts `oxkeeper` with these arguments.
    pub(crate) fn start(arguments: &[&str], directory: &Path) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_oxkeeper"));
        command.args(arguments).current_dir(directory);
        Self::run(command)
    }

    /// Starts a command that executes the server.
    pub(crate) fn run(command: Command) -> Self {
        Self::run_until(command, "\n") // no line contains a line feed
    }

    /// Starts a command with stderr redirected.
    pub(crate) fn run_with_stderr(command: Command, stderr: Stdio) -> Self {
        Self { child: spawn(command, stderr), lines: channel().1, said: Vec::new() }
    }

    /// Starts a command that executes the server, and stops reading its log after a line with `text`.
    pub(crate) fn run_until(command: Command, text: &'static str) -> Self {
        let mut child = spawn(command, Stdio::piped());
        let mut stderr = BufReader::new(child.stderr.take().expect("piped"));
        let (say, lines) = channel();
        std::thread::spawn(move || {
            let mut line = String::new();
            while stderr.read_line(&mut line).is_ok_and(|count| count != 0) {
                let is_enough = line.contains(text);
                let _ = say.send(std::mem::take(&mut line).trim_end().to_owned());
                if is_enough && text != "\n" {
                    // The pipe stays open until the test ends.
                    return std::mem::forget(stderr);
                }
            }
        });
        Self { child, lines, said: Vec::new() }
    }

    /// Waits for a log line that contains `text`.
    pub(crate) fn wait_for(&mut self, text: &str) -> String {
        self.wait_for_one(&[text])
    }

    /// Waits for a log line that contains one of these texts.
    pub(crate) fn wait_for_one(&mut self, texts: &[&str]) -> String {
        let until = Instant::now() + PATIENCE;
        loop {
            match self.lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(line) => {
                    self.said.push(line.clone());
                    if texts.iter().any(|text| line.contains(text)) {
                        return line;
                    }
                }
                Err(RecvTimeoutError::Timeout) => panic!("it did not say {texts:?}: {:#?}", self.said),
                Err(RecvTimeoutError::Disconnected) => panic!("it ended without saying {texts:?}: {:#?}", self.said),
            }
        }
    }

    pub(crate) fn log_so_far(&mut self) -> &[String] {
        self.said.extend(self.lines.try_iter());
        &self.said
    }

    /// Sends a signal, given by its name.
    pub(crate) fn signal(&self, name: &str) {
        let status = Command::new("kill").arg(format!("-{name}")).arg(self.id().to_string()).status();
        assert!(status.expect("there is a kill command").success());
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("it is a child").is_some()
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits for its exit.
    pub(crate) fn end(mut self) -> Ended {
        let status = self.wait_for_exit();
        let mut said = std::mem::take(&mut self.said);
        said.extend(self.lines.iter());
        Ended { status, said: said.join("\n") }
    }

    /// Waits for its exit, without reading the rest of its log.
    pub(crate) fn wait_for_exit(&mut self) -> ExitStatus {
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().expect("it is a child") {
                return status;
            }
            assert!(Instant::now() < until, "it does not end: {:#?}", self.said);
            std::thread::sleep(Duration::from_millis(5)); // the standard library has no wait with a timeout
        }
    }

    /// Kills it: its memory is lost, as by a power cut.
    pub(crate) fn kill(mut self) {
        self.child.kill().expect("it is a child");
        self.child.wait().expect("it is a child");
    }

    /// Checks that it is idle: it uses much less CPU time than a busy thread of the test gets meanwhile, however
    /// loaded the machine is.
    pub(crate) fn check_idle(&self) {
        let (before, own) = (cpu(&self.id().to_string()), cpu("thread-self"));
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(1500) {}
        let (spent, own) = (cpu(&self.id().to_string()) - before, cpu("thread-self") - own);
        assert!(spent < own / 4, "it used {spent:?} while a busy thread got {own:?}");
    }

    /// Peak memory since the last [`Self::forget_peak`].
    pub(crate) fn peak_bytes(&self) -> usize {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.id())).expect("it runs");
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("the kernel tells it");
        peak.trim().trim_end_matches(" kB").parse::<usize>().expect("a number") << 10
    }

    /// Memory in use now.
    pub(crate) fn memory_bytes(&self) -> usize {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.id())).expect("it runs");
        let now = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("the kernel tells it");
        now.trim().trim_end_matches(" kB").parse::<usize>().expect("a number") << 10
    }

    /// Resets the peak to the present memory. Where the kernel cannot do that, only growth beyond the old peak is
    /// visible.
    pub(crate) fn forget_peak(&self) {
        let _ = std::fs::write(format!("/proc/{}/clear_refs", self.id()), "5");
    }

    /// Number of open descriptors.
    pub(crate) fn descriptors(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.id())).expect("it runs").count()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A directory with a configuration, for servers that run one after another.
pub(crate) struct Site {
    pub(crate) directory: PathBuf,
    pub(crate) flags: Vec<String>,
}

impl Site {
    /// Writes `zoo.cfg` with a free port and additional settings; the data directory is next to it.
    pub(crate) fn new(directory: &Path, settings: &str) -> Self {
        let data = directory.join("data");
        let mut text = format!("dataDir={}\nclientPort=0\nclientPortAddress=127.0.0.1\n", data.display());
        text.push_str("tickTime=2000\nmaxSessionTimeout=60000\nmaxClientCnxns=0\npreAllocSize=1024\n");
        text.push_str(settings);
        std::fs::write(directory.join("zoo.cfg"), text).expect("the directory can be written to");
        Self { directory: directory.to_owned(), flags: Vec::new() }
    }

    /// Starts a server and waits until it listens.
    pub(crate) fn start(&self) -> Running {
        let mut arguments = vec!["server", "zoo.cfg"];
        arguments.extend(self.flags.iter().map(String::as_str));
        Running::wait(Process::start(&arguments, &self.directory))
    }
}

/// A process that accepts connections.
pub(crate) struct Running {
    pub(crate) process: Process,
    pub(crate) address: SocketAddr,
}

impl Running {
    pub(crate) fn wait(mut process: Process) -> Self {
        let line = process.wait_for(LISTENS);
        Self::bound(process, &line)
    }

    /// A process that has logged [`LISTENS`] in this line.
    pub(crate) fn bound(process: Process, line: &str) -> Self {
        let address = line.split(LISTENS).nth(1).and_then(|rest| rest.split(' ').next());
        let address = address
            .and_then(|text| text.trim_start_matches('/').parse().ok())
            .unwrap_or_else(|| panic!("an address: {line}"));
        Self { process, address }
    }

    pub(crate) fn client(&self) -> RawClient {
        RawClient::open(self.address, TIMEOUT_MS)
    }

    /// Stops it and checks that it exits cleanly. Returns its output.
    pub(crate) fn stop(self) -> String {
        self.process.signal("TERM");
        let ended = self.process.end();
        assert_eq!(ended.status.code(), Some(0), "{}", ended.said);
        ended.said
    }
}
