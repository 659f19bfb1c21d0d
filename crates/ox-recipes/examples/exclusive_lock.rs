//! Three workers share one lock: they hold it one after the other, with increasing fencing tokens.
//!
//! `cargo run -p ox-recipes --example exclusive_lock`

use ox_client::Client;
use ox_recipes::RecipeError;
use ox_recipes::lock::Lock;
use ox_server::Server;
use std::time::Duration;

type ExampleResult = Result<(), Box<dyn std::error::Error>>;

async fn work(client: Client, name: &'static str) -> Result<(), RecipeError> {
    let lock = Lock::new(&client, "/lock").with_label(name);
    println!("{name} waits");
    let held = lock.acquire().await?;
    println!("{name} has the lock: token {}", held.token());
    held.run(tokio::time::sleep(Duration::from_millis(50))).await?;
    println!("{name} releases the lock");
    held.release().await
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExampleResult {
    let server = Server::ephemeral()?;
    let mut clients = Vec::new();
    for _ in 0..3 {
        clients.push(Client::connect(&server.address().to_string()).await?);
    }
    let [one, two, three] = &clients[..] else { return Ok(()) };
    let done = tokio::join!(work(one.clone(), "alice"), work(two.clone(), "bob"), work(three.clone(), "carol"));
    Ok(done.0.and(done.1).and(done.2)?)
}
