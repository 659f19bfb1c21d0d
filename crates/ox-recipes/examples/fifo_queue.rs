//! A producer and two consumers, one of which fails while it processes an item.
//!
//! `cargo run -p ox-recipes --example fifo_queue`

use ox_client::Client;
use ox_recipes::queue::Queue;
use ox_server::Server;
use std::time::Duration;

type ExampleResult = Result<(), Box<dyn std::error::Error>>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExampleResult {
    let server = Server::ephemeral()?;
    let servers = server.address().to_string();
    let (producer, failing, careful) =
        (Client::connect(&servers).await?, Client::connect(&servers).await?, Client::connect(&servers).await?);

    let queue = Queue::new(&producer, "/mail");
    for letter in ["first", "second", "third"] {
        queue.put(letter).await?;
        println!("put {letter}");
    }
    let item = Queue::new(&failing, "/mail").take().await?;
    println!("the failing consumer takes {} and its session expires", String::from_utf8_lossy(item.data()));
    server.expire(failing.session().ok_or("no session")?.id)?;

    let queue = Queue::new(&careful, "/mail");
    while let Some(item) = queue.take_within(Duration::from_millis(100)).await? {
        println!("the other consumer processes {}", String::from_utf8_lossy(item.data()));
        item.done().await?;
    }
    println!("{} items left", queue.count().await?);
    Ok(())
}
