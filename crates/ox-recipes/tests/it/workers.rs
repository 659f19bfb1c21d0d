//! Task coordination: every task has one worker, whichever workers join and leave.

use crate::chaos::{Disruption, run_disrupted};
use crate::{client, server, with_timeout};
use ox_recipes::RecipeError;
use ox_recipes::tasks::{TaskList, TaskWorker};
use ox_testkit::Rng;
use std::sync::atomic::Ordering;
use std::time::Duration;

#[tokio::test]
async fn standby_worker_takes_over_after_expiry() {
    let server = server();
    let (first, second) = (client(&server).await, client(&server).await);
    let tasks = TaskList::new(&second, "/crew");
    assert!(tasks.add("t", "do it").await.unwrap());
    assert!(!tasks.add("t", "do it").await.unwrap());
    let alice = TaskWorker::join(&first, "/crew", "alice").await.unwrap();
    let mut bob = TaskWorker::join(&second, "/crew", "bob").await.unwrap();
    assert_eq!((alice.tasks(), bob.tasks()), (vec!["t".to_owned()], vec![]));
    alice.commit("t", "17").await.unwrap();
    server.expire(first.session().unwrap().id).unwrap();
    with_timeout(async {
        while bob.tasks().is_empty() {
            bob.rebalance().await.unwrap();
        }
    })
    .await;
    assert_eq!(tasks.progress("t").await.unwrap().as_deref(), Some(&b"17"[..]));
    assert!(alice.commit("t", "16").await.is_err(), "the task is no longer assigned to alice");
    bob.commit("t", "18").await.unwrap();
    tasks.remove("t").await.unwrap();
    with_timeout(async {
        while !bob.tasks().is_empty() {
            bob.rebalance().await.unwrap();
        }
    })
    .await;
    bob.rebalance().await.unwrap();
    assert!(matches!(bob.commit("t", "19").await, Err(RecipeError::Lost { .. })));
}

#[tokio::test]
async fn joining_worker_receives_its_share() {
    let server = server();
    let (first, second) = (client(&server).await, client(&server).await);
    let tasks = TaskList::new(&first, "/crew");
    for number in 0..5 {
        tasks.add(&number.to_string(), "").await.unwrap();
    }
    let mut alice = TaskWorker::join(&first, "/crew", "alice").await.unwrap();
    assert_eq!(alice.tasks().len(), 5);
    let mut bob = TaskWorker::join(&second, "/crew", "bob").await.unwrap();
    with_timeout(async {
        while (alice.tasks().len(), bob.tasks().len()) != (3, 2) {
            tokio::select! {
                done = alice.rebalance() => done.unwrap(),
                done = bob.rebalance() => done.unwrap(),
            }
        }
    })
    .await;
    alice.leave().await.unwrap();
    with_timeout(async {
        while bob.tasks().len() != 5 {
            bob.rebalance().await.unwrap();
        }
    })
    .await;
}

/// Workers whose sessions expire at random: no task has two workers with live sessions.
#[tokio::test]
async fn task_never_has_two_live_workers() {
    run_disrupted(Disruption::Expiries, 4, 60, async |client, book, random| {
        let tasks = TaskList::new(client, "/crew");
        tasks.add("a", "").await?;
        tasks.add("b", "").await?;
        let session = client.session().unwrap().id;
        let mut worker = TaskWorker::join(client, "/crew", "w").await?;
        for _ in 0..3 {
            let own = worker.tasks();
            for task in &own {
                let weight = usize::from(task.as_bytes()[0]);
                book.enter(session, weight, |live| live.iter().filter(|other| **other == weight).count() == 1);
            }
            tokio::time::sleep(Duration::from_millis(random.below(5))).await;
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

/// A worker with surplus tasks stops before others start them.
#[tokio::test]
async fn task_starts_only_after_previous_worker_stopped() {
    let server = server();
    let (first, second) = (client(&server).await, client(&server).await);
    let tasks = TaskList::new(&first, "/crew");
    tasks.add("a", "").await.unwrap();
    tasks.add("b", "").await.unwrap();
    let mut alice = TaskWorker::join(&first, "/crew", "alice").await.unwrap();
    let mut bob = TaskWorker::join(&second, "/crew", "bob").await.unwrap();
    with_timeout(async {
        while alice.tasks().len() == 2 {
            alice.rebalance().await.unwrap();
        }
    })
    .await;
    assert_eq!(alice.tasks(), ["a"]);
    assert!(second.exists("/crew/owners/b").await.unwrap().is_some(), "alice may still be processing it");
    alice.commit("b", "9").await.unwrap();
    alice.rebalance().await.unwrap();
    with_timeout(async {
        while bob.tasks() != ["b"] {
            bob.rebalance().await.unwrap();
        }
    })
    .await;
    assert!(matches!(alice.commit("b", "8").await, Err(RecipeError::Lost { .. })));
}

/// Servers delete containers that have been empty for a while.
#[tokio::test]
async fn task_list_survives_deletion_of_empty_containers() {
    let server = server();
    let (first, second) = (client(&server).await, client(&server).await);
    let mut alice = TaskWorker::join(&first, "/crew", "alice").await.unwrap();
    let bob = TaskWorker::join(&second, "/crew", "bob").await.unwrap();
    for list in ["tasks", "owners", "progress"] {
        first.delete(&format!("/crew/{list}"), ox_client::Version::Any).await.unwrap();
    }
    bob.leave().await.unwrap();
    with_timeout(alice.rebalance()).await.unwrap();
    TaskList::new(&second, "/crew").add("t", "").await.unwrap();
    with_timeout(async {
        while alice.tasks().is_empty() {
            alice.rebalance().await.unwrap();
        }
    })
    .await;
    alice.commit("t", "1").await.unwrap();
}

/// Workers join and leave in disrupted sessions; the remaining ones end up with all tasks, evenly shared.
#[tokio::test]
async fn all_tasks_are_assigned_in_the_end() {
    const TASKS: usize = 7;
    const WORKERS: usize = 3;
    let seed = crate::chaos::seed();
    let server = server();
    let mut staying = Vec::new();
    let count = std::sync::Arc::<[std::sync::atomic::AtomicUsize; WORKERS]>::default();
    let tasks = TaskList::new(&client(&server).await, "/crew");
    for number in 0..WORKERS {
        let (client, count, mut random) =
            (client(&server).await, std::sync::Arc::clone(&count), Rng::new(seed ^ number as u64));
        staying.push(tokio::spawn(async move {
            for _ in 0..random.below(4) {
                let mut worker = TaskWorker::join(&client, "/crew", "w").await.unwrap();
                for _ in 0..random.below(4) {
                    let limit = Duration::from_millis(random.below(30));
                    if let Ok(done) = tokio::time::timeout(limit, worker.rebalance()).await {
                        done.unwrap();
                    }
                }
                if random.below(2) == 0 {
                    worker.leave().await.unwrap();
                }
            }
            let mut worker = TaskWorker::join(&client, "/crew", "w").await.unwrap();
            loop {
                count[number].store(worker.tasks().len(), Ordering::SeqCst);
                worker.rebalance().await.unwrap();
            }
        }));
    }
    let mut random = Rng::new(seed);
    for number in 0..TASKS {
        tasks.add(&number.to_string(), "").await.unwrap();
        tokio::time::sleep(Duration::from_millis(random.below(20))).await;
        server.drop_connections();
    }
    with_timeout(async {
        loop {
            let mut shares: Vec<_> = count.iter().map(|count| count.load(Ordering::SeqCst)).collect();
            shares.sort_unstable();
            if shares == [2, 2, 3] {
                return;
            }
            assert!(staying.iter().all(|task| !task.is_finished()));
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    staying.iter().for_each(|task| task.abort());
}
