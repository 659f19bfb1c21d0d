//! Three candidates; the session of the master expires, and the next candidate takes over.
//!
//! `cargo run -p ox-recipes --example master_election`

use ox_client::Client;
use ox_recipes::leader::LeaderSelector;
use ox_server::Server;
use std::time::Duration;

type ExampleResult = Result<(), Box<dyn std::error::Error>>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExampleResult {
    let server = Server::ephemeral()?;
    let mut candidates = Vec::new();
    for name in ["alice", "bob", "carol"] {
        let client = Client::connect(&server.address().to_string()).await?;
        let selector = LeaderSelector::new(&client, "/master", name);
        let task = tokio::spawn(async move {
            let term = selector.run_as_leader(|leadership| async move {
                println!("{name} leads, fencing token {}", leadership.token());
                std::future::pending::<()>().await;
            });
            let ended = term.await;
            println!("{name} stopped leading: {}", ended.err().map(|error| error.to_string()).unwrap_or_default());
        });
        candidates.push((client, task));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    for (client, task) in candidates.drain(..2) {
        let watcher = LeaderSelector::new(&client, "/master", "");
        println!("participants: {:?}", watcher.participants().await?);
        server.expire(client.session().ok_or("no session")?.id)?;
        task.await?;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}
