//! Ids of client connections.

use ox_tree::watch::WatcherId;

/// A connection of an I/O thread. Ids are unique while a watch or an outbox may refer to them, because the generation
/// changes whenever a slot is reused.
///
/// ```text
/// bits 60..32 generation | 31..24 thread | 23..0 slot  (the form of a `WatcherId`)
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnId(u64);

impl ConnId {
    const GENERATION_BITS: u32 = 29;
    /// The maximum number of slots of a thread.
    pub const SLOTS_MAX: usize = 1 << 24;

    /// The connection in `slot` of `thread`.
    ///
    /// # Panics
    /// If the slot is beyond [`Self::SLOTS_MAX`]; the accept loop refuses connections before that.
    pub fn new(thread: u8, slot: usize, generation: u64) -> Self {
        assert!(slot < Self::SLOTS_MAX, "a thread refuses connections beyond its slots");
        let generation = generation & ((1 << Self::GENERATION_BITS) - 1);
        Self(generation << 32 | u64::from(thread) << 24 | slot as u64)
    }

    pub fn thread(self) -> usize {
        (self.0 >> 24 & 0xff) as usize
    }

    pub fn slot(self) -> usize {
        (self.0 & 0xff_ffff) as usize
    }
}

impl From<ConnId> for WatcherId {
    fn from(conn: ConnId) -> Self {
        Self::new(conn.0)
    }
}

impl From<WatcherId> for ConnId {
    fn from(watcher: WatcherId) -> Self {
        Self(watcher.bits())
    }
}
