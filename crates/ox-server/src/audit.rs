//! The audit log: a bounded queue, and a thread that writes lines to a file that rotates, or to the server's log.
//!
//! The replica thread only pushes to the queue: neither a slow nor a full disk delays requests. If the queue is full, or
//! a line cannot be written, the event is dropped; the number of dropped events is logged as an error, and counted in
//! `audit_events_dropped`. The thread is not watched by the watchdog, because a hanging audit file must not end the server.

mod line;

use crate::rotating_file::RotatingFile;
use crate::shared::Shared;
use line::AuditLine;
use ox_config::AuditConfig;
use ox_replica::{AuditEvent, AuditResult};
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::io;
use std::time::Duration;

/// Events in the queue, and their memory. A burst of this size is written in about a second.
const EVENTS_MAX: usize = 100_000;
const BYTES_MAX: usize = 32 << 20;

/// Only the server's user reads the file.
const FILE_MODE: u32 = 0o600;

/// The target of audit lines in the server's log.
pub const AUDIT_LOG_TARGET: &str = "audit";

/// Events that wait for the audit thread.
pub(crate) struct AuditQueue {
    inner: Mutex<Queued>,
    arrived: Condvar,
    ended: Condvar,
}

#[derive(Default)]
struct Queued {
    /// With the time of the event, in milliseconds since 1970.
    events: VecDeque<(i64, AuditEvent)>,
    bytes: usize,
    /// Events that found the queue full since the thread last looked.
    dropped: u64,
    /// The file was renamed: the thread opens it again before the next line.
    is_reopened: bool,
    /// No further event follows: the thread ends when the queue is empty.
    is_closed: bool,
    /// The thread has ended.
    has_ended: bool,
}

impl AuditQueue {
    pub(crate) fn new() -> Self {
        Self { inner: Mutex::default(), arrived: Condvar::new(), ended: Condvar::new() }
    }

    /// Appends events, or drops those that do not fit.
    pub(crate) fn push(&self, wall_ms: i64, events: impl IntoIterator<Item = AuditEvent>) {
        let mut queued = self.inner.lock();
        for event in events {
            let bytes = event.bytes();
            if EVENTS_MAX <= queued.events.len() || BYTES_MAX < queued.bytes + bytes {
                queued.dropped += 1;
            } else {
                queued.bytes += bytes;
                queued.events.push_back((wall_ms, event));
            }
        }
        drop(queued);
        self.arrived.notify_one();
    }

    /// Opens the file again before the next line, because it was renamed or removed.
    pub(crate) fn reopen(&self) {
        self.inner.lock().is_reopened = true;
    }

    /// Lets the thread end after the last event.
    pub(crate) fn close(&self) {
        self.inner.lock().is_closed = true;
        self.arrived.notify_one();
    }

    /// Waits for the end of the thread, but not longer than `limit`.
    pub(crate) fn await_end(&self, limit: Duration) {
        self.ended.wait_while_for(&mut self.inner.lock(), |queued| !queued.has_ended, limit);
    }

    /// Waits for events. `None` when the queue is closed and empty.
    fn take(&self) -> Option<TakenEvents> {
        let mut queued = self.inner.lock();
        while queued.events.is_empty() && queued.dropped == 0 {
            if queued.is_closed {
                return None;
            }
            self.arrived.wait(&mut queued);
        }
        queued.bytes = 0;
        Some(TakenEvents {
            events: std::mem::take(&mut queued.events),
            dropped: std::mem::take(&mut queued.dropped),
            is_reopened: std::mem::take(&mut queued.is_reopened),
        })
    }
}

/// What the thread takes from the queue at once.
struct TakenEvents {
    events: VecDeque<(i64, AuditEvent)>,
    dropped: u64,
    is_reopened: bool,
}

/// Announces the end of the thread, also if it panics.
struct AnnounceEnd<'a>(&'a AuditQueue);

impl Drop for AnnounceEnd<'_> {
    fn drop(&mut self) {
        self.0.inner.lock().has_ended = true;
        self.0.ended.notify_all();
    }
}

/// Where lines are written to.
struct AuditWriter {
    config: AuditConfig,
    /// The user of events of the server itself.
    user: String,
    file: Option<RotatingFile>,
}

impl AuditWriter {
    fn open(config: &AuditConfig, user: String) -> io::Result<Self> {
        let open = |path| RotatingFile::open(path, config.file_bytes_max, config.backups, FILE_MODE);
        Ok(Self { config: config.clone(), user, file: config.file.as_deref().map(open).transpose()? })
    }

    fn write(&mut self, wall_ms: i64, event: &AuditEvent) -> io::Result<()> {
        let line = AuditLine { wall_ms, event, user: &self.user, format: self.config.format };
        match &mut self.file {
            Some(file) => file.write_line(line.with_time().as_bytes()),
            None => {
                let message = line.message();
                if event.result == AuditResult::Failure {
                    tracing::error!(target: AUDIT_LOG_TARGET, "{message}");
                } else {
                    tracing::info!(target: AUDIT_LOG_TARGET, "{message}");
                }
                Ok(())
            }
        }
    }
}

/// Opens the audit file, so that a start fails if it cannot be written. The thread opens it again: the data is read first,
/// which may take long, and another program may rename the file meanwhile.
pub(crate) fn check(config: &AuditConfig) -> io::Result<()> {
    if config.enabled { AuditWriter::open(config, String::new()).map(drop) } else { Ok(()) }
}

/// Writes queued events until the queue is closed.
pub(crate) fn run(shared: &Shared, queue: &AuditQueue, user: &str) {
    let _end = AnnounceEnd(queue);
    let mut writer = None;
    while let Some(TakenEvents { events, mut dropped, is_reopened }) = queue.take() {
        if is_reopened {
            writer = None;
        }
        for (wall_ms, event) in &events {
            // Opened again after an error: the disk may have free space by now.
            if writer.is_none() {
                writer = AuditWriter::open(&shared.config.audit, user.to_owned()).ok();
            }
            let written = writer.as_mut().is_some_and(|writer| writer.write(*wall_ms, event).is_ok());
            if !written {
                (writer, dropped) = (None, dropped + 1);
            }
        }
        if 0 < dropped {
            shared.metrics.audit_events_dropped.add(dropped);
            tracing::error!(
                dropped,
                "audit events dropped: the audit log is full, or slower than the requests; check its disk"
            );
        }
    }
}

/// Records the start of a server that failed.
pub(crate) fn note_failed_start(config: &AuditConfig, user: &str) {
    let event = AuditEvent::of_server("serverStart", AuditResult::Failure);
    let written =
        AuditWriter::open(config, user.to_owned()).and_then(|mut writer| writer.write(crate::clock::wall_ms(), &event));
    if let Err(error) = written {
        tracing::error!(%error, "cannot write the audit log");
    }
}

/// The user of events of the server itself: its Kerberos principal, else the user of the operating system.
pub(crate) fn server_user(principal: Option<String>) -> String {
    principal.or_else(crate::status::os_info::user_name).or_else(|| std::env::var("USER").ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_queue_drops_and_counts() {
        let queue = AuditQueue::new();
        let event = || AuditEvent::of_server("serverStart", AuditResult::Success);
        queue.push(0, (0..EVENTS_MAX + 7).map(|_| event()));
        let taken = queue.take().unwrap();
        assert_eq!((taken.events.len(), taken.dropped), (EVENTS_MAX, 7));
        let large = AuditEvent { znode: Some("x".repeat(BYTES_MAX / 2)), ..event() };
        queue.push(0, [large.clone(), large]);
        queue.close();
        let taken = queue.take().unwrap();
        assert_eq!((taken.events.len(), taken.dropped), (1, 1));
        assert!(queue.take().is_none(), "closed and empty");
    }

    #[test]
    fn end_of_the_thread_is_awaited() {
        let queue = AuditQueue::new();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let _end = AnnounceEnd(&queue);
                while queue.take().is_some() {}
            });
            queue.close();
            queue.await_end(Duration::MAX);
        });
        assert!(queue.inner.lock().has_ended);
    }
}
