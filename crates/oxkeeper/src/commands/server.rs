//! `oxkeeper server`: reads the configuration, runs the server, and restarts a member whose disk was full.

mod first_screen;
mod restart_on_full_disk;
mod signals;
mod start_errors;

use crate::logging::{self, Format, Lines};
use crate::terminal::Paint;
use clap::builder::ArgAction;
use first_screen::Started;
use ox_admin::AdminServer;
use ox_config::{Config, ConfigErrors, Diagnostic, Environment, Level, StartArgs, SystemProperties};
use ox_server::{SETTINGS_LOG_TARGET, Server};
use restart_on_full_disk::{Ended, Stop, Wait};
use start_errors::StartFailure;
use std::io::{self, IsTerminal};
use std::net::ToSocketAddrs;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The log level without `--log`.
const DEFAULT_LOG: &str = "info";
/// How long lines are held back until it is known whether the server starts. Longer starts are logged meanwhile.
const HOLD_MAX: Duration = Duration::from_secs(2);

/// Set by a parent process whose servers must not outlive it.
pub(super) const ENDS_WITH_PARENT: &str = "OXKEEPER_ENDS_WITH_PARENT";

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Without arguments: a standalone server on 127.0.0.1:2181, for clients of this machine, with its data in ./oxkeeper-data.
With a port and a directory, such as `oxkeeper server 2182 ./data-2182`: the same with this port and directory. Clients
of other machines can connect to a server with a zoo.cfg only; clientPortAddress in it selects an interface.
Its AdminServer answers on port 8080: without a zoo.cfg on 127.0.0.1, if the port is free; with one on every interface,
unless admin.serverAddress or admin.enableServer=false restricts it.
System properties are also read from SERVER_JVMFLAGS and JVMFLAGS.")]
pub(crate) struct Args {
    /// zoo.cfg, or `port datadir [ticktime] [maxcnxns]`
    #[arg(value_name = "zoo.cfg")]
    config: Vec<String>,
    /// A system property of ZooKeeper, e.g. -Dzookeeper.extendedTypesEnabled=true
    #[arg(short = 'D', value_name = "name=value", action = ArgAction::Append)]
    define: Vec<String>,
    /// Log level, or directives such as info,ox_server=debug
    #[arg(long, value_name = "filter", default_value = DEFAULT_LOG, env = "OXKEEPER_LOG", value_parser = logging::check_filter)]
    log: String,
    /// Format of the log
    #[arg(long, value_enum, default_value_t = Format::Text, env = "OXKEEPER_LOG_FORMAT")]
    log_format: Format,
}

/// Runs the server until a signal or a fatal error ends it.
pub(crate) fn run(args: &Args) -> ExitCode {
    let started = Instant::now();
    let logging = match logging::init(&args.log, args.log_format) {
        Ok(logging) => logging,
        Err(message) => {
            crate::say(format_args!("{message}"));
            return ExitCode::from(2);
        }
    };
    let screen = (args.log_format == Format::Text && io::stderr().is_terminal()).then(|| Paint::of(&io::stderr()));
    let output = Output { lines: logging.0.clone(), screen, has_details: args.log != DEFAULT_LOG };
    match serve(args, started, &output) {
        Ok(()) => {
            tracing::info!("Exiting normally");
            ExitCode::SUCCESS
        }
        Err(failure) => {
            failure.report(&output);
            ExitCode::from(failure.exit_code)
        }
    }
}

/// Where the start of the server is reported.
struct Output {
    lines: Lines,
    /// Set if the log goes to a terminal.
    screen: Option<Paint>,
    /// Whether the terminal shows the log lines of the start, too.
    has_details: bool,
}

impl Output {
    /// Reports a server that has started.
    fn report(&self, started: &Started<'_>) {
        match self.screen {
            Some(paint) if self.has_details => {
                self.lines.release();
                self.lines.print(&started.screen(paint));
            }
            Some(paint) => self.lines.release_with_screen(&started.screen(paint)),
            None => {
                self.lines.release();
                started.log();
            }
        }
    }
}

fn serve(args: &Args, started: Instant, output: &Output) -> Result<(), StartFailure> {
    output.lines.hold(HOLD_MAX).map_err(|error| StartFailure::new(1, format!("cannot start a thread: {error}")))?;
    tracing::info!(version = crate::VERSION, "oxkeeper starts");
    raise_open_files_limit();
    end_with_parent();
    let stop = Arc::new(Stop::default());
    let signals = signals::handle(Arc::clone(&stop));
    let signals = signals.map_err(|error| StartFailure::new(1, format!("cannot listen for signals: {error}")))?;
    let (mut wait, mut admin) = (Wait::new(), None);
    let ended = loop {
        // Other members may have reconfigured the ensemble meanwhile.
        let config = load(args)?;
        let first = (!wait.is_restart).then_some((started, output));
        if first.is_some() {
            // It answers while the data is read, and between two servers.
            admin = AdminServer::start(crate::BUILD, &config).map_err(|error| StartFailure::admin(&error))?;
        }
        let ended = serve_once(&config, &args.config, &stop, first, admin.as_ref());
        admin.iter().for_each(|admin| admin.set_server(None));
        let Err(ended) = ended else { break Ok(()) };
        match wait.after(ended, &config, &stop) {
            Ok(true) => (),
            Ok(false) => break Ok(()),
            Err(failure) => break Err(failure),
        }
    };
    signals.close();
    ended
}

/// Runs one server until it ends. `first` is set unless a server ran before, and has the time of the process's start.
fn serve_once(
    config: &Config,
    arguments: &[String],
    stop: &Stop,
    first: Option<(Instant, &Output)>,
    admin: Option<&AdminServer>,
) -> Result<(), Ended> {
    log_directories(config);
    let is_member = config.member.is_some();
    let server = Server::start(crate::BUILD, config.clone()).map_err(|error| {
        if is_member && error.is_full() {
            Ended::Full(error.to_string())
        } else if first.is_none() && error.is_locked() {
            Ended::Locked(error.to_string())
        } else {
            Ended::Fatal(StartFailure::start(&error, arguments))
        }
    })?;
    stop.set_running(Some(server.handle()));
    admin.iter().for_each(|admin| admin.set_server(Some(server.handle())));
    if let Some((started, output)) = first {
        output.report(&Started { config, server: &server, admin, took: started.elapsed() });
        if is_member && let Err(error) = first_screen::report_first_role(server.handle(), started) {
            tracing::warn!(%error, "cannot start a thread that reports the first role");
        }
    }
    let ended = server.wait();
    stop.set_running(None);
    ended.map_err(|fatal| match fatal {
        full if is_member && full.is_full() => Ended::Full(full.to_string()),
        fatal => Ended::Fatal(StartFailure::new(1, format!("Severe unrecoverable error, exiting: {fatal}"))),
    })
}

/// Asks the kernel to terminate this process with its parent, if the parent requests that.
fn end_with_parent() {
    use rustix::process::{Signal, set_parent_process_death_signal};
    if std::env::var_os(ENDS_WITH_PARENT).is_some()
        && let Err(error) = set_parent_process_death_signal(Some(Signal::TERM))
    {
        tracing::warn!(%error, "cannot arrange to stop when the parent process exits");
    }
}

/// Raises the limit of open files to the hard limit, as the JVM does.
fn raise_open_files_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum
        && let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })
    {
        tracing::warn!(%error, ?current, ?maximum, "cannot raise the limit of open files");
    }
}

/// Properties from the variables of the Java start scripts and from `-D`.
pub(super) fn system_properties(define: &[String]) -> SystemProperties {
    let mut system = SystemProperties::default();
    for variable in ["SERVER_JVMFLAGS", "JVMFLAGS"] {
        if let Ok(flags) = std::env::var(variable) {
            system.add_flags(&flags);
        }
    }
    define.iter().for_each(|definition| system.define(definition));
    system
}

/// Access to the files and host names of this machine.
pub(super) const OUTSIDE: Environment<'static> = Environment {
    read: &|path| std::fs::read(path),
    resolve: &|host| (host, 0).to_socket_addrs().ok()?.next().map(|address| address.ip()),
};

fn load(args: &Args) -> Result<Config, StartFailure> {
    let system = system_properties(&args.define);
    let mistaken = start_errors::port_without_directory(&args.config);
    if let Some(failure) = mistaken.or_else(|| start_errors::script_word(&args.config)) {
        return Err(failure);
    }
    let start =
        StartArgs::from_args(&args.config).map_err(|error| StartFailure::config(&ConfigErrors::from(error), &[]))?;
    let mut diagnostics = Vec::new();
    let config = Config::load(&start, &system, &OUTSIDE, &mut diagnostics)
        .map_err(|errors| StartFailure::config(&errors, &diagnostics))?;
    if let Some(member) = &config.member {
        logging::set_my_id(member.server.0);
    }
    if let StartArgs::File(path) = &start {
        tracing::info!("Reading configuration from: {}", path.display());
    }
    diagnostics.iter().for_each(log_diagnostic);
    Ok(config)
}

fn log_diagnostic(diagnostic: &Diagnostic) {
    match diagnostic.level {
        Level::Info => tracing::info!(target: SETTINGS_LOG_TARGET, "{diagnostic}"),
        Level::Warn => tracing::warn!("{diagnostic}"),
        Level::Error => tracing::error!("{diagnostic}"),
    }
}

fn log_directories(config: &Config) {
    tracing::info!(
        data_dir = %config.data_dir.display(),
        data_log_dir = %config.data_log_dir.display(),
        force_sync = config.storage.force_sync,
        snap_count = config.storage.snap_count,
        "Starting server"
    );
}
