//! Clients that write while servers come and go.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use ox_proto::SessionId;

use super::failover_client::FailoverClient;
use crate::interop::tree_walk::Tree;

const WRITERS: usize = 3;
/// Longer than any pause in the service.
const TIMEOUT: Duration = Duration::from_secs(60);

/// How often a session says that it is there.
const KEEP_ALIVE: Duration = Duration::from_secs(5);

/// What a writer has to show for.
struct Written {
    session: SessionId,
    client: FailoverClient,
    paths: Vec<String>,
    longest_pause: Duration,
}

pub(super) struct Load {
    stop: Arc<AtomicBool>,
    acknowledged: Arc<AtomicUsize>,
    writers: Vec<JoinHandle<Result<Written>>>,
}

impl Load {
    /// Starts writers, each with an ephemeral node `/e-<name>-<writer>`; they write below `/n`, as fast as they can.
    pub(super) fn start(addresses: &[SocketAddr], name: &str) -> Self {
        Self::start_paced(addresses, name, Duration::ZERO)
    }

    /// The same with time between a writer's writes, where a play takes seconds and all that is written is read again.
    pub(super) fn start_paced(addresses: &[SocketAddr], name: &str, pace: Duration) -> Self {
        let (stop, acknowledged): (Arc<AtomicBool>, Arc<AtomicUsize>) = Default::default();
        let writers = (0..WRITERS).map(|writer| {
            let (stop, acknowledged) = (Arc::clone(&stop), Arc::clone(&acknowledged));
            let mut addresses = addresses.to_vec();
            let turn = writer % addresses.len();
            addresses.rotate_left(turn);
            let name = format!("{name}-{writer}");
            std::thread::spawn(move || write(addresses, &name, pace, &stop, &acknowledged))
        });
        Self { writers: writers.collect(), stop, acknowledged }
    }

    /// Waits until so many more writes are acknowledged.
    pub(super) fn wait_for_more(&self, count: usize) -> Result<()> {
        let (goal, until) = (self.acknowledged.load(Ordering::Relaxed) + count, Instant::now() + TIMEOUT);
        while self.acknowledged.load(Ordering::Relaxed) < goal && !self.writers.iter().any(JoinHandle::is_finished) {
            ensure!(Instant::now() < until, "no {count} writes within {TIMEOUT:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Ends the load: everything acknowledged is in the tree that `walk` finds, with the sessions' own nodes. Returns
    /// how many writes there were, and the longest time without one.
    pub(super) fn check(self, walk: impl FnOnce() -> Result<Tree>) -> Result<(usize, Duration)> {
        self.stop.store(true, Ordering::Relaxed);
        let mut all = Vec::new();
        for writer in self.writers {
            all.push(writer.join().map_err(|_| anyhow!("a writer has failed"))?.context("a writer")?);
        }
        let tree = keep_alive(&mut all, walk)?;
        let (mut count, mut pause) = (0, Duration::ZERO);
        for Written { session, client, paths, longest_pause } in all {
            ensure!(client.session() == session, "a session has another number");
            let missing: Vec<_> = paths.iter().filter(|path| !tree.contains_key(*path)).collect();
            ensure!(missing.is_empty(), "acknowledged and lost: {missing:?}");
            let own = tree.values().filter(|node| node.stat.ephemeral_owner == session.0).count();
            ensure!(own == 1, "session {session} has {own} ephemeral nodes");
            client.close()?;
            (count, pause) = (count + paths.len(), pause.max(longest_pause));
        }
        Ok((count, pause))
    }
}

/// Does something that may take longer than sessions live.
fn keep_alive<T>(writers: &mut [Written], work: impl FnOnce() -> Result<T>) -> Result<T> {
    let (end, ended) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        let keeper = scope.spawn(move || -> Result<()> {
            while ended.recv_timeout(KEEP_ALIVE) == Err(RecvTimeoutError::Timeout) {
                writers.iter_mut().try_for_each(|writer| writer.client.touch())?;
            }
            Ok(())
        });
        let done = work();
        drop(end);
        keeper.join().map_err(|_| anyhow!("a session was not kept alive"))??;
        done
    })
}

fn write(
    addresses: Vec<SocketAddr>,
    name: &str,
    pace: Duration,
    stop: &AtomicBool,
    acknowledged: &AtomicUsize,
) -> Result<Written> {
    let mut client = FailoverClient::new(addresses)?;
    let session = client.session();
    client.create(&format!("/e-{name}"), 1)?;
    let (mut paths, mut longest_pause) = (Vec::new(), Duration::ZERO);
    while !stop.load(Ordering::Relaxed) {
        let path = format!("/n/{name}-{}", paths.len());
        let asked = Instant::now();
        client.create(&path, 0)?;
        longest_pause = longest_pause.max(asked.elapsed());
        paths.push(path);
        acknowledged.fetch_add(1, Ordering::Relaxed);
        if 50_000 < paths.len() {
            bail!("the case does not end");
        }
        std::thread::sleep(pace);
    }
    Ok(Written { session, client, paths, longest_pause })
}
