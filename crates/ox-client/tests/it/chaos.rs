//! The guarantees of the client while connections are dropped at random.

use crate::{builder, client, server, with_timeout};
use ox_client::{AddWatchMode, Client, CreateMode, EventKind, RequestOutcome, RetryPolicy, Version, WatchStream, Zxid};
use ox_testkit::{ClientProxy, DroppedPart, OpCode, Rng, ServerFixture};
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

const SEEDS: u64 = 6;
const ROUNDS: usize = 150;

/// Runs `work`, and sometimes drops the connection: before the request is sent, while it is in flight, or while its
/// reply is.
async fn with_drops<T>(server: &ServerFixture, client: &Client, random: &mut Rng, work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    if random.below(3) == 0 {
        for _ in 0..=random.below(5) {
            if let Poll::Ready(done) = poll_fn(|cx| Poll::Ready(work.as_mut().poll(cx))).await {
                return done;
            }
            tokio::task::yield_now().await;
        }
        server.drop_connection(client.session().unwrap().id);
    }
    with_timeout(work).await
}

/// A watch stream, and the newest change of one node that it has delivered.
struct EventTracker {
    stream: WatchStream,
    delivered: Zxid,
    has_missed: bool,
}

impl EventTracker {
    /// Takes all available events without waiting.
    async fn catch_up(&mut self, path: &str) {
        loop {
            let mut next = pin!(self.stream.next());
            let event = poll_fn(|cx| match next.as_mut().poll(cx) {
                Poll::Ready(event) => Poll::Ready(Some(event)),
                Poll::Pending => Poll::Ready(None),
            });
            let Some(event) = event.await else { return };
            let event = event.expect("the session has not ended");
            if event.kind == EventKind::Missed {
                self.has_missed = true;
            } else if event.path == path {
                let zxid = event.zxid.expect("the server sends the zxid");
                assert!(self.delivered < zxid, "events are delivered once and in order");
                self.delivered = zxid;
            }
        }
    }
}

/// Checks that the event of a change is delivered before a read shows it, and that no write is executed twice or out of
/// order. Returns how many writes got no reply, and how many of those were executed.
async fn check_events(seed: u64) -> (usize, usize) {
    let server = server();
    let mut random = Rng::new(seed);
    let (writer, reader) = (client(&server).await, client(&server).await);
    writer.create("/n", b"0", CreateMode::Persistent).await.unwrap();
    let stream = reader.watch("/", AddWatchMode::PersistentRecursive).await.unwrap();
    let mut tracker = EventTracker { stream, delivered: Zxid::ZERO, has_missed: true };
    let (mut version, mut unknown, mut happened) = (0, 0, 0);
    for _ in 0..ROUNDS {
        match with_drops(&server, &writer, &mut random, writer.set("/n", b"x", version)).await {
            Ok(stat) => assert_eq!(stat.version, version + 1),
            Err(error) => {
                assert_eq!(error.outcome(), RequestOutcome::Unknown, "{error}");
                unknown += 1;
            }
        }
        while with_timeout(writer.multi().commit()).await.is_err() {} // orders the read after a write whose reply was lost
        let seen = with_timeout(writer.get("/n")).await.unwrap().stat.version;
        assert!((version..=version + 1).contains(&seen), "a write is executed at most once");
        happened += usize::from(version < seen);
        version = seen;
        let node = with_drops(&server, &reader, &mut random, reader.get("/n")).await.unwrap();
        tracker.catch_up("/n").await;
        assert!(node.stat.mzxid <= tracker.delivered || tracker.has_missed, "the event precedes the reply");
        if tracker.has_missed {
            let node = with_timeout(reader.get("/n")).await.unwrap();
            (tracker.delivered, tracker.has_missed) = (tracker.delivered.max(node.stat.mzxid), false);
            tracker.catch_up("/n").await;
        }
    }
    (unknown, happened + unknown - ROUNDS)
}

#[tokio::test]
async fn events_precede_reads_that_show_the_change() {
    let (mut unknown, mut happened) = (0, 0);
    for seed in 0..SEEDS {
        let lost = check_events(seed).await;
        (unknown, happened) = (unknown + lost.0, happened + lost.1);
    }
    println!("{happened} of {unknown} writes without a reply were executed"); // the numbers depend on the machine
    assert!(0 < unknown && happened <= unknown);
}

#[tokio::test]
async fn lost_request_and_lost_reply_have_unknown_outcome() {
    let server = server();
    let proxy = ClientProxy::start(server.address());
    let builder = Client::builder().servers(&format!("{}{}", proxy.address(), server.root())).unwrap();
    let client = builder.connect().await.unwrap();
    client.create("/n", b"", CreateMode::Persistent).await.unwrap();
    for (part, version) in [(DroppedPart::Request, 0), (DroppedPart::Reply, 1)] {
        proxy.drop_next(OpCode::SetData, part);
        let error = with_timeout(client.set("/n", b"x", Version::Any)).await.unwrap_err();
        assert_eq!(error.outcome(), RequestOutcome::Unknown, "{part:?}");
        proxy.proxy().open();
        with_timeout(client.write_barrier()).await.unwrap();
        assert_eq!(with_timeout(client.get("/n")).await.unwrap().stat.version, version, "{part:?}");
    }
}

/// Pipelines of writes and reads: each read sees the write before it, replies arrive in order, and a dropped future
/// does not affect the others.
async fn pipeline(seed: u64) {
    let server = server();
    let mut random = Rng::new(seed);
    let client = builder(&server).retry(RetryPolicy::None).connect().await.unwrap();
    let patient = client.with_retry(RetryPolicy::times(100));
    patient.create("/n", b"", CreateMode::Persistent).await.unwrap();
    for round in 0..ROUNDS {
        let values: Vec<String> = (0..8).map(|step| format!("{round}.{step}")).collect();
        let tasks: Vec<_> = values
            .iter()
            .map(|value| {
                let (client, value) = (client.clone(), value.clone());
                let is_dropped = random.below(5) == 0;
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
        for _ in 0..random.below(6) {
            tokio::task::yield_now().await;
        }
        if random.below(4) == 0 {
            server.drop_connection(client.session().unwrap().id);
        }
        let mut last = 0;
        for task in tasks {
            let Some((stat, value, node)) = with_timeout(task).await.unwrap() else { continue };
            assert!(last < stat.version, "writes are executed in the order they were sent");
            last = stat.version;
            assert_eq!((node.data, node.stat.version), (value.into_bytes(), stat.version));
        }
        with_timeout(patient.sync("/")).await.unwrap();
    }
}

#[tokio::test]
async fn pipelined_requests_stay_in_order() {
    for seed in 0..SEEDS {
        pipeline(seed).await;
    }
}

/// Protected creates while connections are dropped: every successful create has its node, and no other node exists.
#[tokio::test]
async fn protected_creates_leave_no_orphans() {
    let server = server();
    let (creator, other) = (client(&server).await, client(&server).await);
    other.create("/q", b"", CreateMode::Persistent).await.unwrap();
    let mut random = Rng::new(7);
    let mut created = Vec::new();
    for _ in 0..300 {
        let creating = creator.create_protected("/q/n-", b"", CreateMode::EphemeralSequential);
        if random.below(5) == 0 {
            let mut creating = pin!(creating);
            for _ in 0..=random.below(5) {
                if let Poll::Ready(done) = poll_fn(|cx| Poll::Ready(creating.as_mut().poll(cx))).await {
                    created.push(done.unwrap().path);
                    break;
                }
                tokio::task::yield_now().await;
            }
        } else {
            created.push(with_drops(&server, &creator, &mut random, creating).await.unwrap().path);
        }
    }
    // The cleanup of dropped futures runs within the session.
    with_timeout(creator.sync("/q")).await.unwrap();
    let mut expected = created.clone();
    expected.sort();
    with_timeout(async {
        loop {
            let (names, changed) = other.children_and_watch("/q").await.unwrap();
            let mut found: Vec<_> = names.iter().map(|name| format!("/q/{name}")).collect();
            found.sort();
            if found == expected {
                return;
            }
            assert!(expected.iter().all(|path| found.contains(path)), "every confirmed node exists");
            changed.await;
        }
    })
    .await;
}

/// A future that was polled on a runtime may be dropped outside of any.
#[test]
fn protected_create_dropped_outside_runtime_leaves_no_orphan() {
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
        with_timeout(client.write_barrier()).await.unwrap();
        with_timeout(async {
            while !client.children("/q").await.unwrap().is_empty() {
                tokio::task::yield_now().await;
            }
        })
        .await;
    });
}
