//! Clients that write while servers fail and restart.

use crate::failover_client::FailoverClient;
use crate::tree_walk::Tree;
use crate::wait::wait_until;
use ox_proto::SessionId;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const WRITERS: usize = 3;
/// More than any case needs that ends.
const WRITES_MAX: usize = 50_000;
/// Interval between requests that keep an idle session alive.
const KEEP_ALIVE: Duration = Duration::from_secs(5);

/// The writes of one client, and its session.
struct WriterResult {
    session: SessionId,
    client: FailoverClient,
    paths: Vec<String>,
    longest_pause: Duration,
}

/// Clients that create nodes below `/n` until they are stopped, each with its own ephemeral node.
#[derive(Debug)]
pub struct WriteLoad {
    stop: Arc<AtomicBool>,
    acknowledged: Arc<AtomicUsize>,
    writers: Vec<JoinHandle<WriterResult>>,
}

impl WriteLoad {
    /// Starts writers, each with an ephemeral node `/e-<name>-<writer>`.
    pub fn start(addresses: &[SocketAddr], name: &str) -> Self {
        Self::start_paced(addresses, name, Duration::ZERO)
    }

    /// The same with a pause between writes, for cases that take long, because the final checks read every node.
    pub fn start_paced(addresses: &[SocketAddr], name: &str, pace: Duration) -> Self {
        let (stop, acknowledged): (Arc<AtomicBool>, Arc<AtomicUsize>) = Default::default();
        let writers = (0..WRITERS).map(|writer| {
            let (stop, acknowledged) = (Arc::clone(&stop), Arc::clone(&acknowledged));
            let mut addresses = addresses.to_vec();
            let first = writer % addresses.len();
            addresses.rotate_left(first);
            let name = format!("{name}-{writer}");
            std::thread::spawn(move || write(addresses, &name, pace, &stop, &acknowledged))
        });
        Self { writers: writers.collect(), stop, acknowledged }
    }

    /// Waits until `count` more writes are acknowledged.
    pub fn wait_for_more(&self, count: usize) {
        let goal = self.acknowledged.load(Ordering::Relaxed) + count;
        wait_until(&format!("{count} more writes"), || {
            assert!(!self.writers.iter().any(JoinHandle::is_finished), "a writer has failed");
            goal <= self.acknowledged.load(Ordering::Relaxed)
        });
    }

    /// Stops the writers and checks that the tree of `walk` contains all acknowledged writes and the ephemeral node of
    /// each session, which the end of the session deletes. Returns the number of writes and the longest time that one
    /// took.
    pub fn check(self, walk: impl Fn() -> Tree) -> (usize, Duration) {
        self.stop.store(true, Ordering::Relaxed);
        let mut all: Vec<_> = self.writers.into_iter().map(|writer| writer.join().unwrap()).collect();
        let tree = keep_alive(&mut all, &walk);
        let (mut count, mut pause) = (0, Duration::ZERO);
        for WriterResult { session, client, paths, longest_pause } in all {
            assert_eq!(client.session(), session, "the id of a session has changed");
            let missing: Vec<_> = paths.iter().filter(|path| !tree.contains_key(*path)).collect();
            assert!(missing.is_empty(), "acknowledged writes are lost: {missing:?}");
            let ephemerals = tree.values().filter(|node| node.stat.ephemeral_owner == session.0).count();
            assert_eq!(ephemerals, 1, "ephemeral nodes of session {session}");
            client.close();
            (count, pause) = (count + paths.len(), pause.max(longest_pause));
        }
        assert!(!walk().keys().any(|path| path.starts_with("/e-")), "ephemeral nodes end with their sessions");
        (count, pause)
    }
}

/// Runs `work`, which may take longer than the session timeout, while another thread touches the sessions.
fn keep_alive<T>(writers: &mut [WriterResult], work: impl FnOnce() -> T) -> T {
    let (end, ended) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            while ended.recv_timeout(KEEP_ALIVE) == Err(RecvTimeoutError::Timeout) {
                writers.iter_mut().for_each(|writer| writer.client.sync());
            }
        });
        let result = work();
        drop(end);
        result
    })
}

fn write(
    addresses: Vec<SocketAddr>,
    name: &str,
    pace: Duration,
    stop: &AtomicBool,
    acknowledged: &AtomicUsize,
) -> WriterResult {
    let mut client = FailoverClient::new(addresses);
    let session = client.session();
    client.create(&format!("/e-{name}"), 1);
    let (mut paths, mut longest_pause) = (Vec::new(), Duration::ZERO);
    while !stop.load(Ordering::Relaxed) {
        let path = format!("/n/{name}-{}", paths.len());
        let sent = Instant::now();
        client.create(&path, 0);
        longest_pause = longest_pause.max(sent.elapsed());
        paths.push(path);
        acknowledged.fetch_add(1, Ordering::Relaxed);
        assert!(paths.len() < WRITES_MAX, "too many writes: the case does not end");
        std::thread::sleep(pace);
    }
    WriterResult { session, client, paths, longest_pause }
}
