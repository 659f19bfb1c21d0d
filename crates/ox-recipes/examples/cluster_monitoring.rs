//! A monitor observes cluster members joining, changing and failing.
//!
//! `cargo run -p ox-recipes --example cluster_monitoring`

use ox_client::Client;
use ox_recipes::presence::GroupMember;
use ox_server::Server;

type ExampleResult = Result<(), Box<dyn std::error::Error>>;

fn show(monitor: &GroupMember) -> usize {
    let members = monitor.members();
    let list: Vec<_> = members.iter().map(|(name, load)| format!("{name}={}", String::from_utf8_lossy(load))).collect();
    println!("{}", list.join(" "));
    members.len()
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExampleResult {
    let server = Server::ephemeral()?;
    let servers = server.address().to_string();
    let (here, one, other) =
        (Client::connect(&servers).await?, Client::connect(&servers).await?, Client::connect(&servers).await?);
    let mut monitor = GroupMember::join(&here, "/cluster", "monitor", "-").await?;
    let web = GroupMember::join(&one, "/cluster", "web", "load 0.2").await?;
    let db = GroupMember::join(&other, "/cluster", "db", "load 0.7").await?;
    while show(&monitor) < 3 {
        monitor.changed().await?;
    }
    web.set("load 0.9");
    while monitor.members().get("web").is_none_or(|load| load != b"load 0.9") {
        monitor.changed().await?;
    }
    show(&monitor);
    println!("the session of db expires");
    server.expire(other.session().ok_or("no session")?.id)?;
    while show(&monitor) == 3 {
        monitor.changed().await?;
    }
    drop(db);
    Ok(())
}
