//! Four workers start together and finish together.
//!
//! `cargo run -p ox-recipes --example barrier`

use ox_client::Client;
use ox_recipes::RecipeError;
use ox_recipes::barrier::DoubleBarrier;
use ox_server::Server;
use std::time::Duration;

type ExampleResult = Result<(), Box<dyn std::error::Error>>;

async fn work(client: Client, number: u64) -> Result<(), RecipeError> {
    tokio::time::sleep(Duration::from_millis(30 * number)).await;
    println!("{number} comes");
    let inside = DoubleBarrier::new(&client, "/crew", 4).enter().await?;
    println!("{number} begins");
    tokio::time::sleep(Duration::from_millis(20 * (4 - number))).await;
    println!("{number} is done");
    inside.leave().await?;
    println!("{number} goes");
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExampleResult {
    let server = Server::ephemeral()?;
    let mut workers = Vec::new();
    for number in 0..4 {
        let client = Client::connect(&server.address().to_string()).await?;
        workers.push(tokio::spawn(work(client, number)));
    }
    for worker in workers {
        worker.await??;
    }
    Ok(())
}
