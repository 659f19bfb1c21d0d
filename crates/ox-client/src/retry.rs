//! When a failed operation is tried again.

use std::time::Duration;

/// The longest pause between two tries.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// What the client does by itself about lost connections.
///
/// Whatever the policy, an operation is sent again only when that is safe: reads, and writes that certainly did not
/// happen. A write whose answer is lost is the caller's to judge (see [`Error::outcome`](crate::Error::outcome)), unless it is
/// a [protected create](crate::Client::create_protected).
///
/// ```
/// use ox_client::RetryPolicy;
/// use std::time::Duration;
/// let builder = ox_client::Client::builder().retry(RetryPolicy::until_elapsed(Duration::from_secs(5)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RetryPolicy {
    /// Never. What is asked for while there is no connection fails at once.
    None,
    /// So many times. What is asked for while there is no connection waits for one, as long as the session lasts.
    Times {
        /// Tries after the first.
        retries: u32,
        /// Pause before the first of them; it doubles, up to a second.
        pause: Duration,
    },
    /// Until so much time has passed since the operation began, waiting for a connection included. What is under way then
    /// is still waited for.
    UntilElapsed {
        /// The time.
        limit: Duration,
        /// Pause before the second try; it doubles, up to a second.
        pause: Duration,
    },
}

impl RetryPolicy {
    /// So many times, with pauses from 20 ms up to a second.
    ///
    /// ```
    /// let builder = ox_client::Client::builder().retry(ox_client::RetryPolicy::times(3));
    /// ```
    pub fn times(retries: u32) -> Self {
        Self::Times { retries, pause: Duration::from_millis(20) }
    }

    /// Until so much time has passed, with pauses from 20 ms up to a second.
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

    /// The pause before the next try, after `tries` failed in `elapsed`.
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
    /// Until a minute has passed.
    fn default() -> Self {
        Self::until_elapsed(Duration::from_secs(60))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_and_end() {
        let ms = Duration::from_millis;
        let times = RetryPolicy::Times { retries: 3, pause: ms(400) };
        let pauses: Vec<_> = (1..=4).map(|tries| times.pause(tries, ms(0))).collect();
        assert_eq!(pauses, [Some(ms(400)), Some(ms(800)), Some(ms(1000)), None]);
        let elapsed = RetryPolicy::until_elapsed(ms(100));
        assert_eq!((elapsed.pause(50, ms(99)), elapsed.pause(1, ms(100))), (Some(ms(1000)), None));
        assert_eq!(RetryPolicy::None.pause(1, ms(0)), None);
    }
}
