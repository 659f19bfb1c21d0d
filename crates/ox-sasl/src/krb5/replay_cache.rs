//! Authenticators of the last minutes, so that none is accepted twice.
//!
//! The cache is bounded. Only authenticators that are proven enter it, so only clients with tickets can fill it; while it is
//! full, new authentications fail. Threads share it: its mutex is held for the lookup alone, not while tokens are decrypted.

use super::{CLOCK_SKEW_MAX, KerberosError, WallTime};
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use std::collections::{HashSet, VecDeque};

/// Enough for 400 authentications per second, in 12 MB.
pub const REPLAY_ENTRIES_MAX: usize = 1 << 18;

type Fingerprint = [u8; 16];

#[derive(Debug)]
pub struct ReplayCache {
    entries_max: usize,
    entries: Mutex<Entries>,
}

#[derive(Debug, Default)]
struct Entries {
    known: HashSet<Fingerprint>,
    /// In the order of arrival, with the time from which an entry can be forgotten.
    expiries: VecDeque<(WallTime, Fingerprint)>,
}

impl ReplayCache {
    pub fn new(entries_max: usize) -> Self {
        Self { entries_max, entries: Mutex::default() }
    }

    pub fn len(&self) -> usize {
        self.entries.lock().known.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Notes an authenticator by its encrypted form, which a replay repeats exactly.
    pub(crate) fn check_and_insert(&self, now: WallTime, authenticator: &[u8]) -> Result<(), KerberosError> {
        let hash = Sha256::digest(authenticator);
        let fingerprint = std::array::from_fn(|at| hash[at]);
        let Entries { known, expiries } = &mut *self.entries.lock();
        while let Some((_, old)) = expiries.pop_front_if(|(expiry, _)| *expiry < now) {
            known.remove(&old);
        }
        if known.contains(&fingerprint) {
            return Err(KerberosError::Replay);
        }
        if self.entries_max <= known.len() {
            return Err(KerberosError::ReplayCacheFull);
        }
        known.insert(fingerprint);
        // An authenticator may be ahead by the skew, and is valid for the skew after its time.
        let expiry = WallTime(now.0.saturating_add(2 * CLOCK_SKEW_MAX * 1_000_000));
        expiries.push_back((expiry, fingerprint));
        Ok(())
    }
}

impl Default for ReplayCache {
    fn default() -> Self {
        Self::new(REPLAY_ENTRIES_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replays_are_refused_until_they_are_stale() {
        let cache = ReplayCache::new(2);
        let at = WallTime::from_seconds;
        assert_eq!(cache.check_and_insert(at(1000), b"a"), Ok(()));
        assert_eq!(cache.check_and_insert(at(1600), b"a"), Err(KerberosError::Replay));
        assert_eq!(cache.check_and_insert(at(1600), b"b"), Ok(()));
        assert_eq!(cache.check_and_insert(at(1600), b"c"), Err(KerberosError::ReplayCacheFull));
        assert_eq!(cache.check_and_insert(at(1601), b"c"), Ok(()));
        assert_eq!((cache.len(), cache.is_empty()), (2, false));
    }
}
