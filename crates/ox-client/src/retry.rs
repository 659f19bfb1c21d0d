//! Retry policies for operations that a connection loss interrupts.

use std::time::Duration;

/// Upper bound of the pause between two attempts.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// When the client retries operations that fail because of a connection loss.
///
/// Under every policy, an operation is sent again only when that is safe: reads, and writes that certainly had no
/// effect. A write whose reply is lost is left to the caller (see [`Error::outcome`](crate::Error::outcome)), unless it
/// is a [protected create](crate::Client::create_protected).
///
/// ```
/// use ox_client::RetryPolicy;
/// use std::time::Duration;
/// let builder = ox_client::Client::builder().retry(RetryPolicy::until_elapsed(Duration::from_secs(5)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RetryPolicy {
    /// Never retry. Operations fail immediately while the client is disconnected.
    None,
    /// Retry a number of times. Operations wait for a connection as long as the session lasts.
    Times {
        /// Attempts after the first one.
        retries: u32,
        /// Pause before the first retry; it doubles with each retry, up to a second.
        pause: Duration,
    },
    /// Retry until a time limit, counted from the start of the operation and including the wait for a connection. A
    /// request that is in flight at that point is still waited for.
    UntilElapsed {
        /// The time limit of the operation.
        limit: Duration,
        /// Pause before the first retry; it doubles with each retry, up to a second.
        pause: Duration,
    },
}

impl RetryPolicy {
    /// Retries up to `retries` times, with pauses from 20 ms up to a second.
    ///
    /// ```
    /// let builder = ox_client::Client::builder().retry(ox_client::RetryPolicy::times(3));
    /// ```
    pub fn times(retries: u32) -> Self {
        Self::Times { retries, pause: Duration::from_millis(20) }
    }

    /// Retries for up to `limit`, with pauses from 20 ms up to a second.
    ///
    /// ```
    /// use std::time::Duration;
    /// let policy = ox_client::RetryPolicy::until_elapsed(Duration::from_secs(5));
    /// let builder = ox_client::Client::builder().retry(policy);
    /// ```
    pub fn until_elapsed(limit: Duration) -> Self {
        Self::UntilElapsed { limit, pause: Duration::from_millis(20) }
    }

    pub(crate) fn waits(&self) -> bool {
        !matches!(self, Self::None)
    }

    /// How long an operation may wait for a connection.
    pub(crate) fn limit(&self) -> Option<Duration> {
        match self {
            Self::UntilElapsed { limit, .. } => Some(*limit),
            Self::None | Self::Times { .. } => None,
        }
    }

    /// The pause before the next attempt, after `tries` attempts failed within `elapsed`.
    pub(crate) fn pause(&self, tries: u32, elapsed: Duration) -> Option<Duration> {
        let (pause, may) = match self {
            Self::None => return None,
            Self::Times { retries, pause } => (pause, tries <= *retries),
            Self::UntilElapsed { limit, pause } => (pause, elapsed < *limit),
        };
        may.then(|| pause.saturating_mul(1 << (tries - 1).min(16)).min(PAUSE_MAX))
    }
}

impl Default for RetryPolicy {
    /// Retries for up to a minute.
    fn default() -> Self {
        Self::until_elapsed(Duration::from_secs(60))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_limit_of_the_policy() {
        let ms = Duration::from_millis;
        let times = RetryPolicy::Times { retries: 3, pause: ms(400) };
        let pauses: Vec<_> = (1..=4).map(|tries| times.pause(tries, ms(0))).collect();
        assert_eq!(pauses, [Some(ms(400)), Some(ms(800)), Some(ms(1000)), None]);
        let elapsed = RetryPolicy::until_elapsed(ms(100));
        assert_eq!((elapsed.pause(50, ms(99)), elapsed.pause(1, ms(100))), (Some(ms(1000)), None));
        assert_eq!(RetryPolicy::None.pause(1, ms(0)), None);
    }
}
