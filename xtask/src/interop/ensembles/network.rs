//! The network between members: every way from one to another can fall silent, in one direction or both.
//!
//! Each member finds the others at ports of its own, behind which bytes are passed on; while a way is silent they wait,
//! as they do when packets are lost, and nobody is told. Apache calls back at the address that a caller gives on the
//! election port, so this address is replaced by the one of the way back.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

/// Between two looks at a way that is silent.
const LOOK_AGAIN: Duration = Duration::from_millis(5);
/// Where nobody else listens, so that no port is taken that a member is about to open.
const DOORS: Ipv4Addr = Ipv4Addr::new(127, 0, 1, 1);
/// As long as Apache tries to reach a leader.
const REACH_FOR: Duration = Duration::from_secs(5);
/// What a caller on the election port begins with when it gives its address, with one or with many.
const GREETINGS: [i64; 2] = [-65536, -65535];
/// No address is longer.
const ADDRESS_BYTES_MAX: usize = 1024;

/// Where a member is.
#[derive(Clone, Copy, Debug)]
pub(super) struct PeerAddresses {
    pub(super) quorum: SocketAddr,
    pub(super) election: SocketAddr,
}

/// All ways between members. Their threads live as long as the process.
#[derive(Clone)]
pub(super) struct Network {
    members: usize,
    silent: Arc<Vec<AtomicBool>>,
    /// Where each member finds each other one, by the number of the way.
    doors: Arc<Vec<PeerAddresses>>,
}

impl Network {
    pub(super) fn between(peer_addresses: &[PeerAddresses]) -> Result<Self> {
        let count = peer_addresses.len();
        let listen = || TcpListener::bind((DOORS, 0)).context("listen between members");
        let (mut listeners, mut doors) = (Vec::new(), Vec::new());
        for _ in 0..count * count {
            let (quorum, election) = (listen()?, listen()?);
            doors.push(PeerAddresses { quorum: quorum.local_addr()?, election: election.local_addr()? });
            listeners.push((quorum, election));
        }
        let silent = (0..count * count).map(|_| AtomicBool::new(false)).collect();
        let network = Self { members: count, silent: Arc::new(silent), doors: Arc::new(doors) };
        for (number, (quorum, election)) in listeners.into_iter().enumerate() {
            let (from, to) = (number / count, number % count);
            network.open(quorum, from, to, peer_addresses[to].quorum, false);
            network.open(election, from, to, peer_addresses[to].election, true);
        }
        Ok(network)
    }

    fn number(&self, from: usize, to: usize) -> usize {
        from * self.members + to
    }

    /// Where a member finds another one.
    pub(super) fn door(&self, from: usize, to: usize) -> PeerAddresses {
        self.doors[self.number(from, to)]
    }

    /// Nothing from the one reaches the other any more.
    pub(super) fn silence(&self, from: usize, to: usize) {
        self.silent[self.number(from, to)].store(true, Ordering::Relaxed);
    }

    /// Nothing reaches this one from any other.
    pub(super) fn deafen(&self, index: usize) {
        (0..self.members).for_each(|other| self.silence(other, index));
    }

    /// Nothing from this one reaches any other.
    pub(super) fn mute(&self, index: usize) {
        (0..self.members).for_each(|other| self.silence(index, other));
    }

    /// Cuts one off from all others.
    pub(super) fn isolate(&self, index: usize) {
        self.deafen(index);
        self.mute(index);
    }

    pub(super) fn heal(&self) {
        self.silent.iter().for_each(|way| way.store(false, Ordering::Relaxed));
    }

    fn wait(&self, from: usize, to: usize) {
        while self.silent[self.number(from, to)].load(Ordering::Relaxed) {
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    fn open(&self, listener: TcpListener, from: usize, to: usize, target: SocketAddr, is_election: bool) {
        let network = self.clone();
        std::thread::spawn(move || {
            for near in listener.incoming().flatten() {
                let network = network.clone();
                // A connection that cannot be set up is one that ends, which is what its caller sees.
                std::thread::spawn(move || network.carry(&near, from, to, target, is_election).ok());
            }
        });
    }

    fn carry(&self, near: &TcpStream, from: usize, to: usize, target: SocketAddr, is_election: bool) -> Result<()> {
        self.wait(from, to);
        self.wait(to, from);
        let far = reach(target)?;
        near.set_nodelay(true)?;
        far.set_nodelay(true)?;
        if is_election {
            let greeting = greeting(near, self.door(to, from).election)?;
            self.wait(from, to);
            (&far).write_all(&greeting)?;
        }
        let (near_too, far_too) = (near.try_clone()?, far.try_clone()?);
        let back = self.clone();
        std::thread::spawn(move || back.pump(&far_too, &near_too, to, from));
        self.pump(near, &far, from, to);
        Ok(())
    }

    /// Passes bytes on in one direction until the connection ends.
    fn pump(&self, mut source: &TcpStream, mut target: &TcpStream, from: usize, to: usize) {
        let mut buffer = vec![0; 64 << 10];
        loop {
            let count = source.read(&mut buffer).unwrap_or(0);
            // Nobody learns that a connection has ended, either, while nothing arrives.
            self.wait(from, to);
            if count == 0 || target.write_all(&buffer[..count]).is_err() {
                break;
            }
        }
        for end in [source, target] {
            // An error means that the other side has closed it already.
            end.shutdown(Shutdown::Both).ok();
        }
    }
}

/// Connects to a member that may not listen yet: a caller that is let in and then turned away, as nobody is without a
/// proxy, would look for another leader.
fn reach(target: SocketAddr) -> Result<TcpStream> {
    let until = Instant::now() + REACH_FOR;
    loop {
        match TcpStream::connect(target) {
            Err(_) if Instant::now() < until => std::thread::sleep(LOOK_AGAIN),
            reached => return Ok(reached?),
        }
    }
}

/// Reads how a caller on the election port begins, and puts another address in the place of its own.
fn greeting(mut caller: &TcpStream, address: SocketAddr) -> Result<Vec<u8>> {
    let mut version = [0; 8];
    caller.read_exact(&mut version)?;
    let mut bytes = version.to_vec();
    if GREETINGS.contains(&i64::from_be_bytes(version)) {
        let (mut id, mut length) = ([0; 8], [0; 4]);
        caller.read_exact(&mut id)?;
        caller.read_exact(&mut length)?;
        let length = usize::try_from(i32::from_be_bytes(length))?;
        anyhow::ensure!(length <= ADDRESS_BYTES_MAX, "an address of {length} bytes");
        caller.read_exact(&mut vec![0; length])?;
        let address = address.to_string();
        bytes.extend(id);
        bytes.extend(u32::try_from(address.len())?.to_be_bytes());
        bytes.extend(address.as_bytes());
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listener() -> (TcpListener, SocketAddr) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        (listener, address)
    }

    #[test]
    fn callers_are_called_back_on_the_way_back() {
        let (election, address) = listener();
        let (_quorum, quorum) = listener();
        let network = Network::between(&[PeerAddresses { quorum, election: address }; 2]).unwrap();
        let mut caller = TcpStream::connect(network.door(0, 1).election).unwrap();
        let own = b"127.0.0.1:1";
        let beginning = [&(-65536_i64).to_be_bytes()[..], &7_i64.to_be_bytes()].concat();
        caller.write_all(&[&beginning[..], &11_u32.to_be_bytes(), own, b"more"].concat()).unwrap();
        let (mut called, _) = election.accept().unwrap();
        let back = network.door(1, 0).election.to_string();
        let length = u32::try_from(back.len()).unwrap().to_be_bytes();
        let expected = [&beginning[..], &length, back.as_bytes(), b"more"].concat();
        let mut got = vec![0; expected.len()];
        called.read_exact(&mut got).unwrap();
        assert_eq!(got, expected);
    }

    #[test]
    fn a_silent_way_keeps_what_is_sent_until_it_heals() {
        let (quorum, address) = listener();
        let network = Network::between(&[PeerAddresses { quorum: address, election: address }; 2]).unwrap();
        let mut caller = TcpStream::connect(network.door(0, 1).quorum).unwrap();
        let (mut called, _) = quorum.accept().unwrap();
        network.silence(0, 1);
        caller.write_all(b"x").unwrap();
        called.write_all(b"y").unwrap();
        let mut byte = [0];
        caller.read_exact(&mut byte).unwrap();
        assert_eq!(byte, *b"y");
        called.set_nonblocking(true).unwrap();
        assert!(called.read(&mut byte).is_err_and(|e| e.kind() == std::io::ErrorKind::WouldBlock));
        called.set_nonblocking(false).unwrap();
        network.heal();
        called.read_exact(&mut byte).unwrap();
        assert_eq!(byte, *b"x");
    }
}
