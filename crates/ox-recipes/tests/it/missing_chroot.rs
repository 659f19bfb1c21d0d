//! Every recipe with a chroot that does not exist: calls that write fail and name the chroot; calls that only read or
//! follow take it for nodes that do not exist yet. None of them hangs.

use crate::with_timeout;
use ox_client::{Client, ErrorCode};
use ox_recipes::barrier::{Barrier, DoubleBarrier};
use ox_recipes::cache::Cache;
use ox_recipes::config::SharedConfig;
use ox_recipes::counter::{AtomicLong, SharedCount, UniqueIds};
use ox_recipes::discovery::{ProviderStrategy, ServiceInstance, ServiceProvider, register};
use ox_recipes::leader::{LeaderLatch, LeaderSelector};
use ox_recipes::lock::Lock;
use ox_recipes::multi_lock::MultiLock;
use ox_recipes::naming::{NameRegistry, NameResolver};
use ox_recipes::presence::{GroupMember, PersistentNode};
use ox_recipes::queue::Queue;
use ox_recipes::rw_lock::RwLock;
use ox_recipes::semaphore::Semaphore;
use ox_recipes::tasks::{TaskList, TaskWorker};
use ox_recipes::{RecipeError, sessions};
use ox_server::{Server, TestServer};
use std::time::{Duration, SystemTime};

/// A path at the root of the chroot, and one below another node.
const PATHS: [&str; 2] = ["/a", "/a/b"];

async fn lost() -> (TestServer, Client) {
    let server = Server::ephemeral().unwrap();
    let client = Client::connect(&format!("{}/nope", server.address())).await.unwrap();
    (server, client)
}

/// The call fails with NoNode and names the chroot.
async fn check<T>(call: &str, work: impl Future<Output = Result<T, RecipeError>>) {
    let Err(error) = with_timeout(work).await else { panic!("{call} succeeds") };
    let RecipeError::Client(client) = &error else { panic!("{call}: {error}") };
    assert_eq!(client.code(), Some(ErrorCode::NoNode), "{call}: {error}");
    assert!(error.to_string().ends_with("the chroot /nope does not exist"), "{call}: {error}");
}

/// The call takes the nodes for missing ones.
async fn check_read<T>(call: &str, work: impl Future<Output = Result<T, RecipeError>>) -> T {
    with_timeout(work).await.unwrap_or_else(|error| panic!("{call}: {error}"))
}

#[tokio::test]
async fn locks_and_elections_name_a_missing_chroot() {
    let (_server, client) = lost().await;
    for path in PATHS {
        check("Lock", Lock::new(&client, path).acquire()).await;
        check("Lock", Lock::new(&client, path).try_acquire()).await;
        check("RwLock", RwLock::new(&client, path).read()).await;
        check("RwLock", RwLock::new(&client, path).write()).await;
        check("Semaphore", Semaphore::new(&client, path, 2).acquire()).await;
        check("MultiLock", MultiLock::new(&client, [path]).acquire()).await;
        check("LeaderLatch", LeaderLatch::join(&client, path, "me")).await;
        check("LeaderSelector", LeaderSelector::new(&client, path, "me").run_as_leader(|_| async {})).await;
    }
}

#[tokio::test]
async fn queues_and_tasks_name_a_missing_chroot() {
    let (_server, client) = lost().await;
    for path in PATHS {
        let queue = Queue::new(&client, path);
        check("Queue::put", queue.put("x")).await;
        check("Queue::put_with_priority", queue.put_with_priority("x", 1)).await;
        check("Queue::put_due", Queue::delayed(&client, path).put_due("x", SystemTime::now())).await;
        check("Queue::take", queue.take()).await;
        check("Queue::take_within", queue.take_within(Duration::from_secs(60))).await;
        assert_eq!(check_read("Queue::count", queue.count()).await, 0);
        let tasks = TaskList::new(&client, path);
        check("TaskList::add", tasks.add("t", "x")).await;
        check_read("TaskList::remove", tasks.remove("t")).await;
        assert!(check_read("TaskList::progress", tasks.progress("t")).await.is_none());
        check("TaskWorker", TaskWorker::join(&client, path, "me")).await;
    }
    check("Queue at the root", Queue::new(&client, "/").put("x")).await;
    check("Queue at the root", Queue::new(&client, "/").take()).await;
}

#[tokio::test]
async fn barriers_and_counters_name_a_missing_chroot() {
    let (_server, client) = lost().await;
    for path in PATHS {
        let barrier = Barrier::new(&client, path);
        check("Barrier::close", barrier.close()).await;
        check_read("Barrier::open", barrier.open()).await;
        check_read("Barrier::wait", barrier.wait()).await;
        check("DoubleBarrier", DoubleBarrier::new(&client, path, 1).enter()).await;
        let total = AtomicLong::new(&client, path);
        check("AtomicLong::add", total.add(1)).await;
        check("AtomicLong::compare_and_set", total.compare_and_set(0, 1)).await;
        assert_eq!(check_read("AtomicLong::get", total.get()).await, 0);
        check("SharedCount", SharedCount::open(&client, path, 3)).await;
        check("UniqueIds", UniqueIds::new(&client, path).next()).await;
    }
}

#[tokio::test]
async fn membership_names_and_configuration_name_a_missing_chroot() {
    let (_server, client) = lost().await;
    for path in PATHS {
        check("PersistentNode", PersistentNode::start(&client, path, "x")).await;
        check("GroupMember", GroupMember::join(&client, path, "me", "x")).await;
        check("register", register(&client, path, &ServiceInstance::<String>::new("mail", "a", 25))).await;
        check("NameRegistry::add", NameRegistry::new(&client, path).add("n", "x")).await;
        check_read("NameRegistry::remove", NameRegistry::new(&client, path).remove("n", "x")).await;
        let config = SharedConfig::<u32>::new(&client, path);
        check("SharedConfig::publish", config.publish(&1)).await;
        check("SharedConfig::publish_after", config.publish_after(0, &1)).await;
        assert!(check_read("SharedConfig::get", config.get()).await.is_none());
        check("SharedConfig::delete_before", config.delete_before(1)).await;
    }
    check("NameRegistry at the root", NameRegistry::new(&client, "/").add("n", "x")).await;
}

/// Copies follow nodes that may be created later; so may the chroot.
#[tokio::test]
async fn copies_follow_a_chroot_that_is_created_later() {
    let (_server, client) = lost().await;
    let mut cache = check_read("Cache", Cache::tree(&client, "/a")).await;
    let names = check_read("NameResolver", NameResolver::start(&client, "/a")).await;
    let strategy = ProviderStrategy::Random;
    let service = check_read("ServiceProvider", ServiceProvider::<String>::follow(&client, "/a", "n", strategy)).await;
    let config = SharedConfig::<u32>::new(&client, "/c");
    let follower = check_read("SharedConfig::follow", config.follow()).await;
    assert!(cache.nodes().is_empty() && names.resolve("n").is_empty() && service.pick().is_none());
    assert!(follower.current().unwrap().is_none());
    client.create_chroot().await.unwrap();
    client.ensure_path("/a").await.unwrap();
    while cache.get("/a").is_none() {
        check_read("Cache::changed", cache.changed()).await;
    }
}

#[tokio::test]
async fn sessions_end_with_the_error_of_a_missing_chroot() {
    let server = Server::ephemeral().unwrap();
    let builder = Client::builder().servers(&format!("{}/nope", server.address())).unwrap();
    let work = |client: Client| async move { Lock::new(&client, "/a").acquire().await.map(drop) };
    check("run_in_sessions", sessions::run_in_sessions(&builder, work)).await;
}
