//! How many watches the clients of one address have.
//!
//! Watches come and go with every read and write, so that counting one costs two indexings and no search. The places are
//! those of the I/O threads: at most one connection has one at a time.

use crate::conn::ConnId;
use std::collections::BTreeMap;
use std::net::IpAddr;

#[derive(Clone, Copy, Debug)]
struct Place {
    conn: ConnId,
    /// Index of its address.
    address: u32,
}

#[derive(Debug)]
struct Address {
    ip: IpAddr,
    conns: u32,
    watches: usize,
}

/// Watches by address. While there is no bound, nothing is counted.
#[derive(Debug, Default)]
pub(super) struct Owners {
    /// Watches an address may have; 0 is any number.
    max: usize,
    /// By thread and slot.
    places: Vec<Vec<Option<Place>>>,
    addresses: Vec<Address>,
    free: Vec<u32>,
    index: BTreeMap<IpAddr, u32>,
    refused: u64,
    refused_address: Option<IpAddr>,
}

impl Owners {
    pub(super) fn new(max: usize) -> Self {
        Self { max, ..Self::default() }
    }

    /// The connection's watches count for this address.
    pub(super) fn join(&mut self, conn: ConnId, ip: IpAddr) {
        if self.max == 0 {
            return;
        }
        let address = *self.index.entry(ip).or_insert_with(|| {
            let address = Address { ip, conns: 0, watches: 0 };
            match self.free.pop() {
                Some(free) => {
                    self.addresses[free as usize] = address;
                    free
                }
                None => {
                    self.addresses.push(address);
                    u32::try_from(self.addresses.len() - 1).expect("no more addresses than connections")
                }
            }
        });
        self.addresses[address as usize].conns += 1;
        let (thread, slot) = (conn.thread(), conn.slot());
        if self.places.len() <= thread {
            self.places.resize_with(thread + 1, Vec::new);
        }
        let places = &mut self.places[thread];
        if places.len() <= slot {
            places.resize(slot + 1, None);
        }
        places[slot] = Some(Place { conn, address });
    }

    /// The connection is gone, and so are its watches.
    pub(super) fn leave(&mut self, conn: ConnId) {
        let Some(place) = self.places.get_mut(conn.thread()).and_then(|places| places.get_mut(conn.slot())) else {
            return;
        };
        let Some(Place { address, .. }) = place.take_if(|place| place.conn == conn) else { return };
        let left = &mut self.addresses[address as usize];
        left.conns -= 1;
        if left.conns == 0 {
            debug_assert_eq!(left.watches, 0, "watches go before their connection");
            self.index.remove(&left.ip);
            self.free.push(address);
        }
    }

    fn address(&mut self, conn: ConnId) -> Option<&mut Address> {
        let place = (*self.places.get(conn.thread())?.get(conn.slot())?)?;
        if place.conn == conn { self.addresses.get_mut(place.address as usize) } else { None }
    }

    /// Counts new watches; false when that would be too many.
    pub(super) fn take(&mut self, conn: ConnId, count: usize) -> bool {
        let max = self.max;
        let Some(address) = self.address(conn) else { return true };
        if address.watches + count <= max {
            address.watches += count;
            return true;
        }
        self.refused_address = Some(address.ip);
        self.refused += 1;
        false
    }

    /// Watches are gone.
    pub(super) fn give_back(&mut self, conn: ConnId, count: usize) {
        if let Some(address) = self.address(conn) {
            address.watches -= count;
        }
    }

    /// How often watches were refused, and to whom last.
    pub(super) fn refused(&self) -> (u64, Option<IpAddr>) {
        (self.refused, self.refused_address)
    }

    /// Watches of all addresses.
    #[cfg(test)]
    pub(super) fn total(&self) -> usize {
        self.addresses.iter().map(|address| address.watches).sum()
    }

    /// Whether every address is forgotten that has no connection.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.index.is_empty()
            && self.free.len() == self.addresses.len()
            && self.places.iter().flatten().all(Option::is_none)
    }
}
