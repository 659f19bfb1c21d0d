//! Locks: one owner at a time, no waiter is starved, and none is woken up in vain.

use crate::chaos::{Disruption, Ledger, run_disrupted};
use crate::{builder, client, server, with_timeout};
use ox_client::{Client, WatcherType, Zxid};
use ox_recipes::guard::LockGuard;
use ox_recipes::lock::Lock;
use ox_recipes::multi_lock::MultiLock;
use ox_recipes::rw_lock::RwLock;
use ox_recipes::semaphore::Semaphore;
use ox_recipes::{LossCause, RecipeError};
use ox_testkit::Rng;
use parking_lot::Mutex;
use std::time::Duration;

const WORKERS: usize = 5;
const TURNS: usize = 60;
const WRITER: usize = 100;

/// Holds something for a while, recorded in the ledger.
async fn hold(client: &Client, ledger: &Ledger, random: &mut Rng, weight: usize, may: impl Fn(&[usize]) -> bool) {
    let session = client.session().unwrap().id;
    ledger.enter(session, weight, may);
    tokio::time::sleep(Duration::from_millis(random.below(8))).await;
    ledger.leave(session, weight);
}

/// A store protected by a lock: it rejects writes with an older token.
#[derive(Default)]
struct Store(Mutex<Zxid>);

impl Store {
    fn write(&self, ledger: &Ledger, client: &Client, held: &LockGuard) {
        let mut newest = self.0.lock();
        if held.token() < *newest {
            assert!(ledger.is_expired(client.session().unwrap().id), "only a late owner is rejected");
        }
        *newest = held.token().max(*newest);
    }
}

async fn one_owner(disruption: Disruption) {
    let store = Store::default();
    run_disrupted(disruption, WORKERS, TURNS, async |client, ledger, random| {
        let lock = Lock::new(client, "/test/lock");
        let held = if random.below(4) == 0 {
            let limit = Duration::from_millis(random.below(30));
            let Some(held) = lock.acquire_within(limit).await? else { return Ok(()) };
            held
        } else {
            lock.acquire().await?
        };
        hold(client, ledger, random, 1, |live| live.len() == 1).await;
        store.write(ledger, client, &held);
        held.release().await
    })
    .await;
}

#[tokio::test]
async fn lock_has_one_owner_across_connection_losses() {
    one_owner(Disruption::Drops).await;
}

#[tokio::test]
async fn lock_has_one_owner_across_session_expiry() {
    one_owner(Disruption::Expiries).await;
}

async fn readers_or_a_writer(disruption: Disruption) {
    let may = |live: &[usize]| live.len() == 1 || live.iter().all(|weight| *weight != WRITER);
    run_disrupted(disruption, WORKERS, TURNS, async |client, ledger, random| {
        let lock = RwLock::new(client, "/test/rw");
        if random.below(3) == 0 {
            let writer = lock.write().await?;
            hold(client, ledger, random, WRITER, may).await;
            if random.below(2) == 0 {
                return writer.release().await;
            }
            let reader = lock.downgrade(writer).await?;
            hold(client, ledger, random, 1, may).await;
            reader.release().await
        } else {
            let reader = lock.read().await?;
            hold(client, ledger, random, 1, may).await;
            reader.release().await
        }
    })
    .await;
}

#[tokio::test]
async fn rw_lock_excludes_writers_across_connection_losses() {
    readers_or_a_writer(Disruption::Drops).await;
}

#[tokio::test]
async fn rw_lock_excludes_writers_across_session_expiry() {
    readers_or_a_writer(Disruption::Expiries).await;
}

#[tokio::test]
async fn semaphore_never_exceeds_its_leases() {
    for disruption in [Disruption::Drops, Disruption::Expiries] {
        run_disrupted(disruption, WORKERS, TURNS, async |client, ledger, random| {
            let pool = Semaphore::new(client, "/test/pool", 2);
            let may = |live: &[usize]| live.iter().sum::<usize>() <= 2;
            if random.below(4) == 0 {
                let leases = pool.acquire_many(2).await?;
                hold(client, ledger, random, 2, may).await;
                drop(leases);
                return Ok(());
            }
            let limit = Duration::from_millis(random.below(40));
            if let Some(lease) = pool.acquire_within(limit).await? {
                hold(client, ledger, random, 1, may).await;
                lease.release().await?;
            }
            Ok(())
        })
        .await;
    }
}

#[tokio::test]
async fn multi_locks_do_not_deadlock() {
    run_disrupted(Disruption::Expiries, WORKERS, TURNS / 2, async |client, ledger, random| {
        let mut paths = ["/test/a", "/test/b", "/test/c"];
        paths.rotate_left(random.index(3));
        let held = MultiLock::new(client, paths).acquire().await?;
        hold(client, ledger, random, 1, |live| live.len() == 1).await;
        held.release().await
    })
    .await;
}

#[tokio::test]
async fn waiter_watches_its_predecessor_only() {
    let server = server();
    let first = Lock::new(&client(&server).await, "/lock").acquire().await.unwrap();
    let mut waiting = Vec::new();
    for _ in 0..3 {
        let client = client(&server).await;
        let lock = Lock::new(&client, "/lock");
        let count = lock.participants().await.unwrap().len();
        let task = tokio::spawn({
            let lock = lock.clone();
            async move { lock.acquire().await }
        });
        let before = lock.participants().await.unwrap().pop().unwrap();
        with_timeout(async {
            while lock.participants().await.unwrap().len() == count
                || !client.check_watches(&before, WatcherType::Data).await.unwrap()
            {
                tokio::task::yield_now().await;
            }
        })
        .await;
        waiting.push((client, task));
    }
    let nodes = Lock::new(&waiting[0].0, "/lock").participants().await.unwrap();
    assert_eq!((nodes.len(), nodes[0].as_str()), (4, first.path()));
    for (at, (client, _)) in waiting.iter().enumerate() {
        for (other, node) in nodes.iter().enumerate() {
            assert_eq!(
                client.check_watches(node, WatcherType::Data).await.unwrap(),
                other == at,
                "{at} watches {other}"
            );
        }
    }
    let mut token = first.token();
    first.release().await.unwrap();
    for (_, task) in waiting {
        let held = with_timeout(task).await.unwrap().unwrap();
        assert!(token < held.token());
        token = held.token();
        held.release().await.unwrap();
    }
}

/// The nodes of a lock in queue order.
async fn nodes(client: &Client) -> Vec<String> {
    let names = client.children("/rw").await.unwrap_or_default();
    let mut nodes: Vec<_> = names.iter().map(|name| format!("/rw/{name}")).collect();
    nodes.sort_by_key(|node| node[node.len() - 10..].to_owned());
    nodes
}

/// Indexes of the nodes that a client watches.
async fn watched(client: &Client, nodes: &[String]) -> Vec<usize> {
    let mut watched = Vec::new();
    for (at, node) in nodes.iter().enumerate() {
        if client.check_watches(node, WatcherType::Data).await.unwrap() {
            watched.push(at);
        }
    }
    watched
}

/// A reader holds the lock; a writer, two readers, a writer and a reader wait. Each of them watches the one node whose
/// deletion lets it proceed or shows it the next node to wait for. A release does not wake up the others.
#[tokio::test]
async fn release_wakes_only_waiters_that_can_proceed() {
    let server = server();
    let looking = client(&server).await;
    let (mut clients, mut tasks) = (Vec::new(), Vec::new());
    for (at, is_writer) in [false, true, false, false, true, false].into_iter().enumerate() {
        let client = client(&server).await;
        let lock = RwLock::new(&client, "/rw");
        tasks.push(tokio::spawn(async move { if is_writer { lock.write().await } else { lock.read().await } }));
        clients.push(client);
        with_timeout(async {
            while nodes(&looking).await.len() == at {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }
    let nodes = nodes(&looking).await;
    let who_watches = async || {
        let mut all = Vec::new();
        for client in &clients {
            all.push(watched(client, &nodes).await);
        }
        all
    };
    let nothing = Vec::new;
    with_timeout(async {
        while who_watches().await != [nothing(), vec![0], vec![1], vec![1], vec![3], vec![4]] {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let mut tasks = tasks.into_iter();
    let mut next = async || with_timeout(tasks.next().unwrap()).await.unwrap().unwrap();
    let reader = next().await;
    reader.release().await.unwrap();
    let writer = next().await;
    assert_eq!(who_watches().await, [nothing(), nothing(), vec![1], vec![1], vec![3], vec![4]]);
    writer.release().await.unwrap();
    let (one, other) = (next().await, next().await);
    assert_eq!(who_watches().await, [nothing(), nothing(), nothing(), nothing(), vec![3], vec![4]]);
    one.release().await.unwrap();
    assert_eq!(who_watches().await, [nothing(), nothing(), nothing(), nothing(), vec![3], vec![4]]);
    other.release().await.unwrap();
    let writer = next().await;
    assert_eq!(who_watches().await, [nothing(), nothing(), nothing(), nothing(), nothing(), vec![4]]);
    writer.release().await.unwrap();
    next().await.release().await.unwrap();
}

#[tokio::test]
async fn expired_owner_is_succeeded() {
    let server = server();
    let dying = builder(&server).session_timeout(Duration::from_millis(300)).connect().await.unwrap();
    let held = Lock::new(&dying, "/lock").acquire().await.unwrap();
    let living = client(&server).await;
    dying.detach();
    let next = with_timeout(Lock::new(&living, "/lock").acquire()).await.unwrap();
    assert!(held.token() < next.token() && !held.is_safe());
}

#[tokio::test]
async fn deleted_lock_node_is_reported_to_its_owner() {
    let server = server();
    let client = client(&server).await;
    let held = Lock::new(&client, "/lock").acquire().await.unwrap();
    let (ended, deleted) = tokio::join!(
        with_timeout(held.run(std::future::pending::<()>())),
        client.delete(held.path(), ox_client::Version::Any)
    );
    deleted.unwrap();
    let error = ended.unwrap_err();
    assert_eq!(error, RecipeError::Lost { path: held.path().to_owned(), cause: LossCause::NodeDeleted });
    assert_eq!(error.to_string(), format!("{} is no longer held: its node was deleted or replaced", held.path()));
}

#[tokio::test]
async fn impossible_numbers_of_leases_fail_at_once_and_block_no_other_client() {
    let server = server();
    let client = client(&server).await;
    let (two, none) = (Semaphore::new(&client, "/pool", 2), Semaphore::new(&client, "/none", 0));
    let errors = [two.acquire_many(3).await.err(), two.acquire_many(0).await.err(), none.acquire().await.err()];
    assert_eq!(
        errors.map(|error| error.unwrap().to_string()),
        [
            "/pool: cannot request 3 of 2 leases",
            "/pool: cannot request 0 of 2 leases",
            "/none: cannot request 1 of 0 leases",
        ]
    );
    assert_eq!(with_timeout(two.acquire_many(2)).await.unwrap().len(), 2);
}

#[tokio::test]
async fn cloned_guards_hold_the_same_lock() {
    let server = server();
    let client = client(&server).await;
    let lock = Lock::new(&client, "/lock");
    let held = lock.acquire().await.unwrap();
    let again = held.clone();
    held.release().await.unwrap();
    assert!(lock.try_acquire().await.unwrap().is_none());
    again.release().await.unwrap();
    assert!(lock.try_acquire().await.unwrap().is_some());
}

#[tokio::test]
async fn cancelled_acquire_leaves_no_node() {
    let server = server();
    let client = client(&server).await;
    let lock = Lock::new(&client, "/lock");
    let held = lock.acquire().await.unwrap();
    assert!(lock.acquire_within(Duration::from_millis(20)).await.unwrap().is_none());
    with_timeout(async {
        while lock.participants().await.unwrap() != [held.path()] {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

/// The node names are Curator's, so that both can share one wait queue.
#[tokio::test]
async fn curator_nodes_are_waited_for() {
    let server = server();
    let client = client(&server).await;
    client.ensure_path("/lock").await.unwrap();
    let foreign = "/lock/_c_11111111-2222-3333-4444-555555555555-lock-";
    let other = client.create(foreign, b"10.0.0.1", ox_client::CreateMode::EphemeralSequential).await.unwrap();
    let lock = Lock::new(&client, "/lock");
    assert!(lock.try_acquire().await.unwrap().is_none());
    client.delete(&other.path, ox_client::Version::Any).await.unwrap();
    let held = lock.acquire().await.unwrap();
    let (mark, number) = held.path().rsplit_once("-lock-").unwrap();
    assert!(mark.starts_with("/lock/_c_") && mark.len() == "/lock/_c_".len() + 36, "{mark}");
    assert_eq!(number, "0000000002");
}

#[tokio::test]
async fn acquire_many_does_not_deadlock() {
    let server = server();
    let (one, other) = (client(&server).await, client(&server).await);
    let many = async |client: &Client| {
        for _ in 0..10 {
            drop(Semaphore::new(client, "/pool", 2).acquire_many(2).await.unwrap());
        }
    };
    with_timeout(async { tokio::join!(many(&one), many(&other)) }).await;
}

/// A client that waits behind a downgraded writer becomes a later owner.
#[tokio::test]
async fn downgraded_writer_keeps_its_token() {
    let server = server();
    let (one, other) = (client(&server).await, client(&server).await);
    let (lock, waiting) = (RwLock::new(&one, "/rw"), RwLock::new(&other, "/rw"));
    let writer = lock.write().await.unwrap();
    let next = tokio::spawn(async move { waiting.write().await });
    with_timeout(async {
        while nodes(&one).await.len() < 2 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let reader = lock.downgrade(writer).await.unwrap();
    let token = reader.token();
    reader.release().await.unwrap();
    assert!(token < with_timeout(next).await.unwrap().unwrap().token());
}

/// Servers may delete empty containers at any time, also right before a client creates a node in one.
#[tokio::test]
async fn lock_survives_deletion_of_empty_container() {
    let server = server();
    let cleaner = client(&server).await;
    let sweep = async {
        loop {
            for path in ["/a/b/c", "/a/b", "/a"] {
                _ = cleaner.delete(path, ox_client::Version::Any).await; // it may have children, or be deleted already
            }
        }
    };
    let clients = [client(&server).await, client(&server).await];
    let work = async |client: &Client| {
        for _ in 0..100 {
            Lock::new(client, "/a/b/c").acquire().await.unwrap().release().await.unwrap();
        }
    };
    let work = with_timeout(async { tokio::join!(work(&clients[0]), work(&clients[1])) });
    tokio::select! {
        _ = work => (),
        () = sweep => unreachable!("the container is deleted forever"),
    }
}

#[tokio::test]
async fn downgrade_with_a_guard_of_another_lock_is_an_error() {
    let server = server();
    let client = client(&server).await;
    let other = Lock::new(&client, "/lock").acquire().await.unwrap();
    let error = RwLock::new(&client, "/rw").downgrade(other.clone()).await.unwrap_err();
    assert_eq!(error.to_string(), format!("/rw: {} is not a writer of this lock", other.path()));
}
