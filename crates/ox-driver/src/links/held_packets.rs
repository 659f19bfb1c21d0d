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
    waiting: BTreeMap<LinkId, Waiting>,
    /// Bytes of taken packets that are not reported to the links yet.
    consumed: BTreeMap<LinkId, usize>,
}

impl HeldPackets {
    pub fn add(&mut self, link: LinkId, messages: Vec<Message>, bytes: usize) {
        let waiting = self.waiting.entry(link).or_default();
        waiting.batches.push_back((messages.len(), bytes));
        waiting.messages.extend(messages);
    }

    /// Drops the packets of a link that was closed.
    pub fn forget(&mut self, link: LinkId) {
        self.waiting.remove(&link);
        self.consumed.remove(&link);
    }

    /// The links that have handed over packets.
    pub fn links(&self) -> Vec<LinkId> {
        self.waiting.keys().copied().collect()
    }

    /// Takes the next packet of a link.
    pub fn next(&mut self, link: LinkId) -> Option<Message> {
        let waiting = self.waiting.get_mut(&link)?;
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
