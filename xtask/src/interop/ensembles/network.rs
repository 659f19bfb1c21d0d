//! The network between members, which a test can block in one direction or in both.
//!
//! On the election port, the initial message contains the address for connections back, which the proxy replaces by the
//! proxy address for that direction.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use ox_testkit::{Filter, Filters, Network, PeerAddresses};

/// An address on which members do not listen, so that the proxies take none of their ports.
const PROXY_IP: Ipv4Addr = Ipv4Addr::new(127, 0, 1, 1);
/// As long as Apache tries to connect to a leader. Without a proxy the connection would be refused and the member would
/// retry. A connection that is accepted and then closed would make it look for another leader.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Protocol versions of initial messages that contain one address, or several.
const VERSIONS_WITH_ADDRESS: [i64; 2] = [-65536, -65535];
/// Longer than any address.
const ADDRESS_BYTES_MAX: usize = 1024;

/// The addresses of the proxies between members, by the member that connects and the one that it reaches.
#[derive(Clone)]
pub(super) struct PeerProxies(Vec<Vec<PeerAddresses>>);

impl PeerProxies {
    pub(super) fn between(members: &[PeerAddresses]) -> (Self, Network) {
        let network = Network::listening_on(PROXY_IP, members.len(), CONNECT_TIMEOUT);
        let all = Arc::new(OnceLock::<PeerProxies>::new());
        let proxy = |from, to, target: &PeerAddresses| {
            let (all, quorum) = (Arc::clone(&all), network.proxy(from, to, target.quorum, |_| Filters::default()));
            let election = network.proxy(from, to, target.election, move |_| {
                let back = all.wait().address(to, from).election;
                Filters { requests: Some(replace_address(back)), replies: None }
            });
            PeerAddresses { quorum, election }
        };
        let from = |from| members.iter().enumerate().map(|(to, target)| proxy(from, to, target)).collect();
        let proxies = Self((0..members.len()).map(from).collect());
        all.get_or_init(|| proxies.clone());
        (proxies, network)
    }

    /// The addresses at which the member `from` reaches the member `to`.
    pub(super) fn address(&self, from: usize, to: usize) -> PeerAddresses {
        self.0[from][to]
    }
}

/// Replaces the address in the initial message of an election connection.
fn replace_address(address: SocketAddr) -> Filter {
    let mut held = Some(Vec::new());
    Box::new(move |bytes| {
        let Some(mut message) = held.take() else { return Some(bytes.to_vec()) };
        message.extend_from_slice(bytes);
        match initial_message(&message)? {
            Some((version_and_id, rest)) => {
                let address = address.to_string();
                let length = u32::try_from(address.len()).ok()?.to_be_bytes();
                Some([version_and_id, &length, address.as_bytes(), rest].concat())
            }
            None if has_no_address(&message) => Some(message),
            None => {
                held = Some(message);
                Some(Vec::new())
            }
        }
    })
}

/// Whether the initial message is an old one, which contains no address.
fn has_no_address(message: &[u8]) -> bool {
    message.first_chunk().is_some_and(|version| !VERSIONS_WITH_ADDRESS.contains(&i64::from_be_bytes(*version)))
}

/// Version and id of an initial message, and the bytes after its address: `Some(None)` if it is incomplete or has no
/// address, `None` if the address is too long.
fn initial_message(message: &[u8]) -> Option<Option<(&[u8], &[u8])>> {
    let Some((version_and_id, rest)) = message.split_at_checked(16).filter(|_| !has_no_address(message)) else {
        return Some(None);
    };
    let Some((length, rest)) = rest.split_first_chunk::<4>() else { return Some(None) };
    let length = usize::try_from(i32::from_be_bytes(*length)).ok().filter(|length| *length <= ADDRESS_BYTES_MAX)?;
    Some(rest.get(length..).map(|rest| (version_and_id, rest)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    fn listener() -> (TcpListener, SocketAddr) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        (listener, address)
    }

    #[test]
    fn initial_message_carries_the_proxy_address() {
        let (election, address) = listener();
        let (_quorum, quorum) = listener();
        let (proxies, _network) = PeerProxies::between(&[PeerAddresses { quorum, election: address }; 2]);
        let mut sender = TcpStream::connect(proxies.address(0, 1).election).unwrap();
        let sent_address = b"127.0.0.1:1";
        let version_and_id = [&(-65536_i64).to_be_bytes()[..], &7_i64.to_be_bytes()].concat();
        sender.write_all(&[&version_and_id[..], &11_u32.to_be_bytes(), sent_address, b"more"].concat()).unwrap();
        let (mut receiver, _) = election.accept().unwrap();
        let expected_address = proxies.address(1, 0).election.to_string();
        let length = u32::try_from(expected_address.len()).unwrap().to_be_bytes();
        let expected = [&version_and_id[..], &length, expected_address.as_bytes(), b"more"].concat();
        let mut received = vec![0; expected.len()];
        receiver.read_exact(&mut received).unwrap();
        assert_eq!(received, expected);
    }

    #[test]
    fn initial_message_without_address_and_in_pieces_is_forwarded() {
        let address = (Ipv4Addr::LOCALHOST, 7).into();
        let old = [&3_i64.to_be_bytes()[..], b"rest"].concat();
        assert_eq!(replace_address(address)(&old), Some(old));
        let (mut filter, mut out) = (replace_address(address), Vec::new());
        let new = [&(-65535_i64).to_be_bytes()[..], &7_i64.to_be_bytes(), &[0, 0, 0, 1], b"xrest"].concat();
        new.iter().for_each(|byte| out.extend(filter(&[*byte]).unwrap()));
        assert_eq!(out, [&new[..16], &[0, 0, 0, 11], b"127.0.0.1:7rest"].concat());
        let long = [&new[..16], &[0, 0, 9, 0]].concat();
        assert_eq!(replace_address(address)(&long), None);
    }
}
