//! Behaviour at the limits of the client.

use crate::{builder, client, server, with_timeout};
use ox_client::{AddWatchMode, CreateMode, ErrorKind, EventKind, RequestOutcome, Version};

#[tokio::test]
async fn requests_beyond_max_in_flight_wait() {
    let server = server();
    let client = builder(&server).max_in_flight(4).connect().await.unwrap();
    client.create("/n", b"", CreateMode::Persistent).await.unwrap();
    let tasks: Vec<_> = (0..200)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move { client.set("/n", b"", Version::Any).await.map(|stat| stat.version) })
        })
        .collect();
    let mut versions = Vec::new();
    for task in tasks {
        versions.push(with_timeout(task).await.unwrap().unwrap());
    }
    versions.sort_unstable();
    assert_eq!(versions, (1..=200).collect::<Vec<_>>());
}

#[tokio::test]
async fn oversized_request_is_rejected_locally() {
    let server = server();
    let client = client(&server).await;
    let error = client.create("/n", vec![0; 1 << 20], CreateMode::Persistent).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (&ErrorKind::TooLarge, RequestOutcome::NoEffect));
    client.create("/n", vec![7; 1_000_000], CreateMode::Persistent).await.unwrap();
    assert_eq!(client.get("/n").await.unwrap().data, vec![7; 1_000_000]);
}

#[tokio::test]
async fn unread_stream_reports_missed_events() {
    let server = server();
    let (watcher, writer) = (client(&server).await, client(&server).await);
    writer.create("/n", b"", CreateMode::Persistent).await.unwrap();
    let mut stream = watcher.watch("/n", AddWatchMode::Persistent).await.unwrap();
    let tasks: Vec<_> = (0..5000)
        .map(|_| {
            let writer = writer.clone();
            tokio::spawn(async move { writer.set("/n", b"", Version::Any).await })
        })
        .collect();
    for task in tasks {
        with_timeout(task).await.unwrap().unwrap();
    }
    with_timeout(watcher.get("/n")).await.unwrap(); // all events are received
    for _ in 0..4096 {
        assert_eq!(stream.next().await.unwrap().kind, EventKind::NodeDataChanged);
    }
    assert_eq!(stream.next().await.unwrap().kind, EventKind::Missed);
    writer.set("/n", b"", Version::Any).await.unwrap();
    assert_eq!(with_timeout(stream.next()).await.unwrap().kind, EventKind::NodeDataChanged);
}

#[tokio::test]
async fn many_watches_are_rearmed_after_reconnect() {
    let server = server();
    let (watcher, writer) = (client(&server).await, client(&server).await);
    let name = "x".repeat(200);
    let mut watches = Vec::new();
    for number in 0..2000 {
        watches.push(watcher.exists_and_watch(&format!("/{name}-{number}")).await.unwrap().1);
    }
    server.drop_connection(watcher.session().unwrap().id);
    with_timeout(watcher.sync("/")).await.unwrap();
    for (number, watch) in watches.into_iter().enumerate().step_by(400) {
        writer.create(&format!("/{name}-{number}"), b"", CreateMode::Persistent).await.unwrap();
        assert_eq!(with_timeout(watch).await.kind, EventKind::NodeCreated);
    }
}
