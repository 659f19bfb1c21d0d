//! Ports for servers that a test or a tool starts.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU32, Ordering};

/// Below the range of outgoing connections (from 32768 on Linux, from 49152 elsewhere): an outgoing connection cannot
/// take a port between its selection and the start of the server.
const FIRST: u16 = 12_000;
const COUNT: u16 = 20_000;

/// A port that no process listens on. Returns a different one at each call and in each process.
pub fn free_port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let start = std::process::id().wrapping_mul(20);
    for _ in 0..COUNT {
        let at = start.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)) % u32::from(COUNT);
        let port = FIRST + u16::try_from(at).unwrap();
        if TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).is_ok() {
            return port;
        }
    }
    panic!("no free port from {FIRST} to {}", FIRST + COUNT - 1)
}

#[cfg(test)]
mod tests {
    use super::free_port;
    use std::collections::HashSet;

    #[test]
    fn ports_are_distinct_and_below_outgoing_range() {
        let ports: HashSet<u16> = (0..100).map(|_| free_port()).collect();
        assert_eq!(ports.len(), 100);
        assert!(ports.iter().all(|port| (12_000..32_000).contains(port)));
    }
}
