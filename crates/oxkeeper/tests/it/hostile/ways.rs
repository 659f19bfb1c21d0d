//! The network between members: every way from one to another can be cut, or fall silent in one direction.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::time::Duration;

/// What becomes of bytes from one member to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Open = 0,
    /// They wait, as they do when packets are lost; nobody is told.
    Silent = 1,
    /// Connections break, and none comes up.
    Cut = 2,
}

/// Between two looks at a way that is not open.
const LOOK_AGAIN: Duration = Duration::from_millis(5);
/// Longer than a test takes.
const PATIENCE: Duration = Duration::from_secs(600);

/// All ways; a proxy stands in each.
#[derive(Clone)]
pub(crate) struct Ways {
    members: usize,
    ways: Arc<Vec<AtomicU8>>,
    /// How often the connections of that time were stalled.
    stalls: Arc<AtomicUsize>,
}

impl Ways {
    pub(crate) fn new(members: usize) -> Self {
        let ways = (0..members * members).map(|_| AtomicU8::new(Way::Open as u8)).collect();
        Self { members, ways: Arc::new(ways), stalls: Arc::default() }
    }

    fn way(&self, from: usize, to: usize) -> Way {
        match self.ways[from * self.members + to].load(Ordering::Relaxed) {
            0 => Way::Open,
            1 => Way::Silent,
            _ => Way::Cut,
        }
    }

    pub(crate) fn set(&self, from: usize, to: usize, way: Way) {
        self.ways[from * self.members + to].store(way as u8, Ordering::Relaxed);
    }

    /// Both directions between everybody in one group and everybody in the other.
    pub(crate) fn part(&self, one: &[usize], other: &[usize], way: Way) {
        for (a, b) in one.iter().flat_map(|a| other.iter().map(move |b| (*a, *b))) {
            self.set(a, b, way);
            self.set(b, a, way);
        }
    }

    pub(crate) fn heal(&self) {
        self.ways.iter().for_each(|way| way.store(Way::Open as u8, Ordering::Relaxed));
    }

    /// Nothing gets through the connections that exist now, and no end is seen. New ones work: a network that is back, while the
    /// system waits before it repeats what was lost.
    pub(crate) fn stall(&self) {
        self.stalls.fetch_add(1, Ordering::Relaxed);
    }

    /// A port at which `from` finds what `to` has at another.
    pub(crate) fn lead(&self, from: usize, to: usize, port: u16) -> u16 {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let entry = listener.local_addr().unwrap().port();
        let ways = self.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let ways = ways.clone();
                std::thread::spawn(move || ways.carry(&stream, from, to, (Ipv4Addr::LOCALHOST, port).into()));
            }
        });
        entry
    }

    /// Waits until the way is open; false if it is cut.
    fn wait(&self, from: usize, to: usize) -> bool {
        loop {
            match self.way(from, to) {
                Way::Open => return true,
                Way::Silent => std::thread::sleep(LOOK_AGAIN),
                Way::Cut => return false,
            }
        }
    }

    fn carry(&self, near: &TcpStream, from: usize, to: usize, address: SocketAddr) -> Option<()> {
        if !self.wait(from, to) || !self.wait(to, from) {
            return None;
        }
        let far = TcpStream::connect(address).ok()?;
        for stream in [near, &far] {
            stream.set_nodelay(true).ok()?;
            stream.set_read_timeout(Some(LOOK_AGAIN)).ok()?;
        }
        let (near_too, far_too) = (near.try_clone().ok()?, far.try_clone().ok()?);
        let back = self.clone();
        std::thread::spawn(move || back.pump(&far_too, &near_too, to, from));
        self.pump(near, &far, from, to);
        Some(())
    }

    /// Passes bytes on in one direction until the connection ends or is cut.
    fn pump(&self, mut source: &TcpStream, mut target: &TcpStream, from: usize, to: usize) {
        let mut buffer = vec![0; 64 << 10];
        let stalls = self.stalls.load(Ordering::Relaxed);
        let wait_if_stalled = || {
            while stalls != self.stalls.load(Ordering::Relaxed) {
                std::thread::sleep(PATIENCE); // both sockets stay open until the test ends
            }
        };
        while self.way(from, to) != Way::Cut {
            let count = match source.read(&mut buffer) {
                Err(error) if matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) => {
                    wait_if_stalled();
                    continue;
                }
                Ok(count) if 0 < count => count,
                _ => {
                    self.wait(from, to); // nobody learns that it has ended while nothing arrives
                    break;
                }
            };
            wait_if_stalled();
            if !self.wait(from, to) || target.write_all(&buffer[..count]).is_err() {
                break;
            }
        }
        let _ = source.shutdown(Shutdown::Both);
        let _ = target.shutdown(Shutdown::Both);
    }
}
