//! A tour of the client: `cargo run -p ox-client --example tour [-- host:port,host:port]`.
//!
//! Without servers it starts its own. It creates everything below `/ox-client-tour` and deletes that at the end.

use ox_client::{
    AddWatchMode, Client, CreateMode, CreateOptions, ErrorCode, EventKind, SessionState, WatcherType, acl,
};
use ox_server::Server;

const ROOT: &str = "/ox-client-tour";

type TourResult = Result<(), Box<dyn std::error::Error>>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> TourResult {
    let server = match std::env::args().nth(1) {
        Some(servers) => (servers, None),
        None => {
            let server = Server::ephemeral()?;
            (server.address().to_string(), Some(server))
        }
    };
    let outside = Client::connect(&server.0).await?;
    println!("session {:?}", outside.session());
    outside.delete_recursive(ROOT).await?;
    outside.ensure_path(ROOT).await?;
    let client = Client::builder().servers(&server.0)?.chroot(ROOT)?.auth("digest", "bob:secret").connect().await?;
    nodes(&client).await?;
    multi(&client).await?;
    watches(&client, &outside).await?;
    reconnect(&client, &server.0).await?;
    client.close().await?;
    outside.delete_recursive(ROOT).await?;
    outside.close().await?;
    println!("done");
    Ok(())
}

async fn nodes(client: &Client) -> TourResult {
    client.create("/a", b"1", CreateMode::Persistent).await?;
    let node = client.get("/a").await?;
    let stat = client.set("/a", b"2", node.stat.version).await?;
    let error = client.set("/a", b"3", node.stat.version).await.expect_err("the server refuses it");
    assert_eq!(error.code(), Some(ErrorCode::BadVersion));
    println!("/a is at version {}; an old version: {error}", stat.version);
    client.create("/c", b"", CreateMode::Container).await?;
    let item = client.create_protected("/c/item-", b"", CreateMode::EphemeralSequential).await?;
    println!("protected: {}", item.path);
    assert_eq!(client.ephemerals("/c").await?, [item.path.as_str()]);
    assert_eq!(client.all_children_number("/").await?, 3);
    let options = CreateOptions::new(CreateMode::Persistent).with_acl(acl::creator());
    client.create("/bobs", b"", &options).await?;
    println!("/bobs: {:?}; I am {:?}", client.get_acl("/bobs").await?.0, client.who_am_i().await?);
    Ok(client.sync("/").await?)
}

async fn multi(client: &Client) -> TourResult {
    let mut multi = client.multi();
    multi.check("/a", 1);
    let created = multi.create("/m-", b"", CreateMode::PersistentSequential);
    let set = multi.set("/a", b"4", None);
    let results = multi.commit().await?;
    println!("multi: {} and version {}", results.get(created).path, results.get(set).version);
    let mut multi = client.multi();
    multi.delete("/a", None);
    multi.check("/nothing", None);
    println!("{}", multi.commit().await.expect_err("the server refuses it"));
    let mut reads = client.multi_read();
    let (node, nothing, names) = (reads.get("/a"), reads.get("/nothing"), reads.children("/"));
    let results = reads.send().await?;
    assert_eq!(results.get(node)?.data, b"4");
    assert_eq!(results.get(nothing).expect_err("the server refuses it").code(), Some(ErrorCode::NoNode));
    println!("children: {:?}", results.get(names)?);
    Ok(())
}

async fn watches(client: &Client, outside: &Client) -> TourResult {
    let mut stream = client.watch("/", AddWatchMode::PersistentRecursive).await?;
    let (_, changed) = client.get_and_watch("/a").await?;
    let (_, unwanted) = client.children_and_watch("/").await?;
    drop(unwanted);
    assert!(!client.check_watches("/", WatcherType::Children).await?);
    outside.set(&format!("{ROOT}/a"), b"5", None).await?;
    println!("event: {:?}", changed.await);
    assert_eq!(stream.next().await.map(|event| event.kind), Some(EventKind::NodeDataChanged));
    drop(stream);
    assert!(!client.check_watches("/", WatcherType::Any).await?);
    Ok(())
}

/// A second client resumes the session, so that the server closes this client's connection. This client reconnects and
/// restores its watches and credentials.
async fn reconnect(client: &Client, servers: &str) -> TourResult {
    let (_, changed) = client.get_and_watch("/bobs").await?;
    let mut stream = client.watch("/a", AddWatchMode::Persistent).await?;
    let mut states = client.states();
    assert_eq!(states.next().await, Some(SessionState::Connected));
    let ticket = client.session().ok_or("no session")?;
    Client::builder().servers(servers)?.resume(ticket).connect().await?.detach();
    println!("{:?}, then {:?}", states.next().await, states.next().await);
    assert_eq!(stream.next().await.map(|event| event.kind), Some(EventKind::Missed));
    // The second client may be about to reconnect as well, and close this connection once more.
    while let Err(error) = client.set("/bobs", b"x", None).await {
        println!("{error}");
        if !error.is_retriable() {
            return Err(error.into());
        }
    }
    println!("event: {:?}", changed.await);
    Ok(())
}
