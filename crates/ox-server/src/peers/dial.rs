//! Connecting to servers: names are looked up anew each time, on threads that nobody waits for.

use super::command::Orders;
use mio::net::TcpStream;
use ox_config::MemberConfig;
use ox_proto::ServerId;
use ox_proto::ensemble::Address;
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::net::ToSocketAddrs;
use std::sync::Arc;
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
    election_timeout: Duration,
    leader_timeout: Duration,
    under_way: BTreeSet<Target>,
    done: Arc<Mutex<Vec<Dialed>>>,
}

impl Dialer {
    pub(super) fn new(orders: Arc<Orders>, member: &MemberConfig) -> Self {
        let election_timeout = Duration::from_millis(member.cnx_timeout_ms.unsigned_abs());
        let leader_timeout = Duration::from_millis(member.connect_ms.max(1).unsigned_abs());
        Self { orders, election_timeout, leader_timeout, under_way: BTreeSet::new(), done: Arc::default() }
    }

    pub(super) fn is_dialing(&self, target: Target) -> bool {
        self.under_way.contains(&target)
    }

    /// Tries all addresses, one after the other, after a pause.
    pub(super) fn dial(&mut self, target: Target, addresses: Vec<Address>, pause: Duration) {
        if !self.under_way.insert(target) {
            return;
        }
        let timeout = match target {
            Target::Election(_) => self.election_timeout,
            Target::Leader(_) => self.leader_timeout,
        };
        let (done, orders) = (Arc::clone(&self.done), Arc::clone(&self.orders));
        let work = move || {
            std::thread::sleep(pause);
            let stream = connect(&addresses, timeout);
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

fn connect(addresses: &[Address], timeout: Duration) -> Option<TcpStream> {
    for Address { host, port } in addresses {
        let Ok(resolved) = (host.as_str(), *port).to_socket_addrs() else { continue };
        for address in resolved {
            if let Ok(stream) = std::net::TcpStream::connect_timeout(&address, timeout)
                && stream.set_nonblocking(true).is_ok()
            {
                return Some(TcpStream::from_std(stream));
            }
        }
    }
    None
}
