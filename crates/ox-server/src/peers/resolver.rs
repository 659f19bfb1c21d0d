//! Name resolution. A lookup may take long, so it runs on a thread of its own, and the peers thread uses the last
//! result until the next one arrives.

use super::address_match::AddressMatch;
use super::commands::PeerCommands;
use crate::limits::{LOOKUP_INTERVAL, LOOKUP_RETRY, UNKNOWN_HOSTS_MAX};
use ox_proto::ServerId;
use ox_proto::ensemble::Address;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Instant;

type LookUp = dyn Fn(&Address) -> io::Result<Vec<SocketAddr>> + Send + Sync;

/// Resolves host names; tests replace it.
#[derive(Clone)]
pub(super) struct NameLookup(Arc<LookUp>);

impl NameLookup {
    /// The resolver of the system.
    pub(super) fn system() -> Self {
        Self(Arc::new(|address| Ok((address.host.as_str(), address.port).to_socket_addrs()?.collect())))
    }

    /// All addresses of a host.
    pub(super) fn look_up(&self, address: &Address) -> io::Result<Vec<SocketAddr>> {
        (self.0)(address)
    }

    /// Resolves every name, and the name "slow" only after a message on the returned sender.
    #[cfg(test)]
    pub(super) fn slow(found: SocketAddr) -> (Self, std::sync::mpsc::Sender<()>) {
        let (release, released) = std::sync::mpsc::channel();
        let released = parking_lot::Mutex::new(released);
        let look_up = move |address: &Address| {
            if address.host == "slow" {
                released.lock().recv_timeout(std::time::Duration::from_secs(60)).map_err(io::Error::other)?;
            }
            Ok(vec![SocketAddr::new(found.ip(), address.port)])
        };
        (Self(Arc::new(look_up)), release)
    }
}

#[derive(Default)]
struct Host {
    /// The result of the last successful lookup, without ports. An IPv6 address may have a scope.
    addresses: Vec<SocketAddr>,
    started: Option<Instant>,
    /// When the last lookup failed, if it did.
    failed: Option<Instant>,
    is_pending: bool,
}

impl Host {
    /// Whether to look the name up again. Only a member's failed lookup is repeated soon: unknown servers may name any
    /// host.
    fn is_stale(&self, is_member: bool, now: Instant) -> bool {
        let (since, limit) = match self.failed {
            Some(failed) if is_member => (Some(failed), LOOKUP_RETRY),
            _ => (self.started, LOOKUP_INTERVAL),
        };
        since.is_none_or(|since| limit <= now.saturating_duration_since(since))
    }
}

/// A host and its addresses; none if the lookup has failed.
type Found = (String, Vec<SocketAddr>);

/// The results of lookups, refreshed in the background while they are used.
pub(super) struct Resolver {
    commands: Arc<PeerCommands>,
    lookup: NameLookup,
    hosts: BTreeMap<String, Host>,
    /// Hosts of configured members; results for other hosts are forgotten.
    members: BTreeSet<String>,
    hosts_by_member: BTreeMap<ServerId, BTreeSet<String>>,
    done: Arc<Mutex<Vec<Found>>>,
}

impl Resolver {
    pub(super) fn new(commands: Arc<PeerCommands>, lookup: NameLookup) -> Self {
        let (hosts, members, hosts_by_member) = (BTreeMap::new(), BTreeSet::new(), BTreeMap::new());
        Self { commands, lookup, hosts, members, hosts_by_member, done: Arc::default() }
    }

    /// Looks up the hosts of configured members.
    pub(super) fn set_members(&mut self, hosts: BTreeMap<ServerId, BTreeSet<String>>, now: Instant) {
        self.members = hosts.values().flatten().cloned().collect();
        self.hosts_by_member = hosts;
        self.refresh_members(now);
    }

    /// Whether a configured member has this address. If not, names are looked up again, because they may have moved.
    pub(super) fn is_member(&mut self, address: IpAddr, now: Instant) -> bool {
        let is_member = self.is_one_of(&self.members, address);
        if !is_member {
            self.refresh_members(now);
        }
        is_member
    }

    /// How well an address fits a server, as far as its names are resolved.
    pub(super) fn address_match(&self, server: ServerId, address: IpAddr) -> AddressMatch {
        if self.hosts_by_member.get(&server).is_some_and(|hosts| self.is_one_of(hosts, address)) {
            AddressMatch::Server
        } else if self.is_one_of(&self.members, address) {
            AddressMatch::OtherServer
        } else {
            AddressMatch::None
        }
    }

    fn is_one_of(&self, hosts: &BTreeSet<String>, address: IpAddr) -> bool {
        let address = address.to_canonical();
        let has = |host: &String| {
            let literal = host.parse().ok().filter(|ip: &IpAddr| ip.to_canonical() == address);
            literal.is_some()
                || self.hosts.get(host).is_some_and(|known| known.addresses.iter().any(|at| at.ip() == address))
        };
        hosts.iter().any(has)
    }

    fn refresh_members(&mut self, now: Instant) {
        for host in self.members.clone() {
            self.look_up(&host, now);
        }
    }

    /// The known addresses of a host, without ports; `None` while the first lookup is pending.
    pub(super) fn look_up(&mut self, host: &str, now: Instant) -> Option<Vec<SocketAddr>> {
        if let Ok(literal) = host.parse::<IpAddr>() {
            return Some(vec![SocketAddr::new(literal, 0)]);
        }
        let is_member = self.members.contains(host);
        if !is_member && !self.hosts.contains_key(host) && self.members.len() + UNKNOWN_HOSTS_MAX <= self.hosts.len() {
            return Some(Vec::new());
        }
        let known = self.hosts.entry(host.to_owned()).or_default();
        if !known.is_pending && known.is_stale(is_member, now) {
            (known.started, known.failed, known.is_pending) = (Some(now), None, true);
            let (done, commands, lookup, host) =
                (Arc::clone(&self.done), Arc::clone(&self.commands), self.lookup.clone(), host.to_owned());
            let work = move || {
                let found = lookup.look_up(&Address { host: host.clone(), port: 0 }).unwrap_or_default();
                let found = found.into_iter().map(canonical).collect();
                done.lock().push((host, found));
                commands.wake();
            };
            if let Err(error) = std::thread::Builder::new().name("resolve".to_owned()).spawn(work) {
                tracing::error!(%error, "cannot start a thread to resolve a host name");
                (known.failed, known.is_pending) = (Some(now), false);
            }
        }
        let is_first = known.is_pending && known.addresses.is_empty();
        (!is_first).then(|| known.addresses.clone())
    }

    /// Takes finished lookups, and forgets hosts that are in no configuration and not in use.
    pub(super) fn take(&mut self, now: Instant) {
        for (host, found) in std::mem::take(&mut *self.done.lock()) {
            if let Some(known) = self.hosts.get_mut(&host) {
                known.is_pending = false;
                if found.is_empty() {
                    known.failed = Some(now);
                } else {
                    known.addresses = found;
                }
            }
        }
        let is_recent = |known: &Host| {
            known.started.is_some_and(|started| now.saturating_duration_since(started) < 2 * LOOKUP_INTERVAL)
        };
        self.hosts.retain(|host, known| self.members.contains(host) || known.is_pending || is_recent(known));
    }
}

/// An address without its port; a mapped IPv4 address as IPv4.
fn canonical(address: SocketAddr) -> SocketAddr {
    let mut canonical = match address.ip().to_canonical() {
        ip @ IpAddr::V4(_) => SocketAddr::new(ip, 0),
        IpAddr::V6(_) => address,
    };
    canonical.set_port(0);
    canonical
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddrV6;
    use std::time::Duration;

    fn resolver(lookup: NameLookup) -> Resolver {
        let poll = mio::Poll::new().unwrap();
        Resolver::new(Arc::new(PeerCommands::new(mio::Waker::new(poll.registry(), mio::Token(0)).unwrap())), lookup)
    }

    fn members<const N: usize>(hosts: [(i64, &[&str]); N]) -> BTreeMap<ServerId, BTreeSet<String>> {
        let owned = |hosts: &[&str]| hosts.iter().map(|host| (*host).to_owned()).collect();
        hosts.into_iter().map(|(server, hosts)| (ServerId(server), owned(hosts))).collect()
    }

    fn wait(resolver: &mut Resolver, now: Instant) {
        let until = Instant::now() + Duration::from_secs(60);
        while resolver.hosts.values().any(|known| known.is_pending) {
            assert!(Instant::now() < until);
            std::thread::yield_now();
            resolver.take(now);
        }
    }

    #[test]
    fn member_addresses_are_literals_and_the_results_of_lookups() {
        let (lookup, release) = NameLookup::slow("10.0.0.1:0".parse().unwrap());
        let (mut resolver, now) = (resolver(lookup), Instant::now());
        resolver.set_members(members([(1, &["slow", "10.0.0.2"]), (2, &["::1"])]), now);
        let is = |resolver: &mut Resolver, ip: &str| resolver.is_member(ip.parse().unwrap(), now);
        assert!(is(&mut resolver, "10.0.0.2") && is(&mut resolver, "::1") && is(&mut resolver, "::ffff:10.0.0.2"));
        assert!(!is(&mut resolver, "10.0.0.1") && !is(&mut resolver, "10.0.0.3"));
        release.send(()).unwrap();
        wait(&mut resolver, now);
        assert!(is(&mut resolver, "10.0.0.1") && !is(&mut resolver, "10.0.0.3"));
    }

    #[test]
    fn address_match_follows_the_configuration_and_the_lookups() {
        let (lookup, release) = NameLookup::slow("10.0.0.1:0".parse().unwrap());
        let (mut resolver, now) = (resolver(lookup), Instant::now());
        resolver.set_members(members([(1, &["slow"]), (2, &["10.0.0.2", "::1"]), (3, &["10.0.0.1"])]), now);
        let of = |resolver: &Resolver, server, ip: &str| resolver.address_match(ServerId(server), ip.parse().unwrap());
        for (server, ip, expected) in [
            (2, "10.0.0.2", AddressMatch::Server),
            (2, "::ffff:10.0.0.2", AddressMatch::Server),
            (2, "::1", AddressMatch::Server),
            (3, "10.0.0.2", AddressMatch::OtherServer),
            (9, "10.0.0.2", AddressMatch::OtherServer),
            (2, "10.0.0.9", AddressMatch::None),
            (1, "10.0.0.1", AddressMatch::OtherServer),
        ] {
            assert_eq!(of(&resolver, server, ip), expected, "{server} at {ip}");
        }
        release.send(()).unwrap();
        wait(&mut resolver, now);
        assert_eq!(of(&resolver, 1, "10.0.0.1"), AddressMatch::Server, "its name is resolved now");
        assert_eq!(of(&resolver, 3, "10.0.0.1"), AddressMatch::Server, "both share a host");
        resolver.set_members(members([(1, &["10.0.0.5"]), (2, &["10.0.0.2"])]), now);
        assert_eq!(of(&resolver, 1, "10.0.0.1"), AddressMatch::None, "it has moved");
    }

    #[test]
    fn lookups_are_repeated_after_the_interval_and_results_stay_meanwhile() {
        let (lookup, release) = NameLookup::slow("10.0.0.1:0".parse().unwrap());
        let (mut resolver, mut now) = (resolver(lookup), Instant::now());
        assert_eq!(resolver.look_up("slow", now), None);
        release.send(()).unwrap();
        wait(&mut resolver, now);
        let found = Some(vec!["10.0.0.1:0".parse().unwrap()]);
        for _ in 0..10 {
            assert_eq!(resolver.look_up("slow", now), found);
            assert!(!resolver.hosts["slow"].is_pending);
        }
        now += LOOKUP_INTERVAL;
        assert_eq!(resolver.look_up("slow", now), found, "while it is looked up again");
        assert!(resolver.hosts["slow"].is_pending);
        release.send(()).unwrap();
        wait(&mut resolver, now);
        resolver.take(now + 2 * LOOKUP_INTERVAL);
        assert!(resolver.hosts.is_empty(), "it is in no configuration");
    }

    #[test]
    fn scope_of_an_address_is_kept() {
        let scoped = SocketAddrV6::new("fe80::1".parse().unwrap(), 0, 0, 3);
        let mapped = SocketAddrV6::new("::ffff:10.0.0.1".parse().unwrap(), 0, 0, 0);
        let lookup = NameLookup(Arc::new(move |_| Ok(vec![scoped.into(), mapped.into()])));
        let (mut resolver, now) = (resolver(lookup), Instant::now());
        assert_eq!(resolver.look_up("fe80::1%eth0", now), None);
        wait(&mut resolver, now);
        let found = vec![scoped.into(), "10.0.0.1:0".parse().unwrap()];
        assert_eq!(resolver.look_up("fe80::1%eth0", now), Some(found));
    }

    #[test]
    fn failed_lookup_of_a_member_is_repeated_soon() {
        let is_up = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let can = Arc::clone(&is_up);
        let lookup = NameLookup(Arc::new(move |_| match can.load(std::sync::atomic::Ordering::Relaxed) {
            true => Ok(vec!["10.0.0.1:0".parse().unwrap()]),
            false => Err(io::ErrorKind::NotFound.into()),
        }));
        let (mut resolver, mut now) = (resolver(lookup), Instant::now());
        assert_eq!(resolver.look_up("unknown", now), None);
        wait(&mut resolver, now);
        assert_eq!(resolver.look_up("unknown", now + LOOKUP_RETRY), Some(Vec::new()));
        assert!(!resolver.hosts["unknown"].is_pending, "any host can name it");
        resolver.set_members(members([(1, &["host"])]), now);
        assert_eq!(resolver.look_up("host", now), None);
        now += LOOKUP_INTERVAL; // the lookup itself takes long
        wait(&mut resolver, now);
        is_up.store(true, std::sync::atomic::Ordering::Relaxed);
        assert_eq!(resolver.look_up("host", now + LOOKUP_RETRY / 2), Some(Vec::new()));
        assert!(!resolver.hosts["host"].is_pending);
        now += LOOKUP_RETRY;
        assert_eq!(resolver.look_up("host", now), None);
        wait(&mut resolver, now);
        let found = resolver.look_up("host", now + LOOKUP_RETRY);
        assert_eq!(found, Some(vec!["10.0.0.1:0".parse().unwrap()]));
        assert!(!resolver.hosts["host"].is_pending, "it has succeeded");
    }

    #[test]
    fn unknown_hosts_are_bounded() {
        let (lookup, release) = NameLookup::slow("10.0.0.1:0".parse().unwrap());
        let (mut resolver, now) = (resolver(lookup), Instant::now());
        let pending = (0..1_000).filter(|number| resolver.look_up(&format!("host-{number}"), now).is_none()).count();
        assert!(pending <= UNKNOWN_HOSTS_MAX && resolver.hosts.len() <= UNKNOWN_HOSTS_MAX);
        drop(release);
    }
}
