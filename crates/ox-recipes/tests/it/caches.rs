//! Caches, groups, discovery, configuration and names converge whatever happens to connections and sessions.

use crate::chaos::seed;
use crate::{client, server, with_timeout};
use ox_client::{Client, CreateMode, ErrorCode, EventKind, Version};
use ox_recipes::cache::Cache;
use ox_recipes::config::SharedConfig;
use ox_recipes::discovery::{ProviderStrategy, ServiceInstance, ServiceProvider, register};
use ox_recipes::naming::{NameRegistry, NameResolver};
use ox_recipes::presence::{GroupMember, PersistentNode};
use ox_recipes::{LossCause, RecipeError};
use ox_testkit::Rng;

/// One random change of a small tree. Replies may be lost.
async fn change(client: &Client, random: &mut Rng) {
    let depth = 1 + random.below(3);
    let path: String = (0..depth).map(|_| format!("/{}", random.below(3))).collect();
    let path = format!("/tree{path}");
    let done = match random.below(3) {
        0 => client.create(&path, random.next_u64().to_string(), CreateMode::Persistent).await.map(drop),
        1 => client.set(&path, random.next_u64().to_string(), Version::Any).await.map(drop),
        _ => client.delete(&path, Version::Any).await,
    };
    if let Err(error) = done {
        let refused = [ErrorCode::NoNode, ErrorCode::NodeExists, ErrorCode::NotEmpty];
        assert!(error.is_retriable() || error.code().is_some_and(|code| refused.contains(&code)), "{error}");
    }
}

async fn read_tree(client: &Client) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    let mut todo = vec!["/tree".to_owned()];
    while let Some(path) = todo.pop() {
        found.push((path.clone(), client.get(&path).await.unwrap().data));
        todo.extend(client.children(&path).await.unwrap().iter().map(|name| format!("{path}/{name}")));
    }
    found.sort();
    found
}

#[tokio::test]
async fn tree_cache_converges_to_the_tree() {
    let mut random = Rng::new(seed());
    let server = server();
    let (writer, reader) = (client(&server).await, client(&server).await);
    writer.create("/tree", b"", CreateMode::Persistent).await.unwrap();
    let mut tree = Cache::tree(&reader, "/tree").await.unwrap();
    let mut children = Cache::children(&reader, "/tree").await.unwrap();
    for _ in 0..10 {
        for _ in 0..40 {
            with_timeout(change(&writer, &mut random)).await;
            if random.below(20) == 0 {
                server.drop_connections();
            }
        }
        let original = with_timeout(read_tree(&writer)).await;
        let copy = |cache: &Cache| {
            cache.nodes().iter().map(|(path, node)| (path.clone(), node.data.clone())).collect::<Vec<_>>()
        };
        with_timeout(async {
            while copy(&tree) != original {
                tree.changed().await.unwrap();
            }
            let level: Vec<_> = original.iter().filter(|(path, _)| path.matches('/').count() == 2).cloned().collect();
            while copy(&children) != level {
                children.changed().await.unwrap();
            }
        })
        .await;
    }
    server.expire(reader.session().unwrap().id).unwrap();
    let ended = with_timeout(async {
        loop {
            if let Err(error) = tree.changed().await {
                return error;
            }
        }
    })
    .await;
    assert!(ended.is_session_ended(), "{ended}");
    assert_eq!(tree.changed().await, Err(ended), "the error is repeated");
}

/// A node that was created and deleted between two reads is reported although the copy is unchanged.
#[tokio::test]
async fn node_created_and_deleted_between_reads_is_reported() {
    let server = server();
    let (writer, reader) = (client(&server).await, client(&server).await);
    writer.create("/list", b"", CreateMode::Persistent).await.unwrap();
    let mut list = Cache::children(&reader, "/list").await.unwrap();
    let mut multi = writer.multi();
    multi.create("/list/a", b"", CreateMode::Persistent);
    multi.delete("/list/a", Version::Any);
    multi.commit().await.unwrap();
    with_timeout(list.changed()).await.unwrap();
    assert!(list.nodes().is_empty());
}

#[tokio::test]
async fn unreadable_nodes_are_omitted_from_the_cache() {
    let server = server();
    let (writer, reader) = (client(&server).await, client(&server).await);
    writer.add_auth("digest", "bob:secret").await.unwrap();
    writer.ensure_path("/tree/open").await.unwrap();
    let hidden = ox_client::CreateOptions::new(CreateMode::Persistent).with_acl(ox_client::acl::creator());
    writer.create("/tree/hidden", b"", hidden).await.unwrap();
    writer.create("/tree/hidden/below", b"", CreateMode::Persistent).await.unwrap();
    let mut tree = Cache::tree(&reader, "/tree").await.unwrap();
    assert_eq!(tree.nodes().into_keys().collect::<Vec<_>>(), ["/tree", "/tree/open"]);
    writer.set("/tree/hidden", b"x", Version::Any).await.unwrap();
    writer.set("/tree/open", b"x", Version::Any).await.unwrap();
    with_timeout(async {
        while tree.get("/tree/open").unwrap().data != b"x" {
            tree.changed().await.unwrap();
        }
    })
    .await;
}

#[tokio::test]
async fn persistent_node_is_recreated_and_taken_over() {
    let server = server();
    let (first, second) = (client(&server).await, client(&server).await);
    let old = PersistentNode::start(&first, "/hosts/a", "1").await.unwrap();
    let (_, gone) = second.exists_and_watch("/hosts/a").await.unwrap();
    first.detach(); // the session outlives its client
    let here = with_timeout(PersistentNode::start(&second, "/hosts/a", "2")).await.unwrap();
    assert_eq!(with_timeout(gone).await.kind, EventKind::NodeDeleted);
    drop(old);
    second.delete("/hosts/a", Version::Any).await.unwrap();
    here.set("3");
    with_timeout(async {
        while second.get("/hosts/a").await.map(|node| node.data).unwrap_or_default() != b"3" {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

/// Two programs with one name: the last one keeps the node, and the other one is notified.
#[tokio::test]
async fn persistent_nodes_of_one_name_do_not_replace_each_other_forever() {
    let server = server();
    let (first, second) = (client(&server).await, client(&server).await);
    let mut old = PersistentNode::start(&first, "/hosts/a", "1").await.unwrap();
    let _new = PersistentNode::start(&second, "/hosts/a", "2").await.unwrap();
    let lost = RecipeError::Lost { path: "/hosts/a".to_owned(), cause: LossCause::NodeDeleted };
    assert_eq!((with_timeout(old.ended()).await, old.ended().await), (lost.clone(), lost));
    old.stop().await.unwrap();
    assert_eq!(second.get("/hosts/a").await.unwrap().data, b"2");
}

#[tokio::test]
async fn expired_members_leave_the_group() {
    let server = server();
    let (living, dying) = (client(&server).await, client(&server).await);
    let mut alice = GroupMember::join(&living, "/group", "alice", "").await.unwrap();
    let bob = GroupMember::join(&dying, "/group", "bob", "").await.unwrap();
    with_timeout(async {
        while alice.members().len() != 2 {
            alice.changed().await.unwrap();
        }
        server.expire(dying.session().unwrap().id).unwrap();
        while alice.members().len() != 1 {
            alice.changed().await.unwrap();
        }
    })
    .await;
    drop(bob);
}

#[tokio::test]
async fn provider_strategies_choose_instances() {
    let server = server();
    let client = client(&server).await;
    let mut registered = Vec::new();
    for host in ["a", "b", "c"] {
        registered.push(register(&client, "/services", &ServiceInstance::<()>::new("mail", host, 25)).await.unwrap());
    }
    let mut sticky =
        ServiceProvider::<()>::follow(&client, "/services", "mail", ProviderStrategy::Sticky).await.unwrap();
    let random = ServiceProvider::<()>::follow(&client, "/services", "mail", ProviderStrategy::Random).await.unwrap();
    assert!(random.pick().is_some());
    let first = sticky.pick().unwrap();
    assert!((0..10).all(|_| sticky.pick().unwrap() == first));
    let at = registered.iter().position(|presence| presence.path().ends_with(&first.id)).unwrap();
    registered.swap_remove(at).stop().await.unwrap();
    with_timeout(async {
        while sticky.instances().len() == 3 {
            sticky.changed().await.unwrap();
        }
    })
    .await;
    assert_ne!(sticky.pick().unwrap().id, first.id);
}

#[tokio::test]
async fn concurrent_publications_keep_every_version() {
    let server = server();
    let (one, other) = (client(&server).await, client(&server).await);
    let publish = async |client: &Client| {
        let config = SharedConfig::<String>::new(client, "/config/x");
        for number in 0..20 {
            config.publish(&number.to_string()).await.unwrap();
        }
    };
    tokio::join!(with_timeout(publish(&one)), with_timeout(publish(&other)));
    let config = SharedConfig::<String>::new(&one, "/config/x");
    assert_eq!(config.get().await.unwrap().unwrap().version, 40);
    for version in 1..=40 {
        assert_eq!(config.revision(version).await.unwrap().unwrap().version, version);
    }
    assert_eq!(config.publish_after(39, &"late".to_owned()).await.unwrap(), None);
    config.delete_before(30).await.unwrap();
    assert!(config.roll_back(29).await.is_err());
    assert_eq!(config.roll_back(30).await.unwrap(), 41);
}

#[tokio::test]
async fn name_registry_merges_concurrent_updates() {
    let server = server();
    let clients = [client(&server).await, client(&server).await, client(&server).await];
    let tasks = clients.clone().map(|client| {
        let address = client.session().unwrap().id.to_string();
        tokio::spawn(async move { NameRegistry::new(&client, "/dns").add("db", &address).await })
    });
    for task in tasks {
        with_timeout(task).await.unwrap().unwrap();
    }
    let resolver = NameResolver::start(&clients[0], "/dns").await.unwrap();
    assert_eq!(resolver.resolve("db").len(), 3);
    assert!(resolver.resolve("nothing").is_empty());
}
