//! The number of watches of each client address, and its limit.
//!
//! Reads and writes add and remove watches constantly, so counting must be cheap: watchers are found by index, without a
//! search. That is sequential for the watchers of one event, which are sorted.

use super::WatcherId;
use std::collections::BTreeMap;
use std::net::IpAddr;

#[derive(Clone, Copy, Debug)]
struct Entry {
    id: WatcherId,
    /// The index in `addresses`.
    address: u32,
}

#[derive(Debug)]
struct Address {
    ip: IpAddr,
    watchers: u32,
    watches: usize,
}

/// Watches by address. Without a limit, nothing is counted.
#[derive(Debug, Default)]
pub(super) struct AddressLimits {
    /// The maximum number of watches of an address; 0 for no limit.
    max: usize,
    /// By table and index of the id.
    watchers: Vec<Vec<Option<Entry>>>,
    addresses: Vec<Address>,
    free: Vec<u32>,
    index: BTreeMap<IpAddr, u32>,
    refused: u64,
    refused_address: Option<IpAddr>,
}

impl AddressLimits {
    pub(super) fn new(max: usize) -> Self {
        Self { max, ..Self::default() }
    }

    /// Changes the limit. Where there was none, watches of new watchers count from now on.
    pub(super) fn set_limit(&mut self, max: usize) {
        self.max = max;
    }

    /// Counts the watcher's watches for this address.
    pub(super) fn add_watcher(&mut self, id: WatcherId, ip: IpAddr) {
        if self.max == 0 {
            return;
        }
        let address = *self.index.entry(ip).or_insert_with(|| {
            let address = Address { ip, watchers: 0, watches: 0 };
            match self.free.pop() {
                Some(free) => {
                    self.addresses[free as usize] = address;
                    free
                }
                None => {
                    self.addresses.push(address);
                    u32::try_from(self.addresses.len() - 1).expect("no more addresses than watchers")
                }
            }
        });
        self.addresses[address as usize].watchers += 1;
        let (table, index) = id.position();
        if self.watchers.len() <= table {
            self.watchers.resize_with(table + 1, Vec::new);
        }
        let entries = &mut self.watchers[table];
        if entries.len() <= index {
            entries.resize(index + 1, None);
        }
        entries[index] = Some(Entry { id, address });
    }

    /// Removes a watcher, whose watches must be released already.
    pub(super) fn remove_watcher(&mut self, id: WatcherId) {
        let (table, index) = id.position();
        let Some(entry) = self.watchers.get_mut(table).and_then(|entries| entries.get_mut(index)) else { return };
        let Some(Entry { address, .. }) = entry.take_if(|entry| entry.id == id) else { return };
        let count = &mut self.addresses[address as usize];
        count.watchers -= 1;
        if count.watchers == 0 {
            debug_assert_eq!(count.watches, 0, "watches go before their watcher");
            self.index.remove(&count.ip);
            self.free.push(address);
        }
    }

    fn address(&mut self, id: WatcherId) -> Option<&mut Address> {
        let (table, index) = id.position();
        let entry = self.watchers.get(table)?.get(index)?.filter(|entry| entry.id == id)?;
        self.addresses.get_mut(entry.address as usize)
    }

    /// Counts new watches. Returns false if they would exceed the limit.
    pub(super) fn acquire(&mut self, id: WatcherId, count: usize) -> bool {
        let max = self.max;
        let Some(address) = self.address(id) else { return true };
        if max == 0 || address.watches + count <= max {
            address.watches += count;
            return true;
        }
        self.refused_address = Some(address.ip);
        self.refused += 1;
        false
    }

    pub(super) fn release(&mut self, id: WatcherId, count: usize) {
        if let Some(address) = self.address(id) {
            address.watches -= count;
        }
    }

    /// How often watches were refused, and the last refused address.
    pub(super) fn refused(&self) -> (u64, Option<IpAddr>) {
        (self.refused, self.refused_address)
    }

    /// The watches of all addresses.
    #[cfg(test)]
    pub(super) fn total(&self) -> usize {
        self.addresses.iter().map(|address| address.watches).sum()
    }

    /// Whether every address without a watcher was removed.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.index.is_empty()
            && self.free.len() == self.addresses.len()
            && self.watchers.iter().flatten().all(Option::is_none)
    }
}
