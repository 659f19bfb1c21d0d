//! Which bytes tell that somebody is at the other end of a link.
//!
//! The system takes bytes for somebody who is frozen, cut off or gone for as long as there is room. So what a server
//! sends tells nothing about who shall receive it, least of all its own pings. There is one exception: a learner that
//! is given much history has nothing to say meanwhile, so there it counts that the history gets less.

/// A movement on a link, of less than a packet or of many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moved {
    /// Bytes have come.
    Came,
    /// Bytes have gone that had to wait for the other end to make room, or a piece of a history that is given away.
    Went,
}

impl Moved {
    /// Whether it shows that the other end is alive, which is being given history or is not.
    pub(crate) fn is_sign_of_life(self, is_given_history: bool) -> bool {
        match self {
            Self::Came => true,
            Self::Went => is_given_history,
        }
    }
}
