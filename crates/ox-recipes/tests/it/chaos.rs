//! Workers in sessions that are disturbed at random, and a book of what they hold at the same time.

use crate::server_fixture::ServerFixture;
use crate::{PATIENCE, builder, server};
use ox_client::{Client, SessionId};
use ox_recipes::Error;
use ox_recipes::sessions::in_sessions;
use parking_lot::Mutex;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg32;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// What happens to the workers' sessions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Trouble {
    /// Connections are dropped; sessions live on.
    Drops,
    /// Sessions are expired, too.
    Expiries,
}

/// A seed for this run: from the environment, to repeat one, or new.
pub(crate) fn seed() -> u64 {
    let seed = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or_else(rand::random);
    println!("SEED={seed}");
    seed
}

/// Who holds what now, and which sessions were ended by the test.
#[derive(Default)]
pub(crate) struct Book {
    holders: Mutex<Vec<(SessionId, usize)>>,
    expired: Mutex<HashSet<SessionId>>,
    /// Turns that were taken.
    pub(crate) turns: AtomicUsize,
}

impl Book {
    /// Whether the test has ended the session, or is about to.
    pub(crate) fn is_expired(&self, session: SessionId) -> bool {
        self.expired.lock().contains(&session)
    }

    /// Someone begins to hold `weight`; `may` sees the weights of all live holders, this one included.
    pub(crate) fn enter(&self, session: SessionId, weight: usize, may: impl Fn(&[usize]) -> bool) {
        let mut holders = self.holders.lock();
        holders.push((session, weight));
        let expired = self.expired.lock();
        let live: Vec<usize> =
            holders.iter().filter(|(session, _)| !expired.contains(session)).map(|(_, weight)| *weight).collect();
        assert!(expired.contains(&session) || may(&live), "{live:?} at the same time");
        self.turns.fetch_add(1, Ordering::Relaxed);
    }

    /// Someone is about to give it back.
    pub(crate) fn leave(&self, session: SessionId, weight: usize) {
        let mut holders = self.holders.lock();
        let at = holders.iter().position(|holder| *holder == (session, weight)).unwrap();
        holders.swap_remove(at);
    }
}

/// Lets workers work, each in sessions of its own, while their sessions are disturbed. `work` is done again and again until
/// there were `turns` turns. Gives back the book and the server, at rest.
pub(crate) async fn disturb<W>(trouble: Trouble, workers: usize, turns: usize, work: W) -> (Arc<Book>, ServerFixture)
where
    W: AsyncFn(&Client, &Book, &mut Pcg32) -> Result<(), Error>,
{
    let seed = seed();
    let server = server();
    let book = Arc::new(Book::default());
    let tasks = (0..workers).map(|number| {
        let (builder, book, work) = (builder(&server), Arc::clone(&book), &work);
        async move {
            let session = |client: Client| async {
                let client = client;
                let mut random = Pcg32::seed_from_u64(seed ^ number as u64);
                while book.turns.load(Ordering::Relaxed) < turns {
                    work(&client, &book, &mut random).await?;
                }
                Ok(())
            };
            in_sessions(&builder, session).await.unwrap();
        }
    });
    let all = join_all(tasks.map(Box::pin).collect());
    let annoy = annoy(&server, &book, trouble, seed);
    tokio::time::timeout(PATIENCE, async {
        tokio::select! {
            () = all => (),
            () = annoy => (),
        }
    })
    .await
    .unwrap_or_else(|_| panic!("SEED={seed}: stuck after {} turns", book.turns.load(Ordering::Relaxed)));
    (book, server)
}

/// Polls all until all are done.
async fn join_all<F: Future<Output = ()>>(mut futures: Vec<std::pin::Pin<Box<F>>>) {
    std::future::poll_fn(|cx| {
        futures.retain_mut(|future| future.as_mut().poll(cx).is_pending());
        if futures.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
}

async fn annoy(server: &ServerFixture, book: &Book, trouble: Trouble, seed: u64) {
    let mut random = Pcg32::seed_from_u64(seed);
    loop {
        tokio::time::sleep(Duration::from_millis(random.random_range(1..20))).await;
        let sessions = server.sessions();
        if sessions.is_empty() {
            continue;
        }
        let session = sessions[random.random_range(0..sessions.len())];
        if trouble == Trouble::Expiries && random.random_ratio(1, 6) {
            book.expired.lock().insert(session);
            server.expire(session).unwrap();
        } else {
            server.drop_connection(session);
        }
    }
}
