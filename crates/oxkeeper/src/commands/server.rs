//! `oxkeeper server`: reads the configuration, runs the server, and restarts a member whose disk was full.

mod restart_on_full_disk;

use crate::logging::{self, Format};
use clap::builder::ArgAction;
use ox_config::{Config, Diagnostic, Environment, Level, StartArgs, SystemProperties};
use ox_server::Server;
use restart_on_full_disk::{Ended, Stop, Wait};
use std::net::ToSocketAddrs;
use std::process::ExitCode;
use std::sync::Arc;

/// Set by a parent process whose servers must not outlive it.
pub(super) const ENDS_WITH_PARENT: &str = "OXKEEPER_ENDS_WITH_PARENT";

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Without arguments: a standalone server on 127.0.0.1:2181, with its data in ./oxkeeper-data.
System properties are also read from SERVER_JVMFLAGS and JVMFLAGS.")]
pub(crate) struct Args {
    /// zoo.cfg, or `port datadir [ticktime] [maxcnxns]`
    #[arg(value_name = "zoo.cfg")]
    config: Vec<String>,
    /// A system property of ZooKeeper, e.g. -Dzookeeper.extendedTypesEnabled=true
    #[arg(short = 'D', value_name = "name=value", action = ArgAction::Append)]
    define: Vec<String>,
    /// Log level, or directives such as info,ox_server=debug
    #[arg(long, value_name = "filter", default_value = "info", env = "OXKEEPER_LOG", value_parser = logging::check_filter)]
    log: String,
    /// Format of the log
    #[arg(long, value_enum, default_value_t = Format::Text, env = "OXKEEPER_LOG_FORMAT")]
    log_format: Format,
}

/// Runs the server until a signal or a fatal error ends it.
pub(crate) fn run(args: &Args) -> ExitCode {
    let _logging = match logging::init(&args.log, args.log_format) {
        Ok(logging) => logging,
        Err(message) => {
            crate::say(format_args!("{message}"));
            return ExitCode::from(2);
        }
    };
    match serve(args) {
        Ok(()) => {
            tracing::info!("Exiting normally");
            ExitCode::SUCCESS
        }
        Err((code, message)) => {
            tracing::error!("{message}");
            tracing::error!("Exiting with code {code}");
            ExitCode::from(code)
        }
    }
}

fn serve(args: &Args) -> Result<(), (u8, String)> {
    tracing::info!("oxkeeper {} (compatible with ZooKeeper 3.9.3)", env!("CARGO_PKG_VERSION"));
    raise_open_files_limit();
    end_with_parent();
    let signals = signal_hook::iterator::Signals::new([signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT]);
    let mut signals = signals.map_err(|error| (1, format!("cannot listen for signals: {error}")))?;
    let (handle, stop) = (signals.handle(), Arc::new(Stop::default()));
    let by_signal = Arc::clone(&stop);
    std::thread::spawn(move || {
        if let Some(signal) = signals.forever().next() {
            tracing::info!(signal, "stopping");
            by_signal.stop();
        }
    });
    let mut wait = Wait::new();
    let ended = loop {
        // Other members may have reconfigured the ensemble meanwhile.
        let config = load(args)?;
        let Err(ended) = serve_once(&config, &stop, wait.is_restart) else { break Ok(()) };
        match wait.after(ended, &config, &stop) {
            Ok(true) => (),
            Ok(false) => break Ok(()),
            Err(fatal) => break Err(fatal),
        }
    };
    handle.close();
    ended
}

/// Runs one server until it ends.
fn serve_once(config: &Config, stop: &Stop, is_restart: bool) -> Result<(), Ended> {
    log_settings(config);
    let is_member = config.member.is_some();
    let server = Server::start(config.clone()).map_err(|error| {
        let what = match error.exit_code() {
            3 => "Unable to access datadir, exiting abnormally: ",
            _ => "Unexpected exception, exiting abnormally: ",
        };
        let hint = error.remedy().map(|remedy| format!("\nhint: {remedy}")).unwrap_or_default();
        if is_member && error.is_full() {
            Ended::Full(error.to_string())
        } else if is_restart && error.is_locked() {
            Ended::Locked(error.to_string())
        } else {
            Ended::Fatal(error.exit_code(), format!("{what}{error}{hint}"))
        }
    })?;
    stop.set_running(Some(server.stopper()));
    let ended = server.wait();
    stop.set_running(None);
    ended.map_err(|fatal| match fatal {
        full if is_member && full.is_full() => Ended::Full(full.to_string()),
        fatal => Ended::Fatal(1, format!("Severe unrecoverable error, exiting: {fatal}")),
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

fn load(args: &Args) -> Result<Config, (u8, String)> {
    let system = system_properties(&args.define);
    let invalid =
        |error: ox_config::ConfigError| (error.exit_code(), format!("Invalid config, exiting abnormally: {error}"));
    let start = StartArgs::from_args(&args.config).map_err(invalid)?;
    if let StartArgs::File(path) = &start {
        tracing::info!("Reading configuration from: {}", path.display());
    }
    let mut diagnostics = Vec::new();
    let config = Config::load(&start, &system, &OUTSIDE, &mut diagnostics);
    diagnostics.iter().for_each(log_diagnostic);
    config.map_err(invalid)
}

fn log_diagnostic(diagnostic: &Diagnostic) {
    match diagnostic.level {
        Level::Info => tracing::info!("{diagnostic}"),
        Level::Warn => tracing::warn!("{diagnostic}"),
        Level::Error => tracing::error!("{diagnostic}"),
    }
}

fn log_settings(config: &Config) {
    tracing::info!("tickTime set to {}", config.tick_ms);
    tracing::info!("minSessionTimeout set to {}", config.min_session_timeout_ms);
    tracing::info!("maxSessionTimeout set to {}", config.max_session_timeout_ms);
    if let Some(member) = &config.member {
        tracing::info!("initLimit set to {}", member.init_ticks);
        tracing::info!("syncLimit set to {}", member.sync_ticks);
    }
    tracing::info!(
        "Starting server: dataDir {}, dataLogDir {}, forceSync {}, snapCount {}",
        config.data_dir.display(),
        config.data_log_dir.display(),
        if config.storage.force_sync { "yes" } else { "no" },
        config.storage.snap_count,
    );
}
