//! Unique numbers and names, and name resolution from a local copy.
//!
//! `cargo run -p ox-recipes --example naming`

use ox_client::Client;
use ox_recipes::counter::UniqueIds;
use ox_recipes::naming::{NameRegistry, NameResolver};
use ox_server::Server;

type ExampleResult = Result<(), Box<dyn std::error::Error>>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExampleResult {
    let server = Server::ephemeral()?;
    let servers = server.address().to_string();
    let (one, other) = (Client::connect(&servers).await?, Client::connect(&servers).await?);
    one.ensure_path("/orders").await?;
    let (mine, yours) = (UniqueIds::new(&one, "/orders"), UniqueIds::new(&other, "/orders"));
    println!(
        "{}, {}, {}",
        mine.next_name("order-").await?,
        yours.next_name("order-").await?,
        mine.next_name("order-").await?
    );

    let records = NameRegistry::new(&one, "/dns");
    records.add("db.example", "10.0.0.1:5432").await?;
    let mut resolver = NameResolver::start(&other, "/dns").await?;
    println!("db.example is at {:?}", resolver.resolve("db.example"));
    records.add("db.example", "10.0.0.2:5432").await?;
    resolver.changed().await?;
    println!("db.example is at {:?}", resolver.resolve("db.example"));
    Ok(())
}
