//! Counters: no addition is applied twice, and no number is assigned twice.

use crate::chaos::{Disruption, run_disrupted};
use crate::{client, server, with_timeout};
use ox_client::{CreateMode, EventKind, RequestOutcome, Version};
use ox_recipes::RecipeError;
use ox_recipes::counter::{AtomicLong, UniqueIds};
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

#[tokio::test]
async fn sum_is_exact_except_for_lost_replies() {
    let (confirmed, unknown, seen) = (AtomicI64::new(0), AtomicI64::new(0), AtomicI64::new(0));
    run_disrupted(Disruption::Expiries, 4, 120, async |client, book, _| {
        book.turns.fetch_add(1, Ordering::Relaxed);
        let total = AtomicLong::new(client, "/test/total");
        match total.add(1).await {
            Ok(sum) => {
                confirmed.fetch_add(1, Ordering::Relaxed);
                seen.fetch_max(sum, Ordering::Relaxed);
            }
            Err(RecipeError::Client(error)) if error.outcome() == RequestOutcome::Unknown => {
                unknown.fetch_add(1, Ordering::Relaxed);
            }
            Err(error) => return Err(error),
        }
        Ok(())
    })
    .await;
    let (confirmed, unknown, seen) = (confirmed.into_inner(), unknown.into_inner(), seen.into_inner());
    assert!(
        (confirmed..=confirmed + unknown).contains(&seen),
        "{confirmed} confirmed, {unknown} unknown, {seen} found"
    );
}

#[tokio::test]
async fn unique_ids_are_never_repeated() {
    let given = Mutex::new(BTreeSet::new());
    let count = AtomicUsize::new(0);
    run_disrupted(Disruption::Expiries, 4, 100, async |client, book, _| {
        let number = UniqueIds::new(client, "/ids").next().await?;
        count.fetch_add(1, Ordering::Relaxed);
        book.turns.fetch_add(1, Ordering::Relaxed);
        assert!(given.lock().insert(number), "{number} is assigned twice");
        Ok(())
    })
    .await;
    assert!(100 <= count.into_inner());
}

/// An empty container would be deleted, and numbering would restart.
#[tokio::test]
async fn unique_ids_continue_after_their_clients_are_gone() {
    let server = ox_server::TestServer::start(|config| config.containers.check_interval_ms = 10).unwrap();
    let client = ox_client::Client::connect(&server.address().to_string()).await.unwrap();
    let ids = UniqueIds::new(&client, "/ids");
    assert_eq!(ids.next().await.unwrap(), 0);
    client.create("/container", b"", CreateMode::Container).await.unwrap();
    let (_, swept) = client.exists_and_watch("/container").await.unwrap();
    client.create("/container/a", b"", CreateMode::Persistent).await.unwrap();
    client.delete("/container/a", Version::Any).await.unwrap();
    assert_eq!(with_timeout(swept).await.kind, EventKind::NodeDeleted);
    assert_eq!(ids.next().await.unwrap(), 1);
}

#[tokio::test]
async fn counter_layout_matches_curator() {
    let server = server();
    let client = client(&server).await;
    AtomicLong::new(&client, "/total").add(258).await.unwrap();
    assert_eq!(client.get("/total").await.unwrap().data, [0, 0, 0, 0, 0, 0, 1, 2]);
    ox_recipes::counter::SharedCount::open(&client, "/count", 258).await.unwrap();
    assert_eq!(client.get("/count").await.unwrap().data, [0, 0, 1, 2]);
}

#[tokio::test]
async fn addition_with_lost_reply_is_not_applied_twice() {
    let server = server();
    let client = client(&server).await;
    let total = AtomicLong::new(&client, "/total");
    let (mut confirmed, mut unknown) = (0, 0);
    for round in 0..300 {
        let run_disrupted = async {
            // Varies the delay, so that the write is in flight in some rounds.
            for _ in 0..round % 7 {
                tokio::task::yield_now().await;
            }
            server.drop_connections();
        };
        match with_timeout(async { tokio::join!(total.add(1), run_disrupted).0 }).await {
            Ok(_) => confirmed += 1,
            Err(RecipeError::Client(error)) if error.outcome() == RequestOutcome::Unknown => unknown += 1,
            Err(error) => panic!("{error}"),
        }
    }
    let found = total.get().await.unwrap();
    assert!(
        (confirmed..=confirmed + unknown).contains(&found),
        "{confirmed} confirmed, {unknown} unknown, {found} found"
    );
}
