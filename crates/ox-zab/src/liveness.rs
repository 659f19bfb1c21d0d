//! Which traffic counts as a sign of life of the peer.
//!
//! The kernel accepts bytes for a frozen or disconnected peer until its buffers are full. So sending proves nothing
//! about the receiver, least of all sending pings. There is one exception: a learner that receives a long history sends
//! nothing meanwhile, so there the shrinking backlog counts.

/// Traffic on a link, of any amount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Traffic {
    Received,
    /// The kernel accepted bytes that had waited for its buffer to drain, or a part of a history was sent.
    Sent,
}

impl Traffic {
    /// Whether this traffic proves that the peer is running. `is_given_history`: the peer is a learner that is being
    /// synchronised.
    pub(crate) fn is_sign_of_life(self, is_given_history: bool) -> bool {
        match self {
            Self::Received => true,
            Self::Sent => is_given_history,
        }
    }
}
