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

use crate::connections::ConnFigures;
use crate::java_text;
use crate::limits::{PROVOKED_LINES_AT_ONCE, WORD_PIECE_BYTES};
use crate::log_limit::Seldom;
use crate::mailbox::Text;
use crate::server_mode::Standing;
use crate::shared::Shared;
use crate::watchdog::Turns;
use ox_config::FourLetterWhitelist;
use ox_tree::ConnId;
use queue::{Asked, Queue};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

pub use docs::commands_page;
pub(crate) use environment::environment;

/// What a server answers that has no leader yet, or is about to stop.
const NOT_SERVING: &str = "This ZooKeeper instance is not currently serving requests\n";

/// A status command.
pub(crate) struct Command {
    pub(crate) name: &'static str,
    /// The bytes it is asked for with.
    bytes: [u8; 4],
    /// One line for people.
    pub(crate) help: &'static str,
    run: Run,
}

/// How a command answers.
#[derive(Clone, Copy)]
enum Run {
    /// At once.
    Text(fn(&Shared) -> String),
    /// At once, by a server that serves clients.
    Serving(fn(&Shared, Standing) -> String),
    /// At once, with the eight bytes that follow the word.
    WithMask(fn(&Shared, u64) -> String),
    /// In pieces, by a server that serves clients.
    Listing(fn(Standing) -> Listing),
    /// Not at all: the connection is closed.
    Nothing,
}

/// Makes an answer piece by piece: appends to the text and says whether there is more.
type Listing = Box<dyn FnMut(&Shared, &mut String) -> Piece + Send>;

/// Where an answer stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Piece {
    More,
    Last,
}

const fn command(name: &'static str, run: Run, help: &'static str) -> Command {
    let Some(bytes) = name.as_bytes().first_chunk::<4>() else { panic!("a word has four letters") };
    Command { name, bytes: *bytes, help, run }
}

/// All commands.
pub(crate) const COMMANDS: &[Command] = &[
    command("conf", Run::Serving(config::conf), "settings of the server"),
    command("cons", Run::Listing(connections::cons), "all connections with their figures"),
    command("crst", Run::Serving(connections::crst), "reset the figures of all connections"),
    command("dirs", Run::Serving(config::dirs), "bytes of snapshots and logs"),
    command("dump", Run::Listing(sessions::dump), "sessions, ephemeral nodes and connections, by when they expire"),
    command("envi", Run::Text(environment::envi), "the machine the server runs on"),
    command("gtmk", Run::Text(status::gtmk), "the trace mask"),
    command("hash", Run::Serving(status::hash), "digests of the tree at past transactions"),
    command("isro", Run::Serving(status::isro), "`ro` when the server is read-only, else `rw`"),
    command("mntr", Run::Serving(monitor::mntr), "all metrics"),
    command("ruok", Run::Text(status::ruok), "`imok` when the server runs"),
    command("srst", Run::Serving(status::srst), "reset the figures of the server"),
    command("srvr", Run::Serving(status::srvr), "figures of the server"),
    command("stat", Run::Listing(connections::stat), "figures of the server and its connections"),
    command("stmk", Run::WithMask(status::stmk), "set the trace mask to the eight bytes that follow"),
    command("wchc", Run::Listing(watches::wchc), "watched paths by session"),
    command("wchp", Run::Listing(watches::wchp), "sessions by watched path"),
    command("wchs", Run::Listing(watches::wchs), "number of watches"),
    Command {
        name: "telnet close",
        bytes: [0xff, 0xf4, 0xff, 0xfd],
        help: "what telnet sends when it is interrupted",
        run: Run::Nothing,
    },
];

/// A word and what came with it.
#[derive(Clone, Copy)]
pub(crate) struct Word {
    command: &'static Command,
    /// The eight bytes that follow.
    mask: u64,
}

/// What the first bytes of a connection are.
#[derive(Clone, Copy)]
pub(crate) enum Heard {
    /// A word.
    Word(Word),
    /// Perhaps one; more bytes are needed.
    TooLittle,
    /// The beginning of a frame.
    Nothing,
}

/// Looks for a word at the start of a connection. What follows it is ignored, except by the one word that has an
/// argument; that one waits for it, if it is answered at all.
pub(crate) fn hear(bytes: &[u8], enabled: &FourLetterWhitelist) -> Heard {
    let Some((first, rest)) = bytes.split_first_chunk::<4>() else { return Heard::TooLittle };
    let Some(command) = COMMANDS.iter().find(|command| command.bytes == *first) else { return Heard::Nothing };
    let mask = rest.first_chunk::<8>().map(|mask| u64::from_be_bytes(*mask));
    match (command.run, mask) {
        (Run::WithMask(_), None) if enabled.allow(command.name) => Heard::TooLittle,
        _ => Heard::Word(Word { command, mask: mask.unwrap_or_default() }),
    }
}

/// The way to the thread that answers.
#[derive(Clone)]
pub(crate) struct WordQueue {
    queue: Arc<Queue>,
    /// Lines about words, of one thread.
    lines: Seldom,
}

impl WordQueue {
    /// Asks for an answer and counts the question; false when too many wait already.
    pub(crate) fn ask(&mut self, shared: &Shared, conn: ConnId, figures: &ConnFigures, word: Word) -> bool {
        // Counted here and now, because the answer may show it.
        figures.received.fetch_add(1, Relaxed);
        figures.interest.store(0, Relaxed);
        shared.stats.received.add(1);
        shared.metrics.bytes_received_count.add(word.command.bytes.len() as u64);
        if let Some(unsaid) = self.lines.may_say(shared.clock.mono_ms()) {
            let (name, address) = (word.command.name, java_text::address(figures.address));
            tracing::info!(unsaid, "Processing {name} command from {address}");
        }
        self.queue.put(Asked::Word(conn, word))
    }

    /// The connection has sent what it had: the next piece, please.
    pub(crate) fn go_on(&self, conn: ConnId) {
        self.queue.put(Asked::GoOn(conn));
    }

    /// The connection is closed.
    pub(crate) fn give_up(&self, conn: ConnId) {
        self.queue.put(Asked::GiveUp(conn));
    }
}

/// The thread that answers.
pub(crate) struct WordThread {
    queue: Arc<Queue>,
    /// Answers whose connections still send the piece before.
    listings: BTreeMap<ConnId, Listing>,
}

/// Both ends of the queue.
pub(crate) fn queue() -> (WordQueue, WordThread) {
    let queue = Arc::new(Queue::default());
    let lines = Seldom::new(PROVOKED_LINES_AT_ONCE);
    (WordQueue { queue: Arc::clone(&queue), lines }, WordThread { queue, listings: BTreeMap::new() })
}

impl WordThread {
    /// Answers until the server stops.
    pub(crate) fn run(mut self, shared: &Shared, turns: &Turns) {
        while !shared.is_stopping() {
            turns.mark();
            match self.queue.take(Duration::from_millis(200)) {
                Some(Asked::Word(conn, word)) => self.answer(shared, conn, word),
                Some(Asked::GoOn(conn)) => {
                    if let Some(listing) = self.listings.remove(&conn) {
                        self.go_on(shared, conn, listing);
                    }
                }
                Some(Asked::GiveUp(conn)) => _ = self.listings.remove(&conn),
                None => (),
            }
        }
    }

    fn answer(&mut self, shared: &Shared, conn: ConnId, word: Word) {
        let Command { name, run, .. } = word.command;
        let text = if !shared.config.four_letter_whitelist.allow(name) {
            format!("{name} is not executed because it is not in the whitelist.\n")
        } else {
            match run {
                Run::Text(run) => run(shared),
                Run::WithMask(run) => run(shared, word.mask),
                Run::Nothing => String::new(),
                Run::Serving(_) | Run::Listing(_) => match (run, Standing::ask(shared)) {
                    (Run::Serving(run), Some(standing)) => run(shared, standing),
                    (Run::Listing(start), Some(standing)) => return self.go_on(shared, conn, start(standing)),
                    _ => not_serving(name).to_owned(),
                },
            }
        };
        post(shared, Text { conn, text, is_last: true });
    }

    /// Makes the next piece of a listing.
    fn go_on(&mut self, shared: &Shared, conn: ConnId, mut listing: Listing) {
        let (mut text, mut piece) = (String::new(), Piece::More);
        while piece == Piece::More && text.len() < WORD_PIECE_BYTES && !shared.is_stopping() {
            piece = listing(shared, &mut text);
        }
        if piece == Piece::More {
            self.listings.insert(conn, listing);
        }
        post(shared, Text { conn, text, is_last: piece == Piece::Last });
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
        let Heard::Word(Word { command, mask }) = hear(bytes, &FourLetterWhitelist::All) else {
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
            assert!(matches!(hear(bytes, &FourLetterWhitelist::All), Heard::TooLittle), "{bytes:?}");
        }
        let nothing = FourLetterWhitelist::Only(BTreeSet::new());
        assert!(matches!(hear(b"stmk", &nothing), Heard::Word(_)), "what is refused needs no argument");
    }
}
