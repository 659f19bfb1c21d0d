//! Clients choose among the instances of a service while instances are added and removed.
//!
//! `cargo run -p ox-recipes --example load_balancing`

use ox_client::Client;
use ox_recipes::discovery::{ProviderStrategy, ServiceInstance, ServiceProvider, register};
use ox_server::Server;

type ExampleResult = Result<(), Box<dyn std::error::Error>>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExampleResult {
    let server = Server::ephemeral()?;
    let servers = server.address().to_string();
    let (provider, user) = (Client::connect(&servers).await?, Client::connect(&servers).await?);
    let mut registered = Vec::new();
    for (host, zone) in [("10.0.0.1", "eu"), ("10.0.0.2", "eu"), ("10.0.0.3", "us")] {
        let instance = ServiceInstance::new("mail", host, 25).with_payload(zone.to_owned());
        registered.push(register(&provider, "/services", &instance).await?);
    }
    let mut mail = ServiceProvider::<String>::follow(&user, "/services", "mail", ProviderStrategy::RoundRobin).await?;
    for _ in 0..4 {
        let picked = mail.pick().ok_or("no instance")?;
        println!("request sent to {:?} in {:?}", picked.address, picked.payload);
    }
    if let Some(first) = registered.pop() {
        println!("{} stops", first.path());
        first.stop().await?;
    }
    while mail.instances().len() == 3 {
        mail.changed().await?;
    }
    println!("{} instances are left", mail.instances().len());
    Ok(())
}
