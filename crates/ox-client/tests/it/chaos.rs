//! Random requests while connections are dropped at random: what the client promises holds all the same.

use crate::lossy_proxy::{Part, Proxy, SET};
use crate::server_fixture::Stage;
use crate::{builder, client, server, soon};
use ox_client::{Client, CreateMode, EventKind, Outcome, RetryPolicy, Version, WatchMode, WatchStream, Zxid};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg32;
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

const SEEDS: u64 = 6;
const ROUNDS: usize = 150;

/// Does something, and drops the connection now and then: before the request leaves, while it is under way, or while
/// the answer is.
async fn disturbed<T>(server: &Stage, client: &Client, random: &mut Pcg32, work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    if random.random_ratio(1, 3) {
        for _ in 0..random.random_range(1..6) {
            if let Poll::Ready(done) = poll_fn(|cx| Poll::Ready(work.as_mut().poll(cx))).await {
                return done;
            }
            tokio::task::yield_now().await;
        }
        server.drop_connection(client.session().unwrap().id);
    }
    soon(work).await
}

/// A stream, and how far it has told what happened to one node.
struct Follower {
    stream: WatchStream,
    told: Zxid,
    has_missed: bool,
}

impl Follower {
    /// Takes what is there, without waiting.
    async fn catch_up(&mut self, path: &str) {
        loop {
            let mut next = pin!(self.stream.next());
            let event = poll_fn(|cx| match next.as_mut().poll(cx) {
                Poll::Ready(event) => Poll::Ready(Some(event)),
                Poll::Pending => Poll::Ready(None),
            });
            let Some(event) = event.await else { return };
            let event = event.expect("the session goes on");
            if event.kind == EventKind::Missed {
                self.has_missed = true;
            } else if event.path == path {
                let zxid = event.zxid.expect("the server tells it");
                assert!(self.told < zxid, "events come in order, once");
                self.told = zxid;
            }
        }
    }
}

/// Whoever sees a state has been told of it; nothing is executed twice, and nothing out of order. Returns how many writes were
/// not answered, and how many of those happened.
async fn play(seed: u64) -> (usize, usize) {
    let server = server();
    let mut random = Pcg32::seed_from_u64(seed);
    let (writer, reader) = (client(&server).await, client(&server).await);
    writer.create("/n", b"0", CreateMode::Persistent).await.unwrap();
    let stream = reader.watch("/", WatchMode::PersistentRecursive).await.unwrap();
    let mut follower = Follower { stream, told: Zxid::ZERO, has_missed: true };
    let (mut version, mut unknown, mut happened) = (0, 0, 0);
    for _ in 0..ROUNDS {
        match disturbed(&server, &writer, &mut random, writer.set("/n", b"x", version)).await {
            Ok(stat) => assert_eq!(stat.version, version + 1),
            Err(error) => {
                assert_eq!(error.outcome(), Outcome::Unknown, "{error}");
                unknown += 1;
            }
        }
        while soon(writer.multi().commit()).await.is_err() {} // behind a write whose answer is lost
        let seen = soon(writer.get("/n")).await.unwrap().stat.version;
        assert!((version..=version + 1).contains(&seen), "a write happens once or not at all");
        happened += usize::from(version < seen);
        version = seen;
        let node = disturbed(&server, &reader, &mut random, reader.get("/n")).await.unwrap();
        follower.catch_up("/n").await;
        assert!(node.stat.mzxid <= follower.told || follower.has_missed, "the event comes first");
        if follower.has_missed {
            let node = soon(reader.get("/n")).await.unwrap();
            (follower.told, follower.has_missed) = (follower.told.max(node.stat.mzxid), false);
            follower.catch_up("/n").await;
        }
    }
    (unknown, happened + unknown - ROUNDS)
}

#[tokio::test]
async fn events_come_before_the_state_they_announce() {
    let (mut unknown, mut happened) = (0, 0);
    for seed in 0..SEEDS {
        let lost = play(seed).await;
        (unknown, happened) = (unknown + lost.0, happened + lost.1);
    }
    println!("{happened} of {unknown} unanswered writes happened"); // how many depends on the machine
    assert!(0 < unknown && happened <= unknown);
}

#[tokio::test]
async fn a_lost_request_and_a_lost_answer_are_unknown() {
    let server = server();
    let proxy = Proxy::start(server.address());
    let builder = Client::builder().servers(&format!("{}{}", proxy.address(), server.root())).unwrap();
    let client = builder.connect().await.unwrap();
    client.create("/n", b"", CreateMode::Persistent).await.unwrap();
    for (part, version) in [(Part::Request, 0), (Part::Answer, 1)] {
        proxy.lose(SET, part);
        let error = soon(client.set("/n", b"x", Version::Any)).await.unwrap_err();
        assert_eq!(error.outcome(), Outcome::Unknown, "{part:?}");
        proxy.open();
        soon(client.settle()).await.unwrap();
        assert_eq!(soon(client.get("/n")).await.unwrap().stat.version, version, "{part:?}");
    }
}

/// Pipelines of writes and reads: each read sees the write before it, answers come in order, and a dropped future
/// takes nothing from the others.
async fn pipeline(seed: u64) {
    let server = server();
    let mut random = Pcg32::seed_from_u64(seed);
    let client = builder(&server).retry(RetryPolicy::None).connect().await.unwrap();
    let patient = client.with_retry(RetryPolicy::times(100));
    patient.create("/n", b"", CreateMode::Persistent).await.unwrap();
    for round in 0..ROUNDS {
        let values: Vec<String> = (0..8).map(|step| format!("{round}.{step}")).collect();
        let tasks: Vec<_> = values
            .iter()
            .map(|value| {
                let (client, value) = (client.clone(), value.clone());
                let is_dropped = random.random_ratio(1, 5);
                tokio::spawn(async move {
                    let written = client.set("/n", &value, Version::Any);
                    let read = client.get("/n");
                    if is_dropped {
                        let mut written = pin!(written);
                        return poll_fn(|cx| {
                            let _ = written.as_mut().poll(cx);
                            Poll::Ready(None)
                        })
                        .await;
                    }
                    let (written, read) = tokio::join!(written, read);
                    Some((written.ok()?, value, read.ok()?))
                })
            })
            .collect();
        for _ in 0..random.random_range(0..6) {
            tokio::task::yield_now().await;
        }
        if random.random_ratio(1, 4) {
            server.drop_connection(client.session().unwrap().id);
        }
        let mut last = 0;
        for task in tasks {
            let Some((stat, value, node)) = soon(task).await.unwrap() else { continue };
            assert!(last < stat.version, "writes are executed in the order they were sent");
            last = stat.version;
            assert_eq!((node.data, node.stat.version), (value.into_bytes(), stat.version));
        }
        soon(patient.sync("/")).await.unwrap();
    }
}

#[tokio::test]
async fn pipelines_stay_in_order() {
    for seed in 0..SEEDS {
        pipeline(seed).await;
    }
}

/// Protected nodes while connections are dropped: as many as were promised, and no ghosts.
#[tokio::test]
async fn protected_nodes_leave_no_ghosts() {
    let server = server();
    let (maker, other) = (client(&server).await, client(&server).await);
    other.create("/q", b"", CreateMode::Persistent).await.unwrap();
    let mut random = Pcg32::seed_from_u64(7);
    let mut made = Vec::new();
    for _ in 0..300 {
        let creating = maker.create_protected("/q/n-", b"", CreateMode::EphemeralSequential);
        if random.random_ratio(1, 5) {
            let mut creating = pin!(creating);
            for _ in 0..random.random_range(1..6) {
                if let Poll::Ready(done) = poll_fn(|cx| Poll::Ready(creating.as_mut().poll(cx))).await {
                    made.push(done.unwrap().path);
                    break;
                }
                tokio::task::yield_now().await;
            }
        } else {
            made.push(disturbed(&server, &maker, &mut random, creating).await.unwrap().path);
        }
    }
    // Whoever cleans up behind a dropped future does so within the session, which ends here.
    soon(maker.sync("/q")).await.unwrap();
    let mut expected = made.clone();
    expected.sort();
    soon(async {
        loop {
            let (names, changed) = other.children_and_watch("/q").await.unwrap();
            let mut found: Vec<_> = names.iter().map(|name| format!("/q/{name}")).collect();
            found.sort();
            if found == expected {
                return;
            }
            assert!(expected.iter().all(|path| found.contains(path)), "what was promised is there");
            changed.await;
        }
    })
    .await;
}

/// A future that was polled on a runtime may be dropped where there is none.
#[test]
fn a_future_dropped_outside_of_its_runtime_leaves_no_ghost() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let server = server();
    let client = runtime.block_on(async {
        let client = client(&server).await;
        client.create("/q", b"", CreateMode::Persistent).await.unwrap();
        client
    });
    let mut creating = Box::pin(client.create_protected("/q/n-", b"", CreateMode::EphemeralSequential));
    runtime.block_on(poll_fn(|cx| Poll::Ready(creating.as_mut().poll(cx).is_pending())));
    drop(creating);
    runtime.block_on(async {
        soon(client.settle()).await.unwrap();
        soon(async {
            while !client.children("/q").await.unwrap().is_empty() {
                tokio::task::yield_now().await;
            }
        })
        .await;
    });
}
