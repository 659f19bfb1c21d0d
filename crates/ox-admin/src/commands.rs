//! Apache's commands: one table with their names, and what each needs.
//!
//! A command writes its fields into a JSON object; `command` and `error` follow. A listing ends with an error when it
//! becomes longer than a reply may be.

mod connections;
mod docs;
mod ensemble;
mod own;
mod server_status;
mod sessions;
mod snapshots;
mod watches;

pub use docs::admin_commands_page;

use crate::authorization_header::{self, Requester};
use crate::body_reader::BodyReader;
use crate::control::AdminControl;
use crate::json::JsonWriter;
use crate::limits::REPLY_BYTES_MAX;
use crate::query;
use crate::rate_limiter::RateLimiter;
use crate::reply::{self, Reply};
use axum::http::{Method, StatusCode};
use own::OWN_COMMANDS;
use ox_config::{AdminConfig, PublishedSettings};
use ox_server::{Build, ServerHandle, ServingMode};
use parking_lot::Mutex;
use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

/// What a command knows besides the server.
pub(crate) struct CommandContext {
    pub(crate) build: Build,
    pub(crate) admin: AdminConfig,
    pub(crate) published: PublishedSettings,
    /// Whether snapshots contain the last zxid, without which they cannot be restored.
    pub(crate) has_last_zxid: bool,
    pub(crate) snapshot_limiter: RateLimiter,
    pub(crate) restore_limiter: RateLimiter,
    /// What the program around the server can change, where it offers that.
    pub(crate) control: Option<Arc<AdminControl>>,
    /// Held while a snapshot is received and restored.
    pub(crate) restoring: Mutex<()>,
}

impl CommandContext {
    pub(crate) fn new(
        build: Build,
        config: &ox_config::Config,
        admin: &AdminConfig,
        control: Option<Arc<AdminControl>>,
    ) -> Self {
        Self {
            build,
            admin: admin.clone(),
            published: config.published.clone(),
            has_last_zxid: config.storage.serialize_last_zxid,
            // Compat: Apache takes the number for microseconds here, so that scripts may take a snapshot every 0.3 s
            // by default (`snapshot_again_after_the_interval_in_microseconds`).
            snapshot_limiter: RateLimiter::new(Duration::from_micros(admin.rate_limit_ms)),
            restore_limiter: RateLimiter::new(Duration::from_millis(admin.rate_limit_ms)),
            control,
            restoring: Mutex::default(),
        }
    }
}

/// An entry of the command table.
pub(crate) struct CommandSpec {
    /// The primary name, and the others.
    pub(crate) names: &'static [&'static str],
    /// One line for `docs/reference/admin.md`.
    pub(crate) help: &'static str,
    run: Handler,
}

/// How a command creates its reply.
#[derive(Clone, Copy)]
enum Handler {
    /// In any state of the server.
    Always(fn(&Call<'_>, &mut JsonWriter) -> Outcome),
    /// If the server serves clients.
    Serving(fn(&Serving<'_>, &mut JsonWriter) -> Outcome),
    /// Like `Serving`, with a reply that grows with the data.
    Listing(fn(&Serving<'_>, &mut JsonWriter) -> Outcome),
    /// If the server serves clients and the requester has all rights; GET.
    Privileged(fn(&Serving<'_>) -> Reply),
    /// The same, called with POST.
    PrivilegedPost(fn(&Serving<'_>) -> Reply),
    /// If the server serves clients and the requester is the super user; POST.
    SuperPost(fn(&Serving<'_>) -> Reply),
    /// Shows the log levels with GET, and changes them with POST by the super user.
    LogLevel,
    /// Reads the configuration again, with POST by the super user.
    Reload,
}

/// A request for a command.
pub(crate) struct Call<'a> {
    pub(crate) context: &'a CommandContext,
    pub(crate) server: Option<ServerHandle>,
    pub(crate) query: Option<&'a str>,
    pub(crate) requester: &'a Requester,
    pub(crate) is_post: bool,
    /// The body of a POST request.
    pub(crate) body: Cell<Option<BodyReader>>,
}

/// A request to a server that serves clients.
pub(crate) struct Serving<'a> {
    pub(crate) call: &'a Call<'a>,
    pub(crate) server: &'a ServerHandle,
    pub(crate) mode: ServingMode,
}

/// How a command ended.
pub(crate) enum Outcome {
    Done,
    /// Apache's errors that a command reports by itself, with status 200.
    Error(String),
    /// The reply would be too long.
    TooLong,
}

impl Call<'_> {
    pub(crate) fn parameter(&self, name: &str) -> Option<String> {
        query::parameter(self.query, name)
    }
}

const fn command(names: &'static [&'static str], run: Handler, help: &'static str) -> CommandSpec {
    CommandSpec { names, help, run }
}

/// The commands, sorted by their primary names.
pub(crate) const COMMANDS: &[CommandSpec] = &[
    command(
        &["configuration", "conf", "config"],
        Handler::Serving(server_status::configuration),
        "The settings of the server.",
    ),
    command(
        &["connection_stat_reset", "crst"],
        Handler::Serving(connections::reset),
        "Resets the statistics of the connections of `clientPort`.",
    ),
    command(
        &["connections", "cons"],
        Handler::Listing(connections::connections),
        "The client connections with their statistics.",
    ),
    command(&["dirs"], Handler::Serving(server_status::dirs), "The sizes of snapshots and logs in bytes."),
    command(
        &["dump"],
        Handler::Listing(sessions::dump),
        "Sessions by expiry time (empty on learners), and ephemeral nodes by session.",
    ),
    command(
        &["environment", "env", "envi"],
        Handler::Always(server_status::environment),
        "The environment of the server.",
    ),
    command(&["get_trace_mask", "gtmk"], Handler::Always(server_status::get_trace_mask), "The trace mask."),
    command(
        &["hash"],
        Handler::Serving(server_status::hash),
        "Digests of the tree at recent zxids, to compare servers.",
    ),
    command(
        &["initial_configuration", "icfg"],
        Handler::Serving(server_status::initial_configuration),
        "The configuration file as it was read, without secrets.",
    ),
    command(
        &["is_read_only", "isro"],
        Handler::Serving(server_status::is_read_only),
        "Whether the server is in read-only mode.",
    ),
    command(
        &["last_snapshot", "lsnp"],
        Handler::Serving(snapshots::last_snapshot),
        "Zxid and time of the newest snapshot file.",
    ),
    command(&["leader", "lead"], Handler::Serving(ensemble::leader), "The leader of the ensemble."),
    command(&["monitor", "mntr"], Handler::Serving(server_status::monitor), "All [metrics](metrics.md)."),
    command(
        &["observer_connection_stat_reset", "orst"],
        Handler::Serving(ensemble::observer_reset),
        "Accepted without effect: connections of observers have no statistics here.",
    ),
    command(&["observers", "obsr"], Handler::Serving(ensemble::observers), "The observers that this server serves."),
    command(
        &["restore", "rest"],
        Handler::PrivilegedPost(snapshots::restore),
        "POST with rights and a snapshot as its body. Replaces the data of a standalone server, and closes all connections.",
    ),
    command(&["ruok"], Handler::Serving(server_status::ruok), "No error if the server serves clients."),
    command(
        &["server_stats", "srvr"],
        Handler::Serving(server_status::server_stats),
        "Version, latencies, connections, last zxid, role and number of nodes.",
    ),
    command(
        &["set_trace_mask", "stmk"],
        Handler::Always(server_status::set_trace_mask),
        "Sets the trace mask to the parameter `traceMask`.",
    ),
    command(
        &["snapshot", "snap"],
        Handler::Privileged(snapshots::snapshot),
        "With rights. Writes a snapshot into the data directory, and sends it unless `streaming=false`.",
    ),
    command(
        &["stat_reset", "srst"],
        Handler::Serving(server_status::stat_reset),
        "Resets the statistics of the server and its metrics.",
    ),
    command(
        &["stats", "stat"],
        Handler::Listing(connections::stats),
        "The output of `server_stats` and a short list of connections.",
    ),
    command(
        &["system_properties", "sysp"],
        Handler::Always(server_status::system_properties),
        "The system properties, including those that `zoo.cfg` sets, without secrets.",
    ),
    command(&["voting_view"], Handler::Serving(ensemble::voting_view), "The voting servers and their addresses."),
    command(
        &["watch_summary", "wchs"],
        Handler::Serving(watches::summary),
        "Numbers of connections with watches, of watched paths, and of watches.",
    ),
    command(&["watches", "wchc"], Handler::Listing(watches::by_session), "Watched paths by session."),
    command(&["watches_by_path", "wchp"], Handler::Listing(watches::by_path), "Sessions by watched path."),
    command(&["zabstate"], Handler::Always(ensemble::zabstate), "The state of the ensemble protocol of this server."),
];

/// The command with a name.
pub(crate) fn find(name: &str) -> Option<&'static CommandSpec> {
    COMMANDS.iter().chain(OWN_COMMANDS).find(|command| command.names.contains(&name))
}

/// Whether a client calls a command with POST; `None` if there is no such command.
pub fn is_post(name: &str, has_parameters: bool) -> Option<bool> {
    let command = find(name)?;
    Some(match command.run {
        Handler::PrivilegedPost(_) | Handler::SuperPost(_) | Handler::Reload => true,
        Handler::LogLevel => has_parameters,
        Handler::Always(_) | Handler::Serving(_) | Handler::Listing(_) | Handler::Privileged(_) => false,
    })
}

/// The page that lists all commands.
pub(crate) fn index(command_url: &str) -> String {
    let lines = COMMANDS.iter().map(|command| {
        let name = command.names[0];
        format!("<a href=\"{command_url}/{name}\">{name}</a>\n<br/>\n")
    });
    lines.collect()
}

impl CommandSpec {
    /// Whether the reply grows with the data.
    pub(crate) fn is_listing(&self) -> bool {
        matches!(self.run, Handler::Listing(_))
    }

    /// Whether the command is executed by this method.
    pub(crate) fn has_method(&self, method: &Method) -> bool {
        match self.run {
            Handler::PrivilegedPost(_) | Handler::SuperPost(_) | Handler::Reload => method == Method::POST,
            Handler::LogLevel => method == Method::GET || method == Method::HEAD || method == Method::POST,
            Handler::Always(_) | Handler::Serving(_) | Handler::Listing(_) | Handler::Privileged(_) => {
                method == Method::GET || method == Method::HEAD
            }
        }
    }

    /// Executes the command that was requested as `name`. May wait for the replica thread and for the disk.
    pub(crate) fn execute(&self, name: &str, call: &Call<'_>) -> Reply {
        let primary = self.names[0];
        #[expect(clippy::wildcard_enum_match_arm, reason = "all other commands need a server")]
        match self.run {
            Handler::Always(run) => return in_json(primary, |json| run(call, json)),
            Handler::LogLevel => return own::log_level(call),
            Handler::Reload => return own::reload(call),
            _ => (),
        }
        let mode = call.server.as_ref().and_then(|server| Some((server, server.mode()?)));
        let Some((server, mode)) = mode else { return error(StatusCode::OK, name, NOT_SERVING) };
        let serving = Serving { call, server, mode };
        match self.run {
            Handler::Always(run) => in_json(primary, |json| run(call, json)),
            Handler::Serving(run) | Handler::Listing(run) => in_json(primary, |json| run(&serving, json)),
            Handler::Privileged(run) | Handler::PrivilegedPost(run) => {
                match authorization_header::check(server, call.requester) {
                    Ok(()) => run(&serving),
                    Err((status, text)) => error(status, name, text),
                }
            }
            Handler::SuperPost(run) => match authorization_header::check_super(server, call.requester) {
                Ok(()) => run(&serving),
                Err((status, text)) => error(status, name, text),
            },
            Handler::LogLevel => own::log_level(call),
            Handler::Reload => own::reload(call),
        }
    }
}

/// Apache's text, without the newline of the four-letter commands.
const NOT_SERVING: &str = "This ZooKeeper instance is not currently serving requests";

fn in_json(primary: &str, run: impl FnOnce(&mut JsonWriter) -> Outcome) -> Reply {
    let mut json = JsonWriter::default();
    json.begin_object();
    match run(&mut json) {
        Outcome::Done => {
            put_command(&mut json, primary);
            json.key("error");
            json.null();
        }
        Outcome::Error(text) => {
            json.key("error");
            json.text(&text);
            put_command(&mut json, primary);
        }
        Outcome::TooLong => {
            let text = format!("the reply is longer than {} MiB; use the four-letter command", REPLY_BYTES_MAX >> 20);
            return error(StatusCode::INTERNAL_SERVER_ERROR, primary, &text);
        }
    }
    json.end_object();
    reply::json(StatusCode::OK, json.finish())
}

fn put_command(json: &mut JsonWriter, name: &str) {
    json.key("command");
    json.text(name);
}

/// The reply to a command that does not exist.
pub(crate) fn unknown(name: &str) -> Reply {
    error(StatusCode::OK, name, &format!("Unknown command: {name}"))
}

/// The reply of a command that is not executed.
pub(crate) fn error(status: StatusCode, name: &str, text: &str) -> Reply {
    reply::json(status, object(name, Some(text)))
}

/// A reply without fields.
pub(crate) fn object(name: &str, error: Option<&str>) -> String {
    let mut json = JsonWriter::default();
    json.begin_object();
    put_command(&mut json, name);
    json.key("error");
    match error {
        Some(text) => json.text(text),
        None => json.null(),
    }
    json.end_object();
    json.finish()
}

/// Whether a listing must end.
pub(crate) fn is_too_long(json: &JsonWriter) -> bool {
    REPLY_BYTES_MAX < json.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_distinct_and_sorted() {
        for table in [COMMANDS, OWN_COMMANDS] {
            assert!(table.iter().map(|command| command.names[0]).is_sorted());
        }
        let mut all: Vec<&str> =
            COMMANDS.iter().chain(OWN_COMMANDS).flat_map(|command| command.names).copied().collect();
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
    }

    #[test]
    fn index_is_that_of_apache() {
        assert_eq!(index("/commands"), include_str!("../testdata/standalone/commands-listing.html"));
    }
}
