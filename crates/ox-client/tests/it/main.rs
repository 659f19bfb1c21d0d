//! The client against a real server.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed")]

mod blocking;
mod chaos;
mod error_texts;
mod limits;
mod nodes;
mod sasl;
mod servers;
mod sessions;
mod tls;
mod watches;

use ox_client::{Builder, Client};
use ox_testkit::ServerFixture;
use std::time::Duration;

/// Time limit of a single wait in a test.
const PATIENCE: Duration = Duration::from_secs(30);

fn server() -> ServerFixture {
    ServerFixture::start()
}

fn builder(server: &ServerFixture) -> Builder {
    Client::builder().servers(&server.servers()).unwrap().session_timeout(Duration::from_secs(20)).seed(7)
}

async fn client(server: &ServerFixture) -> Client {
    builder(server).connect().await.unwrap()
}

/// Waits for `work`, at most `PATIENCE`.
async fn with_timeout<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, work).await.expect("timed out")
}
