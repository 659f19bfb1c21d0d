//! A simulated server: a disk that outlives its processes, and what an observer knows about both.

pub(crate) mod config;
pub(crate) mod connection;
pub(crate) mod dump;
pub(crate) mod io_thread;
pub(crate) mod reference_log;
pub(crate) mod log;
pub(crate) mod member;
pub(crate) mod wire_end;
pub(crate) mod process;
mod replica_thread;
mod server_load;
mod unidentified;

pub(crate) use reference_log::{Journal, Track};
pub(crate) use log::Report;

use crate::event::Job;
use ox_history::Time;
use ox_proto::Zxid;
use ox_store::disk::SimDisk;
use process::Process;

/// Where the wall clock stands when the world begins.
pub(crate) const WALL_START_MS: i64 = 1_700_000_000_000;

/// What is in the log, and not yet on the disk, when power goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unsynced {
    Anything,
    /// The first records of a file, more than one.
    FirstOfFile,
}

pub(crate) struct Server {
    pub(crate) disk: SimDisk,
    /// Number of the run.
    pub(crate) boot: u64,
    pub(crate) process: Option<Process>,
    pub(crate) is_starting: bool,
    /// The job that has its files for itself.
    pub(crate) files: Option<Job>,
    pub(crate) track: Track,
    /// What its wall clock is ahead.
    pub(crate) wall_ahead_ms: i64,
    /// Disk calls that were made to fail.
    pub(crate) armed_calls: Vec<u64>,
    /// The disk is too small for now.
    pub(crate) is_full: bool,
    /// It was once.
    pub(crate) was_full: bool,
    /// Its files were damaged once.
    pub(crate) was_damaged: bool,
    /// It has once started without what its disk had reported.
    pub(crate) was_lost: bool,
    /// What its disk had reported when it was last asked as leader, and since when.
    pub(crate) stuck: Option<(Zxid, Time)>,
    /// Its disk does nothing before.
    pub(crate) hung_until: Time,
    /// A call that was under way while it hung may end then.
    pub(crate) hangs_end: Time,
    /// How much slower than planned its disk is, until when.
    pub(crate) slow_disk: (i64, Time),
    /// Power goes before what is written next is synced.
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
            track: Track::default(),
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

    /// What its wall clock shows.
    pub(crate) fn wall_ms(&self, now: Time) -> i64 {
        WALL_START_MS + now.0 / 1000 + self.wall_ahead_ms
    }
}
