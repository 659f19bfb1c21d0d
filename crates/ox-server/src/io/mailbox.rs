//! The queue of an I/O thread: outboxes of the replica, accepted connections, replies to four-letter commands. The
//! thread is woken only when it sleeps.

use crate::io::Transport;
use mio::Waker;
use ox_driver::client_io;
use ox_tree::auth::Identity;
use parking_lot::Mutex;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};

/// A connection that is about to be served.
#[derive(Debug)]
pub(crate) struct AcceptedClient {
    pub(crate) transport: Transport,
    pub(crate) address: SocketAddr,
    /// What the certificate of the client proves.
    pub(crate) identities: Vec<Identity>,
}

/// Everything for one I/O thread.
#[derive(Debug, Default)]
pub(crate) struct ThreadMail {
    pub(crate) for_connections: client_io::Mail,
    /// Connections that another thread has accepted for this one.
    pub(crate) accepted: Vec<AcceptedClient>,
    /// New address of the client port.
    pub(crate) relisten: Option<SocketAddr>,
}

#[derive(Debug)]
pub(crate) struct Mailbox {
    mail: Mutex<ThreadMail>,
    has_mail: AtomicBool,
    sleeping: AtomicBool,
    waker: Waker,
}

impl Mailbox {
    pub(crate) fn new(waker: Waker) -> Self {
        Self { mail: Mutex::default(), has_mail: AtomicBool::new(false), sleeping: AtomicBool::new(false), waker }
    }

    /// Adds mail, and wakes the thread if it sleeps.
    pub(crate) fn put(&self, change: impl FnOnce(&mut ThreadMail)) {
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

    /// Announces that the thread is about to sleep. False when there is mail, so that it must not sleep.
    pub(crate) fn may_sleep(&self) -> bool {
        self.sleeping.store(true, Ordering::SeqCst);
        !self.has_mail.load(Ordering::SeqCst)
    }

    /// Announces that the thread is awake.
    pub(crate) fn is_awake(&self) {
        self.sleeping.store(false, Ordering::Relaxed);
    }

    pub(crate) fn take(&self) -> Option<ThreadMail> {
        if !self.has_mail.swap(false, Ordering::SeqCst) {
            return None;
        }
        Some(std::mem::take(&mut *self.mail.lock()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mio::{Events, Poll, Token};
    use ox_replica::outbox::Outbox;
    use std::sync::atomic::AtomicUsize;
    use std::time::{Duration, Instant};

    /// One message at a time, each to a thread that may be about to sleep.
    #[test]
    fn k139_no_wake_up_is_lost() {
        const LETTERS: usize = 20_000;
        const TOO_LONG: Duration = Duration::from_secs(10);
        let mut poll = Poll::new().unwrap();
        let mailbox = Mailbox::new(Waker::new(poll.registry(), Token(0)).unwrap());
        let taken = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for letter in 0..LETTERS {
                    mailbox.put(|mail| mail.for_connections.outboxes.push(Outbox::default()));
                    while taken.load(Ordering::Acquire) == letter {
                        std::hint::spin_loop();
                        std::thread::yield_now();
                    }
                }
            });
            let mut events = Events::with_capacity(8);
            while taken.load(Ordering::Relaxed) < LETTERS {
                if mailbox.may_sleep() {
                    let begun = Instant::now();
                    poll.poll(&mut events, Some(TOO_LONG)).unwrap();
                    assert!(begun.elapsed() < TOO_LONG, "a wake-up was lost");
                }
                mailbox.is_awake();
                if let Some(mail) = mailbox.take() {
                    taken.fetch_add(mail.for_connections.outboxes.len(), Ordering::Release);
                }
            }
        });
    }
}
