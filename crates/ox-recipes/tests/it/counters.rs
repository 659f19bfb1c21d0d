//! Nothing is counted twice, and no number is given out twice.

use crate::chaos::{Trouble, disturb};
use crate::{client, server, soon};
use ox_client::{CreateMode, EventKind, RequestOutcome, Version};
use ox_recipes::Error;
use ox_recipes::counter::{AtomicLong, UniqueIds};
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

#[tokio::test]
async fn sums_are_exact_but_for_answers_that_are_lost() {
    let (sure, unsure, seen) = (AtomicI64::new(0), AtomicI64::new(0), AtomicI64::new(0));
    disturb(Trouble::Expiries, 4, 120, async |client, book, _| {
        book.turns.fetch_add(1, Ordering::Relaxed);
        let total = AtomicLong::new(client, "/test/total");
        match total.add(1).await {
            Ok(sum) => {
                sure.fetch_add(1, Ordering::Relaxed);
                seen.fetch_max(sum, Ordering::Relaxed);
            }
            Err(Error::Client(error)) if error.outcome() == RequestOutcome::Unknown => {
                unsure.fetch_add(1, Ordering::Relaxed);
            }
            Err(error) => return Err(error),
        }
        Ok(())
    })
    .await;
    let (sure, unsure, seen) = (sure.into_inner(), unsure.into_inner(), seen.into_inner());
    assert!((sure..=sure + unsure).contains(&seen), "{sure} for certain, {unsure} perhaps, {seen} found");
}

#[tokio::test]
async fn no_number_is_given_out_twice() {
    let given = Mutex::new(BTreeSet::new());
    let count = AtomicUsize::new(0);
    disturb(Trouble::Expiries, 4, 100, async |client, book, _| {
        let number = UniqueIds::new(client, "/ids").next().await?;
        count.fetch_add(1, Ordering::Relaxed);
        book.turns.fetch_add(1, Ordering::Relaxed);
        assert!(given.lock().insert(number), "{number} comes twice");
        Ok(())
    })
    .await;
    assert!(100 <= count.into_inner());
}

/// A container would be removed when it is empty, and its successor would count from the beginning.
#[tokio::test]
async fn numbers_outlive_those_who_asked_for_them() {
    let server = ox_server::Ephemeral::start(|config| config.containers.check_interval_ms = 10).unwrap();
    let client = ox_client::Client::connect(&server.address().to_string()).await.unwrap();
    let ids = UniqueIds::new(&client, "/ids");
    assert_eq!(ids.next().await.unwrap(), 0);
    client.create("/container", b"", CreateMode::Container).await.unwrap();
    let (_, swept) = client.exists_and_watch("/container").await.unwrap();
    client.create("/container/a", b"", CreateMode::Persistent).await.unwrap();
    client.delete("/container/a", Version::Any).await.unwrap();
    assert_eq!(soon(swept).await.kind, EventKind::NodeDeleted);
    assert_eq!(ids.next().await.unwrap(), 1);
}

#[tokio::test]
async fn the_layout_is_curators() {
    let server = server();
    let client = client(&server).await;
    AtomicLong::new(&client, "/total").add(258).await.unwrap();
    assert_eq!(client.get("/total").await.unwrap().data, [0, 0, 0, 0, 0, 0, 1, 2]);
    ox_recipes::counter::SharedCount::open(&client, "/count", 258).await.unwrap();
    assert_eq!(client.get("/count").await.unwrap().data, [0, 0, 1, 2]);
}

#[tokio::test]
async fn an_answer_that_is_lost_is_not_counted_twice() {
    let server = server();
    let client = client(&server).await;
    let total = AtomicLong::new(&client, "/total");
    let (mut sure, mut unsure) = (0, 0);
    for round in 0..300 {
        let disturb = async {
            // Sooner or later, so that in some rounds the write is under way.
            for _ in 0..round % 7 {
                tokio::task::yield_now().await;
            }
            server.drop_connections();
        };
        match soon(async { tokio::join!(total.add(1), disturb).0 }).await {
            Ok(_) => sure += 1,
            Err(Error::Client(error)) if error.outcome() == RequestOutcome::Unknown => unsure += 1,
            Err(error) => panic!("{error}"),
        }
    }
    let found = total.get().await.unwrap();
    assert!((sure..=sure + unsure).contains(&found), "{sure} for certain, {unsure} perhaps, {found} found");
}
