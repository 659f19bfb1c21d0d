//! The network between members, which a test can block in one direction or in both.
//!
//! Each member reaches every other member through a proxy of its own. While a direction is blocked, the proxy holds the
//! bytes back, as if packets were lost: no connection is closed. On the election port, the initial message contains the
//! address for connections back, which the proxy replaces by the proxy address for that direction.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

const POLL: Duration = Duration::from_millis(5);
/// An address on which members do not listen, so that the proxies take none of their ports.
const PROXY_IP: Ipv4Addr = Ipv4Addr::new(127, 0, 1, 1);
/// As long as Apache tries to connect to a leader.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Protocol versions of initial messages that contain one address, or several.
const VERSIONS_WITH_ADDRESS: [i64; 2] = [-65536, -65535];
/// Longer than any address.
const ADDRESS_BYTES_MAX: usize = 1024;

/// The addresses of a member for other members.
#[derive(Clone, Copy, Debug)]
pub(super) struct PeerAddresses {
    pub(super) quorum: SocketAddr,
    pub(super) election: SocketAddr,
}

/// The proxies between all members. Their threads run until the process ends.
#[derive(Clone)]
pub(super) struct Network {
    members: usize,
    /// By direction, see [`Self::direction`].
    blocked: Arc<Vec<AtomicBool>>,
    /// The addresses of the proxies, by direction.
    proxies: Arc<Vec<PeerAddresses>>,
}

impl Network {
    pub(super) fn between(members: &[PeerAddresses]) -> Result<Self> {
        let count = members.len();
        let listen = || TcpListener::bind((PROXY_IP, 0)).context("listen between members");
        let (mut listeners, mut proxies) = (Vec::new(), Vec::new());
        for _ in 0..count * count {
            let (quorum, election) = (listen()?, listen()?);
            proxies.push(PeerAddresses { quorum: quorum.local_addr()?, election: election.local_addr()? });
            listeners.push((quorum, election));
        }
        let blocked = (0..count * count).map(|_| AtomicBool::new(false)).collect();
        let network = Self { members: count, blocked: Arc::new(blocked), proxies: Arc::new(proxies) };
        for (direction, (quorum, election)) in listeners.into_iter().enumerate() {
            let (from, to) = (direction / count, direction % count);
            network.listen(quorum, from, to, members[to].quorum, false);
            network.listen(election, from, to, members[to].election, true);
        }
        Ok(network)
    }

    /// The index of a pair of members.
    fn direction(&self, from: usize, to: usize) -> usize {
        from * self.members + to
    }

    /// The addresses at which the member `from` reaches the member `to`.
    pub(super) fn address(&self, from: usize, to: usize) -> PeerAddresses {
        self.proxies[self.direction(from, to)]
    }

    /// Holds back all bytes from one member to another.
    pub(super) fn block(&self, from: usize, to: usize) {
        self.blocked[self.direction(from, to)].store(true, Ordering::Relaxed);
    }

    /// Blocks everything that other members send to this one.
    pub(super) fn deafen(&self, member: usize) {
        (0..self.members).for_each(|other| self.block(other, member));
    }

    /// Blocks everything that this member sends to others.
    pub(super) fn mute(&self, member: usize) {
        (0..self.members).for_each(|other| self.block(member, other));
    }

    /// Blocks both directions between this member and all others.
    pub(super) fn isolate(&self, member: usize) {
        self.deafen(member);
        self.mute(member);
    }

    /// Unblocks all directions. The proxies deliver the bytes that they hold.
    pub(super) fn heal(&self) {
        self.blocked.iter().for_each(|blocked| blocked.store(false, Ordering::Relaxed));
    }

    fn wait_until_unblocked(&self, from: usize, to: usize) {
        while self.blocked[self.direction(from, to)].load(Ordering::Relaxed) {
            std::thread::sleep(POLL);
        }
    }

    fn listen(&self, listener: TcpListener, from: usize, to: usize, target: SocketAddr, is_election: bool) {
        let network = self.clone();
        std::thread::spawn(move || {
            for incoming in listener.incoming().flatten() {
                let network = network.clone();
                // If the target cannot be reached, the incoming connection is closed.
                std::thread::spawn(move || network.forward(&incoming, from, to, target, is_election).ok());
            }
        });
    }

    fn forward(
        &self,
        incoming: &TcpStream,
        from: usize,
        to: usize,
        target: SocketAddr,
        is_election: bool,
    ) -> Result<()> {
        self.wait_until_unblocked(from, to);
        self.wait_until_unblocked(to, from);
        let outgoing = connect_with_retry(target)?;
        incoming.set_nodelay(true)?;
        outgoing.set_nodelay(true)?;
        if is_election {
            let message = initial_message(incoming, self.address(to, from).election)?;
            self.wait_until_unblocked(from, to);
            (&outgoing).write_all(&message)?;
        }
        let (incoming_clone, outgoing_clone) = (incoming.try_clone()?, outgoing.try_clone()?);
        let network = self.clone();
        std::thread::spawn(move || network.pump(&outgoing_clone, &incoming_clone, to, from));
        self.pump(incoming, &outgoing, from, to);
        Ok(())
    }

    /// Copies bytes in one direction until the connection ends.
    fn pump(&self, mut source: &TcpStream, mut target: &TcpStream, from: usize, to: usize) {
        let mut buffer = vec![0; 64 << 10];
        loop {
            let count = source.read(&mut buffer).unwrap_or(0);
            // A closed connection must not be noticed while its direction is blocked, either.
            self.wait_until_unblocked(from, to);
            if count == 0 || target.write_all(&buffer[..count]).is_err() {
                break;
            }
        }
        for socket in [source, target] {
            // An error means that the connection is closed already.
            socket.shutdown(Shutdown::Both).ok();
        }
    }
}

/// Connects to a member that may not listen yet. Without a proxy the connection would be refused and the member would
/// retry. A connection that is accepted and then closed would make it look for another leader.
fn connect_with_retry(target: SocketAddr) -> Result<TcpStream> {
    let deadline = Instant::now() + CONNECT_TIMEOUT;
    loop {
        match TcpStream::connect(target) {
            Err(_) if Instant::now() < deadline => std::thread::sleep(POLL),
            connected => return Ok(connected?),
        }
    }
}

/// Reads the initial message of an election connection, and replaces the address in it.
fn initial_message(mut sender: &TcpStream, address: SocketAddr) -> Result<Vec<u8>> {
    let mut version = [0; 8];
    sender.read_exact(&mut version)?;
    let mut bytes = version.to_vec();
    if VERSIONS_WITH_ADDRESS.contains(&i64::from_be_bytes(version)) {
        let (mut id, mut length) = ([0; 8], [0; 4]);
        sender.read_exact(&mut id)?;
        sender.read_exact(&mut length)?;
        let length = usize::try_from(i32::from_be_bytes(length))?;
        anyhow::ensure!(length <= ADDRESS_BYTES_MAX, "the address is {length} bytes long");
        sender.read_exact(&mut vec![0; length])?;
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
    fn initial_message_carries_the_proxy_address() {
        let (election, address) = listener();
        let (_quorum, quorum) = listener();
        let network = Network::between(&[PeerAddresses { quorum, election: address }; 2]).unwrap();
        let mut sender = TcpStream::connect(network.address(0, 1).election).unwrap();
        let sent_address = b"127.0.0.1:1";
        let version_and_id = [&(-65536_i64).to_be_bytes()[..], &7_i64.to_be_bytes()].concat();
        sender.write_all(&[&version_and_id[..], &11_u32.to_be_bytes(), sent_address, b"more"].concat()).unwrap();
        let (mut receiver, _) = election.accept().unwrap();
        let expected_address = network.address(1, 0).election.to_string();
        let length = u32::try_from(expected_address.len()).unwrap().to_be_bytes();
        let expected = [&version_and_id[..], &length, expected_address.as_bytes(), b"more"].concat();
        let mut received = vec![0; expected.len()];
        receiver.read_exact(&mut received).unwrap();
        assert_eq!(received, expected);
    }

    #[test]
    fn blocked_direction_holds_bytes_until_it_heals() {
        let (quorum, address) = listener();
        let network = Network::between(&[PeerAddresses { quorum: address, election: address }; 2]).unwrap();
        let mut sender = TcpStream::connect(network.address(0, 1).quorum).unwrap();
        let (mut receiver, _) = quorum.accept().unwrap();
        network.block(0, 1);
        sender.write_all(b"x").unwrap();
        receiver.write_all(b"y").unwrap();
        let mut byte = [0];
        sender.read_exact(&mut byte).unwrap();
        assert_eq!(byte, *b"y");
        receiver.set_nonblocking(true).unwrap();
        assert!(receiver.read(&mut byte).is_err_and(|e| e.kind() == std::io::ErrorKind::WouldBlock));
        receiver.set_nonblocking(false).unwrap();
        network.heal();
        receiver.read_exact(&mut byte).unwrap();
        assert_eq!(byte, *b"x");
    }
}
