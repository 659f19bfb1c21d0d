//! Names of clients' addresses, for certificates that name no address. Used only if `ssl.allowReverseDnsLookup` and
//! `ssl.clientHostnameVerification` ask for it.
//!
//! Lookups block, so threads of their own make them; a handshake that waits for a name is subject to its usual deadline. The
//! name counts only if it resolves to the address again, because the owner of an address decides about its reverse
//! entry. Results are cached.

use crate::limits::{REVERSE_LOOKUP_CACHE_MS, REVERSE_LOOKUPS_CACHED_MAX, REVERSE_LOOKUPS_QUEUED_MAX};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, ToSocketAddrs as _};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// A slow name server delays the lookups of one thread only.
const THREADS: usize = 2;

/// What is known about the name of an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ReverseName {
    /// The lookup has ended, perhaps without a name.
    Known(Option<String>),
    Pending,
    /// Too many lookups are in progress.
    Refused,
}

pub(crate) struct ReverseLookups {
    jobs: SyncSender<(IpAddr, Wake)>,
    cache: Arc<Mutex<HashMap<IpAddr, CachedName>>>,
}

/// Called when the name is known.
type Wake = Box<dyn FnOnce() + Send>;

struct CachedName {
    /// `None` while the lookup is in progress.
    result: Option<Option<String>>,
    until_ms: i64,
}

impl ReverseLookups {
    /// Starts the threads. They end with the value, or after the lookup that they make then.
    pub(crate) fn start(lookup: fn(IpAddr) -> Option<String>) -> io::Result<Self> {
        let (jobs, waiting) = sync_channel(REVERSE_LOOKUPS_QUEUED_MAX);
        let (waiting, cache) = (Arc::new(Mutex::new(waiting)), Arc::default());
        for _ in 0..THREADS {
            let (waiting, cache) = (Arc::clone(&waiting), Arc::clone(&cache));
            let thread = std::thread::Builder::new().name("reverse lookups".to_owned());
            thread.spawn(move || run(&waiting, &cache, lookup))?;
        }
        Ok(Self { jobs, cache })
    }

    /// The name of an address. If it is pending, `wake` is called when it is known.
    pub(crate) fn name_of(&self, address: IpAddr, now_ms: i64, wake: impl FnOnce() + Send + 'static) -> ReverseName {
        let mut cache = self.cache.lock();
        if let Some(cached) = cache.get(&address).filter(|cached| now_ms < cached.until_ms) {
            return cached.result.clone().map_or(ReverseName::Pending, ReverseName::Known);
        }
        if REVERSE_LOOKUPS_CACHED_MAX <= cache.len() {
            cache.retain(|_, cached| now_ms < cached.until_ms);
        }
        let is_full = REVERSE_LOOKUPS_CACHED_MAX <= cache.len();
        if is_full || self.jobs.try_send((address, Box::new(wake))).is_err() {
            return ReverseName::Refused;
        }
        cache.insert(address, CachedName { result: None, until_ms: now_ms + REVERSE_LOOKUP_CACHE_MS });
        ReverseName::Pending
    }
}

fn run(
    waiting: &Mutex<Receiver<(IpAddr, Wake)>>,
    cache: &Mutex<HashMap<IpAddr, CachedName>>,
    lookup: fn(IpAddr) -> Option<String>,
) {
    loop {
        let job = waiting.lock().recv(); // the other thread waits for the lock
        let Ok((address, wake)) = job else { return };
        let name = lookup(address);
        if let Some(cached) = cache.lock().get_mut(&address) {
            cached.result = Some(name);
        }
        wake();
    }
}

/// Asks the resolver of the system.
pub(crate) fn system_lookup(address: IpAddr) -> Option<String> {
    let name = dns_lookup::lookup_addr(&address).ok()?;
    let is_name = name.parse::<IpAddr>().is_err(); // the resolver returns the address if it has no name
    let mut addresses = (name.as_str(), 0).to_socket_addrs().ok()?;
    let is_confirmed = is_name && addresses.any(|found| found.ip().to_canonical() == address.to_canonical());
    is_confirmed.then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    fn ask(lookups: &ReverseLookups, address: IpAddr, now_ms: i64) -> ReverseName {
        let (woken, wakes) = channel();
        let name = lookups.name_of(address, now_ms, move || woken.send(()).unwrap());
        if name != ReverseName::Pending {
            return name;
        }
        wakes.recv().unwrap();
        lookups.name_of(address, now_ms, || panic!("the name is cached"))
    }

    #[test]
    fn names_are_looked_up_once_and_expire() {
        let lookups = ReverseLookups::start(|ip| Some(format!("host-{ip}"))).unwrap();
        let [one, two] = ["10.0.0.1", "10.0.0.2"].map(|ip| ip.parse::<IpAddr>().unwrap());
        assert_eq!(ask(&lookups, one, 0), ReverseName::Known(Some("host-10.0.0.1".to_owned())));
        assert_eq!(ask(&lookups, two, 0), ReverseName::Known(Some("host-10.0.0.2".to_owned())));
        let (woken, wakes) = channel();
        let expired = lookups.name_of(one, REVERSE_LOOKUP_CACHE_MS, move || woken.send(()).unwrap());
        assert_eq!(expired, ReverseName::Pending);
        wakes.recv().unwrap();
    }

    fn loop_forever() -> Option<String> {
        loop {
            std::thread::park();
        }
    }

    #[test]
    fn number_of_lookups_is_bounded() {
        let lookups = ReverseLookups::start(|_| loop_forever()).unwrap();
        let address = |number: usize| IpAddr::from(u32::try_from(number).unwrap().to_be_bytes());
        let refused = (0..REVERSE_LOOKUPS_QUEUED_MAX + THREADS + 10)
            .filter(|number| lookups.name_of(address(*number), 0, || ()) == ReverseName::Refused);
        assert!(10 <= refused.count());
    }
}
