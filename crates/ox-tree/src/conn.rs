//! The name of a connection, as the watch table and the outboxes know it.

/// One connection of one I/O thread. Never reused while anything may still name it: the generation changes with
/// every connection that takes a slot.
///
/// ```text
/// bits 60..32 generation | 31..24 thread | 23..0 slot        (the top three bits stay free for watch modes)
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnId(u64);

impl ConnId {
    const GENERATION_BITS: u32 = 29;
    /// Slots a thread can have.
    pub const SLOTS_MAX: usize = 1 << 24;

    /// Names the connection in `slot` of `thread`.
    ///
    /// # Panics
    /// When the slot is beyond [`Self::SLOTS_MAX`]; the accept loop refuses connections before that.
    pub fn new(thread: u8, slot: usize, generation: u64) -> Self {
        assert!(slot < Self::SLOTS_MAX, "a thread refuses connections beyond its slots");
        let generation = generation & ((1 << Self::GENERATION_BITS) - 1);
        Self(generation << 32 | u64::from(thread) << 24 | slot as u64)
    }

    /// The I/O thread that owns the connection.
    pub fn thread(self) -> usize {
        (self.0 >> 24 & 0xff) as usize
    }

    /// Its slot there.
    pub fn slot(self) -> usize {
        (self.0 & 0xff_ffff) as usize
    }

    pub(crate) fn bits(self) -> u64 {
        self.0
    }

    pub(crate) fn from_bits(bits: u64) -> Self {
        Self(bits)
    }
}
