//! What an I/O thread has to deliver, and how it is woken.

use mio::Waker;
use mio::net::TcpStream;
use ox_tree::ConnId;
use ox_tree::outbox::Outbox;
use parking_lot::Mutex;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};

/// Everything for one I/O thread.
#[derive(Debug, Default)]
pub(crate) struct Mail {
    /// In the order they were filled.
    pub(crate) outboxes: Vec<Outbox>,
    /// Connections to take over.
    pub(crate) accepted: Vec<(TcpStream, SocketAddr)>,
    /// Answers to four-letter words.
    pub(crate) texts: Vec<Text>,
}

/// A piece of the answer to a four-letter word.
#[derive(Debug)]
pub(crate) struct Text {
    pub(crate) conn: ConnId,
    pub(crate) text: String,
    /// The connection is closed behind it.
    pub(crate) is_last: bool,
}

#[derive(Debug)]
pub(crate) struct Mailbox {
    mail: Mutex<Mail>,
    has_mail: AtomicBool,
    sleeping: AtomicBool,
    waker: Waker,
}

impl Mailbox {
    pub(crate) fn new(waker: Waker) -> Self {
        Self { mail: Mutex::default(), has_mail: AtomicBool::new(false), sleeping: AtomicBool::new(false), waker }
    }

    /// Adds mail; wakes the thread if it sleeps.
    pub(crate) fn put(&self, change: impl FnOnce(&mut Mail)) {
        change(&mut self.mail.lock());
        self.has_mail.store(true, Ordering::SeqCst);
        if self.sleeping.swap(false, Ordering::SeqCst) {
            self.wake();
        }
    }

    pub(crate) fn wake(&self) {
        if let Err(error) = self.waker.wake() {
            tracing::error!(%error, "cannot wake an I/O thread");
        }
    }

    /// Says that the thread is about to sleep. False when there is mail: it must not.
    pub(crate) fn may_sleep(&self) -> bool {
        self.sleeping.store(true, Ordering::SeqCst);
        !self.has_mail.load(Ordering::SeqCst)
    }

    /// Says that the thread is awake.
    pub(crate) fn is_awake(&self) {
        self.sleeping.store(false, Ordering::Relaxed);
    }

    pub(crate) fn take(&self) -> Option<Mail> {
        if !self.has_mail.swap(false, Ordering::SeqCst) {
            return None;
        }
        Some(std::mem::take(&mut *self.mail.lock()))
    }
}
