//! Recipes against a real server that drops connections and expires sessions at random.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed")]

mod barriers;
mod caches;
mod chaos;
mod counters;
mod leaders;
mod locks;
#[path = "../../../ox-client/tests/it/lossy_proxy.rs"]
#[allow(dead_code, reason = "shared with the tests of the client, which use more of it")]
mod lossy_proxy;
mod lost_replies;
mod queues;
#[path = "../../../ox-client/tests/it/server_fixture.rs"]
#[allow(dead_code, reason = "shared with the tests of the client, which use more of it")]
mod server_fixture;
mod workers;

use ox_client::{Builder, Client};
use server_fixture::ServerFixture;
use std::time::Duration;

/// Longer than anything a test waits for.
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

/// Waits, but not for ever.
async fn soon<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, work).await.expect("it takes too long")
}
