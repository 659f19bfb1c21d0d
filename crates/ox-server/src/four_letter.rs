//! Four-letter words: plain-text status commands on the client port, told apart by the first four bytes.
//!
//! They are answered on a thread of their own. Long answers are made in pieces: a piece takes each lock for a moment,
//! and the next one is made when the connection has sent the last. So a listing of a million watches delays nobody,
//! and a client that reads slowly holds one piece, not the listing.
//!
//! ```text
//! I/O thread --ask--> queue --> words thread --piece--> mailbox --> connection --sent--> go_on --+
//!                       ^------------------------------------------------------------------------+
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

use crate::connections::ConnStats;
use crate::java_text;
use crate::limits::{LOG_LINES_BURST, COMMAND_CHUNK_BYTES};
use crate::log_limit::LogLimit;
use crate::mailbox::Text;
use crate::server_mode::ServerMode;
use crate::shared::Shared;
use crate::watchdog::Heartbeat;
use ox_config::FourLetterWhitelist;
use ox_tree::ConnId;
use queue::{Task, Queue};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

pub use docs::commands_page;
pub(crate) use environment::environment;

/// What a server answers that has no leader yet, or is about to stop.
const NOT_SERVING: &str = "This ZooKeeper instance is not currently serving requests\n";

/// A status command.
pub(crate) struct CommandSpec {
    pub(crate) name: &'static str,
    /// The bytes it is asked for with.
    bytes: [u8; 4],
    /// One line for people.
    pub(crate) help: &'static str,
    run: Handler,
}

/// How a command answers.
#[derive(Clone, Copy)]
enum Handler {
    /// At once.
    Text(fn(&Shared) -> String),
    /// At once, by a server that serves clients.
    Serving(fn(&Shared, ServerMode) -> String),
    /// At once, with the eight bytes that follow the word.
    WithMask(fn(&Shared, u64) -> String),
    /// In pieces, by a server that serves clients.
    Listing(fn(ServerMode) -> Listing),
    /// Not at all: the connection is closed.
    Close,
}

/// Makes an answer piece by piece: appends to the text and says whether there is more.
type Listing = Box<dyn FnMut(&Shared, &mut String) -> ListingStatus + Send>;

/// Where an answer stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ListingStatus {
    More,
    Last,
}

const fn command(name: &'static str, run: Handler, help: &'static str) -> CommandSpec {
    let Some(bytes) = name.as_bytes().first_chunk::<4>() else { panic!("a command has four letters") };
    CommandSpec { name, bytes: *bytes, help, run }
}

/// All commands.
pub(crate) const COMMANDS: &[CommandSpec] = &[
    command("conf", Handler::Serving(config::conf), "settings of the server"),
    command("cons", Handler::Listing(connections::cons), "all connections with their stats"),
    command("crst", Handler::Serving(connections::crst), "reset the stats of all connections"),
    command("dirs", Handler::Serving(config::dirs), "bytes of snapshots and logs"),
    command("dump", Handler::Listing(sessions::dump), "sessions, ephemeral nodes and connections, by when they expire"),
    command("envi", Handler::Text(environment::envi), "the machine the server runs on"),
    command("gtmk", Handler::Text(status::gtmk), "the trace mask"),
    command("hash", Handler::Serving(status::hash), "digests of the tree at past transactions"),
    command("isro", Handler::Serving(status::isro), "`ro` when the server is read-only, else `rw`"),
    command("mntr", Handler::Serving(monitor::mntr), "all metrics"),
    command("ruok", Handler::Text(status::ruok), "`imok` when the server runs"),
    command("srst", Handler::Serving(status::srst), "reset the stats of the server"),
    command("srvr", Handler::Serving(status::srvr), "stats of the server"),
    command("stat", Handler::Listing(connections::stat), "stats of the server and its connections"),
    command("stmk", Handler::WithMask(status::stmk), "set the trace mask to the eight bytes that follow"),
    command("wchc", Handler::Listing(watches::wchc), "watched paths by session"),
    command("wchp", Handler::Listing(watches::wchp), "sessions by watched path"),
    command("wchs", Handler::Listing(watches::wchs), "number of watches"),
    CommandSpec {
        name: "telnet close",
        bytes: [0xff, 0xf4, 0xff, 0xfd],
        help: "what telnet sends when it is interrupted",
        run: Handler::Close,
    },
];

/// A word and what came with it.
#[derive(Clone, Copy)]
pub(crate) struct FourLetterCommand {
    command: &'static CommandSpec,
    /// The eight bytes that follow.
    mask: u64,
}

/// What the first bytes of a connection are.
#[derive(Clone, Copy)]
pub(crate) enum Parsed {
    /// A word.
    Command(FourLetterCommand),
    /// Perhaps one; more bytes are needed.
    Incomplete,
    /// The beginning of a frame.
    NotACommand,
}

/// Looks for a word at the start of a connection. What follows it is ignored, except by the one word that has an
/// argument; that one waits for it, if it is answered at all.
pub(crate) fn parse(bytes: &[u8], enabled: &FourLetterWhitelist) -> Parsed {
    let Some((first, rest)) = bytes.split_first_chunk::<4>() else { return Parsed::Incomplete };
    let Some(command) = COMMANDS.iter().find(|command| command.bytes == *first) else { return Parsed::NotACommand };
    let mask = rest.first_chunk::<8>().map(|mask| u64::from_be_bytes(*mask));
    match (command.run, mask) {
        (Handler::WithMask(_), None) if enabled.allow(command.name) => Parsed::Incomplete,
        _ => Parsed::Command(FourLetterCommand { command, mask: mask.unwrap_or_default() }),
    }
}

/// The way to the thread that answers.
#[derive(Clone)]
pub(crate) struct CommandQueue {
    queue: Arc<Queue>,
    /// Lines about words, of one thread.
    lines: LogLimit,
}

impl CommandQueue {
    /// Asks for an answer and counts the question; false when too many wait already.
    pub(crate) fn enqueue(&mut self, shared: &Shared, conn: ConnId, stats: &ConnStats, command: FourLetterCommand) -> bool {
        // Counted here and now, because the answer may show it.
        stats.received.fetch_add(1, Relaxed);
        stats.interest.store(0, Relaxed);
        shared.stats.received.add(1);
        shared.metrics.bytes_received_count.add(command.command.bytes.len() as u64);
        if let Some(suppressed) = self.lines.allow(shared.clock.mono_ms()) {
            let (name, address) = (command.command.name, java_text::address(stats.address));
            tracing::info!(suppressed, "Processing {name} command from {address}");
        }
        self.queue.put(Task::Execute(conn, command))
    }

    /// The connection has sent what it had: the next piece, please.
    pub(crate) fn continue_listing(&self, conn: ConnId) {
        self.queue.put(Task::Continue(conn));
    }

    /// The connection is closed.
    pub(crate) fn cancel(&self, conn: ConnId) {
        self.queue.put(Task::Cancel(conn));
    }
}

/// The thread that answers.
pub(crate) struct CommandThread {
    queue: Arc<Queue>,
    /// Answers whose connections still send the piece before.
    listings: BTreeMap<ConnId, Listing>,
}

/// Both ends of the queue.
pub(crate) fn queue() -> (CommandQueue, CommandThread) {
    let queue = Arc::new(Queue::default());
    let lines = LogLimit::new(LOG_LINES_BURST);
    (CommandQueue { queue: Arc::clone(&queue), lines }, CommandThread { queue, listings: BTreeMap::new() })
}

impl CommandThread {
    /// Answers until the server stops.
    pub(crate) fn run(mut self, shared: &Shared, heartbeat: &Heartbeat) {
        while !shared.is_stopping() {
            heartbeat.beat();
            match self.queue.take(Duration::from_millis(200)) {
                Some(Task::Execute(conn, command)) => self.execute(shared, conn, command),
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

    fn execute(&mut self, shared: &Shared, conn: ConnId, command: FourLetterCommand) {
        let CommandSpec { name, run, .. } = command.command;
        let text = if !shared.config.four_letter_whitelist.allow(name) {
            format!("{name} is not executed because it is not in the whitelist.\n")
        } else {
            match run {
                Handler::Text(run) => run(shared),
                Handler::WithMask(run) => run(shared, command.mask),
                Handler::Close => String::new(),
                Handler::Serving(_) | Handler::Listing(_) => match (run, ServerMode::query(shared)) {
                    (Handler::Serving(run), Some(mode)) => run(shared, mode),
                    (Handler::Listing(start), Some(mode)) => return self.continue_listing(shared, conn, start(mode)),
                    _ => not_serving(name).to_owned(),
                },
            }
        };
        post(shared, Text { conn, text, is_last: true });
    }

    /// Makes the next piece of a listing.
    fn continue_listing(&mut self, shared: &Shared, conn: ConnId, mut listing: Listing) {
        let (mut text, mut status) = (String::new(), ListingStatus::More);
        while status == ListingStatus::More && text.len() < COMMAND_CHUNK_BYTES && !shared.is_stopping() {
            status = listing(shared, &mut text);
        }
        if status == ListingStatus::More {
            self.listings.insert(conn, listing);
        }
        post(shared, Text { conn, text, is_last: status == ListingStatus::Last });
    }
}

/// Two words say it in their own way.
fn not_serving(name: &str) -> &'static str {
    match name {
        "isro" => "null",
        "hash" => NOT_SERVING.trim_end(),
        _ => NOT_SERVING,
    }
}

fn post(shared: &Shared, text: Text) {
    shared.mailboxes[text.conn.thread()].put(|mail| mail.texts.push(text));
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
    fn words_are_told_from_frames() {
        check(b"ruok", Some(("ruok", 0)));
        check(b"ruok\r\n", Some(("ruok", 0)));
        check(b"RUOK", None);
        check(&[0, 0, 0, 45], None);
        check(&[0xff, 0xf4, 0xff, 0xfd, 6], Some(("telnet close", 0)));
        check(b"stmk\0\0\0\0\0\0\0\x09\n", Some(("stmk", 9)));
    }

    #[test]
    fn more_is_waited_for() {
        for bytes in [&b""[..], b"ruo", b"stmk", b"stmk\0\0\0\0\0\0\0"] {
            assert!(matches!(parse(bytes, &FourLetterWhitelist::All), Parsed::Incomplete), "{bytes:?}");
        }
        let nothing = FourLetterWhitelist::Only(BTreeSet::new());
        assert!(matches!(parse(b"stmk", &nothing), Parsed::Command(_)), "what is refused needs no argument");
    }
}
