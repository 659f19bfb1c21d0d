//! Packets that the replica has not taken yet: a packet waits for the disk job on which the next step depends.
//!
//! A link that has handed over too many bytes is not read until the replica has taken some of them
//! ([`super::Links::consumed`]).

use ox_zab::{LinkId, Message};
use std::collections::{BTreeMap, VecDeque};

/// The packets of a link, with the number and the bytes of each batch.
#[derive(Debug, Default)]
struct Waiting {
    messages: VecDeque<Message>,
    batches: VecDeque<(usize, usize)>,
}

/// Packets of all links that wait for the replica.
#[derive(Debug, Default)]
pub struct HeldPackets {
    /// One entry for each link that the replica has not closed.
    open: BTreeMap<LinkId, Waiting>,
    /// Bytes of taken packets that are not reported to the links yet.
    consumed: BTreeMap<LinkId, usize>,
}

impl HeldPackets {
    /// Begins a link, before its first packet.
    pub fn open(&mut self, link: LinkId) {
        self.open.insert(link, Waiting::default());
    }

    /// Adds received packets. Those of a link that the replica has closed meanwhile are dropped.
    pub fn add(&mut self, link: LinkId, messages: Vec<Message>, bytes: usize) {
        if let Some(waiting) = self.open.get_mut(&link) {
            waiting.batches.push_back((messages.len(), bytes));
            waiting.messages.extend(messages);
        }
    }

    /// Drops the packets of a link that was closed.
    pub fn forget(&mut self, link: LinkId) {
        self.open.remove(&link);
        self.consumed.remove(&link);
    }

    /// The links with packets.
    pub fn links(&self) -> Vec<LinkId> {
        self.open.iter().filter(|(_, waiting)| !waiting.messages.is_empty()).map(|(link, _)| *link).collect()
    }

    /// Takes the next packet of a link.
    pub fn next(&mut self, link: LinkId) -> Option<Message> {
        let waiting = self.open.get_mut(&link)?;
        let message = waiting.messages.pop_front()?;
        if let Some((left, bytes)) = waiting.batches.front_mut() {
            *left -= 1;
            if *left == 0 {
                *self.consumed.entry(link).or_default() += *bytes;
                waiting.batches.pop_front();
            }
        }
        Some(message)
    }

    /// Bytes that are not reported to the links yet.
    pub fn unreported_bytes(&self) -> usize {
        self.consumed.values().sum()
    }

    /// Takes the bytes to report, for each link.
    pub fn take_consumed(&mut self) -> BTreeMap<LinkId, usize> {
        std::mem::take(&mut self.consumed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ox_proto::Zxid;

    const ONE: LinkId = LinkId(1);
    const OTHER: LinkId = LinkId(2);

    fn ping(zxid: i64) -> Message {
        Message::Ping(Zxid(zxid))
    }

    #[test]
    fn bytes_of_a_batch_are_reported_when_its_last_packet_is_taken() {
        let mut held = HeldPackets::default();
        [ONE, OTHER].into_iter().for_each(|link| held.open(link));
        held.add(ONE, vec![ping(1), ping(2)], 100);
        held.add(ONE, vec![ping(3)], 30);
        held.add(OTHER, vec![ping(4)], 7);
        assert_eq!(held.links(), [ONE, OTHER]);
        let next = |held: &mut HeldPackets| (held.next(ONE), held.unreported_bytes());
        assert_eq!(next(&mut held), (Some(ping(1)), 0));
        assert_eq!(next(&mut held), (Some(ping(2)), 100));
        assert_eq!(next(&mut held), (Some(ping(3)), 130));
        assert_eq!(next(&mut held), (None, 130));
        assert_eq!(held.links(), [OTHER], "links without packets are left out");
        assert_eq!((held.take_consumed(), held.unreported_bytes()), (BTreeMap::from([(ONE, 130)]), 0));
    }

    /// The peers thread may have received them before it closed the link.
    #[test]
    fn packets_of_a_link_that_the_replica_has_closed_leave_nothing() {
        let mut held = HeldPackets::default();
        held.open(ONE);
        held.add(ONE, vec![ping(1), ping(2)], 100);
        assert_eq!(held.next(ONE), Some(ping(1)));
        held.forget(ONE);
        held.add(ONE, vec![ping(3)], 50);
        assert_eq!((held.links(), held.next(ONE), held.unreported_bytes()), (Vec::new(), None, 0));
        assert!(held.open.is_empty());
    }
}
