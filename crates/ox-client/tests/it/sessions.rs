//! Sessions over connections that come and go.

use crate::{builder, client, server, soon};
use ox_client::{Client, CreateMode, ErrorKind, Outcome, RetryPolicy, State, States, Version};
use std::time::{Duration, Instant};

async fn next(states: &mut States) -> State {
    soon(states.next()).await.unwrap()
}

#[tokio::test]
async fn a_lost_connection_is_made_again_within_the_session() {
    let server = server();
    let client = client(&server).await;
    let ticket = client.session().unwrap();
    client.create("/mine", b"", CreateMode::Ephemeral).await.unwrap();
    let mut states = client.states();
    assert_eq!(next(&mut states).await, State::Connected);
    assert!(server.drop_connection(ticket.id));
    let State::Suspended { lost_after } = next(&mut states).await else { panic!("it was connected") };
    assert!(Instant::now() < lost_after && lost_after <= Instant::now() + ticket.timeout);
    assert_eq!(next(&mut states).await, State::Connected);
    assert_eq!(client.session().unwrap().id, ticket.id);
    assert!(soon(client.exists("/mine")).await.unwrap().is_some());
    soon(client.close()).await.unwrap();
    assert_eq!(next(&mut states).await, State::Closed);
    assert_eq!(soon(states.next()).await, None);
}

#[tokio::test]
async fn an_expired_session_is_final() {
    let server = server();
    let client = client(&server).await;
    let mut states = client.states();
    next(&mut states).await;
    server.expire(client.session().unwrap().id).unwrap();
    assert!(matches!(next(&mut states).await, State::Suspended { .. }));
    assert_eq!(next(&mut states).await, State::Expired);
    let error = soon(client.get("/")).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (&ErrorKind::SessionExpired, Outcome::DidNotHappen));
    assert!(error.is_final() && !error.is_retriable());
    soon(client.close()).await.unwrap();
}

#[tokio::test]
async fn requests_wait_for_a_server_that_restarts() {
    let mut server = server();
    let client = client(&server).await;
    client.create("/a", b"1", CreateMode::Persistent).await.unwrap();
    let mut states = client.states();
    next(&mut states).await;
    server.stop();
    assert!(matches!(next(&mut states).await, State::Suspended { .. }));
    let waiting = tokio::spawn({
        let client = client.clone();
        async move { client.set("/a", b"2", Version::Any).await }
    });
    let hasty = client.with_retry(RetryPolicy::None).get("/a").await.unwrap_err();
    assert_eq!((hasty.kind(), hasty.outcome()), (&ErrorKind::ConnectionLoss, Outcome::DidNotHappen));
    let patient = client.with_retry(RetryPolicy::until_elapsed(Duration::from_millis(30)));
    let late = soon(patient.set("/a", b"3", Version::Any)).await.unwrap_err();
    assert_eq!((late.kind(), late.outcome()), (&ErrorKind::ConnectionLoss, Outcome::DidNotHappen));
    server.restart();
    assert_eq!(soon(waiting).await.unwrap().unwrap().version, 1);
    assert_eq!(soon(client.get("/a")).await.unwrap().data, b"2");
}

#[tokio::test]
async fn the_last_clone_closes_the_session() {
    let server = server();
    let (one, other) = (client(&server).await, client(&server).await);
    one.create("/mine", b"", CreateMode::Ephemeral).await.unwrap();
    let (_, gone) = other.exists_and_watch("/mine").await.unwrap();
    let clone = one.clone();
    drop(one);
    assert!(clone.exists("/mine").await.unwrap().is_some());
    drop(clone);
    soon(gone).await;
}

#[tokio::test]
async fn nobody_there() {
    let mut server = server();
    server.stop();
    let patience = Duration::from_millis(200);
    let error = soon(builder(&server).connect_timeout(patience).connect()).await.unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::NoServer);
    assert!(Client::connect("").await.is_err());
}

#[tokio::test]
async fn credentials_are_proven_again() {
    let server = server();
    let client = builder(&server).auth("digest", "bob:secret").connect().await.unwrap();
    let options = ox_client::CreateOptions::new(CreateMode::Persistent).with_acl(ox_client::acl::creator());
    client.create("/bobs", b"", &options).await.unwrap();
    server.drop_connections();
    soon(client.set("/bobs", b"x", Version::Any)).await.ok();
    soon(client.set("/bobs", b"y", Version::Any)).await.unwrap();
    let mut states = client.states();
    let error = soon(client.add_auth("nonsense", b"")).await.unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::AuthFailed);
    while next(&mut states).await != State::AuthFailed {}
}

#[tokio::test]
async fn a_chroot_is_seen_by_nobody() {
    let server = server();
    let outside = client(&server).await;
    outside.ensure_path("/app/x").await.unwrap();
    let inside = builder(&server).chroot(&format!("{}/app/x", server.root())).unwrap().connect().await.unwrap();
    let created = inside.create("/a-", b"", CreateMode::EphemeralSequential).await.unwrap();
    assert_eq!(created.path, "/a-0000000000");
    assert_eq!(inside.children("/").await.unwrap(), ["a-0000000000"]);
    assert_eq!(outside.children("/app/x").await.unwrap(), ["a-0000000000"]);
    assert_eq!(inside.ephemerals("/").await.unwrap(), ["/a-0000000000"]);
    let (_, watch) = inside.get_and_watch("/").await.unwrap();
    outside.set("/app/x", b"", Version::Any).await.unwrap();
    assert_eq!(soon(watch).await.path, "/");
    let error = inside.get("/nothing").await.unwrap_err();
    assert_eq!(error.to_string(), "get /nothing: no such node");
}
