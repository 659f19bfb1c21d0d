//! Errors of a failed start. The first and the last line say what failed, why, and what to do; warnings that may
//! explain it are between them.

use super::ServerOutput;
use crate::terminal::Tone;
use crate::{lock_owner, port_owner, usage_hint};
use ox_admin::AdminStartError;
use ox_config::{Cause, Config, ConfigError, ConfigErrors, Diagnostic, Level};
use ox_server::StartError;
use ox_store::StoreError;
use ox_tls::TlsError;
use std::io::ErrorKind;
use std::path::Path;

/// Why the server did not start.
#[derive(Debug)]
pub(crate) struct StartFailure {
    pub(super) exit_code: u8,
    /// Never empty: the first and the last are shown last.
    pub(super) errors: Vec<String>,
    /// Warnings about the configuration, shown before the errors.
    pub(super) warnings: Vec<String>,
}

impl StartFailure {
    pub(super) fn new(exit_code: u8, error: String) -> Self {
        Self { exit_code, errors: vec![error], warnings: Vec::new() }
    }

    pub(super) fn config(errors: &ConfigErrors, diagnostics: &[Diagnostic]) -> Self {
        let warnings = diagnostics.iter().filter(|diagnostic| Level::Info < diagnostic.level);
        Self {
            exit_code: errors.exit_code(),
            errors: errors.iter().map(config_error).collect(),
            warnings: warnings.map(ToString::to_string).collect(),
        }
    }

    /// `arguments` are those of the command line: a file, or a port and a directory, or none.
    pub(super) fn start(error: &StartError, config: &Config, arguments: &[String]) -> Self {
        let text = match (error, error.remedy()) {
            (StartError::Bind { purpose, address, source }, _) => {
                bind_error(purpose, PortSettings::of(purpose, config), address, source, arguments)
            }
            (StartError::Store(StoreError::Locked(dir)), Some(remedy)) => match lock_owner::find(dir) {
                Some(owner) => format!("{} is in use by {owner}; {remedy}", dir.display()),
                None => format!("{error}; {remedy}"),
            },
            (_, Some(remedy)) => format!("{error}; {remedy}"),
            (_, None) => error.to_string(),
        };
        Self::new(error.exit_code(), text)
    }

    /// The stores of TLS, checked before the start so that all errors are shown.
    pub(super) fn stores(errors: &[TlsError]) -> Self {
        Self { exit_code: 2, errors: errors.iter().map(ToString::to_string).collect(), warnings: Vec::new() }
    }

    pub(super) fn admin(error: &AdminStartError) -> Self {
        let mut text = error.to_string();
        if let AdminStartError::Bind { port, source, .. } | AdminStartError::BindMetrics { port, source, .. } = error
            && source.kind() == ErrorKind::AddrInUse
            && let Some(owner) = port_owner::find(*port)
        {
            text += &format!(" (by {owner})");
        }
        if let Some(remedy) = error.remedy() {
            text += &format!("; {remedy}");
        }
        Self::new(error.exit_code(), text)
    }

    /// Prints the failure on a terminal, or logs it.
    pub(super) fn report(&self, output: &ServerOutput) {
        let held = output.logging.console().take_held_warnings();
        let [first, others @ ..] = self.errors.as_slice() else { return };
        let is_short = others.is_empty() && self.warnings.is_empty() && held.is_empty();
        let (last, others) = others.split_last().unwrap_or((first, &[]));
        if !is_short {
            self.error(output, first, false);
            self.warnings.iter().for_each(|warning| warn(output, warning));
            held.into_iter().for_each(|line| output.logging.console().send(line));
            others.iter().for_each(|error| self.error(output, error, false));
        }
        self.error(output, last, true);
    }

    fn error(&self, output: &ServerOutput, text: &str, is_last: bool) {
        match output.screen {
            Some(paint) => output.logging.console().print(&format!("{} {text}", paint.text(Tone::Bad, "error:"))),
            None => {
                let exit_code = is_last.then_some(self.exit_code);
                tracing::error!(target: "oxkeeper", exit_code, "{text}");
            }
        }
    }
}

fn warn(output: &ServerOutput, text: &str) {
    match output.screen {
        Some(paint) => output.logging.console().print(&format!("{} {text}", paint.text(Tone::Warning, "warning:"))),
        None => tracing::warn!(target: "oxkeeper", "{text}"),
    }
}

/// Actions of zkServer.sh, which are no configuration files.
pub(super) fn script_action(arguments: &[String]) -> Option<StartFailure> {
    let action = arguments.first()?;
    if Path::new(action).exists() {
        return None;
    }
    let instead = match action.as_str() {
        "start" | "start-foreground" | "restart" => "`oxkeeper server zoo.cfg` runs a server in the foreground",
        "stop" => "SIGTERM stops a server: stop its service, or `kill PID`",
        "status" => "`oxkeeper status` shows the state of an ensemble",
        _ => return None,
    };
    Some(StartFailure::new(2, format!("there is no file {action}, and no such action as in zkServer.sh: {instead}")))
}

/// A single number is a port, for which a directory is missing, unless there is a file of this name.
pub(crate) fn port_without_directory(command: &str, arguments: &[String]) -> Option<String> {
    let [argument] = arguments else { return None };
    let port: u16 = argument.parse().ok()?;
    let is_file = Path::new(argument).exists();
    (!is_file).then(|| {
        let data = usage_hint::DEFAULT_DATA;
        // The default directory may be that of a running server on the default port.
        format!("{port} is a port, and the data directory is missing; use `oxkeeper {command} {port} {data}-{port}`")
    })
}

/// The text of an error. A relative dataDir is that of the working directory, which may not be the one of the file.
pub(crate) fn config_error(error: &ConfigError) -> String {
    if let Cause::MyIdMissing { path, .. } = &error.cause
        && Path::new(path).is_relative()
    {
        let whole = std::path::absolute(path).unwrap_or_else(|_| path.into());
        return format!(
            "{error}; {path} is {}: it is relative to the working directory of the server",
            whole.display()
        );
    }
    error.to_string()
}

/// The remedy for a port that is in use. The process that uses it may be a server on the same directory.
fn other_port(port: u16, setting: &str, arguments: &[String]) -> String {
    let directory = match arguments {
        [] => usage_hint::DEFAULT_DATA,
        [_, directory, ..] => directory.as_str(),
        [_] => return format!("change {setting}"),
    };
    let port = port.checked_add(1).unwrap_or(2182);
    let is_locked = lock_owner::find(&Path::new(directory).join("version-2")).is_some();
    match is_locked {
        false => format!("use another port: `{}`", usage_hint::server_on(port, directory)),
        true => {
            let other = format!("{}-{port}", directory.trim_end_matches('/'));
            let command = usage_hint::server_on(port, &other);
            format!("use another port and another directory, because {directory} is in use as well: `{command}`")
        }
    }
}

/// The settings that name a port and its address.
#[derive(Clone, Copy)]
struct PortSettings {
    port: &'static str,
    address: &'static str,
}

/// Other reasons for an address of a `server.N` line that this machine does not have.
const WRONG_MEMBER: &str = "; or, if myid has the id of another server, correct myid; or, if the address is translated to \
                            one of this machine, set quorumListenOnAllIPs=true";

impl PortSettings {
    const CLIENT: Self = Self { port: "clientPort", address: "clientPortAddress" };
    const SECURE: Self = Self { port: "secureClientPort", address: "secureClientPortAddress" };
    const MEMBER: Self = Self { port: "the server.N line of this server", address: "the server.N line of this server" };

    fn of(purpose: &str, config: &Config) -> Self {
        let own = config.member.as_ref().and_then(|member| member.ensemble.members().get(&member.server));
        match purpose {
            "client" if own.is_none_or(|own| own.client.is_none()) => Self::CLIENT,
            "secure client" => Self::SECURE,
            _ => Self::MEMBER,
        }
    }
}

/// Why a port cannot be bound, and what to do.
fn bind_error(
    purpose: &str,
    settings: PortSettings,
    address: &str,
    source: &std::io::Error,
    arguments: &[String],
) -> String {
    let port = address.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
    let (setting, address_setting) = (settings.port, settings.address);
    match (source.kind(), port) {
        (ErrorKind::AddrInUse, Some(port)) => {
            let owner = port_owner::find(port).map_or("another process".to_owned(), |owner| owner.to_string());
            format!("port {port} is in use by {owner}: stop that process, or {}", other_port(port, setting, arguments))
        }
        (ErrorKind::PermissionDenied, Some(port)) => {
            format!(
                "port {port} must not be bound by this user: change {setting} to a port above 1023, or grant \
                 CAP_NET_BIND_SERVICE"
            )
        }
        (ErrorKind::AddrNotAvailable, _) => {
            let others = if setting == PortSettings::MEMBER.port { WRONG_MEMBER } else { "" };
            format!("{address} is no address of this machine: change {address_setting}{others}")
        }
        _ if source.to_string().contains("failed to lookup") => format!(
            "cannot listen on {address} ({purpose} port): {source}; correct the host name in {address_setting}, or add \
             it to the DNS or to /etc/hosts"
        ),
        _ => format!("cannot listen on {address} ({purpose} port): {source}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actions_of_the_script_are_explained() {
        let failure = |word: &str| script_action(&[word.to_owned()]).map(|failure| failure.errors.concat());
        assert!(failure("start").unwrap().contains("`oxkeeper server zoo.cfg`"));
        assert!(failure("stop").unwrap().contains("SIGTERM"));
        assert_eq!(failure("zoo.cfg"), None);
    }

    #[test]
    fn bind_errors_name_cause_and_remedy() {
        let file = ["zoo.cfg".to_owned()];
        let standalone = Config::default_standalone();
        let of = |purpose| PortSettings::of(purpose, &standalone);
        let text = |kind: ErrorKind, purpose| bind_error(purpose, of(purpose), "10.0.0.1:1", &kind.into(), &file);
        assert_eq!(
            text(ErrorKind::AddrInUse, "client"),
            "port 1 is in use by another process: stop that process, or change clientPort"
        );
        let without_file = |arguments: &[&str]| {
            let arguments: Vec<String> = arguments.iter().map(|word| (*word).to_owned()).collect();
            bind_error("client", of("client"), "127.0.0.1:1", &ErrorKind::AddrInUse.into(), &arguments)
        };
        let expected = "port 1 is in use by another process: stop that process, or use another port: ";
        assert_eq!(without_file(&[]), format!("{expected}`oxkeeper server 2 ./oxkeeper-data`"));
        assert_eq!(without_file(&["1", "data"]), format!("{expected}`oxkeeper server 2 data`"));
        assert_eq!(
            text(ErrorKind::AddrNotAvailable, "election"),
            "10.0.0.1:1 is no address of this machine: change the server.N line of this server; or, if myid has the id of \
             another server, correct myid; or, if the address is translated to one of this machine, set \
             quorumListenOnAllIPs=true"
        );
        assert_eq!(
            text(ErrorKind::AddrNotAvailable, "secure client"),
            "10.0.0.1:1 is no address of this machine: change secureClientPortAddress"
        );
        let unknown = std::io::Error::other("failed to lookup address information: Name or service not known");
        let text_of_unknown = bind_error("election", of("election"), "zk9:3888", &unknown, &file);
        assert!(text_of_unknown.ends_with("or add it to the DNS or to /etc/hosts"), "{text_of_unknown}");
        assert!(text(ErrorKind::PermissionDenied, "client").starts_with("port 1 must not be bound by this user: "));
    }
}
