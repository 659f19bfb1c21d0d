//! What every step of a machine gets.

use crate::effect::{Effect, Effects, LinkId};
use crate::history::History;
use crate::message::Message;

/// The time, the history, and where effects go.
pub struct Context<'a> {
    /// A clock that only goes forward.
    pub now_ms: i64,
    /// What is logged.
    pub history: &'a mut History,
    /// What is to be done.
    pub out: &'a mut Effects,
}

impl Context<'_> {
    pub(crate) fn send(&mut self, link: LinkId, message: Message) {
        self.out.push(Effect::Send(link, message));
    }
}
