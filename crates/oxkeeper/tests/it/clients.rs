//! The client and its recipes while servers of the ensemble are killed and restarted.
//!
//! The work runs on a separate runtime. The test kills a server after some progress and waits for more, so that every
//! kill interrupts work in progress, and the work continues after each.

use crate::members;
use ox_client::{
    AddWatchMode, Client, CreateMode, ErrorCode, EventKind, RequestOutcome, RetryPolicy, SessionState, Zxid,
};
use ox_recipes::leader::LeaderSelector;
use ox_recipes::lock::Lock;
use ox_testkit::TestEnsemble;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

/// Longer than any wait of a test.
const PATIENCE: Duration = Duration::from_secs(120);

/// The longest timeout that servers grant: no session expires here, however slow the machine is.
const SESSION: Duration = Duration::from_secs(60);

/// Number of kills; every second one hits the leader.
const KILLS: usize = 4;

/// Work that continues until it is stopped.
#[derive(Clone, Default)]
pub(crate) struct Progress {
    done: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
}

impl Progress {
    pub(crate) fn step(&self) {
        self.done.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn goes_on(&self) -> bool {
        !self.stop.load(Ordering::Relaxed)
    }

    fn wait_for_more<T>(&self, count: usize, work: &[JoinHandle<T>]) {
        let (goal, until) = (self.done.load(Ordering::Relaxed) + count, Instant::now() + PATIENCE);
        while self.done.load(Ordering::Relaxed) < goal {
            assert!(!work.iter().any(JoinHandle::is_finished), "some work has failed");
            assert!(Instant::now() < until, "nothing goes on");
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

pub(crate) fn servers(ensemble: &TestEnsemble) -> String {
    ensemble.addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

pub(crate) async fn connect(servers: &str) -> Client {
    let builder = Client::builder().servers(servers).unwrap().session_timeout(SESSION);
    builder.retry(RetryPolicy::times(u32::MAX)).connect().await.unwrap()
}

pub(crate) async fn soon<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, work).await.expect("it takes too long")
}

/// Kills servers during the work, then lets it end.
pub(crate) fn kill_servers<T>(
    ensemble: &mut TestEnsemble,
    runtime: &Runtime,
    progress: &Progress,
    work: Vec<JoinHandle<T>>,
) -> Vec<T> {
    progress.wait_for_more(30, &work);
    for kill in 0..KILLS {
        let leader = ensemble.leader();
        let victim = if kill % 2 == 0 { leader } else { (leader + 1) % 3 };
        ensemble.kill(victim);
        progress.wait_for_more(30, &work); // the others continue
        ensemble.restart(victim);
        progress.wait_for_more(30, &work);
    }
    progress.stop.store(true, Ordering::Relaxed);
    runtime.block_on(soon(async {
        let mut results = Vec::new();
        for task in work {
            results.push(task.await.unwrap());
        }
        results
    }))
}

/// Sets a node that has no other writer, until a write has certainly succeeded.
async fn set(client: &Client, path: &str, value: usize) {
    loop {
        match client.set(path, value.to_string(), i32::try_from(value).unwrap() - 1).await {
            Ok(_) => return,
            Err(error) if error.code() == Some(ErrorCode::BadVersion) => {
                assert_eq!(number(&client.get(path).await.unwrap().data), value, "it happened before, once");
                return;
            }
            Err(error) => assert_eq!(error.outcome(), RequestOutcome::Unknown, "{error}"),
        }
    }
}

pub(crate) fn number(data: &[u8]) -> usize {
    std::str::from_utf8(data).unwrap().parse().unwrap()
}

/// Each value is written after two watchers have seen the previous one: a lost event would block forever.
async fn no_event_is_lost(servers: String, progress: Progress) {
    let writer = connect(&servers).await;
    writer.create("/told", b"0", CreateMode::Persistent).await.unwrap();
    let (seen, mut once) = tokio::sync::watch::channel(0);
    let (streamed, mut always) = tokio::sync::watch::channel(0);
    let one_shot = connect(&servers).await;
    let mut states = one_shot.states();
    let persistent = connect(&servers).await;
    let watchers = [
        tokio::spawn(async move {
            loop {
                let Ok((node, changed)) = one_shot.get_and_watch("/told").await else { return };
                if seen.send(number(&node.data)).is_err() {
                    return;
                }
                changed.await;
            }
        }),
        tokio::spawn(async move {
            let mut stream = persistent.watch("/told", AddWatchMode::Persistent).await.unwrap();
            loop {
                let Ok(node) = persistent.get("/told").await else { return };
                if streamed.send(number(&node.data)).is_err() {
                    return;
                }
                let event = stream.next().await.unwrap();
                assert!(matches!(event.kind, EventKind::NodeDataChanged | EventKind::Missed), "{event:?}");
            }
        }),
    ];
    let mut value = 0;
    while progress.goes_on() {
        value += 1;
        set(&writer, "/told", value).await;
        once.wait_for(|seen| *seen == value).await.unwrap();
        always.wait_for(|seen| *seen == value).await.unwrap();
        progress.step();
    }
    let mut state = states.next().await;
    while let Some(found) = state {
        assert!(
            matches!(found, SessionState::Connected | SessionState::Suspended { .. }),
            "the session goes on: {found:?}"
        );
        let next = pin!(states.next());
        state = tokio::time::timeout(Duration::ZERO, next).await.ok().flatten();
    }
    watchers.iter().for_each(JoinHandle::abort); // only now, because it closes their clients
}

/// Exactly the expected nodes exist, although replies are lost and futures are dropped.
async fn no_orphan_is_left(servers: String, progress: Progress) {
    let (maker, other) = (connect(&servers).await, connect(&servers).await);
    let session = maker.session().unwrap().id;
    maker.create("/made", b"", CreateMode::Persistent).await.unwrap();
    let mut made = Vec::new();
    for round in 1.. {
        if !progress.goes_on() {
            break;
        }
        let mut creating = pin!(maker.create_protected("/made/n-", b"", CreateMode::EphemeralSequential));
        let done = if round % 5 == 0 {
            poll_fn(|cx| Poll::Ready(creating.as_mut().poll(cx))).await // sent, and the future is dropped
        } else {
            Poll::Ready(creating.await)
        };
        if let Poll::Ready(created) = done {
            made.push(created.unwrap().path);
        }
        progress.step();
    }
    assert_eq!(maker.session().unwrap().id, session, "the session is the same");
    made.sort();
    loop {
        other.sync("/made").await.unwrap();
        let (names, changed) = other.children_and_watch("/made").await.unwrap();
        let mut found: Vec<_> = names.iter().map(|name| format!("/made/{name}")).collect();
        found.sort();
        assert!(made.iter().all(|path| found.contains(path)), "what was promised is there");
        if found == made {
            return;
        }
        changed.await; // the node of a dropped future is deleted
    }
}

#[test]
fn clients_keep_sessions_and_watches_while_servers_are_killed() {
    let mut ensemble = members::start(3, 0, "");
    let (runtime, progress) = (Runtime::new().unwrap(), Progress::default());
    let servers = servers(&ensemble);
    let work = vec![
        runtime.spawn(no_event_is_lost(servers.clone(), progress.clone())),
        runtime.spawn(no_orphan_is_left(servers, progress.clone())),
    ];
    kill_servers(&mut ensemble, &runtime, &progress, work);
}

/// Work under a lock: checks mutual exclusion and increasing tokens, and increments an otherwise unprotected number.
struct Guarded {
    inside: AtomicUsize,
    newest: Mutex<Zxid>,
    turns: AtomicUsize,
}

impl Guarded {
    async fn enter(&self, client: &Client, token: Zxid) {
        assert_eq!(self.inside.fetch_add(1, Ordering::SeqCst), 0, "two owners");
        assert!(std::mem::replace(&mut *self.newest.lock().unwrap(), token) < token, "tokens grow");
        let node = client.get("/number").await.unwrap();
        let value = number(&node.data);
        assert_eq!(value, self.turns.fetch_add(1, Ordering::SeqCst), "an addition is lost");
        set(client, "/number", value + 1).await;
        assert_eq!(self.inside.fetch_sub(1, Ordering::SeqCst), 1, "two owners");
    }
}

/// An election is a lock with names, so both can use one wait queue.
async fn take_turns(worker: usize, servers: &str, progress: &Progress, guarded: &Guarded) {
    let client = connect(servers).await;
    let session = client.session().unwrap().id;
    let (lock, election) = (Lock::new(&client, "/lock"), LeaderSelector::new(&client, "/lock", "elected"));
    while progress.goes_on() {
        if worker == 0 {
            let client = &client;
            let term = election.run_as_leader(|held| async move { guarded.enter(client, held.token()).await });
            term.await.unwrap();
        } else {
            let held = lock.acquire().await.unwrap();
            guarded.enter(&client, held.token()).await;
            held.release().await.unwrap();
        }
        progress.step();
    }
    assert_eq!(client.session().unwrap().id, session, "the session is the same");
}

#[test]
fn locks_and_elections_have_one_owner_while_servers_are_killed() {
    let mut ensemble = members::start(3, 0, "");
    let (runtime, progress) = (Runtime::new().unwrap(), Progress::default());
    let servers = servers(&ensemble);
    let looking = runtime.block_on(connect(&servers));
    runtime.block_on(looking.create("/number", b"0", CreateMode::Persistent)).unwrap();
    let guarded =
        Arc::new(Guarded { inside: AtomicUsize::new(0), newest: Mutex::new(Zxid::ZERO), turns: AtomicUsize::new(0) });
    let work = (0..4).map(|worker| {
        let (servers, progress, guarded) = (servers.clone(), progress.clone(), Arc::clone(&guarded));
        runtime.spawn(async move { take_turns(worker, &servers, &progress, &guarded).await })
    });
    let work = work.collect();
    kill_servers(&mut ensemble, &runtime, &progress, work);
    runtime.block_on(async {
        looking.sync("/").await.unwrap();
        let count = number(&looking.get("/number").await.unwrap().data);
        assert_eq!(count, guarded.turns.load(Ordering::SeqCst));
        assert!(Lock::new(&looking, "/lock").participants().await.unwrap().is_empty());
    });
}
