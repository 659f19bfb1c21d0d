//! What every step of a machine gets.

use crate::effect::Effects;
use crate::recent_log::History;

/// The time, the history, and where effects go.
pub struct Context<'a> {
    /// A clock that only goes forward.
    pub now_ms: i64,
    /// What is logged.
    pub history: &'a mut History,
    /// What is to be done.
    pub out: &'a mut Effects,
}
