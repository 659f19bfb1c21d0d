//! `oxkeeper server`: reads the configuration, runs the server, and restarts a member whose disk was full.

mod first_screen;
mod reload;
mod restart_on_full_disk;
mod service_manager;
mod signals;
mod start_errors;

use crate::logging::{self, Console, Format, Logging};
use crate::terminal::Paint;
use clap::builder::ArgAction;
use first_screen::Started;
use ox_admin::AdminServer;
use ox_config::{Config, ConfigErrors, Diagnostic, Environment, Level, StartArgs, SystemProperties};
use ox_server::{SETTINGS_LOG_TARGET, Server};
use reload::Reload;
use restart_on_full_disk::{Ended, Stop, Wait};
use service_manager::ServiceManager;
use start_errors::StartFailure;
pub(super) use start_errors::{config_error, port_without_directory};
use std::io::{self, IsTerminal};
use std::net::ToSocketAddrs;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

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
    /// Log level, or directives such as info,ox_server=debug; oxkeeper.log.levels in zoo.cfg if not given, else info
    #[arg(long, value_name = "filter", env = "OXKEEPER_LOG", value_parser = logging::check_filter)]
    log: Option<String>,
    /// Format of the log
    #[arg(long, value_enum, default_value_t = Format::Text, env = "OXKEEPER_LOG_FORMAT")]
    log_format: Format,
    /// Where the console's lines are written
    #[arg(long, value_enum, default_value_t = Console::Stderr, env = "OXKEEPER_LOG_TO")]
    log_to: Console,
}

/// Runs the server until a signal or a fatal error ends it.
pub(crate) fn run(args: &Args) -> ExitCode {
    let started = Instant::now();
    let logging = match logging::init(args.log.as_deref(), args.log_format, args.log_to) {
        Ok(logging) => logging,
        Err(message) => {
            crate::say(format_args!("{message}"));
            return ExitCode::from(2);
        }
    };
    let has_screen = (args.log_format, args.log_to) == (Format::Text, Console::Stderr) && io::stderr().is_terminal();
    let screen = has_screen.then(|| Paint::of(&io::stderr()));
    let output = ServerOutput {
        logging: logging.0.clone(),
        screen,
        has_details: args.log.as_deref().is_some_and(|log| log != "info"),
    };
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
struct ServerOutput {
    logging: Logging,
    /// Set if the log goes to a terminal.
    screen: Option<Paint>,
    /// Whether the terminal shows the log lines of the start, too.
    has_details: bool,
}

impl ServerOutput {
    /// Reports a server that has started.
    fn report(&self, started: &Started<'_>) {
        let lines = self.logging.console();
        match self.screen {
            Some(paint) if self.has_details => {
                lines.release();
                lines.print(&started.screen(paint));
            }
            Some(paint) => lines.release_with_screen(&started.screen(paint)),
            None => {
                lines.release();
                started.log();
            }
        }
    }
}

fn serve(args: &Args, started: Instant, output: &ServerOutput) -> Result<(), StartFailure> {
    output
        .logging
        .console()
        .hold(HOLD_MAX)
        .map_err(|error| StartFailure::new(1, format!("cannot start a thread: {error}")))?;
    tracing::info!(version = crate::VERSION, "oxkeeper starts");
    raise_open_files_limit();
    end_with_parent();
    let stop = Arc::new(Stop::default());
    let (start, logging) = (start_args(args)?, output.logging.clone());
    let reload = Reload::new(start, args.define.clone(), Arc::clone(&stop), logging);
    let signals = signals::handle(Arc::clone(&stop), Arc::clone(&reload));
    let signals = signals.map_err(|error| StartFailure::new(1, format!("cannot listen for signals: {error}")))?;
    let manager = service_manager::report_to_service_manager(&stop);
    let (mut wait, mut admin) = (Wait::new(), None);
    let ended = loop {
        // Other members may have reconfigured the ensemble meanwhile.
        let config = load(args)?;
        output.logging.configure(&config.log);
        reload.set_running(&config);
        let first = (!wait.is_restart).then_some((started, output));
        if first.is_some() {
            ox_server::check_stores(&config).map_err(|errors| StartFailure::stores(&errors))?;
            // A second server with the same file reports the port for clients, not that of the AdminServer.
            Server::check_owner_and_client_ports(&config)
                .map_err(|error| StartFailure::start(&error, &config, &args.config))?;
            // It answers while the data is read, and between two servers.
            let control = reload::control(&reload, &output.logging);
            admin = AdminServer::start_with(crate::BUILD, &config, Some(control))
                .map_err(|error| StartFailure::admin(&error))?;
        }
        let beside =
            Beside { stop: &stop, admin: admin.as_ref(), manager: manager.as_deref(), logging: &output.logging };
        let ended = serve_once(&config, &args.config, first, beside);
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

/// What runs beside the servers, and outlives each of them.
#[derive(Clone, Copy)]
struct Beside<'a> {
    stop: &'a Stop,
    admin: Option<&'a AdminServer>,
    manager: Option<&'a ServiceManager>,
    logging: &'a Logging,
}

/// Runs one server until it ends. `first` is set unless a server ran before, and has the time of the process's start.
fn serve_once(
    config: &Config,
    arguments: &[String],
    first: Option<(Instant, &ServerOutput)>,
    Beside { stop, admin, manager, logging }: Beside<'_>,
) -> Result<(), Ended> {
    log_directories(config);
    let is_member = config.member.is_some();
    let server = Server::start(crate::BUILD, config.clone()).map_err(|error| {
        if is_member && error.is_full() {
            Ended::Full(error.to_string())
        } else if first.is_none() && error.is_locked() {
            Ended::Locked(error.to_string())
        } else {
            Ended::Fatal(StartFailure::start(&error, config, arguments))
        }
    })?;
    server.handle().set_dropped_log_lines(logging.dropped_lines());
    stop.set_running(Some(server.handle()));
    admin.iter().for_each(|admin| admin.set_server(Some(server.handle())));
    manager.iter().for_each(|manager| manager.ready());
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

fn start_args(args: &Args) -> Result<StartArgs, StartFailure> {
    if let Some(failure) = start_errors::script_action(&args.config) {
        return Err(failure);
    }
    if let Some(error) = port_without_directory("server", &args.config) {
        return Err(StartFailure::new(2, error));
    }
    StartArgs::from_args(&args.config).map_err(|error| StartFailure::config(&ConfigErrors::from(error), &[]))
}

fn load(args: &Args) -> Result<Config, StartFailure> {
    let system = system_properties(&args.define);
    let start = start_args(args)?;
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
    config.client_port_warning().into_iter().for_each(|warning| tracing::warn!("{warning}"));
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
