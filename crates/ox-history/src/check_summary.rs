//! Counts of what a check covered.

use crate::model::Model;

/// The result of a check without violations.
#[derive(Debug)]
pub struct CheckSummary {
    pub connections: usize,
    pub requests: usize,
    pub replies: usize,
    pub events: usize,
    /// Transactions of the final log.
    pub transactions: usize,
    /// Writes without a reply that took effect.
    pub effective_without_reply: usize,
    /// The state after the final log.
    pub model: Model,
}
