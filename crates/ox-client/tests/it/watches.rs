//! Watch events across connection losses.

use crate::{client, server, with_timeout};
use ox_client::{AddWatchMode, CreateMode, EventKind, Version, WatcherType};

#[tokio::test]
async fn events_during_disconnect_are_delivered_after_reconnect() {
    let server = server();
    let (watcher, writer) = (client(&server).await, client(&server).await);
    for path in ["/data", "/gone", "/parent", "/still"] {
        writer.create(path, b"", CreateMode::Persistent).await.unwrap();
    }
    let (_, data) = watcher.get_and_watch("/data").await.unwrap();
    let (_, gone) = watcher.get_and_watch("/gone").await.unwrap();
    let (_, parent) = watcher.children_and_watch("/parent").await.unwrap();
    let (_, new) = watcher.exists_and_watch("/new").await.unwrap();
    let (_, still) = watcher.get_and_watch("/still").await.unwrap();
    let id = watcher.session().unwrap().id;
    server.drop_connection(id);
    writer.set("/data", b"x", Version::Any).await.unwrap();
    writer.delete("/gone", Version::Any).await.unwrap();
    writer.create("/parent/child", b"", CreateMode::Persistent).await.unwrap();
    writer.create("/new", b"", CreateMode::Persistent).await.unwrap();
    assert_eq!(with_timeout(data).await.kind, EventKind::NodeDataChanged);
    assert_eq!(with_timeout(gone).await.kind, EventKind::NodeDeleted);
    assert_eq!(with_timeout(parent).await.kind, EventKind::NodeChildrenChanged);
    assert_eq!(with_timeout(new).await.kind, EventKind::NodeCreated);
    writer.set("/still", b"x", Version::Any).await.unwrap();
    assert_eq!(with_timeout(still).await.kind, EventKind::NodeDataChanged);
}

#[tokio::test]
async fn stream_reports_missed_events_after_reconnect() {
    let server = server();
    let (watcher, writer) = (client(&server).await, client(&server).await);
    let mut stream = watcher.watch("/", AddWatchMode::PersistentRecursive).await.unwrap();
    writer.create("/a", b"", CreateMode::Persistent).await.unwrap();
    let event = with_timeout(stream.next()).await.unwrap();
    assert_eq!((event.kind, event.path.as_str()), (EventKind::NodeCreated, "/a"));
    server.drop_connection(watcher.session().unwrap().id);
    assert_eq!(with_timeout(stream.next()).await.unwrap().kind, EventKind::Missed);
    watcher.sync("/").await.unwrap();
    writer.create("/b", b"", CreateMode::Persistent).await.unwrap();
    assert_eq!(with_timeout(stream.next()).await.unwrap().path, "/b");
    server.expire(watcher.session().unwrap().id).unwrap();
    assert_eq!(with_timeout(stream.next()).await.unwrap().kind, EventKind::SessionEnded);
    assert_eq!(with_timeout(stream.next()).await, None);
}

#[tokio::test]
async fn dropped_watches_are_removed_from_the_server() {
    let server = server();
    let client = client(&server).await;
    client.create("/a", b"", CreateMode::Persistent).await.unwrap();
    let (_, one) = client.get_and_watch("/a").await.unwrap();
    let (_, two) = client.get_and_watch("/a").await.unwrap();
    drop(one);
    assert!(client.check_watches("/a", WatcherType::Data).await.unwrap());
    // A new watch is requested while the last one is removed.
    let (watched, ()) = tokio::join!(client.get_and_watch("/a"), async { drop(two) });
    let (_, three) = watched.unwrap();
    client.set("/a", b"x", Version::Any).await.unwrap();
    assert_eq!(with_timeout(three).await.kind, EventKind::NodeDataChanged);
    let stream = client.watch("/a", AddWatchMode::Persistent).await.unwrap();
    assert!(client.check_watches("/a", WatcherType::Persistent).await.unwrap());
    drop(stream);
    assert!(!client.check_watches("/a", WatcherType::Any).await.unwrap());
    let mut stream = client.watch("/a", AddWatchMode::Persistent).await.unwrap();
    let (_, four) = client.get_and_watch("/a").await.unwrap();
    client.remove_watches("/a", WatcherType::Any).await.unwrap();
    assert_eq!(with_timeout(four).await.kind, EventKind::WatchRemoved);
    assert_eq!(with_timeout(stream.next()).await.unwrap().kind, EventKind::WatchRemoved);
    assert_eq!(with_timeout(stream.next()).await, None);
}
