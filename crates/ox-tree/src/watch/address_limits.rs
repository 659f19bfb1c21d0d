//! The number of watches of each client address, and its limit.
//!
//! Reads and writes add and remove watches constantly, so counting must be cheap: it indexes by I/O thread and slot of
//! the connection, without a search. A slot has at most one connection at a time.

use crate::conn::ConnId;
use std::collections::BTreeMap;
use std::net::IpAddr;

#[derive(Clone, Copy, Debug)]
struct ConnSlot {
    conn: ConnId,
    /// The index of its address in `addresses`.
    address: u32,
}

#[derive(Debug)]
struct Address {
    ip: IpAddr,
    conns: u32,
    watches: usize,
}

/// Watches by address. Without a limit, nothing is counted.
#[derive(Debug, Default)]
pub(super) struct AddressLimits {
    /// The maximum number of watches of an address; 0 for no limit.
    max: usize,
    /// By I/O thread and slot.
    conns: Vec<Vec<Option<ConnSlot>>>,
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

    /// Counts the connection's watches for this address.
    pub(super) fn add_conn(&mut self, conn: ConnId, ip: IpAddr) {
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
        if self.conns.len() <= thread {
            self.conns.resize_with(thread + 1, Vec::new);
        }
        let conns = &mut self.conns[thread];
        if conns.len() <= slot {
            conns.resize(slot + 1, None);
        }
        conns[slot] = Some(ConnSlot { conn, address });
    }

    /// Removes a closed connection, whose watches must be released already.
    pub(super) fn remove_conn(&mut self, conn: ConnId) {
        let Some(conn_slot) = self.conns.get_mut(conn.thread()).and_then(|conns| conns.get_mut(conn.slot())) else {
            return;
        };
        let Some(ConnSlot { address, .. }) = conn_slot.take_if(|conn_slot| conn_slot.conn == conn) else { return };
        let entry = &mut self.addresses[address as usize];
        entry.conns -= 1;
        if entry.conns == 0 {
            debug_assert_eq!(entry.watches, 0, "watches go before their connection");
            self.index.remove(&entry.ip);
            self.free.push(address);
        }
    }

    fn address(&mut self, conn: ConnId) -> Option<&mut Address> {
        let conn_slot = (*self.conns.get(conn.thread())?.get(conn.slot())?)?;
        if conn_slot.conn == conn { self.addresses.get_mut(conn_slot.address as usize) } else { None }
    }

    /// Counts new watches. Returns false if they would exceed the limit.
    pub(super) fn acquire(&mut self, conn: ConnId, count: usize) -> bool {
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

    pub(super) fn release(&mut self, conn: ConnId, count: usize) {
        if let Some(address) = self.address(conn) {
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

    /// Whether every address without a connection was removed.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.index.is_empty()
            && self.free.len() == self.addresses.len()
            && self.conns.iter().flatten().all(Option::is_none)
    }
}
