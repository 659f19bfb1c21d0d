//! Every operation of the client protocol.

use crate::{client, server};
use ox_client::acl::{self, Acl, perms};
use ox_client::{
    AddWatchMode, CreateMode, CreateOptions, ErrorCode, ErrorKind, MembershipChange, Null, RequestOutcome, Version,
    WatcherType,
};
use std::time::Duration;

#[tokio::test]
async fn create_modes_yield_their_node_types() {
    let server = server();
    let client = client(&server).await;
    let ttl = Duration::from_secs(60);
    let (session, none) = (client.session().unwrap().id.0, 0);
    let modes = [
        (CreateMode::Persistent, "/n", none),
        (CreateMode::Ephemeral, "/n", session),
        (CreateMode::PersistentSequential, "/n0000000002", none),
        (CreateMode::EphemeralSequential, "/n0000000003", session),
        (CreateMode::Container, "/n", none),
        (CreateMode::PersistentWithTtl(ttl), "/n", none),
        (CreateMode::PersistentSequentialWithTtl(ttl), "/n0000000006", none),
    ];
    for (mode, path, owner) in modes {
        let created = client.create("/n", b"data", mode).await.unwrap();
        assert_eq!((created.path.as_str(), created.stat.ephemeral_owner), (path, owner), "{mode:?}");
        assert_eq!(mode.is_ephemeral(), owner == session);
        let node = client.get(path).await.unwrap();
        assert_eq!((node.data.as_slice(), node.is_null, node.stat), (&b"data"[..], false, created.stat));
        client.delete(path, 0).await.unwrap();
    }
}

#[tokio::test]
async fn null_data_differs_from_empty_data() {
    let server = server();
    let client = client(&server).await;
    client.create("/n", Null, CreateMode::Persistent).await.unwrap();
    assert!(client.get("/n").await.unwrap().is_null);
    client.set("/n", "", Version::Any).await.unwrap();
    assert!(!client.get("/n").await.unwrap().is_null);
    client.set("/n", Null, 1).await.unwrap();
    assert!(client.get("/n").await.unwrap().is_null);
}

#[tokio::test]
async fn children_and_counts_are_listed() {
    let server = server();
    let client = client(&server).await;
    client.ensure_path("/a/b/c").await.unwrap();
    client.create("/a/e", b"", CreateMode::Ephemeral).await.unwrap();
    let (mut names, stat) = client.children_with_stat("/a").await.unwrap();
    names.sort();
    assert_eq!((names, stat.num_children), (vec!["b".to_owned(), "e".to_owned()], 2));
    assert_eq!(client.all_children_number("/a").await.unwrap(), 3);
    assert_eq!(client.ephemerals("/a").await.unwrap(), ["/a/e"]);
    assert_eq!(client.ephemerals("/b").await.unwrap(), [] as [&str; 0]);
    client.sync("/a").await.unwrap();
    client.delete_recursive("/a").await.unwrap();
    client.delete_recursive("/a").await.unwrap();
    assert!(!client.children("/").await.unwrap().contains(&"a".to_owned()));
    client.create_all("/x/y/z", b"1", CreateMode::PersistentSequential).await.unwrap();
    assert_eq!(client.children("/x/y").await.unwrap(), ["z0000000000"]);
}

#[tokio::test]
async fn acl_restricts_other_identities() {
    let server = server();
    let (bob, anybody) = (client(&server).await, client(&server).await);
    bob.add_auth("digest", "bob:pw").await.unwrap();
    let id = "bob:ikIaKsbtGweaHnb/jKn7OHqbunM=";
    assert!(bob.who_am_i().await.unwrap().iter().any(|info| info.scheme == "digest" && info.id == "bob"));
    let options = CreateOptions::new(CreateMode::Persistent).with_acl(acl::creator());
    bob.create("/bobs", b"", &options).await.unwrap();
    let (list, stat) = bob.get_acl("/bobs").await.unwrap();
    assert_eq!((list, stat.aversion), (vec![Acl::new(perms::ALL, "digest", id)], 0));
    let error = anybody.get("/bobs").await.unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::NoAuth));
    let stat = bob.set_acl("/bobs", &acl::open(), stat.aversion).await.unwrap();
    assert_eq!(stat.aversion, 1);
    anybody.get("/bobs").await.unwrap();
    let error = bob.set_acl("/bobs", &[], Version::Any).await.unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::InvalidAcl));
}

#[tokio::test]
async fn multi_is_atomic() {
    let server = server();
    let client = client(&server).await;
    let mut multi = client.multi();
    let plain = multi.create("/a", b"", CreateMode::Persistent);
    let kept = multi.create("/c", b"", CreateMode::Container);
    let ttl = multi.create("/t", b"", CreateMode::PersistentWithTtl(Duration::from_secs(60)));
    let set = multi.set("/a", b"x", 0);
    multi.check("/a", 1);
    let gone = multi.delete("/c", Version::Any);
    let results = multi.commit().await.unwrap();
    assert_eq!(results.get(plain).path, "/a");
    assert_eq!((results.get(kept).path.as_str(), results.get(ttl).path.as_str()), ("/c", "/t"));
    assert_eq!((results.get(set).version, results.get(gone)), (1, &()));
    assert_eq!(results.get(plain).stat.czxid, results.get(set).mzxid);
    let mut multi = client.multi();
    multi.delete("/a", Version::Any);
    multi.create("/t", b"", CreateMode::Persistent);
    multi.delete("/nothing", Version::Any);
    let error = multi.commit().await.unwrap_err();
    assert_eq!((error.failed_at(), error.path()), (Some(1), Some("/t")));
    assert_eq!((error.code(), error.outcome()), (Some(ErrorCode::NodeExists), RequestOutcome::NoEffect));
    assert!(client.exists("/a").await.unwrap().is_some());
    let mut multi = client.multi();
    multi.delete("bad", Version::Any);
    assert_eq!(multi.commit().await.unwrap_err().kind(), &ErrorKind::InvalidPath);
    client.multi().commit().await.unwrap();
}

#[tokio::test]
async fn standalone_server_rejects_reconfig() {
    let server = server();
    let client = client(&server).await;
    assert_eq!(client.config().await.unwrap().data, b"");
    let change =
        MembershipChange::Incremental { joining: vec!["server.2=a:1:2;3".to_owned()], leaving: vec!["3".to_owned()] };
    let error = client.reconfig(&change, None).await.unwrap_err();
    assert!(matches!(error.code(), Some(ErrorCode::Unimplemented | ErrorCode::ReconfigDisabled)), "{error}");
}

#[tokio::test]
async fn invalid_paths_are_rejected() {
    let server = server();
    let client = client(&server).await;
    for path in ["", "a", "a/b", "/a/", "/a//b", "/a/../b"] {
        assert_eq!(client.get(path).await.unwrap_err().kind(), &ErrorKind::InvalidPath);
        assert_eq!(client.get_and_watch(path).await.unwrap_err().kind(), &ErrorKind::InvalidPath);
        assert_eq!(client.ensure_path(path).await.unwrap_err().kind(), &ErrorKind::InvalidPath);
        let created = client.create(path, b"", CreateMode::Persistent).await;
        assert_eq!(created.unwrap_err().kind(), &ErrorKind::InvalidPath);
    }
    assert!(!client.check_watches("/", WatcherType::Any).await.unwrap());
    let error = client.remove_watches("/", WatcherType::Any).await.unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::NoWatcher));
    drop(client.watch("/not/there", AddWatchMode::Persistent).await.unwrap());
}

/// Apache's client validates the path with a number appended.
#[tokio::test]
async fn sequential_node_may_have_an_empty_prefix() {
    let server = server();
    let client = client(&server).await;
    client.ensure_path("/a").await.unwrap();
    let created = client.create("/a/", b"", CreateMode::PersistentSequential).await.unwrap();
    assert_eq!(created.path, "/a/0000000000");
    let mut multi = client.multi();
    let second = multi.create("/a/", b"", CreateMode::EphemeralSequential);
    assert_eq!(multi.commit().await.unwrap().get(second).path, "/a/0000000001");
    let created = client.create_protected("/a/", b"", CreateMode::EphemeralSequential).await.unwrap();
    assert!(created.path.starts_with("/a/_c_") && created.path.ends_with("-0000000002"), "{created:?}");
    assert!(client.create("", b"", CreateMode::PersistentSequential).await.is_err());
}
