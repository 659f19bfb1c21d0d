//! The network between members: every path from one to another can be cut, or be silent in one direction.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::time::Duration;

/// What happens to bytes from one member to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PathState {
    Open = 0,
    /// Bytes are held back, as by packet loss; no end sees an error.
    Silent = 1,
    /// Connections break, and new ones fail.
    Cut = 2,
}

/// Interval of the check whether a path is open again.
const LOOK_AGAIN: Duration = Duration::from_millis(5);
/// Longer than any test takes.
const PATIENCE: Duration = Duration::from_secs(600);

/// All paths, each with its proxy.
#[derive(Clone)]
pub(crate) struct Network {
    members: usize,
    paths: Arc<Vec<AtomicU8>>,
    /// How often all existing connections were stalled.
    stalls: Arc<AtomicUsize>,
}

impl Network {
    pub(crate) fn new(members: usize) -> Self {
        let paths = (0..members * members).map(|_| AtomicU8::new(PathState::Open as u8)).collect();
        Self { members, paths: Arc::new(paths), stalls: Arc::default() }
    }

    fn way(&self, from: usize, to: usize) -> PathState {
        match self.paths[from * self.members + to].load(Ordering::Relaxed) {
            0 => PathState::Open,
            1 => PathState::Silent,
            _ => PathState::Cut,
        }
    }

    pub(crate) fn set(&self, from: usize, to: usize, way: PathState) {
        self.paths[from * self.members + to].store(way as u8, Ordering::Relaxed);
    }

    /// Sets both directions between all members of one group and all of the other.
    pub(crate) fn part(&self, one: &[usize], other: &[usize], way: PathState) {
        for (a, b) in one.iter().flat_map(|a| other.iter().map(move |b| (*a, *b))) {
            self.set(a, b, way);
            self.set(b, a, way);
        }
    }

    pub(crate) fn heal(&self) {
        self.paths.iter().for_each(|way| way.store(PathState::Open as u8, Ordering::Relaxed));
    }

    /// Stalls all existing connections without an error. New ones work: the network has recovered, but TCP waits
    /// before it retransmits.
    pub(crate) fn stall(&self) {
        self.stalls.fetch_add(1, Ordering::Relaxed);
    }

    /// A proxy port at which `from` reaches a port of `to`.
    pub(crate) fn proxy_port(&self, from: usize, to: usize, port: u16) -> u16 {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let entry = listener.local_addr().unwrap().port();
        let network = self.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let network = network.clone();
                std::thread::spawn(move || network.carry(&stream, from, to, (Ipv4Addr::LOCALHOST, port).into()));
            }
        });
        entry
    }

    /// Waits until the path is open; false if it is cut.
    fn wait(&self, from: usize, to: usize) -> bool {
        loop {
            match self.way(from, to) {
                PathState::Open => return true,
                PathState::Silent => std::thread::sleep(LOOK_AGAIN),
                PathState::Cut => return false,
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

    /// Forwards bytes in one direction until the connection ends or is cut.
    fn pump(&self, mut source: &TcpStream, mut target: &TcpStream, from: usize, to: usize) {
        let mut buffer = vec![0; 64 << 10];
        let stalls = self.stalls.load(Ordering::Relaxed);
        let wait_if_stalled = || {
            while stalls != self.stalls.load(Ordering::Relaxed) {
                std::thread::sleep(PATIENCE); // both sockets stay open until the test ends
            }
        };
        while self.way(from, to) != PathState::Cut {
            let count = match source.read(&mut buffer) {
                Err(error) if matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) => {
                    wait_if_stalled();
                    continue;
                }
                Ok(count) if 0 < count => count,
                _ => {
                    self.wait(from, to); // the end of the stream is held back too
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
