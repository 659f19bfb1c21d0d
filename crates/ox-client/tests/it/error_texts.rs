//! Errors name the cause: the rule that was broken, a missing chroot or setting, servers that cannot be reached.

use crate::{builder, client, server, with_timeout};
use ox_client::acl::{self, Acl, perms};
use ox_client::{Client, CreateMode, CreateOptions, Error, ErrorCode, ErrorKind, RetryPolicy};
use ox_server::{Server, TestServer};
use std::time::Duration;

const TTL: CreateMode = CreateMode::PersistentWithTtl(Duration::from_secs(60));

fn check<T: std::fmt::Debug>(result: Result<T, Error>, code: ErrorCode, text: &str) {
    let error = result.unwrap_err();
    assert_eq!((error.code(), error.to_string().as_str()), (Some(code), text));
    assert_eq!(format!("{error:?}"), text, "a main that returns the error prints Debug");
}

#[tokio::test]
async fn invalid_path_is_reported_as_passed_with_the_rule() {
    let server = server();
    let client = client(&server).await;
    let code = ErrorCode::BadArguments;
    check(client.get("a").await, code, "get a: invalid path: it must start with /");
    check(client.get("").await, code, "get \"\": invalid path: it is empty");
    let created = client.create("/a/", b"", CreateMode::Persistent).await;
    check(created, code, "create /a/: invalid path: it must not end with /");
    let created = client.create_protected("bad/lock-", b"", CreateMode::EphemeralSequential).await;
    check(created, code, "create bad/lock-: invalid path: it must start with /");
    let created = client.create_protected("/none/lock-", b"", CreateMode::EphemeralSequential).await;
    check(
        created,
        ErrorCode::NoNode,
        "create /none/lock-: no such node: its parent does not exist; create_all and ensure_path create parents",
    );
    let mut multi = client.multi();
    multi.check("/", None);
    multi.create("/a//b", b"", CreateMode::Persistent);
    let committed = multi.commit().await;
    assert_eq!(committed.as_ref().unwrap_err().failed_at(), Some(1));
    check(committed, code, "multi: create /a//b: invalid path: it contains an empty name");
}

#[tokio::test]
async fn invalid_acl_is_reported_with_the_rule() {
    let server = server();
    let client = client(&server).await;
    let with = |list: Vec<Acl>| CreateOptions::new(CreateMode::Persistent).with_acl(list);
    let needs =
        "invalid ACL: the scheme auth (acl::creator) needs a client with credentials: add_auth or Builder::auth";
    let code = ErrorCode::InvalidAcl;
    check(client.create("/a", b"", with(acl::creator())).await, code, &format!("create /a: {needs}"));
    let mut multi = client.multi();
    multi.create("/a", b"", with(acl::creator()));
    check(multi.commit().await, code, &format!("multi: create /a: {needs}"));
    check(client.set_acl("/", &[], None).await, code, "set acl /: invalid ACL: the list is empty");
    let unknown = vec![Acl::new(perms::ALL, "none", "x")];
    let text = "create /a: invalid ACL: an entry has a scheme that the servers do not know, or an id that the scheme does \
                not accept";
    check(client.create("/a", b"", with(unknown)).await, code, text);
}

/// As on a server that runs with its defaults: what works in a test works in production.
#[tokio::test]
async fn ttl_node_needs_a_server_with_extended_types() {
    let server = Server::ephemeral().unwrap();
    let client = Client::connect(&server.address().to_string()).await.unwrap();
    let text = "operation is not implemented: TTL nodes are off; set extendedTypesEnabled=true on all servers";
    check(client.create("/t", b"", TTL).await, ErrorCode::Unimplemented, &format!("create /t: {text}"));
    let mut multi = client.multi();
    multi.create("/t", b"", TTL);
    check(multi.commit().await, ErrorCode::Unimplemented, &format!("multi: create /t: {text}"));

    let server = TestServer::start(|config| config.extended_types = true).unwrap();
    let client = Client::connect(&server.address().to_string()).await.unwrap();
    client.create("/t", b"", TTL).await.unwrap();
    let none = CreateMode::PersistentWithTtl(Duration::from_micros(10));
    let text = "create /u: invalid arguments: a TTL is at least a millisecond, and less than 2^40 ms (34 years)";
    check(client.create("/u", b"", none).await, ErrorCode::BadArguments, text);
    let invalid = client.create("u", b"", none).await;
    check(invalid, ErrorCode::BadArguments, "create u: invalid path: it must start with /");
}

#[tokio::test]
async fn node_that_servers_need_is_not_deleted() {
    let server = Server::ephemeral().unwrap();
    let client = Client::connect(&server.address().to_string()).await.unwrap();
    let text = "delete /: invalid arguments: the servers need this node";
    check(client.delete("/", None).await, ErrorCode::BadArguments, text);
    check(client.delete_recursive("/").await, ErrorCode::BadArguments, text);
}

#[tokio::test]
async fn rejected_credentials_are_named() {
    let server = server();
    let strange = || builder(&server).auth("none", "x");
    let rejected = "authentication failed: the servers reject these credentials, or have no scheme `none`";
    let added = client(&server).await.add_auth("none", "x").await;
    check(added, ErrorCode::AuthFailed, &format!("add auth: {rejected}"));
    check(with_timeout(strange().connect()).await, ErrorCode::AuthFailed, &format!("connect: {rejected}"));
    let error = with_timeout(strange().start().unwrap().get("/")).await;
    check(error, ErrorCode::AuthFailed, &format!("get /: {rejected}"));
}

#[tokio::test]
async fn list_of_servers_without_use_is_refused() {
    let server = server();
    let client = client(&server).await;
    let error = client.update_servers("a:1/app").unwrap_err().to_string();
    assert_eq!(error, "update servers: the chroot cannot change; omit it from the list of servers");
    let error = client.update_servers("").unwrap_err().to_string();
    assert_eq!(error, "update servers: invalid connection string ``: it names no server");
    let error = Client::builder().connect().await.unwrap_err().to_string();
    assert_eq!(error, "connect: invalid connection string ``: Builder::servers was not called");
}

#[tokio::test]
async fn missing_chroot_is_named_until_it_is_created() {
    let server = Server::ephemeral().unwrap();
    let servers = format!("{}/apps/mail", server.address());
    let client = Client::connect(&servers).await.unwrap();
    let (code, missing) = (ErrorCode::NoNode, "no such node: the chroot /apps/mail does not exist");
    check(client.create("/a", b"", CreateMode::Persistent).await, code, &format!("create /a: {missing}"));
    check(client.get("/").await, code, &format!("get /: {missing}"));
    check(client.children_and_watch("/a/b").await, code, &format!("children /a/b: {missing}"));
    check(client.ensure_path("/a/b").await, code, &format!("create /a: {missing}"));
    check(client.ensure_path("/").await, code, &format!("create /: {missing}"));
    check(client.create_all("/a/b", b"", CreateMode::Persistent).await, code, &format!("create /a: {missing}"));
    let mut multi = client.multi();
    multi.create("/a", b"", CreateMode::Persistent);
    check(multi.commit().await, code, &format!("multi: create /a: {missing}"));
    assert!(client.exists("/a").await.unwrap().is_none());

    client.create_chroot().await.unwrap();
    client.create_chroot().await.unwrap();
    check(client.get("/a").await, code, "get /a: no such node");
    client.ensure_path("/a/b").await.unwrap();
    let outside = Client::connect(&server.address().to_string()).await.unwrap();
    assert!(outside.exists("/apps/mail/a/b").await.unwrap().is_some());
}

#[tokio::test]
async fn builder_creates_the_chroot_on_request() {
    let server = Server::ephemeral().unwrap();
    let servers = format!("{}/apps/mail", server.address());
    for _ in 0..2 {
        let client = Client::builder().servers(&servers).unwrap().create_chroot(true).connect().await.unwrap();
        assert!(client.children("/").await.unwrap().is_empty());
    }
    let plain = Client::builder().servers(&server.address().to_string()).unwrap();
    plain.create_chroot(true).connect().await.unwrap();
}

#[tokio::test]
async fn lost_connection_is_reported_with_the_servers_that_refuse() {
    let mut server = Server::ephemeral().unwrap();
    let address = server.address();
    let client = Client::connect(&address.to_string()).await.unwrap();
    server.stop().unwrap();
    let refused = async {
        while client.connect_failures().iter().any(|failure| failure.cause != ox_client::ConnectCause::Refused)
            || client.state().is_connected()
        {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    with_timeout(refused).await;
    let error = client.with_retry(RetryPolicy::None).get("/a").await.unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::ConnectionLoss);
    assert_eq!(error.to_string(), format!("get /a: connection lost: {address}: connection refused"));
    let limited = client.with_retry(RetryPolicy::until_elapsed(Duration::from_millis(10)));
    let error = limited.exists("/a").await.unwrap_err();
    assert_eq!(error.detail(), Some(format!("{address}: connection refused").as_str()));
}

/// A service that reads and closes is not told from a member without a quorum.
#[tokio::test]
async fn port_of_another_service_is_mentioned() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            drop(stream.readable().await);
        }
    });
    let limit = Duration::from_millis(300);
    let connecting = Client::builder().servers(&address.to_string()).unwrap().connect_timeout(limit).connect();
    let error = connecting.await.unwrap_err().to_string();
    assert!(error.ends_with("or this is not a ZooKeeper client port"), "{error}");
}

#[tokio::test]
async fn connection_string_is_quoted_whole() {
    let error = Client::connect("zk://127.0.0.1:24181").await.unwrap_err().to_string();
    assert!(error.contains("`zk://127.0.0.1:24181`"), "{error}");
    let server = server();
    assert!(builder(&server).chroot("/a/../b").unwrap_err().to_string().contains("the names . and .. are not allowed"));
}
