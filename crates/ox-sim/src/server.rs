//! A simulated server: a disk that outlives its processes, and what checkers know about both.

pub(crate) mod config;
pub(crate) mod dump;
pub(crate) mod io_thread;
pub(crate) mod member;
pub(crate) mod peers_thread;
pub(crate) mod process;
pub(crate) mod reference_log;
mod replica_thread;
mod sim_replica_host;
mod unidentified;

pub(crate) use reference_log::{ExpectedDisk, ReferenceLog};

use crate::event::Job;
use ox_history::Time;
use ox_proto::Zxid;
use ox_store::disk::SimDisk;
use process::Process;

/// The wall clock at the start of a simulation.
pub(crate) const WALL_START_MS: i64 = 1_700_000_000_000;

/// Which unsynced records trigger a pending power cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unsynced {
    Anything,
    /// The first records of a file, more than one.
    FirstOfFile,
}

pub(crate) struct Server {
    pub(crate) disk: SimDisk,
    /// Number of the present process, counted from 1.
    pub(crate) boot: u64,
    pub(crate) process: Option<Process>,
    pub(crate) is_starting: bool,
    /// The job that has reserved the server's files.
    pub(crate) files: Option<Job>,
    pub(crate) expected: ExpectedDisk,
    /// The offset of its wall clock.
    pub(crate) wall_ahead_ms: i64,
    /// Disk calls that were made to fail.
    pub(crate) armed_calls: Vec<u64>,
    /// The disk is full at present.
    pub(crate) is_full: bool,
    /// The disk was full before.
    pub(crate) was_full: bool,
    /// Its files were damaged or deleted before.
    pub(crate) was_damaged: bool,
    /// It has started before without data that its disk had reported.
    pub(crate) was_lost: bool,
    /// The durable zxid at the last check of its leadership, and since when it has not changed.
    pub(crate) stuck: Option<(Zxid, Time)>,
    /// The disk completes no call before this time.
    pub(crate) hung_until: Time,
    /// When a call that was in progress during a hang may complete.
    pub(crate) hangs_end: Time,
    /// Factor by which the disk is slowed down, and until when.
    pub(crate) slow_disk: (i64, Time),
    /// A power cut is pending that strikes between write and fsync.
    pub(crate) cuts_before_sync: Option<Unsynced>,
}

impl Server {
    pub(crate) fn new() -> Self {
        Self {
            disk: SimDisk::new(),
            boot: 1,
            process: None,
            is_starting: false,
            files: None,
            expected: ExpectedDisk::default(),
            wall_ahead_ms: 0,
            armed_calls: Vec::new(),
            is_full: false,
            was_full: false,
            was_damaged: false,
            was_lost: false,
            stuck: None,
            hung_until: Time(0),
            hangs_end: Time(0),
            slow_disk: (1, Time(0)),
            cuts_before_sync: None,
        }
    }

    pub(crate) fn wall_ms(&self, now: Time) -> i64 {
        WALL_START_MS + now.0 / 1000 + self.wall_ahead_ms
    }
}
