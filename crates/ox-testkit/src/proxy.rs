//! A TCP proxy whose directions can be silenced, discarded or cut, and whose bytes a filter can change.

use parking_lot::{Condvar, Mutex};
use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const BUFFER_BYTES: usize = 64 << 10;
/// Interval of the attempts to connect to a target that does not listen yet.
const RETRY: Duration = Duration::from_millis(5);

/// What happens to bytes in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LinkState {
    #[default]
    Open,
    /// Bytes and ends of streams are held back, as by packet loss; no end sees an error.
    Silent,
    /// Bytes are lost, and the connection stays open.
    Discarding,
    /// Connections break, and new ones fail.
    Cut,
}

/// One direction of one or more proxies.
#[derive(Clone, Debug, Default)]
pub struct Direction(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    inner: Mutex<Inner>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Inner {
    state: LinkState,
    /// How often all existing connections were stalled.
    stalls: usize,
    /// Both sockets of each open connection.
    open: BTreeMap<u64, [TcpStream; 2]>,
}

impl Direction {
    pub fn set(&self, state: LinkState) {
        let mut inner = self.0.inner.lock();
        inner.state = state;
        if state == LinkState::Cut {
            inner.open.values().for_each(shut_down);
        }
        self.0.changed.notify_all();
    }

    /// Stalls all existing connections without an error. New ones work: the network has recovered, but TCP waits
    /// before it retransmits.
    pub fn stall(&self) {
        self.0.inner.lock().stalls += 1;
    }

    fn stalls(&self) -> usize {
        self.0.inner.lock().stalls
    }

    /// Waits while the direction is silent, or stalled since the count was `stalls`.
    fn wait(&self, stalls: usize) -> LinkState {
        let mut inner = self.0.inner.lock();
        self.0.changed.wait_while(&mut inner, |inner| inner.state == LinkState::Silent || inner.stalls != stalls);
        inner.state
    }

    /// Adds a connection; false if the direction is cut.
    fn add(&self, id: u64, sockets: [TcpStream; 2]) -> bool {
        let mut inner = self.0.inner.lock();
        inner.open.insert(id, sockets);
        inner.state != LinkState::Cut
    }

    fn remove(&self, id: u64) {
        self.0.inner.lock().open.remove(&id);
    }
}

fn shut_down(sockets: &[TcpStream; 2]) {
    // An error means that the connection is closed already.
    sockets.iter().for_each(|socket| _ = socket.shutdown(Shutdown::Both));
}

/// Returns the bytes to forward instead of those received, or `None` to close the connection. May keep bytes back until
/// it has received enough.
pub type Filter = Box<dyn FnMut(&[u8]) -> Option<Vec<u8>> + Send>;

/// The filters of one connection.
#[derive(Default)]
pub struct Filters {
    pub requests: Option<Filter>,
    pub replies: Option<Filter>,
}

/// A filter of whole frames: gets a payload, and returns the payloads to forward instead.
pub fn frame_filter(mut change: impl FnMut(Vec<u8>) -> Option<Vec<Vec<u8>>> + Send + 'static) -> Filter {
    let mut held = Vec::new();
    Box::new(move |bytes| {
        held.extend_from_slice(bytes);
        let (mut out, mut used) = (Vec::new(), 0);
        while let Some((prefix, rest)) = held[used..].split_first_chunk::<4>()
            && let Some(payload) = rest.get(..u32::from_be_bytes(*prefix) as usize)
        {
            used += 4 + payload.len();
            for payload in change(payload.to_vec())? {
                out.extend(u32::try_from(payload.len()).unwrap().to_be_bytes());
                out.extend(payload);
            }
        }
        held.drain(..used);
        Some(out)
    })
}

/// How a proxy listens and connects.
#[derive(Clone, Debug)]
pub struct ProxySettings {
    pub listen: Ipv4Addr,
    /// For how long to try again if the target does not listen. A connection that is accepted and then closed differs
    /// from a refused one.
    pub connect_timeout: Duration,
    pub requests: Direction,
    pub replies: Direction,
}

impl Default for ProxySettings {
    fn default() -> Self {
        let (requests, replies) = (Direction::default(), Direction::default());
        Self { listen: Ipv4Addr::LOCALHOST, connect_timeout: Duration::ZERO, requests, replies }
    }
}

type FilterFactory = Arc<dyn Fn(u64) -> Filters + Send + Sync>;

/// A running proxy. Its threads run until the process ends.
#[derive(Clone, Debug)]
pub struct Proxy {
    address: SocketAddr,
    settings: ProxySettings,
    refuses: Arc<AtomicBool>,
}

impl Proxy {
    /// Forwards all bytes unchanged.
    pub fn start(target: SocketAddr) -> Self {
        Self::with_filters(target, |_| Filters::default())
    }

    /// Forwards through filters, which are created for each connection from its id.
    pub fn with_filters(target: SocketAddr, filters: impl Fn(u64) -> Filters + Send + Sync + 'static) -> Self {
        Self::with_settings(target, ProxySettings::default(), filters)
    }

    pub fn with_settings(
        target: SocketAddr,
        settings: ProxySettings,
        filters: impl Fn(u64) -> Filters + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind((settings.listen, 0)).unwrap();
        let proxy = Self { address: listener.local_addr().unwrap(), settings, refuses: Arc::default() };
        let (accepting, filters): (_, FilterFactory) = (proxy.clone(), Arc::new(filters));
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let (proxy, filters) = (accepting.clone(), Arc::clone(&filters));
                // A connection that cannot be forwarded is closed, which its client notices.
                std::thread::spawn(move || proxy.forward(&client, target, &filters).ok());
            }
        });
        proxy
    }

    /// The address that clients connect to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The direction from clients to the target.
    pub fn requests(&self) -> &Direction {
        &self.settings.requests
    }

    /// The direction from the target to clients.
    pub fn replies(&self) -> &Direction {
        &self.settings.replies
    }

    /// Holds back all bytes in both directions, or delivers them.
    pub fn set_silent(&self, silent: bool) {
        let state = if silent { LinkState::Silent } else { LinkState::Open };
        [self.requests(), self.replies()].iter().for_each(|direction| direction.set(state));
    }

    /// The ids of the open connections.
    pub fn connections(&self) -> Vec<u64> {
        self.requests().0.inner.lock().open.keys().copied().collect()
    }

    /// Closes the connections whose id is selected; returns whether there were any.
    pub fn close(&self, is_selected: impl Fn(u64) -> bool) -> bool {
        let inner = self.requests().0.inner.lock();
        let closed = inner.open.iter().filter(|(id, _)| is_selected(**id)).map(|(_, sockets)| shut_down(sockets));
        closed.count() != 0
    }

    pub fn close_all(&self) {
        self.close(|_| true);
    }

    /// Refuses new connections until [`Self::open`].
    pub fn refuse(&self) {
        self.refuses.store(true, Ordering::SeqCst);
    }

    /// Closes all connections and refuses new ones: for clients the network is down.
    pub fn block(&self) {
        self.refuse();
        self.close_all();
    }

    /// Accepts connections again after [`Self::refuse`] or [`Self::block`].
    pub fn open(&self) {
        self.refuses.store(false, Ordering::SeqCst);
    }

    fn forward(&self, client: &TcpStream, target: SocketAddr, filters: &FilterFactory) -> io::Result<()> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let ProxySettings { requests, replies, .. } = &self.settings;
        let stalls = [requests.stalls(), replies.stalls()];
        let is_cut = |direction: &Direction, stalls| direction.wait(stalls) == LinkState::Cut;
        if self.refuses.load(Ordering::SeqCst) || is_cut(requests, stalls[0]) || is_cut(replies, stalls[1]) {
            return Ok(());
        }
        let server = &self.connect(target)?;
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        let filters = filters(id);
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        let mut is_open = true;
        for direction in [requests, replies] {
            is_open &= direction.add(id, [client.try_clone()?, server.try_clone()?]);
        }
        // Checked after the connection was added, so that `block` closes it otherwise.
        if is_open && !self.refuses.load(Ordering::SeqCst) {
            std::thread::scope(|scope| {
                scope.spawn(|| pump(replies, stalls[1], server, client, filters.replies));
                pump(requests, stalls[0], client, server, filters.requests);
            });
        }
        [requests, replies].iter().for_each(|direction| direction.remove(id));
        Ok(())
    }

    fn connect(&self, target: SocketAddr) -> io::Result<TcpStream> {
        let deadline = Instant::now() + self.settings.connect_timeout;
        loop {
            match TcpStream::connect(target) {
                Err(_) if Instant::now() < deadline => std::thread::sleep(RETRY),
                connected => return connected,
            }
        }
    }
}

/// Forwards bytes in one direction until the stream ends or the connection breaks.
fn pump(direction: &Direction, stalls: usize, mut from: &TcpStream, mut to: &TcpStream, mut filter: Option<Filter>) {
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        let read = from.read(&mut buffer);
        // The end of the stream is held back, too.
        match (direction.wait(stalls), read) {
            (LinkState::Cut, _) | (_, Err(_)) => break,
            (_, Ok(0)) => {
                _ = to.shutdown(Shutdown::Write); // the other direction may still deliver
                return;
            }
            (LinkState::Discarding, Ok(_)) => (),
            (LinkState::Open | LinkState::Silent, Ok(count)) => {
                let forwarded = match &mut filter {
                    None => to.write_all(&buffer[..count]).is_ok(),
                    Some(filter) => filter(&buffer[..count]).is_some_and(|bytes| to.write_all(&bytes).is_ok()),
                };
                if !forwarded {
                    break;
                }
            }
        }
    }
    [from, to].iter().for_each(|socket| _ = socket.shutdown(Shutdown::Both));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that sends every byte back.
    fn echo() -> SocketAddr {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                std::thread::spawn(move || {
                    let mut byte = [0];
                    while let Ok(1) = stream.read(&mut byte) {
                        stream.write_all(&byte).unwrap();
                    }
                });
            }
        });
        address
    }

    /// Whether the server sends a byte back.
    fn echoes(stream: &mut TcpStream) -> bool {
        let mut byte = [0];
        stream.write_all(b"x").is_ok() && stream.read_exact(&mut byte).is_ok()
    }

    fn has_bytes(stream: &TcpStream) -> bool {
        stream.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        let read = stream.peek(&mut [0]);
        stream.set_read_timeout(None).unwrap();
        read.is_ok()
    }

    #[test]
    fn connection_forwards_bytes_until_it_is_closed() {
        let proxy = Proxy::start(echo());
        let mut first = TcpStream::connect(proxy.address()).unwrap();
        assert!(echoes(&mut first));
        proxy.close_all();
        assert!(!echoes(&mut first));
        let mut second = TcpStream::connect(proxy.address()).unwrap();
        assert!(echoes(&mut second));
    }

    #[test]
    fn blocked_proxy_refuses_connections() {
        let proxy = Proxy::start(echo());
        proxy.block();
        let mut refused = TcpStream::connect(proxy.address()).unwrap();
        assert!(!echoes(&mut refused));
        proxy.open();
        let mut accepted = TcpStream::connect(proxy.address()).unwrap();
        assert!(echoes(&mut accepted));
    }

    #[test]
    fn silent_direction_holds_bytes_and_the_end_until_it_opens() {
        let target = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let proxy = Proxy::start(target.local_addr().unwrap());
        let mut sender = TcpStream::connect(proxy.address()).unwrap();
        let (mut receiver, _) = target.accept().unwrap();
        proxy.requests().set(LinkState::Silent);
        sender.write_all(b"x").unwrap();
        sender.shutdown(Shutdown::Write).unwrap();
        receiver.write_all(b"y").unwrap();
        let mut byte = [0];
        sender.read_exact(&mut byte).unwrap();
        assert_eq!(byte, *b"y");
        assert!(!has_bytes(&receiver));
        proxy.requests().set(LinkState::Open);
        let mut rest = Vec::new();
        receiver.read_to_end(&mut rest).unwrap();
        assert_eq!(rest, b"x");
    }

    #[test]
    fn cut_direction_breaks_idle_connections_and_refuses_new_ones() {
        let proxy = Proxy::start(echo());
        let mut idle = TcpStream::connect(proxy.address()).unwrap();
        assert!(echoes(&mut idle));
        proxy.replies().set(LinkState::Cut);
        assert_eq!(idle.read(&mut [0]).unwrap_or(0), 0);
        assert!(!echoes(&mut TcpStream::connect(proxy.address()).unwrap()));
    }

    #[test]
    fn stalled_connection_stays_silent_while_a_new_one_works() {
        let proxy = Proxy::start(echo());
        let mut old = TcpStream::connect(proxy.address()).unwrap();
        assert!(echoes(&mut old));
        proxy.requests().stall();
        old.write_all(b"x").unwrap();
        assert!(echoes(&mut TcpStream::connect(proxy.address()).unwrap()));
        assert!(!has_bytes(&old));
    }

    #[test]
    fn frame_filter_gets_whole_frames() {
        let mut filter = frame_filter(|payload| match &*payload {
            b"end" => None,
            _ => Some(vec![payload.clone(), payload]),
        });
        assert!(filter(&[0, 0, 0]).unwrap().is_empty());
        assert_eq!(filter(&[1, 7, 0, 0, 0]).unwrap(), [0, 0, 0, 1, 7, 0, 0, 0, 1, 7]);
        assert_eq!(filter(&[3, b'e', b'n', b'd']), None);
    }
}
