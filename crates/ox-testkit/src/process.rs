//! A server process and its log lines.

use crate::wait::{PATIENCE, wait_until};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// A process that is killed when it is dropped.
#[derive(Debug)]
pub struct Process {
    child: Child,
    pub started: Instant,
    lines: Receiver<String>,
    /// The lines of its log that were read.
    pub said: Vec<String>,
}

/// CPU time that a process or thread has used.
fn cpu(of: &str) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{of}/stat")).expect("it runs");
    let fields: Vec<&str> = stat.rsplit_once(") ").expect("the name is in parentheses").1.split(' ').collect();
    let ticks: u64 = fields[11..13].iter().map(|ticks| ticks.parse::<u64>().expect("a number")).sum();
    Duration::from_millis(ticks * 10)
}

/// Exit status of a process, and its whole output.
#[derive(Debug)]
pub struct Ended {
    pub status: ExitStatus,
    pub said: String,
}

fn prepared(mut command: Command) -> Command {
    for variable in ["SERVER_JVMFLAGS", "JVMFLAGS", "OXKEEPER_LOG", "OXKEEPER_LOG_FORMAT"] {
        command.env_remove(variable);
    }
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command
}

/// Sends the lines of a log. Stops after a line with `last`, but then leaves the pipe open until the test ends.
fn read_lines(log: impl Read + Send + 'static, last: Option<&'static str>, mut copy: Option<File>) -> Receiver<String> {
    let (send, lines) = channel();
    std::thread::spawn(move || {
        let (mut log, mut line) = (BufReader::new(log), Vec::new());
        while log.read_until(b'\n', &mut line).is_ok_and(|count| count != 0) {
            let _ = copy.as_mut().map(|file| file.write_all(&line)); // best effort, for people
            let text = String::from_utf8_lossy(&std::mem::take(&mut line)).trim_end().to_owned();
            let is_last = last.is_some_and(|last| text.contains(last));
            let _ = send.send(text);
            if is_last {
                return std::mem::forget(log);
            }
        }
    });
    lines
}

impl Process {
    /// Starts a command and reads what it writes to standard error.
    pub fn run(command: Command) -> Self {
        Self::run_until(command, None)
    }

    /// Starts a command with stderr redirected.
    pub fn run_with_stderr(command: Command, stderr: Stdio) -> Self {
        let started = Instant::now();
        let child = prepared(command).stderr(stderr).spawn().expect("the binary runs");
        Self { child, started, lines: channel().1, said: Vec::new() }
    }

    /// Starts a command, and stops reading its log after a line with `last`.
    pub fn run_until(command: Command, last: Option<&'static str>) -> Self {
        let mut process = Self::run_with_stderr(command, Stdio::piped());
        process.lines = read_lines(process.child.stderr.take().expect("piped"), last, None);
        process
    }

    /// Starts a command, and appends what it writes to standard output and standard error to a file, too.
    pub fn run_with_log(command: Command, log: &Path) -> std::io::Result<Self> {
        let (reader, writer) = std::io::pipe()?;
        let copy = File::options().create(true).append(true).open(log)?;
        let started = Instant::now();
        let child = prepared(command).stdout(writer.try_clone()?).stderr(writer).spawn()?;
        Ok(Self { child, started, lines: read_lines(reader, None, Some(copy)), said: Vec::new() })
    }

    /// Waits for a log line that contains `text`.
    pub fn wait_for(&mut self, text: &str) -> String {
        self.wait_for_one(&[text])
    }

    /// Waits for a log line that contains one of these texts.
    pub fn wait_for_one(&mut self, texts: &[&str]) -> String {
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

    pub fn log_so_far(&mut self) -> &[String] {
        self.said.extend(self.lines.try_iter());
        &self.said
    }

    /// Sends a signal, given by its name.
    pub fn signal(&self, name: &str) {
        let status = Command::new("kill").arg(format!("-{name}")).arg(self.id().to_string()).status();
        assert!(status.expect("there is a kill command").success());
    }

    /// Stops its threads with SIGSTOP, and waits until all of them have stopped: on a busy machine some run on for a
    /// while after `kill` has returned.
    pub fn pause(&self) {
        self.signal("STOP");
        wait_until("it stops at SIGSTOP", || self.thread_states().chars().all(|state| state == 'T'));
    }

    /// One letter per thread, as the kernel shows them: `T` is stopped, `S` sleeps, `R` runs.
    pub fn thread_states(&self) -> String {
        let threads = std::fs::read_dir(format!("/proc/{}/task", self.id())).expect("it runs").flatten();
        let stats = threads.flat_map(|thread| std::fs::read_to_string(thread.path().join("stat")));
        // The state follows the name of the thread, which stands in brackets.
        stats.filter_map(|stat| stat.rsplit_once(") ")?.1.chars().next()).collect()
    }

    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("it is a child").is_some()
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits for its exit.
    pub fn end(mut self) -> Ended {
        let status = self.wait_for_exit();
        let mut said = std::mem::take(&mut self.said);
        said.extend(self.lines.iter());
        Ended { status, said: said.join("\n") }
    }

    /// Waits for its exit, without reading the rest of its log.
    pub fn wait_for_exit(&mut self) -> ExitStatus {
        self.exits_within(PATIENCE).unwrap_or_else(|| panic!("it does not end: {:#?}", self.said))
    }

    /// Its exit status; `None` if it has not ended in this time.
    pub fn exits_within(&mut self, time: Duration) -> Option<ExitStatus> {
        let until = Instant::now() + time;
        loop {
            let status = self.child.try_wait().expect("it is a child");
            if status.is_some() || until <= Instant::now() {
                return status;
            }
            std::thread::sleep(Duration::from_millis(5)); // the standard library has no wait with a timeout
        }
    }

    /// Kills it: its memory is lost, as by a power cut.
    pub fn kill(mut self) {
        self.child.kill().expect("it is a child");
        self.child.wait().expect("it is a child");
    }

    /// Checks that it is idle: it uses much less CPU time than a busy thread of the test gets meanwhile, however
    /// loaded the machine is.
    pub fn check_idle(&self) {
        let (before, own) = (cpu(&self.id().to_string()), cpu("thread-self"));
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(1500) {}
        let (spent, own) = (cpu(&self.id().to_string()) - before, cpu("thread-self") - own);
        assert!(spent < own / 4, "it used {spent:?} while a busy thread got {own:?}");
    }

    /// Peak memory since the last [`Self::forget_peak`].
    pub fn peak_bytes(&self) -> usize {
        self.status_bytes("VmHWM:")
    }

    /// Memory in use now.
    pub fn memory_bytes(&self) -> usize {
        self.status_bytes("VmRSS:")
    }

    fn status_bytes(&self, name: &str) -> usize {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.id())).expect("it runs");
        let value = status.lines().find_map(|line| line.strip_prefix(name)).expect("the kernel tells it");
        value.trim().trim_end_matches(" kB").parse::<usize>().expect("a number") << 10
    }

    /// Resets the peak to the present memory. Where the kernel cannot do that, only growth beyond the old peak is
    /// visible.
    pub fn forget_peak(&self) {
        let _ = std::fs::write(format!("/proc/{}/clear_refs", self.id()), "5");
    }

    /// Number of open descriptors.
    pub fn descriptors(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.id())).expect("it runs").count()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
