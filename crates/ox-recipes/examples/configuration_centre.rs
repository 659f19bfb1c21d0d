//! A typed configuration that is pushed to its readers and rolled back.
//!
//! `cargo run -p ox-recipes --example configuration_centre`

use ox_client::Client;
use ox_recipes::config::SharedConfig;
use ox_server::Server;
use serde::{Deserialize, Serialize};

type ExampleResult = Result<(), Box<dyn std::error::Error>>;

#[derive(Debug, Serialize, Deserialize)]
struct Web {
    threads: u32,
    banner: String,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExampleResult {
    let server = Server::ephemeral()?;
    let servers = server.address().to_string();
    let (admin, reader) = (Client::connect(&servers).await?, Client::connect(&servers).await?);
    let config = SharedConfig::<Web>::new(&admin, "/config/web");
    config.publish(&Web { threads: 4, banner: "hello".to_owned() }).await?;

    let mut copy = SharedConfig::<Web>::new(&reader, "/config/web").follow().await?;
    println!("the reader starts with {:?}", copy.current()?);
    config.publish(&Web { threads: 400, banner: "oops".to_owned() }).await?;
    copy.changed().await?;
    println!("after the update:       {:?}", copy.current()?);
    let version = config.roll_back(1).await?;
    copy.changed().await?;
    println!("rolled back as {version}:       {:?}", copy.current()?);
    Ok(())
}
