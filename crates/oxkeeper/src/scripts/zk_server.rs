//! `zkServer.sh`: starts, stops and examines the server of a configuration.

mod process;
mod status;

use super::environment::{ScriptEnvironment, variable};
use super::file_settings::FileSettings;
use super::print;
use process::ServerProcess;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

/// How long a new server is watched, and how long `stop` waits for the end of one.
const WATCHED: Duration = Duration::from_secs(1);
/// How long `restart` waits for the end of the old server. Apache waits 4 s, and the new one fails if that is too short.
const RESTART_WAIT: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

pub(super) fn run(environment: &ScriptEnvironment, words: &[String]) -> ExitCode {
    let action = words.first().map(String::as_str);
    let site = match Site::new(environment, words.get(1).map(String::as_str)) {
        Ok(site) => site,
        // These need no server.
        Err(_) if !ACTIONS.contains(&action.unwrap_or_default()) => return usage(environment),
        Err(_) if action == Some("version") => return version(),
        Err(code) => return code,
    };
    match action {
        Some("start") => site.start(),
        Some("start-foreground") => site.start_in_foreground(),
        Some("stop") => site.stop(),
        Some("restart") => site.restart(),
        Some("status") => status::run(&site.config),
        Some("version") => version(),
        Some("print-cmd") => site.print_command(),
        _ => usage(environment),
    }
}

const ACTIONS: [&str; 7] = ["start", "start-foreground", "stop", "version", "restart", "status", "print-cmd"];

/// Compat: an unknown action is no error.
fn usage(environment: &ScriptEnvironment) -> ExitCode {
    let called = &environment.called;
    crate::say(format_args!("Usage: {called} [--config <conf-dir>] {{{}}}", ACTIONS.join("|")));
    ExitCode::SUCCESS
}

fn version() -> ExitCode {
    let version = crate::BUILD.version().replace(", built on ", " ");
    print(format_args!("Apache ZooKeeper, version {version}\n"));
    ExitCode::SUCCESS
}

/// The server of a configuration file: where it is, and how it is started.
struct Site {
    config: PathBuf,
    log_dir: PathBuf,
    pid_file: PathBuf,
    /// What a server in the background prints.
    out_file: PathBuf,
    /// Whether missing data directories are an error.
    needs_data: bool,
}

impl Site {
    /// Prints which configuration is used. An error was printed, too.
    fn new(environment: &ScriptEnvironment, named: Option<&str>) -> Result<Self, ExitCode> {
        if variable("JMXPORT").is_some() {
            crate::say(format_args!("JMXPORT has no effect: docs/operate/jmx.md lists what replaces each bean"));
        }
        let config = match named {
            None => environment.config.clone(),
            Some(name) if Path::new(name).parent().is_some_and(|parent| !parent.as_os_str().is_empty()) => name.into(),
            Some(name) => environment.config_dir.join(name),
        };
        crate::say(format_args!("Using config: {}", config.display()));
        let settings = FileSettings::read(&config).map_err(|error| {
            crate::say(format_args!("error: cannot read {}: {error}", config.display()));
            ExitCode::FAILURE
        })?;
        let data_dir = settings.get("dataDir").map(PathBuf::from);
        let needs_data = variable("ZOO_DATADIR_AUTOCREATE_DISABLE").is_some();
        if needs_data {
            require_data("data directory", data_dir.as_deref())?;
            if let Some(directory) = settings.get("dataLogDir") {
                require_data("txnlog directory", Some(Path::new(directory)))?;
            }
        }
        let pid_file = match (variable("ZOOPIDFILE").map(PathBuf::from), &data_dir) {
            (Some(file), _) => {
                create_dir(file.parent().unwrap_or(Path::new(".")));
                file
            }
            (None, Some(data_dir)) => {
                create_dir(data_dir);
                data_dir.join("zookeeper_server.pid")
            }
            (None, None) => {
                crate::say(format_args!("error: {} sets no dataDir", config.display()));
                return Err(ExitCode::FAILURE);
            }
        };
        create_dir(&environment.log_dir);
        let (user, host) = (variable("USER").unwrap_or_default(), ox_server::host_name().unwrap_or_default());
        let out_file = environment.log_dir.join(format!("zookeeper-{user}-server-{host}.out"));
        Ok(Self { config, log_dir: environment.log_dir.clone(), pid_file, out_file, needs_data })
    }

    /// The server in the foreground. It logs to standard output in Apache's layout, unless the environment says otherwise.
    fn command(&self) -> io::Result<Command> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("server");
        for (name, option, value) in
            [("OXKEEPER_LOG_TO", "--log-to", "stdout"), ("OXKEEPER_LOG_FORMAT", "--log-format", "zookeeper")]
        {
            if variable(name).is_none() {
                command.args([option, value]);
            }
        }
        if self.needs_data {
            command.arg("-Dzookeeper.datadir.autocreate=false");
        }
        let flags = ["SERVER_JVMFLAGS", "JVMFLAGS"].map(|name| variable(name).unwrap_or_default()).join(" ");
        let is_given = |property: &str| flags.contains(&format!("-D{property}="));
        if !is_given("zookeeper.log.dir") {
            command.arg(format!("-Dzookeeper.log.dir={}", self.log_dir.display()));
        }
        if let Some(file) = variable("ZOO_LOG_FILE").filter(|_| !is_given("zookeeper.log.file")) {
            command.arg(format!("-Dzookeeper.log.file={file}"));
        }
        command.arg(&self.config);
        Ok(command)
    }

    fn start(&self) -> ExitCode {
        print(format_args!("Starting zookeeper ... "));
        if let Some(running) = ServerProcess::of_file(&self.pid_file, &self.config).filter(ServerProcess::is_alive) {
            print(format_args!("already running as process {}.\n", running.id()));
            return ExitCode::FAILURE;
        }
        let failed = |text: &str, error: &dyn std::fmt::Display| {
            print(format_args!("{text}\n"));
            crate::say(format_args!("error: {error}"));
            ExitCode::FAILURE
        };
        let spawned = begin_output(&self.out_file).and_then(|out| {
            let (error, mut command) = (out.try_clone()?, self.command()?);
            command.stdin(Stdio::null()).stdout(out).stderr(error).process_group(0).spawn()
        });
        let mut child = match spawned {
            Ok(child) => child,
            Err(error) => return failed("SERVER DID NOT START", &format!("{}: {error}", self.out_file.display())),
        };
        if let Err(error) = std::fs::write(&self.pid_file, child.id().to_string()) {
            let _ = child.kill().and_then(|()| child.wait()); // without the file, `stop` would not find it
            return failed("FAILED TO WRITE PID", &format!("{}: {error}", self.pid_file.display()));
        }
        let until = Instant::now() + WATCHED;
        while Instant::now() < until {
            if let Ok(Some(status)) = child.try_wait() {
                let _ = std::fs::remove_file(&self.pid_file); // another process may get its id
                let last = last_line(&self.out_file).unwrap_or_default();
                let text = format!("the server ended, {status}; {} ends with: {last}", self.out_file.display());
                return failed("FAILED TO START", &text);
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        print(format_args!("STARTED\n"));
        ExitCode::SUCCESS
    }

    /// Becomes the server, so that signals reach it and its exit code is that of this process.
    fn start_in_foreground(&self) -> ExitCode {
        let mut command = match self.command() {
            Ok(command) => command,
            Err(error) => return cannot_execute(&error),
        };
        if variable("ZOO_NOEXEC").is_none() {
            return cannot_execute(&command.exec());
        }
        match command.status() {
            Ok(status) => status.code().and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, Into::into),
            Err(error) => cannot_execute(&error),
        }
    }

    /// Compat: exit code 0 in any case.
    fn stop(&self) -> ExitCode {
        self.stop_within(WATCHED);
        ExitCode::SUCCESS
    }

    /// Returns false if the server still runs after `limit`.
    fn stop_within(&self, limit: Duration) -> bool {
        print(format_args!("Stopping zookeeper ... "));
        let Some(server) = ServerProcess::of_file(&self.pid_file, &self.config) else {
            print(format_args!("no zookeeper to stop (could not find file {})\n", self.pid_file.display()));
            return true;
        };
        if let Err(error) = server.terminate() {
            crate::say(format_args!("{error}"));
        }
        if let Err(error) = std::fs::remove_file(&self.pid_file) {
            crate::say(format_args!("cannot remove {}: {error}", self.pid_file.display()));
        }
        let until = Instant::now() + limit;
        while server.is_alive() && Instant::now() < until {
            std::thread::sleep(POLL_INTERVAL);
        }
        print(format_args!("STOPPED\n"));
        !server.is_alive()
    }

    fn restart(&self) -> ExitCode {
        for _ in 0..2 {
            // Compat: Apache's script calls itself twice.
            crate::say(format_args!("Using config: {}", self.config.display()));
        }
        if !self.stop_within(RESTART_WAIT) {
            crate::say(format_args!("error: the server has not ended within {} s", RESTART_WAIT.as_secs()));
            return ExitCode::FAILURE;
        }
        self.start()
    }

    fn print_command(&self) -> ExitCode {
        let command = match self.command() {
            Ok(command) => command,
            Err(error) => return cannot_execute(&error),
        };
        let words = std::iter::once(command.get_program()).chain(command.get_args());
        let words: Vec<String> = words.map(|word| format!("\"{}\"", word.to_string_lossy())).collect();
        let out = self.out_file.display();
        print(format_args!("{} > \"{out}\" 2>&1 < /dev/null\n", words.join(" ")));
        ExitCode::SUCCESS
    }
}

/// An empty file that is appended to, so that another program may truncate it meanwhile.
fn begin_output(file: &Path) -> io::Result<File> {
    let out = OpenOptions::new().append(true).create(true).open(file)?;
    out.set_len(0)?;
    Ok(out)
}

fn require_data(what: &str, directory: Option<&Path>) -> Result<(), ExitCode> {
    let directory = directory.unwrap_or(Path::new(""));
    if directory.join("version-2").is_dir() {
        return Ok(());
    }
    print(format_args!("ZooKeeper {what} is missing at {} fix the path or run initialize\n", directory.display()));
    Err(ExitCode::FAILURE)
}

/// Creates a directory; where that fails, a later step reports an error.
fn create_dir(directory: &Path) {
    if let Err(error) = std::fs::create_dir_all(directory) {
        crate::say(format_args!("cannot create {}: {error}", directory.display()));
    }
}

fn cannot_execute(error: &io::Error) -> ExitCode {
    crate::say(format_args!("error: cannot execute the server: {error}"));
    ExitCode::FAILURE
}

/// The last line of what a server has printed: the cause of its end.
fn last_line(file: &Path) -> Option<String> {
    let bytes = std::fs::read(file).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    text.lines().rev().find(|line| !line.trim().is_empty()).map(str::to_owned)
}
