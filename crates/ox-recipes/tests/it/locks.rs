//! Never two owners, nobody waits in vain, and nobody wakes up in vain.

use crate::chaos::{Book, Trouble, disturb};
use crate::{builder, client, server, soon};
use ox_client::{Client, WatcherType, Zxid};
use ox_recipes::Error;
use ox_recipes::guard::Held;
use ox_recipes::lock::Lock;
use ox_recipes::multi_lock::MultiLock;
use ox_recipes::rw_lock::RwLock;
use ox_recipes::semaphore::Semaphore;
use parking_lot::Mutex;
use rand::RngExt;
use rand_pcg::Pcg32;
use std::time::Duration;

const WORKERS: usize = 5;
const TURNS: usize = 60;
const WRITER: usize = 100;

/// Holds something for a while, in the book.
async fn hold(client: &Client, book: &Book, random: &mut Pcg32, weight: usize, may: impl Fn(&[usize]) -> bool) {
    let session = client.session().unwrap().id;
    book.enter(session, weight, may);
    tokio::time::sleep(Duration::from_millis(random.random_range(0..8))).await;
    book.leave(session, weight);
}

/// What a lock protects: it refuses whoever comes with an older token.
#[derive(Default)]
struct Store(Mutex<Zxid>);

impl Store {
    fn write(&self, book: &Book, client: &Client, held: &Held) {
        let mut newest = self.0.lock();
        if held.token() < *newest {
            assert!(book.is_expired(client.session().unwrap().id), "only a late owner is refused");
        }
        *newest = held.token().max(*newest);
    }
}

async fn one_owner(trouble: Trouble) {
    let store = Store::default();
    disturb(trouble, WORKERS, TURNS, async |client, book, random| {
        let lock = Lock::new(client, "/test/lock");
        let held = if random.random_ratio(1, 4) {
            let limit = Duration::from_millis(random.random_range(0..30));
            let Some(held) = lock.acquire_within(limit).await? else { return Ok(()) };
            held
        } else {
            lock.acquire().await?
        };
        hold(client, book, random, 1, |live| live.len() == 1).await;
        store.write(book, client, &held);
        held.release().await
    })
    .await;
}

#[tokio::test]
async fn a_lock_has_one_owner_over_lost_connections() {
    one_owner(Trouble::Drops).await;
}

#[tokio::test]
async fn a_lock_has_one_owner_over_expired_sessions() {
    one_owner(Trouble::Expiries).await;
}

async fn readers_or_a_writer(trouble: Trouble) {
    let may = |live: &[usize]| live.len() == 1 || live.iter().all(|weight| *weight != WRITER);
    disturb(trouble, WORKERS, TURNS, async |client, book, random| {
        let lock = RwLock::new(client, "/test/rw");
        if random.random_ratio(1, 3) {
            let writer = lock.write().await?;
            hold(client, book, random, WRITER, may).await;
            if random.random_ratio(1, 2) {
                return writer.release().await;
            }
            let reader = lock.downgrade(writer).await?;
            hold(client, book, random, 1, may).await;
            reader.release().await
        } else {
            let reader = lock.read().await?;
            hold(client, book, random, 1, may).await;
            reader.release().await
        }
    })
    .await;
}

#[tokio::test]
async fn readers_share_and_writers_do_not_over_lost_connections() {
    readers_or_a_writer(Trouble::Drops).await;
}

#[tokio::test]
async fn readers_share_and_writers_do_not_over_expired_sessions() {
    readers_or_a_writer(Trouble::Expiries).await;
}

#[tokio::test]
async fn a_semaphore_gives_out_no_more_than_it_has() {
    for trouble in [Trouble::Drops, Trouble::Expiries] {
        disturb(trouble, WORKERS, TURNS, async |client, book, random| {
            let pool = Semaphore::new(client, "/test/pool", 2);
            let may = |live: &[usize]| live.iter().sum::<usize>() <= 2;
            if random.random_ratio(1, 4) {
                let leases = pool.acquire_many(2).await?;
                hold(client, book, random, 2, may).await;
                drop(leases);
                return Ok(());
            }
            let limit = Duration::from_millis(random.random_range(0..40));
            if let Some(lease) = pool.acquire_within(limit).await? {
                hold(client, book, random, 1, may).await;
                lease.release().await?;
            }
            Ok(())
        })
        .await;
    }
}

#[tokio::test]
async fn multi_locks_do_not_wait_for_each_other() {
    disturb(Trouble::Expiries, WORKERS, TURNS / 2, async |client, book, random| {
        let mut paths = ["/test/a", "/test/b", "/test/c"];
        paths.rotate_left(random.random_range(0..3));
        let held = MultiLock::new(client, paths).acquire().await?;
        hold(client, book, random, 1, |live| live.len() == 1).await;
        held.release().await
    })
    .await;
}

#[tokio::test]
async fn each_waits_for_the_one_before() {
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
        soon(async {
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
        let held = soon(task).await.unwrap().unwrap();
        assert!(token < held.token());
        token = held.token();
        held.release().await.unwrap();
    }
}

/// The nodes of a lock, in order.
async fn nodes(client: &Client) -> Vec<String> {
    let names = client.children("/rw").await.unwrap_or_default();
    let mut nodes: Vec<_> = names.iter().map(|name| format!("/rw/{name}")).collect();
    nodes.sort_by_key(|node| node[node.len() - 10..].to_owned());
    nodes
}

/// Which of the nodes a client watches.
async fn watched(client: &Client, nodes: &[String]) -> Vec<usize> {
    let mut watched = Vec::new();
    for (at, node) in nodes.iter().enumerate() {
        if client.check_watches(node, WatcherType::Data).await.unwrap() {
            watched.push(at);
        }
    }
    watched
}

/// A reader holds; a writer, two readers, a writer and a reader wait. Each of those watches the one node whose end lets it go on or
/// shows it whom to wait for, and whoever need not care about a release does not hear of it.
#[tokio::test]
async fn a_release_wakes_only_those_who_may_go_on() {
    let server = server();
    let looking = client(&server).await;
    let (mut clients, mut tasks) = (Vec::new(), Vec::new());
    for (at, is_writer) in [false, true, false, false, true, false].into_iter().enumerate() {
        let client = client(&server).await;
        let lock = RwLock::new(&client, "/rw");
        tasks.push(tokio::spawn(async move { if is_writer { lock.write().await } else { lock.read().await } }));
        clients.push(client);
        soon(async {
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
    soon(async {
        while who_watches().await != [nothing(), vec![0], vec![1], vec![1], vec![3], vec![4]] {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let mut tasks = tasks.into_iter();
    let mut next = async || soon(tasks.next().unwrap()).await.unwrap().unwrap();
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
async fn a_dead_owner_is_followed() {
    let server = server();
    let dying = builder(&server).session_timeout(Duration::from_millis(300)).connect().await.unwrap();
    let held = Lock::new(&dying, "/lock").acquire().await.unwrap();
    let living = client(&server).await;
    dying.detach();
    let next = soon(Lock::new(&living, "/lock").acquire()).await.unwrap();
    assert!(held.token() < next.token() && !held.is_safe());
}

#[tokio::test]
async fn who_loses_the_node_is_told() {
    let server = server();
    let client = client(&server).await;
    let held = Lock::new(&client, "/lock").acquire().await.unwrap();
    let (ended, deleted) =
        tokio::join!(soon(held.run(std::future::pending::<()>())), client.delete(held.path(), ox_client::Version::Any));
    deleted.unwrap();
    assert_eq!(ended, Err(Error::Lost { path: held.path().to_owned() }));
}

#[tokio::test]
async fn clones_hold_the_same_lock() {
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
async fn who_gives_up_leaves_nothing_behind() {
    let server = server();
    let client = client(&server).await;
    let lock = Lock::new(&client, "/lock");
    let held = lock.acquire().await.unwrap();
    assert!(lock.acquire_within(Duration::from_millis(20)).await.unwrap().is_none());
    soon(async {
        while lock.participants().await.unwrap() != [held.path()] {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

/// The names are Curator's, so that both can wait in one line.
#[tokio::test]
async fn curators_nodes_count() {
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
async fn clients_that_want_many_leases_do_not_wait_for_each_other() {
    let server = server();
    let (one, other) = (client(&server).await, client(&server).await);
    let many = async |client: &Client| {
        for _ in 0..10 {
            drop(Semaphore::new(client, "/pool", 2).acquire_many(2).await.unwrap());
        }
    };
    soon(async { tokio::join!(many(&one), many(&other)) }).await;
}

/// Who waits behind a writer that becomes a reader is a later owner.
#[tokio::test]
async fn a_writer_that_becomes_a_reader_keeps_its_token() {
    let server = server();
    let (one, other) = (client(&server).await, client(&server).await);
    let (lock, waiting) = (RwLock::new(&one, "/rw"), RwLock::new(&other, "/rw"));
    let writer = lock.write().await.unwrap();
    let next = tokio::spawn(async move { waiting.write().await });
    soon(async {
        while nodes(&one).await.len() < 2 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let reader = lock.downgrade(writer).await.unwrap();
    let token = reader.token();
    reader.release().await.unwrap();
    assert!(token < soon(next).await.unwrap().unwrap().token());
}

/// Servers remove empty containers at any time, also while somebody is about to make a node in one.
#[tokio::test]
async fn containers_may_go_at_any_time() {
    let server = server();
    let sweeper = client(&server).await;
    let sweep = async {
        loop {
            for path in ["/a/b/c", "/a/b", "/a"] {
                _ = sweeper.delete(path, ox_client::Version::Any).await; // it may have children, or be gone
            }
        }
    };
    let clients = [client(&server).await, client(&server).await];
    let work = async |client: &Client| {
        for _ in 0..100 {
            Lock::new(client, "/a/b/c").acquire().await.unwrap().release().await.unwrap();
        }
    };
    let work = soon(async { tokio::join!(work(&clients[0]), work(&clients[1])) });
    tokio::select! {
        _ = work => (),
        () = sweep => unreachable!("it goes on for ever"),
    }
}
