//! Single requests or replies are lost on purpose, where that is most harmful.

use crate::{builder, client, server, with_timeout};
use ox_client::{Client, CreateMode, Version};
use ox_recipes::RecipeError;
use ox_recipes::config::SharedConfig;
use ox_recipes::lock::Lock;
use ox_recipes::presence::PersistentNode;
use ox_recipes::queue::Queue;
use ox_recipes::tasks::{TaskList, TaskWorker};
use ox_testkit::{ClientProxy, DroppedPart, OpCode, ServerFixture};
use std::time::Duration;

/// A client that connects through a proxy.
async fn proxied_client(server: &ServerFixture) -> (ClientProxy, Client) {
    let proxy = ClientProxy::start(server.address());
    let builder = Client::builder().servers(&format!("{}{}", proxy.address(), server.root())).unwrap();
    let client = builder.session_timeout(Duration::from_secs(20)).connect().await.unwrap();
    (proxy, client)
}

/// Waits until the proxy has dropped a message.
async fn wait_until_dropped(proxy: &ClientProxy) {
    let proxy = proxy.clone();
    with_timeout(tokio::task::spawn_blocking(move || proxy.wait_until_dropped(1))).await.unwrap();
}

/// Waits for the background requests of the client, which precede this in session order.
async fn await_background_requests(client: &Client) {
    for _ in 0..10 {
        with_timeout(client.write_barrier()).await.unwrap();
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn repeated_item_release_spares_the_next_consumer() {
    let server = server();
    let (proxy, first) = proxied_client(&server).await;
    let (second, third) = (client(&server).await, client(&server).await);
    let queue = Queue::new(&second, "/queue");
    queue.put("x").await.unwrap();
    let item = with_timeout(Queue::new(&first, "/queue").take()).await.unwrap();
    proxy.drop_next(OpCode::Delete, DroppedPart::Reply);
    drop(item);
    wait_until_dropped(&proxy).await;
    let item = with_timeout(queue.take()).await.unwrap();
    proxy.proxy().open();
    await_background_requests(&first).await;
    let locks = third.children("/queue-locks").await.unwrap();
    assert_eq!(locks.len(), 1, "the second consumer still holds it");
    item.done().await.unwrap();
}

#[tokio::test]
async fn repeated_task_release_spares_the_next_worker() {
    let server = server();
    let (proxy, first) = proxied_client(&server).await;
    let second = client(&server).await;
    TaskList::new(&second, "/crew").add("t", "").await.unwrap();
    let alice = with_timeout(TaskWorker::join(&first, "/crew", "alice")).await.unwrap();
    let mut bob = with_timeout(TaskWorker::join(&second, "/crew", "bob")).await.unwrap();
    proxy.drop_next(OpCode::Delete, DroppedPart::Reply);
    let leaving = tokio::spawn(alice.leave());
    wait_until_dropped(&proxy).await;
    let tasks = TaskList::new(&second, "/crew");
    tasks.add("u", "").await.unwrap(); // bob's quota becomes one
    with_timeout(async {
        while bob.tasks() != ["t"] {
            bob.rebalance().await.unwrap();
        }
    })
    .await;
    proxy.proxy().open();
    with_timeout(leaving).await.unwrap().unwrap();
    bob.commit("t", "1").await.unwrap();
}

#[tokio::test]
async fn repeated_node_deletion_spares_the_next_owner() {
    let server = server();
    let (proxy, first) = proxied_client(&server).await;
    let second = client(&server).await;
    let here = with_timeout(PersistentNode::start(&first, "/hosts/a", "1")).await.unwrap();
    proxy.drop_next(OpCode::Delete, DroppedPart::Reply);
    let stopping = tokio::spawn(here.stop());
    wait_until_dropped(&proxy).await;
    let _here = with_timeout(PersistentNode::start(&second, "/hosts/a", "2")).await.unwrap();
    let before = second.exists("/hosts/a").await.unwrap().unwrap();
    proxy.proxy().open();
    with_timeout(stopping).await.unwrap().unwrap();
    assert_eq!(second.exists("/hosts/a").await.unwrap().map(|stat| stat.czxid), Some(before.czxid));
}

#[tokio::test]
async fn lost_publication_is_sent_again() {
    let server = server();
    let (proxy, client) = proxied_client(&server).await;
    let config = SharedConfig::<String>::new(&client, "/config");
    assert_eq!(config.publish(&"one".to_owned()).await.unwrap(), 1);
    proxy.drop_next(OpCode::Multi, DroppedPart::Request);
    let publishing = tokio::spawn({
        let config = SharedConfig::<String>::new(&client, "/config");
        async move { config.publish_after(1, &"two".to_owned()).await }
    });
    wait_until_dropped(&proxy).await;
    proxy.proxy().open();
    assert_eq!(with_timeout(publishing).await.unwrap().unwrap(), Some(2), "no other client published");
}

/// Events are received, so the connection seems alive, but requests are lost.
#[tokio::test]
async fn owner_with_lost_requests_stops_although_events_arrive() {
    let server = server();
    let proxy = ClientProxy::start(server.address());
    let builder = Client::builder().servers(&format!("{}{}", proxy.address(), server.root())).unwrap();
    let silent = builder.session_timeout(Duration::from_secs(4)).connect().await.unwrap();
    let other = client(&server).await;
    other.create("/n", b"", CreateMode::Persistent).await.unwrap();
    let _events = silent.watch("/n", ox_client::AddWatchMode::Persistent).await.unwrap();
    let held = Lock::new(&silent, "/lock").acquire().await.unwrap();
    proxy.discard_requests();
    let work = async {
        loop {
            other.set("/n", b"", Version::Any).await.unwrap();
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let ended: Result<(), RecipeError> = with_timeout(held.run(work)).await;
    assert!(matches!(ended, Err(RecipeError::Lost { .. })), "{ended:?}");
    assert!(other.exists(held.path()).await.unwrap().is_some(), "no other client could hold it before");
}

#[tokio::test]
async fn work_restarts_in_a_new_session_after_loss() {
    let server = server();
    let other = client(&server).await;
    let times = std::sync::atomic::AtomicUsize::new(0);
    let builder = builder(&server);
    let done = ox_recipes::sessions::run_in_sessions(&builder, async |client| {
        let client: Client = client;
        let held = Lock::new(&client, "/lock").acquire().await?;
        if 0 < times.fetch_add(1, std::sync::atomic::Ordering::Relaxed) {
            return Ok(());
        }
        let (lost, deleted) =
            tokio::join!(held.run(std::future::pending::<()>()), other.delete(held.path(), Version::Any));
        deleted?;
        lost
    });
    with_timeout(done).await.unwrap();
    assert_eq!(times.into_inner(), 2);
}
