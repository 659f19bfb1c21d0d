//! What a check has looked at.

use crate::model::Model;

/// The outcome of a check that found nothing.
#[derive(Debug)]
pub struct Summary {
    /// Connections of all clients.
    pub connections: usize,
    /// Requests they sent.
    pub requests: usize,
    /// Answers they got.
    pub answers: usize,
    /// Events they got.
    pub events: usize,
    /// Transactions of the final log.
    pub transactions: usize,
    /// Writes without an answer that took effect.
    pub unanswered_but_done: usize,
    /// The state that the final log gives.
    pub model: Model,
}
