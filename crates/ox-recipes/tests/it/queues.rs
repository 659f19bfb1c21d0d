//! Queues: no item is lost, and the order is kept.

use crate::chaos::{Disruption, run_disrupted};
use crate::{client, server, with_timeout};
use ox_recipes::RecipeError;
use ox_recipes::queue::{Queue, QueueItem};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

fn text(item: &QueueItem) -> String {
    String::from_utf8_lossy(item.data()).into_owned()
}

/// Workers put and take items while their sessions are disrupted. Every confirmed put is processed.
async fn check_no_loss(disruption: Disruption) {
    let (next, put, done) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()), Mutex::new(BTreeMap::new()));
    let finish = async |item: QueueItem| -> Result<(), RecipeError> {
        let name = text(&item);
        // Counted before it is confirmed: a repeated delivery is not a loss.
        *done.lock().entry(name).or_insert(0) += 1;
        item.done().await
    };
    let (_, server) = run_disrupted(disruption, 4, 60, async |client, book, random| {
        let queue = Queue::new(client, "/test/queue");
        if random.below(2) == 0 {
            let name = next.fetch_add(1, Ordering::Relaxed).to_string();
            let certain = match queue.put(&name).await {
                Err(RecipeError::Client(error)) if error.is_retriable() => false,
                other => other.map(|()| true)?,
            };
            put.lock().insert(name, certain);
        } else if let Some(item) = queue.take_within(Duration::from_millis(100)).await? {
            if random.below(4) == 0 {
                return Ok(()); // dropped: returned to the queue
            }
            finish(item).await?;
        }
        book.turns.fetch_add(1, Ordering::Relaxed);
        Ok(())
    })
    .await;
    let client = client(&server).await;
    let queue = Queue::new(&client, "/test/queue");
    while 0 < queue.count().await.unwrap() {
        let item = with_timeout(queue.take()).await.unwrap();
        finish(item).await.unwrap();
    }
    let (put, done) = (put.lock(), done.lock());
    assert!(20 < put.len());
    for (name, certain) in &*put {
        assert!(!certain || done.contains_key(name), "{name} is lost");
    }
    if disruption == Disruption::Drops {
        assert!(done.values().all(|count| *count == 1), "no session ended, so no item is delivered twice: {done:?}");
    }
}

#[tokio::test]
async fn queue_loses_no_item_across_connection_losses() {
    check_no_loss(Disruption::Drops).await;
}

#[tokio::test]
async fn queue_loses_no_item_across_session_expiry() {
    check_no_loss(Disruption::Expiries).await;
}

#[tokio::test]
async fn smaller_priority_is_taken_first() {
    let server = server();
    let queue = Queue::new(&client(&server).await, "/queue");
    for (name, priority) in [("c", 7), ("b", 0), ("a", -5), ("d", 7)] {
        queue.put_with_priority(name, priority).await.unwrap();
    }
    for name in ["a", "b", "c", "d"] {
        let item = with_timeout(queue.take()).await.unwrap();
        assert_eq!(text(&item), name);
        item.done().await.unwrap();
    }
    assert_eq!(queue.count().await.unwrap(), 0);
}

#[tokio::test]
async fn delayed_item_is_taken_when_due() {
    let server = server();
    let queue = Queue::delayed(&client(&server).await, "/queue");
    let now = SystemTime::now();
    let late = now + Duration::from_millis(300);
    queue.put_due("late", late).await.unwrap();
    queue.put_due("soon", now).await.unwrap();
    let item = with_timeout(queue.take()).await.unwrap();
    assert_eq!(text(&item), "soon");
    item.done().await.unwrap();
    let item = with_timeout(queue.take()).await.unwrap();
    assert_eq!(text(&item), "late");
    assert!(late <= SystemTime::now() + Duration::from_millis(1));
}

#[tokio::test]
async fn unfinished_items_return_to_the_queue() {
    let server = server();
    let (dying, living) = (client(&server).await, client(&server).await);
    let queue = Queue::new(&living, "/queue");
    queue.put("x").await.unwrap();
    drop(with_timeout(queue.take()).await.unwrap());
    let item = with_timeout(Queue::new(&dying, "/queue").take()).await.unwrap();
    assert!(queue.take_within(Duration::from_millis(50)).await.unwrap().is_none());
    let (again, expired) =
        tokio::join!(with_timeout(queue.take()), async { server.expire(dying.session().unwrap().id) });
    expired.unwrap();
    assert_eq!(again.unwrap().data(), item.data());
}

/// Items with due times, put and taken in disrupted sessions.
#[tokio::test]
async fn delayed_items_under_disruption_are_neither_early_nor_lost() {
    let millis = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis();
    let (next, put, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()), Mutex::new(Vec::new()));
    let finish = async |item: QueueItem| -> Result<(), RecipeError> {
        let name = text(&item);
        let due: u128 = name.split_once(' ').unwrap().0.parse().unwrap();
        assert!(due <= millis(), "too early");
        done.lock().push(name);
        item.done().await
    };
    let (_, server) = run_disrupted(Disruption::Expiries, 4, 60, async |client, book, random| {
        let queue = Queue::delayed(client, "/test/later");
        if random.below(2) == 0 {
            let wait = random.below(60);
            let name = format!("{} {}", millis() + u128::from(wait), next.fetch_add(1, Ordering::Relaxed));
            let due = name.split_once(' ').unwrap().0.parse().unwrap();
            match queue.put_due(&name, SystemTime::UNIX_EPOCH + Duration::from_millis(due)).await {
                Err(RecipeError::Client(error)) if error.is_retriable() => (), // the item may exist
                other => {
                    other?;
                    put.lock().push(name);
                }
            }
        } else if let Some(item) = queue.take_within(Duration::from_millis(100)).await? {
            if random.below(4) == 0 {
                return Ok(()); // dropped: returned to the queue
            }
            finish(item).await?;
        }
        book.turns.fetch_add(1, Ordering::Relaxed);
        Ok(())
    })
    .await;
    let client = client(&server).await;
    let queue = Queue::delayed(&client, "/test/later");
    while 0 < queue.count().await.unwrap() {
        finish(with_timeout(queue.take()).await.unwrap()).await.unwrap();
    }
    let done = done.lock();
    assert!(put.lock().iter().all(|name| done.contains(name)), "an item is lost");
}
