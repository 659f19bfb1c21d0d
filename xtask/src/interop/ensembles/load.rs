//! Clients that write while servers fail and restart.

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
/// Longer than any interruption of service.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Interval between requests that keep an idle session alive.
const KEEP_ALIVE: Duration = Duration::from_secs(5);

/// The writes of one client, and its session.
struct WriterResult {
    session: SessionId,
    client: FailoverClient,
    paths: Vec<String>,
    longest_pause: Duration,
}

pub(super) struct Load {
    stop: Arc<AtomicBool>,
    acknowledged: Arc<AtomicUsize>,
    writers: Vec<JoinHandle<Result<WriterResult>>>,
}

impl Load {
    /// Starts writers, each with an ephemeral node `/e-<name>-<writer>`. They create nodes below `/n` without a pause.
    pub(super) fn start(addresses: &[SocketAddr], name: &str) -> Self {
        Self::start_paced(addresses, name, Duration::ZERO)
    }

    /// The same with a pause between writes, for cases that take long, because the final checks read every node.
    pub(super) fn start_paced(addresses: &[SocketAddr], name: &str, pace: Duration) -> Self {
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
    pub(super) fn wait_for_more(&self, count: usize) -> Result<()> {
        let (goal, until) = (self.acknowledged.load(Ordering::Relaxed) + count, Instant::now() + TIMEOUT);
        while self.acknowledged.load(Ordering::Relaxed) < goal && !self.writers.iter().any(JoinHandle::is_finished) {
            ensure!(Instant::now() < until, "fewer than {count} writes within {TIMEOUT:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Stops the writers and checks that the tree of `walk` contains all acknowledged writes and the ephemeral node of
    /// each session. Returns the number of writes and the longest time that one took.
    pub(super) fn check(self, walk: impl FnOnce() -> Result<Tree>) -> Result<(usize, Duration)> {
        self.stop.store(true, Ordering::Relaxed);
        let mut all = Vec::new();
        for writer in self.writers {
            all.push(writer.join().map_err(|_| anyhow!("a writer panicked"))?.context("a writer failed")?);
        }
        let tree = keep_alive(&mut all, walk)?;
        let (mut count, mut pause) = (0, Duration::ZERO);
        for WriterResult { session, client, paths, longest_pause } in all {
            ensure!(client.session() == session, "the id of a session has changed");
            let missing: Vec<_> = paths.iter().filter(|path| !tree.contains_key(*path)).collect();
            ensure!(missing.is_empty(), "acknowledged writes are lost: {missing:?}");
            let ephemerals = tree.values().filter(|node| node.stat.ephemeral_owner == session.0).count();
            ensure!(ephemerals == 1, "session {session} has {ephemerals} ephemeral nodes instead of 1");
            client.close()?;
            (count, pause) = (count + paths.len(), pause.max(longest_pause));
        }
        Ok((count, pause))
    }
}

/// Runs `work`, which may take longer than the session timeout, while another thread touches the sessions.
fn keep_alive<T>(writers: &mut [WriterResult], work: impl FnOnce() -> Result<T>) -> Result<T> {
    let (end, ended) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        let keeper = scope.spawn(move || -> Result<()> {
            while ended.recv_timeout(KEEP_ALIVE) == Err(RecvTimeoutError::Timeout) {
                writers.iter_mut().try_for_each(|writer| writer.client.touch())?;
            }
            Ok(())
        });
        let result = work();
        drop(end);
        keeper.join().map_err(|_| anyhow!("the thread that touches sessions panicked"))??;
        result
    })
}

fn write(
    addresses: Vec<SocketAddr>,
    name: &str,
    pace: Duration,
    stop: &AtomicBool,
    acknowledged: &AtomicUsize,
) -> Result<WriterResult> {
    let mut client = FailoverClient::new(addresses)?;
    let session = client.session();
    client.create(&format!("/e-{name}"), 1)?;
    let (mut paths, mut longest_pause) = (Vec::new(), Duration::ZERO);
    while !stop.load(Ordering::Relaxed) {
        let path = format!("/n/{name}-{}", paths.len());
        let sent = Instant::now();
        client.create(&path, 0)?;
        longest_pause = longest_pause.max(sent.elapsed());
        paths.push(path);
        acknowledged.fetch_add(1, Ordering::Relaxed);
        if 50_000 < paths.len() {
            bail!("too many writes: the case does not end");
        }
        std::thread::sleep(pace);
    }
    Ok(WriterResult { session, client, paths, longest_pause })
}
