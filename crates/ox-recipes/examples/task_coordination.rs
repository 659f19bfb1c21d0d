//! Log collectors share files; when a collector fails, a spare continues where it stopped.
//!
//! `cargo run -p ox-recipes --example task_coordination`

use ox_client::Client;
use ox_recipes::tasks::{TaskList, TaskWorker};
use ox_server::Server;

type ExampleResult = Result<(), Box<dyn std::error::Error>>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExampleResult {
    let server = Server::ephemeral()?;
    let servers = server.address().to_string();
    let (one, other) = (Client::connect(&servers).await?, Client::connect(&servers).await?);
    let tasks = TaskList::new(&other, "/collect");
    tasks.add("db.log", "tail /var/log/db.log").await?;

    let alice = TaskWorker::join(&one, "/collect", "alice").await?;
    let mut bob = TaskWorker::join(&other, "/collect", "bob").await?;
    println!("alice processes {:?}, bob {:?} (standby)", alice.tasks(), bob.tasks());
    alice.commit("db.log", "line 17").await?;
    println!("the session of alice expires after line 17");
    server.expire(one.session().ok_or("no session")?.id)?;
    while bob.tasks().is_empty() {
        bob.rebalance().await?;
    }
    let progress = tasks.progress("db.log").await?.unwrap_or_default();
    println!("bob processes {:?}, continuing after {}", bob.tasks(), String::from_utf8_lossy(&progress));
    if let Err(error) = alice.commit("db.log", "line 16").await {
        println!("alice is too late: {error}");
    }
    Ok(())
}
