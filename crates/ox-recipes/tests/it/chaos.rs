//! Workers whose sessions are disrupted at random, and a ledger of what they hold at the same time.

use crate::{PATIENCE, builder, server};
use ox_client::{Client, SessionId};
use ox_recipes::RecipeError;
use ox_recipes::sessions::run_in_sessions;
use ox_testkit::{Rng, ServerFixture};
use parking_lot::Mutex;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// How the sessions of the workers are disrupted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Disruption {
    /// Connections are dropped; sessions survive.
    Drops,
    /// Sessions are expired as well.
    Expiries,
}

/// The seed of this run: from the environment, to repeat a run, or random.
pub(crate) fn seed() -> u64 {
    let seed = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or_else(rand::random);
    println!("SEED={seed}");
    seed
}

/// What each session holds now, and which sessions the test has expired.
#[derive(Default)]
pub(crate) struct Ledger {
    holders: Mutex<Vec<(SessionId, usize)>>,
    expired: Mutex<HashSet<SessionId>>,
    /// Completed acquisitions of all workers.
    pub(crate) turns: AtomicUsize,
}

impl Ledger {
    /// Whether the test has expired the session, or is about to.
    pub(crate) fn is_expired(&self, session: SessionId) -> bool {
        self.expired.lock().contains(&session)
    }

    /// Records that a session holds `weight`. `may` checks the weights of all holders with live sessions, including
    /// this one.
    pub(crate) fn enter(&self, session: SessionId, weight: usize, may: impl Fn(&[usize]) -> bool) {
        let mut holders = self.holders.lock();
        holders.push((session, weight));
        let expired = self.expired.lock();
        let live: Vec<usize> =
            holders.iter().filter(|(session, _)| !expired.contains(session)).map(|(_, weight)| *weight).collect();
        assert!(expired.contains(&session) || may(&live), "{live:?} at the same time");
        self.turns.fetch_add(1, Ordering::Relaxed);
    }

    /// Records that a session is about to release `weight`.
    pub(crate) fn leave(&self, session: SessionId, weight: usize) {
        let mut holders = self.holders.lock();
        let at = holders.iter().position(|holder| *holder == (session, weight)).unwrap();
        holders.swap_remove(at);
    }
}

/// Runs workers, each in sessions of its own, while these are disrupted. `work` is repeated until `turns` acquisitions
/// are complete. Returns the ledger and the idle server.
pub(crate) async fn run_disrupted<W>(
    disruption: Disruption,
    workers: usize,
    turns: usize,
    work: W,
) -> (Arc<Ledger>, ServerFixture)
where
    W: AsyncFn(&Client, &Ledger, &mut Rng) -> Result<(), RecipeError>,
{
    let seed = seed();
    let server = server();
    let ledger = Arc::new(Ledger::default());
    let tasks = (0..workers).map(|number| {
        let (builder, ledger, work) = (builder(&server), Arc::clone(&ledger), &work);
        async move {
            let session = |client: Client| async {
                let client = client;
                let mut random = Rng::new(seed ^ number as u64);
                while ledger.turns.load(Ordering::Relaxed) < turns {
                    work(&client, &ledger, &mut random).await?;
                }
                Ok(())
            };
            run_in_sessions(&builder, session).await.unwrap();
        }
    });
    let all = join_all(tasks.map(Box::pin).collect());
    let disrupt = disrupt(&server, &ledger, disruption, seed);
    tokio::time::timeout(PATIENCE, async {
        tokio::select! {
            () = all => (),
            () = disrupt => (),
        }
    })
    .await
    .unwrap_or_else(|_| panic!("SEED={seed}: stuck after {} turns", ledger.turns.load(Ordering::Relaxed)));
    (ledger, server)
}

/// Polls all futures until all are complete.
async fn join_all<F: Future<Output = ()>>(mut futures: Vec<std::pin::Pin<Box<F>>>) {
    std::future::poll_fn(|cx| {
        futures.retain_mut(|future| future.as_mut().poll(cx).is_pending());
        if futures.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
}

async fn disrupt(server: &ServerFixture, ledger: &Ledger, disruption: Disruption, seed: u64) {
    let mut random = Rng::new(seed);
    loop {
        tokio::time::sleep(Duration::from_millis(1 + random.below(19))).await;
        let sessions = server.sessions();
        if sessions.is_empty() {
            continue;
        }
        let session = sessions[random.index(sessions.len())];
        if disruption == Disruption::Expiries && random.below(6) == 0 {
            ledger.expired.lock().insert(session);
            server.expire(session).unwrap();
        } else {
            server.drop_connection(session);
        }
    }
}
