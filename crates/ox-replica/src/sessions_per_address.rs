//! How many sessions the clients of one address have.
//!
//! Connections are counted by whoever accepts them; sessions outlive connections, so a client that comes and goes
//! without a good-bye could gather any number of them. A session counts for the address that used it last. Those found
//! at the start count for nobody until somebody resumes them.

use ox_proto::SessionId;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// The sessions of each address.
#[derive(Debug, Default)]
pub(crate) struct Addresses {
    /// Sessions an address may have; 0 is any number, and nothing is counted.
    max: usize,
    counts: BTreeMap<IpAddr, usize>,
    of: BTreeMap<SessionId, IpAddr>,
}

impl Addresses {
    pub(crate) fn limit(&mut self, max: usize) {
        self.max = max;
    }

    /// Whether a new session may begin. One that there is can always be resumed, from anywhere: its client was promised
    /// to get it back.
    pub(crate) fn has_room(&self, address: IpAddr) -> bool {
        self.max == 0 || self.counts.get(&address).is_none_or(|count| *count < self.max)
    }

    /// A session begins at this address, or comes to it.
    pub(crate) fn count(&mut self, session: SessionId, address: IpAddr) {
        if self.max != 0 {
            self.end(session);
            self.of.insert(session, address);
            *self.counts.entry(address).or_default() += 1;
        }
    }

    /// A session is over.
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

    fn limited(max: usize) -> Addresses {
        Addresses { max, ..Addresses::default() }
    }

    #[test]
    fn each_address_has_its_own_bound() {
        let mut addresses = limited(2);
        addresses.count(SessionId(1), HERE);
        assert!(addresses.has_room(HERE));
        addresses.count(SessionId(2), HERE);
        assert!(!addresses.has_room(HERE) && addresses.has_room(THERE));
        addresses.end(SessionId(1));
        addresses.end(SessionId(3)); // it never began
        assert!(addresses.has_room(HERE));
    }

    #[test]
    fn a_session_counts_where_it_is() {
        let mut addresses = limited(1);
        addresses.count(SessionId(1), HERE);
        addresses.count(SessionId(1), THERE);
        assert!(addresses.has_room(HERE) && !addresses.has_room(THERE));
        addresses.count(SessionId(9), THERE); // from before the start, and beyond the bound
        addresses.end(SessionId(1));
        assert!(!addresses.has_room(THERE));
        addresses.end(SessionId(9));
        assert!(addresses.counts.is_empty() && addresses.of.is_empty());
    }

    #[test]
    fn without_a_bound_nothing_is_kept() {
        let mut addresses = limited(0);
        addresses.count(SessionId(1), HERE);
        assert!(addresses.has_room(HERE) && addresses.of.is_empty());
    }
}
