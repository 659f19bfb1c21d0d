//! Every task has one worker, whoever comes and goes.

use crate::chaos::{Trouble, disturb};
use crate::{client, server, soon};
use ox_recipes::Error;
use ox_recipes::tasks::{Tasks, Worker};
use rand::RngExt;
use std::sync::atomic::Ordering;
use std::time::Duration;

#[tokio::test]
async fn a_spare_takes_over() {
    let server = server();
    let (first, second) = (client(&server).await, client(&server).await);
    let tasks = Tasks::new(&second, "/work");
    assert!(tasks.add("t", "do it").await.unwrap());
    assert!(!tasks.add("t", "do it").await.unwrap());
    let alice = Worker::join(&first, "/work", "alice").await.unwrap();
    let mut bob = Worker::join(&second, "/work", "bob").await.unwrap();
    assert_eq!((alice.tasks(), bob.tasks()), (vec!["t".to_owned()], vec![]));
    alice.commit("t", "17").await.unwrap();
    server.expire(first.session().unwrap().id).unwrap();
    soon(async {
        while bob.tasks().is_empty() {
            bob.rebalance().await.unwrap();
        }
    })
    .await;
    assert_eq!(tasks.progress("t").await.unwrap().as_deref(), Some(&b"17"[..]));
    assert!(alice.commit("t", "16").await.is_err(), "it is not hers any more");
    bob.commit("t", "18").await.unwrap();
    tasks.remove("t").await.unwrap();
    soon(async {
        while !bob.tasks().is_empty() {
            bob.rebalance().await.unwrap();
        }
    })
    .await;
    assert!(matches!(bob.commit("t", "19").await, Err(Error::Lost { .. })));
}

#[tokio::test]
async fn a_new_worker_gets_its_share() {
    let server = server();
    let (first, second) = (client(&server).await, client(&server).await);
    let tasks = Tasks::new(&first, "/work");
    for number in 0..5 {
        tasks.add(&number.to_string(), "").await.unwrap();
    }
    let mut alice = Worker::join(&first, "/work", "alice").await.unwrap();
    assert_eq!(alice.tasks().len(), 5);
    let mut bob = Worker::join(&second, "/work", "bob").await.unwrap();
    soon(async {
        while (alice.tasks().len(), bob.tasks().len()) != (3, 2) {
            tokio::select! {
                done = alice.rebalance() => done.unwrap(),
                done = bob.rebalance() => done.unwrap(),
            }
        }
    })
    .await;
    alice.leave().await.unwrap();
    soon(async {
        while bob.tasks().len() != 5 {
            bob.rebalance().await.unwrap();
        }
    })
    .await;
}

/// Workers whose sessions end at random: no task has two workers with live sessions.
#[tokio::test]
async fn no_task_has_two_workers() {
    disturb(Trouble::Expiries, 4, 60, async |client, book, random| {
        let tasks = Tasks::new(client, "/work");
        tasks.add("a", "").await?;
        tasks.add("b", "").await?;
        let session = client.session().unwrap().id;
        let mut worker = Worker::join(client, "/work", "w").await?;
        for _ in 0..3 {
            let own = worker.tasks();
            for task in &own {
                let weight = usize::from(task.as_bytes()[0]);
                book.enter(session, weight, |live| live.iter().filter(|other| **other == weight).count() == 1);
            }
            tokio::time::sleep(Duration::from_millis(random.random_range(0..5))).await;
            own.iter().for_each(|task| book.leave(session, usize::from(task.as_bytes()[0])));
            if own.is_empty() {
                book.turns.fetch_add(1, Ordering::Relaxed);
            }
            if let Ok(done) = tokio::time::timeout(Duration::from_millis(20), worker.rebalance()).await {
                done?;
            }
        }
        worker.leave().await
    })
    .await;
}
