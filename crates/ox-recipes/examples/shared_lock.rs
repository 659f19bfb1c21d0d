//! Readers share a lock; a waiting writer blocks later readers.
//!
//! `cargo run -p ox-recipes --example shared_lock`

use ox_client::Client;
use ox_recipes::rw_lock::RwLock;
use ox_server::Server;
use std::time::Duration;

type ExampleResult = Result<(), Box<dyn std::error::Error>>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExampleResult {
    let server = Server::ephemeral()?;
    let client = Client::connect(&server.address().to_string()).await?;
    let lock = RwLock::new(&client, "/table");

    let (one, other) = (lock.read().await?, lock.read().await?);
    println!("two readers: {} and {}", one.path(), other.path());
    let writer = tokio::spawn({
        let lock = lock.clone();
        async move { lock.write().await }
    });
    tokio::time::sleep(Duration::from_millis(50)).await;
    println!("the writer waits: {}", !writer.is_finished());
    println!("a reader queued after it waits, too: {}", lock.try_read().await?.is_none());
    one.release().await?;
    other.release().await?;
    let writer = writer.await??;
    println!("the readers have released, the writer holds the lock: {}", writer.path());
    let reader = lock.downgrade(writer).await?;
    println!("downgraded to a reader: {}; other readers can join: {}", reader.path(), lock.try_read().await?.is_some());
    Ok(())
}
