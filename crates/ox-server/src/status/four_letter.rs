//! Four-letter commands: plain-text status commands on the client port, recognised by the first four bytes.
//!
//! They run on a thread of their own. Long replies are created in chunks: each chunk takes each lock for a moment, and
//! the next one is created when the connection has sent the last. So a listing of a million watches delays no other
//! client, and a slow reader holds one chunk instead of the whole listing.
//!
//! ```text
//! I/O thread --enqueue--> queue --> command thread --chunk--> mailbox --> connection --sent--+
//!                           ^------------------- continue_listing ---------------------------+
//! ```

mod config;
mod connections;
mod docs;
mod environment;
mod monitor;
mod queue;
mod sessions;
mod status;
mod watches;

use crate::io::connection_table::{ClientPort, ConnStats};
use crate::limits::{COMMAND_CHUNK_BYTES, LOG_LINES_BURST};
use crate::log_limit::LogLimit;
use crate::shared::Shared;
use crate::status::java_text;
use crate::status::server_mode::ServerMode;
use crate::watchdog::Heartbeat;
use ox_config::FourLetterWhitelist;
use ox_driver::client_io::CommandText;
use ox_replica::ConnId;
use queue::{Queue, Task};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

pub(crate) use config::{absolute, size as directory_size};
pub(crate) use connections::reset as reset_connections;
pub use docs::commands_page;
pub use environment::{UNKNOWN, environment};
pub use monitor::MonitorValue;
pub(crate) use monitor::{gauges, monitor_values, reset_stats, role_gauges};
pub(crate) use sessions::global_sessions;
pub(crate) use watches::session_of;

/// The reply of a server that has no leader yet, or is about to stop.
const NOT_SERVING: &str = "This ZooKeeper instance is not currently serving requests\n";

/// An entry of the command table.
pub(crate) struct CommandSpec {
    pub(crate) name: &'static str,
    /// The first bytes of a connection that select it.
    bytes: [u8; 4],
    /// One line for `docs/reference/commands.md`.
    pub(crate) help: &'static str,
    run: Handler,
}

/// How a command creates its reply.
#[derive(Clone, Copy)]
enum Handler {
    /// One text, in any state of the server.
    Text(fn(&Shared) -> String),
    /// One text, if the server serves clients.
    Serving(fn(&Shared, ServerMode) -> String),
    /// One text, with the eight bytes that follow the command.
    WithMask(fn(&Shared, u64) -> String),
    /// Chunks, if the server serves clients.
    Listing(fn(ServerMode) -> Listing),
    /// One text about the connections of the port to which the command was sent, if the server serves clients.
    PortText(fn(&Shared, ClientPort) -> String),
    /// Chunks about the connections of the port to which the command was sent, if the server serves clients.
    PortListing(fn(ServerMode, ClientPort) -> Listing),
    /// No reply: the connection is closed.
    Close,
}

/// Creates a reply in chunks: each call appends to the text.
type Listing = Box<dyn FnMut(&Shared, &mut String) -> ListingStatus + Send>;

/// Whether a listing has more chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ListingStatus {
    More,
    Last,
}

const fn command(name: &'static str, run: Handler, help: &'static str) -> CommandSpec {
    let Some(bytes) = name.as_bytes().first_chunk::<4>() else { panic!("the name of a command has four letters") };
    CommandSpec { name, bytes: *bytes, help, run }
}

/// The commands in the order of `docs/reference/commands.md`.
pub(crate) const COMMANDS: &[CommandSpec] = &[
    command("conf", Handler::Serving(config::conf), "Prints the settings of the server."),
    command(
        "cons",
        Handler::PortListing(connections::cons),
        "Lists the client connections of the same port with their statistics.",
    ),
    command("crst", Handler::PortText(connections::crst), "Resets the statistics of the connections of the same port."),
    command("dirs", Handler::Serving(config::dirs), "Prints the sizes of snapshots and logs in bytes."),
    command(
        "dump",
        Handler::Listing(sessions::dump),
        "Lists sessions and connections by expiry time, and ephemeral nodes by session.",
    ),
    command("envi", Handler::Text(environment::envi), "Prints the environment of the server."),
    command("gtmk", Handler::Text(status::gtmk), "Prints the trace mask."),
    command("hash", Handler::Serving(status::hash), "Prints digests of the tree at recent zxids, to compare servers."),
    command("isro", Handler::Serving(status::isro), "Prints `ro` if the server is in read-only mode, otherwise `rw`."),
    command("mntr", Handler::Serving(monitor::mntr), "Prints all [metrics](metrics.md)."),
    command("ruok", Handler::Text(status::ruok), "Prints `imok` if the process runs, even if it serves no clients."),
    command(
        "srst",
        Handler::Serving(status::srst),
        "Resets the statistics of the server and its [metrics](metrics.md).",
    ),
    command(
        "srvr",
        Handler::Serving(status::srvr),
        "Prints version, latencies, connections, last zxid, role and number of nodes.",
    ),
    command(
        "stat",
        Handler::PortListing(connections::stat),
        "Prints the output of `srvr` and a list of the connections of the same port.",
    ),
    command("stmk", Handler::WithMask(status::stmk), "Sets the trace mask to the eight bytes that follow the command."),
    command("wchc", Handler::Listing(watches::wchc), "Lists watched paths by session."),
    command("wchp", Handler::Listing(watches::wchp), "Lists sessions by watched path."),
    command(
        "wchs",
        Handler::Listing(watches::wchs),
        "Prints the numbers of connections with watches, of watched paths, and of watches.",
    ),
    CommandSpec {
        name: "telnet close",
        bytes: [0xff, 0xf4, 0xff, 0xfd],
        help: "Closes the connection. These are the bytes `ff f4 ff fd`, which telnet sends when it is interrupted.",
        run: Handler::Close,
    },
];

/// A received command with its argument.
#[derive(Clone, Copy)]
pub(crate) struct FourLetterCommand {
    command: &'static CommandSpec,
    /// The eight bytes that follow the command.
    mask: u64,
}

/// What the first bytes of a connection are.
#[derive(Clone, Copy)]
pub(crate) enum Parsed {
    Command(FourLetterCommand),
    /// Possibly a command: more bytes are needed.
    Incomplete,
    /// The beginning of a frame.
    NotACommand,
}

/// Looks for a command at the start of a connection. Bytes after it are ignored, except by `stmk`, which waits for its
/// argument if it is enabled.
pub(crate) fn parse(bytes: &[u8], enabled: &FourLetterWhitelist) -> Parsed {
    let Some((first, rest)) = bytes.split_first_chunk::<4>() else { return Parsed::Incomplete };
    let Some(command) = COMMANDS.iter().find(|command| command.bytes == *first) else { return Parsed::NotACommand };
    let mask = rest.first_chunk::<8>().map(|mask| u64::from_be_bytes(*mask));
    match (command.run, mask) {
        (Handler::WithMask(_), None) if enabled.allow(command.name) => Parsed::Incomplete,
        _ => Parsed::Command(FourLetterCommand { command, mask: mask.unwrap_or_default() }),
    }
}

/// The sending end of the queue, one per I/O thread.
#[derive(Clone)]
pub(crate) struct CommandQueue {
    queue: Arc<Queue>,
    /// Limits the log lines about commands of one thread.
    lines: LogLimit,
}

impl CommandQueue {
    /// Queues a command and counts it; false when too many are queued already.
    pub(crate) fn enqueue(
        &mut self,
        shared: &Shared,
        conn: ConnId,
        stats: &ConnStats,
        command: FourLetterCommand,
    ) -> bool {
        // Counted before the command runs, because its reply may show it.
        stats.received.fetch_add(1, Relaxed);
        stats.interest.store(0, Relaxed);
        shared.stats.received.add(1);
        shared.metrics.bytes_received_count.add(command.command.bytes.len() as u64);
        if let Some(suppressed) = self.lines.allow(shared.clock.mono_ms()) {
            let (name, address) = (command.command.name, java_text::address(stats.address));
            tracing::debug!(suppressed, "Processing {name} command from {address}");
        }
        self.queue.put(Task::Execute(conn, command, stats.port))
    }

    /// Requests the next chunk, after the connection has sent the last.
    pub(crate) fn continue_listing(&self, conn: ConnId) {
        self.queue.put(Task::Continue(conn));
    }

    /// Discards the listing of a closed connection.
    pub(crate) fn cancel(&self, conn: ConnId) {
        self.queue.put(Task::Cancel(conn));
    }
}

/// The thread that executes commands.
pub(crate) struct CommandThread {
    queue: Arc<Queue>,
    /// Listings whose connections are still sending the last chunk.
    listings: BTreeMap<ConnId, Listing>,
}

/// Both ends of the queue.
pub(crate) fn queue() -> (CommandQueue, CommandThread) {
    let queue = Arc::new(Queue::default());
    let lines = LogLimit::new(LOG_LINES_BURST);
    (CommandQueue { queue: Arc::clone(&queue), lines }, CommandThread { queue, listings: BTreeMap::new() })
}

impl CommandThread {
    /// Executes commands until the server stops.
    pub(crate) fn run(mut self, shared: &Shared, heartbeat: &Heartbeat) {
        while !shared.is_stopping() {
            heartbeat.beat();
            match self.queue.take(Duration::from_millis(200)) {
                Some(Task::Execute(conn, command, port)) => self.execute(shared, conn, command, port),
                Some(Task::Continue(conn)) => {
                    if let Some(listing) = self.listings.remove(&conn) {
                        self.continue_listing(shared, conn, listing);
                    }
                }
                Some(Task::Cancel(conn)) => _ = self.listings.remove(&conn),
                None => (),
            }
        }
    }

    fn execute(&mut self, shared: &Shared, conn: ConnId, command: FourLetterCommand, port: ClientPort) {
        let CommandSpec { name, run, .. } = command.command;
        let text = if !shared.live().four_letter_whitelist.allow(name) {
            format!("{name} is not executed because it is not in the whitelist.\n")
        } else {
            match run {
                Handler::Text(run) => run(shared),
                Handler::WithMask(run) => run(shared, command.mask),
                Handler::Close => String::new(),
                Handler::Serving(_) | Handler::Listing(_) | Handler::PortText(_) | Handler::PortListing(_) => {
                    match (run, ServerMode::query(shared)) {
                        (Handler::Serving(run), Some(mode)) => run(shared, mode),
                        (Handler::PortText(run), Some(_)) => run(shared, port),
                        (Handler::Listing(start), Some(mode)) => {
                            return self.continue_listing(shared, conn, start(mode));
                        }
                        (Handler::PortListing(start), Some(mode)) => {
                            return self.continue_listing(shared, conn, start(mode, port));
                        }
                        _ => not_serving(name).to_owned(),
                    }
                }
            }
        };
        post(shared, CommandText { conn, text, is_last: true });
    }

    /// Creates the next chunk of a listing.
    fn continue_listing(&mut self, shared: &Shared, conn: ConnId, mut listing: Listing) {
        let (mut text, mut status) = (String::new(), ListingStatus::More);
        while status == ListingStatus::More && text.len() < COMMAND_CHUNK_BYTES && !shared.is_stopping() {
            status = listing(shared, &mut text);
        }
        if status == ListingStatus::More {
            self.listings.insert(conn, listing);
        }
        post(shared, CommandText { conn, text, is_last: status == ListingStatus::Last });
    }
}

/// Compat: `isro` and `hash` have their own texts.
fn not_serving(name: &str) -> &'static str {
    match name {
        "isro" => "null",
        "hash" => NOT_SERVING.trim_end(),
        _ => NOT_SERVING,
    }
}

fn post(shared: &Shared, text: CommandText) {
    shared.mailboxes[text.conn.thread()].put(|mail| mail.for_connections.texts.push(text));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn check(bytes: &[u8], expected: Option<(&str, u64)>) {
        let Parsed::Command(FourLetterCommand { command, mask }) = parse(bytes, &FourLetterWhitelist::All) else {
            return assert_eq!(expected, None, "{bytes:?}");
        };
        assert_eq!(Some((command.name, mask)), expected);
    }

    #[test]
    fn configuration_knows_all_commands() {
        let names: BTreeSet<&str> = COMMANDS.iter().map(|command| command.name).collect();
        let known: BTreeSet<&str> = ox_config::FOUR_LETTER_COMMANDS.into_iter().chain(["telnet close"]).collect();
        assert_eq!(names, known);
    }

    #[test]
    fn commands_are_told_from_frames() {
        check(b"ruok", Some(("ruok", 0)));
        check(b"ruok\r\n", Some(("ruok", 0)));
        check(b"RUOK", None);
        check(&[0, 0, 0, 45], None);
        check(&[0xff, 0xf4, 0xff, 0xfd, 6], Some(("telnet close", 0)));
        check(b"stmk\0\0\0\0\0\0\0\x09\n", Some(("stmk", 9)));
    }

    #[test]
    fn incomplete_command_waits_for_more_bytes() {
        for bytes in [&b""[..], b"ruo", b"stmk", b"stmk\0\0\0\0\0\0\0"] {
            assert!(matches!(parse(bytes, &FourLetterWhitelist::All), Parsed::Incomplete), "{bytes:?}");
        }
        let nothing = FourLetterWhitelist::Only(BTreeSet::new());
        assert!(matches!(parse(b"stmk", &nothing), Parsed::Command(_)), "a refused command needs no argument");
    }
}
