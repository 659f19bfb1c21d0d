//! Wrong arguments and servers that are not there are reported by the first call, with the cause.

use crate::{client, server, with_timeout};
use ox_client::{Client, CreateMode, ErrorKind, RetryPolicy, SessionState};
use ox_recipes::config::SharedConfig;
use ox_recipes::counter::SharedCount;
use ox_recipes::lock::Lock;
use ox_recipes::presence::GroupMember;
use ox_recipes::{LossCause, RecipeError, sessions};
use ox_server::Server;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

#[tokio::test]
async fn invalid_path_is_reported_as_passed() {
    let server = server();
    let client = client(&server).await;
    let error = Lock::new(&client, "bad").acquire().await.unwrap_err();
    assert_eq!(error.to_string(), "create bad: invalid path: it must start with /");
    assert_eq!(format!("{error:?}"), error.to_string());
    let error = GroupMember::join(&client, "/bad/", "me", "").await.unwrap_err();
    assert_eq!(error.to_string(), "create /bad/: invalid path: it must not end with /");
}

#[tokio::test]
async fn counter_over_other_data_is_reported_when_it_is_opened() {
    let server = server();
    let client = client(&server).await;
    client.create("/count", b"x", CreateMode::Persistent).await.unwrap();
    let error = SharedCount::open(&client, "/count", 3).await.unwrap_err();
    assert_eq!(error.to_string(), "/count: not four bytes");
}

#[tokio::test]
async fn rollback_to_a_version_that_does_not_exist_is_reported_as_such() {
    let server = server();
    let client = client(&server).await;
    let config = SharedConfig::<u32>::new(&client, "/config");
    let version = config.publish(&7).await.unwrap();
    let error = config.roll_back(version - 1).await.unwrap_err();
    assert_eq!(error, RecipeError::NoVersion { path: "/config".to_owned(), version: 0 });
    assert!(error.to_string().starts_with("/config: version 0 does not exist"));
}

#[tokio::test]
async fn first_session_without_a_server_fails_within_the_connect_timeout() {
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let builder = Client::builder().servers(&closed.to_string()).unwrap().connect_timeout(Duration::from_millis(200));
    let work = async |_: Client| -> Result<(), RecipeError> { panic!("there is no server") };
    let error = with_timeout(sessions::run_in_sessions(&builder, work)).await.unwrap_err();
    let RecipeError::Client(error) = error else { panic!("{error}") };
    assert!(matches!(error.kind(), ErrorKind::NoServer(_)), "{error}");
}

#[tokio::test]
async fn later_session_waits_for_a_server_that_is_down_for_longer_than_the_connect_timeout() {
    let mut server = Server::ephemeral().unwrap();
    let builder = Client::builder().servers(&server.address().to_string()).unwrap();
    let builder = builder.connect_timeout(Duration::from_secs(2));
    let (started, first_session) = oneshot::channel();
    let (stopped, loss) = oneshot::channel();
    let first = std::cell::Cell::new(Some((started, loss)));
    let work = |client: Client| {
        let first = first.take();
        async move {
            let Some((started, loss)) = first else { return Ok(()) };
            client.close().await.unwrap(); // so that no connection is needed to end this session
            started.send(()).unwrap();
            loss.await.unwrap();
            Err(RecipeError::Lost { path: "/held".to_owned(), cause: LossCause::SessionEnded })
        }
    };
    let disturb = async {
        first_session.await.unwrap();
        server.stop().unwrap();
        let silent = TcpListener::bind(server.address()).await.unwrap();
        stopped.send(()).unwrap();
        // A client waits for the reply on one connection until its connect timeout: with the second one a client has
        // failed.
        let held = [silent.accept().await, silent.accept().await];
        drop((silent, held));
        server.restart().unwrap();
    };
    let (done, ()) = with_timeout(async { tokio::join!(sessions::run_in_sessions(&builder, work), disturb) }).await;
    done.unwrap();
}

/// A write is not sent again, so the work fails; its ephemeral node must be gone before it is created again.
#[tokio::test]
async fn work_starts_again_after_a_lost_connection_when_the_old_session_is_closed() {
    let mut server = Server::ephemeral().unwrap();
    let builder = Client::builder().servers(&server.address().to_string()).unwrap();
    let (started, first_session) = oneshot::channel();
    let (stopped, outage) = oneshot::channel();
    let (failed, failure) = oneshot::channel();
    let first = std::cell::Cell::new(Some((started, outage, failed)));
    let clones = std::cell::RefCell::new(Vec::new()); // as a task of the work may hold one
    let work = |client: Client| {
        let first = first.take();
        clones.borrow_mut().push(client.clone());
        async move {
            client.create("/me", b"", CreateMode::Ephemeral).await?;
            let Some((started, outage, failed)) = first else { return Ok(()) };
            started.send(()).unwrap();
            outage.await.unwrap();
            let mut states = client.states();
            while !matches!(states.next().await, Some(SessionState::Suspended { .. })) {}
            let written = client.with_retry(RetryPolicy::None).set("/me", b"x", None).await;
            failed.send(()).unwrap();
            written?;
            Ok(())
        }
    };
    let disturb = async {
        first_session.await.unwrap();
        server.stop().unwrap();
        stopped.send(()).unwrap();
        failure.await.unwrap();
        server.restart().unwrap();
    };
    let (done, ()) = with_timeout(async { tokio::join!(sessions::run_in_sessions(&builder, work), disturb) }).await;
    done.unwrap();
}
