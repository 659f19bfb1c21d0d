//! Four-letter words: plain-text status commands on the client port, told apart by the first four bytes.
//!
//! They are answered on a thread of their own, so that a listing of a million watches delays nobody.

mod commands;

use crate::limits::WORDS_WAITING_MAX;
use crate::shared::Shared;
use ox_tree::ConnId;
use ox_tree::outbox::{Note, Outbox};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

/// A word and what came with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Word {
    pub(crate) name: &'static str,
    /// The new trace mask, for `stmk`.
    pub(crate) argument: Option<u64>,
}

/// What the first bytes of a connection are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    /// A word.
    Word(Word),
    /// Perhaps one; more bytes are needed.
    TooLittle,
    /// The beginning of a frame.
    Nothing,
}

const WORDS: [&str; 18] = [
    "conf", "cons", "crst", "dirs", "dump", "envi", "gtmk", "hash", "isro", "mntr", "ruok", "srst", "srvr", "stat",
    "stmk", "wchc", "wchp", "wchs",
];

/// Looks for a word at the start of a connection.
pub(crate) fn hear(bytes: &[u8]) -> Heard {
    let Some((first, rest)) = bytes.split_first_chunk::<4>() else { return Heard::TooLittle };
    let Some(name) = WORDS.into_iter().find(|word| word.as_bytes() == first) else { return Heard::Nothing };
    let argument = rest.first_chunk::<8>().map(|mask| u64::from_be_bytes(*mask)).filter(|_| name == "stmk");
    Heard::Word(Word { name, argument })
}

/// The way to the thread that answers.
#[derive(Clone)]
pub(crate) struct WordQueue(SyncSender<(ConnId, Word)>);

impl WordQueue {
    /// Asks for an answer; false when too many wait already.
    pub(crate) fn ask(&self, conn: ConnId, word: Word) -> bool {
        self.0.try_send((conn, word)).is_ok()
    }
}

/// The thread that answers.
pub(crate) struct WordThread {
    asked: Receiver<(ConnId, Word)>,
}

/// Both ends of the queue.
pub(crate) fn queue() -> (WordQueue, WordThread) {
    let (sender, asked) = sync_channel(WORDS_WAITING_MAX);
    (WordQueue(sender), WordThread { asked })
}

impl WordThread {
    /// Answers until the server stops.
    pub(crate) fn run(self, shared: &Arc<Shared>) {
        while !shared.is_stopping() {
            match self.asked.recv_timeout(Duration::from_millis(200)) {
                Ok((conn, word)) => answer(shared, conn, word),
                Err(RecvTimeoutError::Timeout) => (),
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }
}

fn answer(shared: &Arc<Shared>, conn: ConnId, word: Word) {
    let text = if shared.config.four_letter_words.allow(word.name) {
        commands::run(shared, word)
    } else {
        format!("{} is not executed because it is not in the whitelist.\n", word.name)
    };
    let mut outbox = Outbox::default();
    outbox.push(conn, Note::Close, |bytes| bytes.extend_from_slice(text.as_bytes()));
    shared.mailboxes[conn.thread()].put(|mail| mail.outboxes.push(outbox));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_told_from_frames() {
        let word = |name| Heard::Word(Word { name, argument: None });
        assert_eq!(hear(b"ruok"), word("ruok"));
        assert_eq!(hear(b"ruok\n"), word("ruok"));
        assert_eq!(hear(b"ruo"), Heard::TooLittle);
        assert_eq!(hear(b"RUOK"), Heard::Nothing);
        assert_eq!(hear(&[0, 0, 0, 45]), Heard::Nothing);
        let argument = Some(9);
        assert_eq!(hear(b"stmk\0\0\0\0\0\0\0\x09"), Heard::Word(Word { name: "stmk", argument }));
    }
}
