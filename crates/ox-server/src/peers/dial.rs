//! Connecting to servers: names are looked up anew each time, on threads that nobody waits for. Where a server has several
//! addresses, all are tried at once: one that swallows everything must not use up the patience for the others.

use super::command::Orders;
use super::names::Names;
use mio::net::TcpStream;
use ox_config::MemberConfig;
use ox_proto::ServerId;
use ox_proto::ensemble::Address;
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

/// Whom to connect to, on which port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Target {
    Election(ServerId),
    Leader(ServerId),
}

/// How it went.
pub(super) struct Dialed {
    pub(super) target: Target,
    pub(super) stream: Option<TcpStream>,
}

/// At most one attempt per target is under way.
pub(super) struct Dialer {
    orders: Arc<Orders>,
    names: Names,
    election_timeout: Duration,
    leader_timeout: Duration,
    under_way: BTreeSet<Target>,
    done: Arc<Mutex<Vec<Dialed>>>,
}

impl Dialer {
    pub(super) fn new(orders: Arc<Orders>, names: Names, member: &MemberConfig) -> Self {
        let election_timeout = Duration::from_millis(member.cnx_timeout_ms.unsigned_abs());
        let leader_timeout = Duration::from_millis(member.connect_ms.max(1).unsigned_abs());
        Self { orders, names, election_timeout, leader_timeout, under_way: BTreeSet::new(), done: Arc::default() }
    }

    pub(super) fn is_dialing(&self, target: Target) -> bool {
        self.under_way.contains(&target)
    }

    /// Tries all addresses after a pause; the first that answers is taken.
    pub(super) fn dial(&mut self, target: Target, addresses: Vec<Address>, pause: Duration) {
        if !self.under_way.insert(target) {
            return;
        }
        let timeout = match target {
            Target::Election(_) => self.election_timeout,
            Target::Leader(_) => self.leader_timeout,
        };
        let (done, orders, names) = (Arc::clone(&self.done), Arc::clone(&self.orders), self.names.clone());
        let work = move || {
            std::thread::sleep(pause);
            let stream = connect(addresses, timeout, &names);
            done.lock().push(Dialed { target, stream });
            orders.wake();
        };
        if let Err(error) = std::thread::Builder::new().name("dial".to_owned()).spawn(work) {
            tracing::error!(%error, "cannot start a thread to connect with");
            self.done.lock().push(Dialed { target, stream: None });
        }
    }

    /// Attempts that have ended.
    pub(super) fn take(&mut self) -> Vec<Dialed> {
        let done = std::mem::take(&mut *self.done.lock());
        for dialed in &done {
            self.under_way.remove(&dialed.target);
        }
        done
    }
}

fn connect(addresses: Vec<Address>, timeout: Duration, names: &Names) -> Option<TcpStream> {
    if let [Address { host, port }] = &*addresses
        && let Ok(ip) = host.parse::<IpAddr>()
    {
        // One address without a name: this thread can wait for it, and a busy machine need not start two more.
        return connect_to(SocketAddr::new(ip, *port), timeout).map(TcpStream::from_std);
    }
    let (answers, first) = channel();
    for address in addresses {
        let (answers, names) = (answers.clone(), names.clone());
        spawn(move || {
            let Ok(resolved) = names.look_up(&address) else { return };
            for address in resolved {
                let answers = answers.clone();
                spawn(move || {
                    if let Some(stream) = connect_to(address, timeout) {
                        let _ = answers.send(stream); // who comes second hangs up
                    }
                });
            }
        });
    }
    drop(answers);
    first.recv().ok().map(TcpStream::from_std) // an error when all have given up
}

fn connect_to(address: SocketAddr, timeout: Duration) -> Option<std::net::TcpStream> {
    let stream = std::net::TcpStream::connect_timeout(&address, timeout).ok()?;
    stream.set_nonblocking(true).is_ok().then_some(stream)
}

fn spawn(work: impl FnOnce() + Send + 'static) {
    if let Err(error) = std::thread::Builder::new().name("dial".to_owned()).spawn(work) {
        tracing::error!(%error, "cannot start a thread to connect with");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Shutdown, TcpListener};
    use std::time::Instant;

    /// One address that swallows everything, one that refuses, one that nobody knows, and one that answers.
    #[test]
    fn k086_all_addresses_are_tried_at_once() {
        let open = TcpListener::bind("127.0.0.1:0").unwrap();
        let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let full = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        full.bind(&"127.0.0.1:0".parse::<std::net::SocketAddr>().unwrap().into()).unwrap();
        full.listen(0).unwrap();
        let swallowing = full.local_addr().unwrap().as_socket().unwrap();
        // Its queue is full, and nobody takes anybody out of it.
        let waiting: Vec<_> =
            (0..4).map(|_| std::net::TcpStream::connect_timeout(&swallowing, Duration::from_millis(100))).collect();
        if waiting.iter().all(Result::is_ok) {
            return; // here nothing is swallowed
        }
        let ports = [swallowing.port(), closed, open.local_addr().unwrap().port()];
        let mut addresses: Vec<Address> = ports.map(|port| Address::new("127.0.0.1", port)).into();
        addresses.insert(1, Address::new("no-such-host.invalid", 1));
        let (patience, began) = (Duration::from_secs(600), Instant::now());
        let stream = connect(addresses.clone(), patience, &Names::of_system()).unwrap();
        assert!(began.elapsed() < patience / 2);
        let (accepted, _) = open.accept().unwrap();
        assert_eq!(accepted.peer_addr().unwrap(), stream.local_addr().unwrap());
        accepted.shutdown(Shutdown::Both).unwrap();
        assert!(connect(addresses[1..3].to_vec(), patience, &Names::of_system()).is_none(), "nobody is there");
    }

    #[test]
    fn a_name_that_takes_long_delays_nobody_else() {
        let patience = Duration::from_secs(60);
        let open = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = open.local_addr().unwrap();
        let poll = mio::Poll::new().unwrap();
        let orders = Arc::new(Orders::new(mio::Waker::new(poll.registry(), mio::Token(0)).unwrap()));
        let (names, tell) = Names::slow(at);
        let (under_way, done) = (BTreeSet::new(), Arc::default());
        let mut dialer =
            Dialer { orders, names, election_timeout: patience, leader_timeout: patience, under_way, done };
        let until = Instant::now() + patience;
        let next = |dialer: &mut Dialer| loop {
            if let Some(dialed) = dialer.take().pop() {
                return (dialed.target, dialed.stream.is_some());
            }
            assert!(Instant::now() < until);
            std::thread::yield_now();
        };
        let (slow, fast) = (Target::Leader(ServerId(1)), Target::Election(ServerId(2)));
        for (target, host) in [(slow, "slow"), (fast, "fast"), (slow, "slow")] {
            dialer.dial(target, vec![Address::new(host, at.port())], Duration::ZERO);
        }
        assert_eq!(next(&mut dialer), (fast, true));
        assert!(dialer.is_dialing(slow) && !dialer.is_dialing(fast));
        tell.send(()).unwrap();
        assert_eq!(next(&mut dialer), (slow, true), "once, though asked for twice");
    }
}
