//! Cases of sessions during lost connections, expiry and server restarts.

use std::time::Duration;

use zookeeper_client::{Acls, Client, CreateMode, Error, EventType, SessionState};

use crate::suite::{Case, EPHEMERAL, SESSION_TIMEOUT, SHORT_TIMEOUT, Suite, await_reply, await_state, expect_once};

pub async fn run(suite: &mut Suite) {
    suite.test("reattach", reattach).await;
    suite.test("reconnect", reconnect).await;
    suite.test("reconnect authenticates again", reconnect_authenticates).await;
    suite.test("expiry", expiry).await;
    suite.test("idle session lives by pings", idle).await;
    suite.test("server restart", server_restart).await;
}

async fn reattach(case: &Case) {
    let connector = Client::connector().with_session_timeout(SESSION_TIMEOUT).with_detached();
    let first = connector.connect(&case.fixture.server).await.unwrap();
    first.create(&case.path("e"), b"mine", &EPHEMERAL).await.unwrap();
    let session = first.into_session();
    let id = session.id();
    let second = Client::connector().with_session(session).connect(&case.fixture.server).await.unwrap();
    assert_eq!(id, second.session_id());
    assert_eq!(b"mine", second.get_data(&case.path("e")).await.unwrap().0.as_slice());
}

async fn reconnect(case: &Case) {
    let client = case.connect_by_proxy(SESSION_TIMEOUT).await;
    let mut states = client.state_watcher();
    let (changed, parent, same) =
        (case.node("changed", "").await, case.node("parent", "").await, case.node("same", "").await);
    let created = case.path("created");
    let (_, _, data) = client.get_and_watch_data(&changed).await.unwrap();
    let (_, children) = client.list_and_watch_children(&parent).await.unwrap();
    let (_, exists) = client.check_and_watch_stat(&created).await.unwrap();
    // Not a persistent watch, because this version of the client does not set it again.
    let (_, _, quiet) = client.get_and_watch_data(&same).await.unwrap();
    case.command("block").await;
    await_state(&mut states, SessionState::Disconnected).await;
    case.touch(&changed).await;
    case.node("parent/child", "").await;
    case.node("created", "").await;
    case.command("open").await;
    await_state(&mut states, SessionState::SyncConnected).await;
    expect_once(data, EventType::NodeDataChanged, &changed).await;
    expect_once(children, EventType::NodeChildrenChanged, &parent).await;
    expect_once(exists, EventType::NodeCreated, &created).await;
    case.touch(&same).await;
    expect_once(quiet, EventType::NodeDataChanged, &same).await;
}

async fn reconnect_authenticates(case: &Case) {
    let client = case.connect_by_proxy(SESSION_TIMEOUT).await;
    client.auth("digest", b"bob:pw").await.unwrap();
    let path = case.path("a");
    client.create(&path, b"x", &CreateMode::Persistent.with_acls(Acls::creator_all())).await.unwrap();
    case.command("drop").await;
    await_reply(&client).await;
    client.get_data(&path).await.unwrap();
}

async fn expiry(case: &Case) {
    let client = case.connect_by_proxy(SHORT_TIMEOUT).await;
    let path = case.path("e");
    client.create(&path, b"", &EPHEMERAL).await.unwrap();
    let (_, deleted) = case.zk.check_and_watch_stat(&path).await.unwrap();
    let mut states = client.state_watcher();
    case.command("block").await;
    expect_once(deleted, EventType::NodeDeleted, &path).await;
    case.command("open").await;
    await_state(&mut states, SessionState::Expired).await;
    assert_eq!(Err(Error::SessionExpired), client.get_data(&case.root).await.map(drop));
}

async fn idle(case: &Case) {
    let client = case.connect_by_proxy(Duration::from_secs(1)).await;
    client.create(&case.path("e"), b"", &EPHEMERAL).await.unwrap();
    tokio::time::sleep(Duration::from_millis(2500)).await;
    assert!(case.zk.check_stat(&case.path("e")).await.unwrap().is_some());
}

async fn server_restart(case: &Case) {
    let client = case.connect_by_proxy(SESSION_TIMEOUT).await;
    client.create(&case.path("e"), b"", &EPHEMERAL).await.unwrap();
    let path = case.node("a", "before").await;
    let (_, _, changed) = client.get_and_watch_data(&path).await.unwrap();
    case.command("restart").await;
    await_reply(&client).await;
    let stat = client.check_stat(&case.path("e")).await.unwrap().unwrap();
    assert_eq!(client.session_id().0, stat.ephemeral_owner);
    client.set_data(&path, b"after", Some(0)).await.unwrap();
    expect_once(changed, EventType::NodeDataChanged, &path).await;
}
