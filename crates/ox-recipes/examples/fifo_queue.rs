//! A producer, two consumers, and one of them dies with an item in its hands.
//!
//! `cargo run -p ox-recipes --example fifo_queue`

use ox_client::Client;
use ox_recipes::queue::Queue;
use ox_server::Server;
use std::time::Duration;

type Outcome = Result<(), Box<dyn std::error::Error>>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Outcome {
    let server = Server::ephemeral()?;
    let servers = server.address().to_string();
    let (producer, clumsy, careful) =
        (Client::connect(&servers).await?, Client::connect(&servers).await?, Client::connect(&servers).await?);

    let queue = Queue::new(&producer, "/mail");
    for letter in ["first", "second", "third"] {
        queue.put(letter).await?;
        println!("put {letter}");
    }
    let item = Queue::new(&clumsy, "/mail").take().await?;
    println!("the clumsy one takes {} and dies", String::from_utf8_lossy(item.data()));
    server.expire(clumsy.session().ok_or("no session")?.id)?;

    let queue = Queue::new(&careful, "/mail");
    while let Some(item) = queue.take_within(Duration::from_millis(100)).await? {
        println!("the careful one does {}", String::from_utf8_lossy(item.data()));
        item.done().await?;
    }
    println!("{} items left", queue.count().await?);
    Ok(())
}
