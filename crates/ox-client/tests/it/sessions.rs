//! Sessions across connection losses.

use crate::{builder, client, server, with_timeout};
use ox_client::{
    Client, ConnectCause, CreateMode, ErrorKind, EventKind, RequestOutcome, RetryPolicy, SessionEvent, SessionState,
    SessionStates, Version,
};
use std::io::{Read as _, Write as _};
use std::time::{Duration, Instant};

async fn next(states: &mut SessionStates) -> SessionState {
    with_timeout(states.next()).await.unwrap()
}

#[tokio::test]
async fn lost_connection_is_reestablished_within_the_session() {
    let server = server();
    let client = client(&server).await;
    let ticket = client.session().unwrap();
    client.create("/mine", b"", CreateMode::Ephemeral).await.unwrap();
    let mut states = client.states();
    assert_eq!(next(&mut states).await, SessionState::Connected);
    assert!(server.drop_connection(ticket.id));
    let SessionState::Suspended { lost_after } = next(&mut states).await else { panic!("expected Suspended") };
    assert!(Instant::now() < lost_after && lost_after <= Instant::now() + ticket.timeout);
    assert_eq!(next(&mut states).await, SessionState::Connected);
    assert_eq!(client.session().unwrap().id, ticket.id);
    assert!(with_timeout(client.exists("/mine")).await.unwrap().is_some());
    with_timeout(client.close()).await.unwrap();
    assert_eq!(next(&mut states).await, SessionState::Closed);
    assert_eq!(with_timeout(states.next()).await, None);
}

#[tokio::test]
async fn expired_session_is_final() {
    let server = server();
    let client = client(&server).await;
    let mut states = client.states();
    next(&mut states).await;
    server.expire(client.session().unwrap().id).unwrap();
    assert!(matches!(next(&mut states).await, SessionState::Suspended { .. }));
    assert_eq!(next(&mut states).await, SessionState::Expired);
    let error = with_timeout(client.get("/")).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (&ErrorKind::SessionExpired, RequestOutcome::NoEffect));
    assert!(error.is_final() && !error.is_retriable());
    with_timeout(client.close()).await.unwrap();
}

/// A client that is shared by tests, each with a runtime of its own, must not wait forever.
#[test]
fn client_whose_runtime_is_dropped_is_closed() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (server, first) = (server(), runtime());
    let client = first.block_on(client(&server));
    let mut states = client.states();
    let (_, waiting) = first.block_on(client.exists_and_watch("/a")).unwrap();
    drop(first);
    assert_eq!(client.state(), SessionState::Closed);
    runtime().block_on(async {
        assert_eq!(with_timeout(waiting).await.kind, EventKind::SessionEnded);
        assert_eq!(with_timeout(client.get("/")).await.unwrap_err().kind(), &ErrorKind::Closed);
        while with_timeout(states.next()).await.is_some() {}
        with_timeout(client.close()).await.unwrap();
    });
}

#[tokio::test]
async fn requests_wait_for_restarting_server() {
    let mut server = server();
    let client = client(&server).await;
    client.create("/a", b"1", CreateMode::Persistent).await.unwrap();
    let mut states = client.states();
    next(&mut states).await;
    server.stop();
    assert!(matches!(next(&mut states).await, SessionState::Suspended { .. }));
    let waiting = tokio::spawn({
        let client = client.clone();
        async move { client.set("/a", b"2", Version::Any).await }
    });
    let hasty = client.with_retry(RetryPolicy::None).get("/a").await.unwrap_err();
    assert_eq!((hasty.kind(), hasty.outcome()), (&ErrorKind::ConnectionLoss, RequestOutcome::NoEffect));
    let patient = client.with_retry(RetryPolicy::until_elapsed(Duration::from_millis(30)));
    let late = with_timeout(patient.set("/a", b"3", Version::Any)).await.unwrap_err();
    assert_eq!((late.kind(), late.outcome()), (&ErrorKind::ConnectionLoss, RequestOutcome::NoEffect));
    server.restart();
    assert_eq!(with_timeout(waiting).await.unwrap().unwrap().version, 1);
    assert_eq!(with_timeout(client.get("/a")).await.unwrap().data, b"2");
}

#[tokio::test]
async fn last_clone_dropped_closes_the_session() {
    let server = server();
    let (one, other) = (client(&server).await, client(&server).await);
    one.create("/mine", b"", CreateMode::Ephemeral).await.unwrap();
    let (_, gone) = other.exists_and_watch("/mine").await.unwrap();
    let clone = one.clone();
    drop(one);
    assert!(clone.exists("/mine").await.unwrap().is_some());
    drop(clone);
    with_timeout(gone).await;
}

#[tokio::test]
async fn connect_without_server_times_out() {
    let mut server = server();
    server.stop();
    let patience = Duration::from_millis(200);
    let error = with_timeout(builder(&server).connect_timeout(patience).connect()).await.unwrap_err();
    let ErrorKind::NoServer(failures) = error.kind() else { panic!("{error}") };
    // A server outside of this process is stopped by a proxy, which accepts and closes.
    let cause = failures[0].cause.clone();
    assert!(matches!(cause, ConnectCause::Refused | ConnectCause::NotServing), "{error}");
    assert!(Client::connect("").await.is_err());
}

#[tokio::test]
async fn connect_error_names_the_cause_per_server() {
    let listener = || std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let (closed, silent, closing) = (listener().local_addr().unwrap(), listener(), listener());
    let (silent_at, closing_at) = (silent.local_addr().unwrap(), closing.local_addr().unwrap());
    std::thread::spawn(move || closing.incoming().for_each(drop)); // as a member without a quorum
    let servers = format!("{closed},{silent_at},{closing_at},unknown.invalid:2181");
    let builder = Client::builder().servers(&servers).unwrap().session_timeout(Duration::from_millis(800));
    let started = builder.clone().start().unwrap();
    let mut events = started.session_events();
    let error = with_timeout(builder.connect_timeout(Duration::from_secs(3)).connect()).await.unwrap_err();
    let ErrorKind::NoServer(failures) = error.kind() else { panic!("{error}") };
    let cause = |server: &str| failures.iter().find(|found| found.server.to_string() == server).unwrap().cause.clone();
    assert_eq!(cause(&closed.to_string()), ConnectCause::Refused);
    assert_eq!(cause(&silent_at.to_string()), ConnectCause::NoReply);
    assert_eq!(cause(&closing_at.to_string()), ConnectCause::NotServing);
    assert_eq!(cause("unknown.invalid:2181"), ConnectCause::UnknownHost);
    assert_eq!(with_timeout(events.next()).await, Some(SessionEvent::State(SessionState::Connecting)));
    assert_eq!(with_timeout(events.next()).await, Some(SessionEvent::NoServer));
    assert_eq!(&started.connect_failures(), failures);
}

#[tokio::test]
async fn port_of_another_service_is_named_as_the_cause() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().map(Result::unwrap) {
            let _ = (&stream).write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n"); // the client may have closed it
            let _ = (&stream).read_to_end(&mut Vec::new()); // until the client closes it
        }
    });
    let builder = Client::builder().servers(&address.to_string()).unwrap();
    let error = with_timeout(builder.connect_timeout(Duration::from_secs(2)).connect()).await.unwrap_err();
    let expected = format!(
        "connect: no server established a session: {address}: not a client port of ZooKeeper: the reply to the \
         handshake is malformed"
    );
    assert_eq!(error.to_string(), expected);
}

#[tokio::test]
async fn credentials_are_resent_after_reconnect() {
    let server = server();
    let client = builder(&server).auth("digest", "bob:secret").connect().await.unwrap();
    let options = ox_client::CreateOptions::new(CreateMode::Persistent).with_acl(ox_client::acl::creator());
    client.create("/bobs", b"", &options).await.unwrap();
    server.drop_connections();
    with_timeout(client.set("/bobs", b"x", Version::Any)).await.ok();
    with_timeout(client.set("/bobs", b"y", Version::Any)).await.unwrap();
    let mut states = client.states();
    let error = with_timeout(client.add_auth("nonsense", b"")).await.unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::AuthFailed);
    while next(&mut states).await != SessionState::AuthFailed {}
}

#[tokio::test]
async fn chroot_is_invisible_to_the_application() {
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
    assert_eq!(with_timeout(watch).await.path, "/");
    let error = inside.get("/nothing").await.unwrap_err();
    assert_eq!(error.to_string(), "get /nothing: no such node");
}

#[tokio::test]
async fn close_in_an_outage_fails_in_time_and_closes_the_client() {
    let mut server = ox_server::Server::ephemeral().unwrap();
    let builder = Client::builder().servers(&server.address().to_string()).unwrap();
    let client = builder.session_timeout(Duration::from_millis(300)).connect().await.unwrap();
    server.stop().unwrap();
    let error = with_timeout(client.close()).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (&ErrorKind::CloseUnconfirmed, RequestOutcome::Unknown));
    assert!(error.is_final() && !error.is_retriable());
    let text = "close: no server confirmed it, so the session ends when it expires: ";
    assert!(error.to_string().starts_with(text), "{error}");
    assert_eq!(client.state(), SessionState::Closed);
    with_timeout(client.close()).await.unwrap();
}
