//! Limits the number of sessions per client address.
//!
//! Sessions outlive connections, so a limit of connections does not bound them: a client that reconnects without
//! closing its session could create any number. A session counts for the address that used it last. Recovered sessions
//! do not count until they are resumed.

use ox_proto::SessionId;
use std::collections::BTreeMap;
use std::net::IpAddr;

#[derive(Debug, Default)]
pub(crate) struct SessionsPerAddress {
    /// Limit per address. 0 means no limit, and nothing is counted.
    max: usize,
    counts: BTreeMap<IpAddr, usize>,
    of: BTreeMap<SessionId, IpAddr>,
}

impl SessionsPerAddress {
    pub(crate) fn new(max: usize) -> Self {
        Self { max, ..Self::default() }
    }

    /// Changes the limit. Where there was none, sessions count from now on, when they are created or resumed.
    pub(crate) fn set_limit(&mut self, max: usize) {
        if max == 0 {
            *self = Self::default();
        }
        self.max = max;
    }

    pub(crate) fn max(&self) -> usize {
        self.max
    }

    /// Whether a new session may be created. An existing session can always be resumed, from any address.
    pub(crate) fn may_create(&self, address: IpAddr) -> bool {
        self.max == 0 || self.counts.get(&address).is_none_or(|count| *count < self.max)
    }

    /// A session was created or resumed from this address.
    pub(crate) fn count(&mut self, session: SessionId, address: IpAddr) {
        if self.max != 0 {
            self.end(session);
            self.of.insert(session, address);
            *self.counts.entry(address).or_default() += 1;
        }
    }

    /// The session was closed or has expired.
    pub(crate) fn end(&mut self, session: SessionId) {
        let Some(address) = self.of.remove(&session) else { return };
        if let Some(count) = self.counts.get_mut(&address) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);
    const THERE: IpAddr = IpAddr::V6(std::net::Ipv6Addr::LOCALHOST);

    fn limited(max: usize) -> SessionsPerAddress {
        SessionsPerAddress { max, ..SessionsPerAddress::default() }
    }

    #[test]
    fn each_address_has_its_own_limit() {
        let mut addresses = limited(2);
        addresses.count(SessionId(1), HERE);
        assert!(addresses.may_create(HERE));
        addresses.count(SessionId(2), HERE);
        assert!(!addresses.may_create(HERE) && addresses.may_create(THERE));
        addresses.end(SessionId(1));
        addresses.end(SessionId(3)); // unknown
        assert!(addresses.may_create(HERE));
    }

    #[test]
    fn changed_limit_concerns_further_sessions() {
        let mut addresses = limited(2);
        addresses.count(SessionId(1), HERE);
        addresses.count(SessionId(2), HERE);
        addresses.set_limit(3);
        assert!(addresses.may_create(HERE));
        addresses.set_limit(1);
        addresses.end(SessionId(1));
        assert!(!addresses.may_create(HERE), "one is left");
        addresses.set_limit(0);
        assert!(addresses.may_create(HERE));
        addresses.set_limit(1);
        assert!(addresses.may_create(HERE), "earlier sessions are not known");
        addresses.count(SessionId(3), HERE);
        assert!(!addresses.may_create(HERE));
    }

    #[test]
    fn session_counts_for_its_last_address() {
        let mut addresses = limited(1);
        addresses.count(SessionId(1), HERE);
        addresses.count(SessionId(1), THERE);
        assert!(addresses.may_create(HERE) && !addresses.may_create(THERE));
        addresses.count(SessionId(9), THERE); // a recovered session, over the limit
        addresses.end(SessionId(1));
        assert!(!addresses.may_create(THERE));
        addresses.end(SessionId(9));
        assert!(addresses.counts.is_empty() && addresses.of.is_empty());
    }

    #[test]
    fn no_limit_counts_nothing() {
        let mut addresses = limited(0);
        addresses.count(SessionId(1), HERE);
        assert!(addresses.may_create(HERE) && addresses.of.is_empty());
    }
}
