//! Arguments that every step of a state machine needs.

use crate::effect::Effects;
use crate::recent_log::RecentLog;

pub struct Context<'a> {
    /// Monotonic clock, in milliseconds.
    pub now_ms: i64,
    /// The log of this member.
    pub history: &'a mut RecentLog,
    /// Effects for the driver, in order.
    pub out: &'a mut Effects,
}
