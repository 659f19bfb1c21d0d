//! Restarts a member of an ensemble whose disk was full.
//!
//! On a full disk the log accepts nothing more, and the server's memory may be ahead of the disk. So the server ends,
//! as after every disk error, and keeps nothing in memory: when there is space, a new one starts from the files. The
//! process stays, so that no operator has to restart it. A standalone server has no other members that continue
//! meanwhile, and ends for good.

use super::start_errors::StartFailure;
use ox_config::Config;
use ox_server::{ServerHandle, disk_space_needed, has_disk_space};
use parking_lot::{Condvar, Mutex};
use std::time::{Duration, Instant};

/// The shortest pause between two servers.
const PAUSE_MIN: Duration = Duration::from_secs(1);
/// A server is started after this time even if space is low, because files of the last one may use the space and are
/// removed at a start. Also the longest pause, and the run time after which a failure does not lengthen the pause.
const PAUSE_MAX: Duration = Duration::from_secs(64);
/// Interval of the check of free space.
const SPACE_CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Number of restarts while the previous server still holds the lock of a directory.
const LOCKED_MAX: u32 = 8;

/// How a server ended without a request to stop.
pub(super) enum Ended {
    Full(String),
    /// It did not start, because the previous server still holds a lock.
    Locked(String),
    /// It cannot be restarted.
    Fatal(StartFailure),
}

/// A request to stop, for the server that runs at the time.
#[derive(Default)]
pub(super) struct Stop {
    inner: Mutex<Inner>,
    stopped: Condvar,
}

#[derive(Default)]
struct Inner {
    is_requested: bool,
    runs: Option<ServerHandle>,
}

impl Stop {
    pub(super) fn stop(&self) {
        let mut inner = self.inner.lock();
        inner.is_requested = true;
        inner.runs.iter().for_each(ServerHandle::stop);
        self.stopped.notify_all();
    }

    /// Sets the server that runs now. It is stopped immediately if a stop was requested.
    pub(super) fn set_running(&self, runs: Option<ServerHandle>) {
        let mut inner = self.inner.lock();
        if inner.is_requested {
            runs.iter().for_each(ServerHandle::stop);
        }
        inner.runs = runs;
    }

    /// The server that runs now.
    pub(super) fn running(&self) -> Option<ServerHandle> {
        self.inner.lock().runs.clone()
    }

    /// Sleeps for the given time or until a stop is requested. Returns whether one was.
    pub(super) fn sleep(&self, time: Duration) -> bool {
        let mut inner = self.inner.lock();
        if !inner.is_requested {
            self.stopped.wait_for(&mut inner, time);
        }
        inner.is_requested
    }
}

/// The pause between two servers.
pub(super) struct Wait {
    /// Whether a server ran before.
    pub(super) is_restart: bool,
    since: Instant,
    pause: Duration,
    /// Consecutive attempts that found the directories locked.
    locked: u32,
}

impl Wait {
    pub(super) fn new() -> Self {
        Self { is_restart: false, since: Instant::now(), pause: Duration::ZERO, locked: 0 }
    }

    /// Waits until another server may start. `Ok(false)` if a stop was requested, an error if a restart does not help.
    pub(super) fn after(&mut self, ended: Ended, config: &Config, stop: &Stop) -> Result<bool, StartFailure> {
        match ended {
            Ended::Fatal(failure) => return Err(failure),
            Ended::Locked(why) if self.locked == LOCKED_MAX => return Err(StartFailure::new(1, why)),
            Ended::Locked(_) => self.locked += 1,
            Ended::Full(why) => {
                self.locked = 0;
                let needed = disk_space_needed(config);
                tracing::error!(
                    cause = why,
                    data_dir_needs_bytes = needed.map(|[data, _]| data),
                    data_log_dir_needs_bytes = needed.map(|[_, log]| log),
                    "disk is full: this member has stopped and restarts when that many bytes are free; free some space in dataDir and dataLogDir"
                );
            }
        }
        // There is space, but the server needed more, or other programs use it at times.
        let failed_with_space = has_disk_space(config) && self.since.elapsed() < PAUSE_MAX;
        self.pause = if failed_with_space { (self.pause * 2).clamp(PAUSE_MIN, PAUSE_MAX) } else { PAUSE_MIN };
        let until = Instant::now() + PAUSE_MAX;
        let mut is_stopped = stop.sleep(self.pause);
        while !is_stopped && !has_disk_space(config) && Instant::now() < until {
            is_stopped = stop.sleep(SPACE_CHECK_INTERVAL);
        }
        if !is_stopped {
            tracing::info!("restarting after a full disk");
        }
        (self.is_restart, self.since) = (true, Instant::now());
        Ok(!is_stopped)
    }
}
