//! The blocking client, without an async runtime.

use crate::server;
use ox_client::BlockingClient;
use ox_client::{AddWatchMode, CreateMode, EventKind, SessionState, Version};
use std::time::Duration;

#[test]
fn threads_share_one_blocking_client() {
    let server = server();
    let client = BlockingClient::connect(&server.servers()).unwrap();
    client.create("/n", b"", CreateMode::Persistent).unwrap();
    let (_, watch) = client.exists_and_watch("/other").unwrap();
    let watch = watch.wait_for(Duration::from_millis(1)).unwrap_err();
    let mut stream = client.watch("/n", AddWatchMode::Persistent).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..50 {
                    client.set("/n", b"x", Version::Any).unwrap();
                }
            });
        }
    });
    assert_eq!(client.get("/n").unwrap().stat.version, 200);
    assert!((0..200).all(|_| stream.next().unwrap().kind == EventKind::NodeDataChanged));
    client.create("/other", b"", CreateMode::Persistent).unwrap();
    assert_eq!(watch.wait().kind, EventKind::NodeCreated);
    let states = client.states();
    client.close().unwrap();
    assert_eq!(states.collect::<Vec<_>>(), [SessionState::Connected, SessionState::Closed]);
}

#[test]
fn last_clone_dropped_ends_session_and_thread() {
    let server = server();
    let (one, other) = (BlockingClient::connect(&server.servers()), BlockingClient::connect(&server.servers()));
    let (one, other) = (one.unwrap(), other.unwrap());
    one.create("/mine", b"", CreateMode::Ephemeral).unwrap();
    let (_, watch) = other.exists_and_watch("/mine").unwrap();
    drop(one);
    assert_eq!(watch.wait().kind, EventKind::NodeDeleted);
}
