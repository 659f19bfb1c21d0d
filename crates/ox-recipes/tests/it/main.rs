//! Recipes against a real server, with connections dropped and sessions expired at random.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed")]

mod barriers;
mod caches;
mod chaos;
mod counters;
mod error_texts;
mod leaders;
mod locks;
mod lost_replies;
mod missing_chroot;
mod queues;
mod workers;

use ox_client::{Builder, Client};
use ox_testkit::ServerFixture;
use std::time::Duration;

/// Time limit of a single wait in a test.
const PATIENCE: Duration = Duration::from_secs(60);

fn server() -> ServerFixture {
    ServerFixture::start()
}

fn builder(server: &ServerFixture) -> Builder {
    Client::builder().servers(&server.servers()).unwrap().session_timeout(Duration::from_secs(20))
}

async fn client(server: &ServerFixture) -> Client {
    builder(server).connect().await.unwrap()
}

/// Waits for `work`, at most `PATIENCE`.
async fn with_timeout<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, work).await.expect("timed out")
}
