//! A member of an ensemble that begins anew after its disk was full.
//!
//! When the last byte is gone, the log takes nothing more, and what a part of the server holds in memory may be ahead of
//! the disk. So the server ends as a whole, as it does for every error of the disk, and nothing of it is kept: when there
//! is space, one is started that knows nothing but the files. The process stays, so that nobody has to notice and
//! start it again. A server that is alone has no others that go on meanwhile, and ends for good.

use ox_config::Config;
use ox_server::{Stopper, has_disk_space};
use parking_lot::{Condvar, Mutex};
use std::time::{Duration, Instant};

/// The shortest time between two servers.
const SHORTEST: Duration = Duration::from_secs(1);
/// After so long one is started even if space is short: what takes it may be left over from the last one, and go then. No
/// pause is longer, and a server that ran for longer has not failed at once.
const LONGEST: Duration = Duration::from_secs(64);
/// Between two looks at free space.
const LOOK: Duration = Duration::from_secs(1);
/// For so long the directories may be locked by what is left of the server before.
const LOCKED_MAX: u32 = 8;

/// How a server ended that was not asked to.
pub(super) enum Ended {
    /// Its disk was full.
    Full(String),
    /// It did not begin, because something is left of the one before.
    Locked(String),
    /// For good, with an exit code.
    Fatal(u8, String),
}

/// The end of it all, for whichever server runs at the time.
#[derive(Default)]
pub(super) struct Stop {
    inner: Mutex<Inner>,
    stopped: Condvar,
}

#[derive(Default)]
struct Inner {
    is_asked: bool,
    runs: Option<Stopper>,
}

impl Stop {
    pub(super) fn stop(&self) {
        let mut inner = self.inner.lock();
        inner.is_asked = true;
        inner.runs.iter().for_each(Stopper::stop);
        self.stopped.notify_all();
    }

    /// A server runs now, or none does any more: whoever can stop it keeps what it holds.
    pub(super) fn set_running(&self, runs: Option<Stopper>) {
        let mut inner = self.inner.lock();
        if inner.is_asked {
            runs.iter().for_each(Stopper::stop);
        }
        inner.runs = runs;
    }

    /// Sleeps for a while, or until the end is asked for; tells whether it was.
    fn nap(&self, time: Duration) -> bool {
        let mut inner = self.inner.lock();
        if !inner.is_asked {
            self.stopped.wait_for(&mut inner, time);
        }
        inner.is_asked
    }
}

/// The time between two servers.
pub(super) struct Wait {
    /// Whether there was one before.
    pub(super) is_again: bool,
    since: Instant,
    pause: Duration,
    /// Attempts in a row that found the directories locked.
    locked: u32,
}

impl Wait {
    pub(super) fn new() -> Self {
        Self { is_again: false, since: Instant::now(), pause: Duration::ZERO, locked: 0 }
    }

    /// Waits until another server may begin. `Ok(false)` if none shall, an error if the last one cannot be helped.
    pub(super) fn after(&mut self, ended: Ended, config: &Config, stop: &Stop) -> Result<bool, (u8, String)> {
        match ended {
            Ended::Fatal(code, why) => return Err((code, why)),
            Ended::Locked(why) if self.locked == LOCKED_MAX => return Err((1, why)),
            Ended::Locked(_) => self.locked += 1,
            Ended::Full(why) => {
                self.locked = 0;
                tracing::error!("{why}");
                tracing::error!("the disk is full: this server takes no part until there is space again");
            }
        }
        // With space, what was tried needs more than there is, or others come and go.
        let is_odd = has_disk_space(config) && self.since.elapsed() < LONGEST;
        self.pause = if is_odd { (self.pause * 2).clamp(SHORTEST, LONGEST) } else { SHORTEST };
        let until = Instant::now() + LONGEST;
        let mut is_stopped = stop.nap(self.pause);
        while !is_stopped && !has_disk_space(config) && Instant::now() < until {
            is_stopped = stop.nap(LOOK);
        }
        if !is_stopped {
            tracing::info!("starting again");
        }
        (self.is_again, self.since) = (true, Instant::now());
        Ok(!is_stopped)
    }
}
