//! Barriers: no member passes too early, and none is left behind.

use crate::{client, server, with_timeout};
use ox_client::Client;
use ox_recipes::barrier::{Barrier, DoubleBarrier};
use ox_testkit::{Rng, ServerFixture};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Runs `work` while connections are dropped at random.
async fn with_drops<T>(server: &ServerFixture, seed: u64, work: impl Future<Output = T>) -> T {
    let mut random = Rng::new(seed);
    let drops = async {
        loop {
            tokio::time::sleep(Duration::from_millis(1 + random.below(19))).await;
            let sessions = server.sessions();
            if !sessions.is_empty() {
                server.drop_connection(sessions[random.index(sessions.len())]);
            }
        }
    };
    tokio::select! {
        done = with_timeout(work) => done,
        () = drops => unreachable!("connections are dropped forever"),
    }
}

async fn member(client: Client, rounds: usize, count: usize, arrived: Arc<AtomicUsize>, left: Arc<AtomicUsize>) {
    let barrier = DoubleBarrier::new(&client, "/crew", count);
    for round in 0..rounds {
        arrived.fetch_add(1, Ordering::SeqCst);
        let entered = barrier.enter().await.unwrap();
        assert!((round + 1) * count <= arrived.load(Ordering::SeqCst), "too early");
        left.fetch_add(1, Ordering::SeqCst);
        entered.leave().await.unwrap();
        assert!((round + 1) * count <= left.load(Ordering::SeqCst), "others are still inside");
    }
}

#[tokio::test]
async fn double_barrier_members_enter_and_leave_together() {
    const COUNT: usize = 4;
    let seed = crate::chaos::seed();
    let server = server();
    let (arrived, left) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
    let mut tasks = Vec::new();
    for _ in 0..COUNT {
        let client = client(&server).await;
        tasks.push(tokio::spawn(member(client, 8, COUNT, Arc::clone(&arrived), Arc::clone(&left))));
    }
    with_drops(&server, seed, async {
        for task in tasks {
            task.await.unwrap();
        }
    })
    .await;
}

#[tokio::test]
async fn removed_barrier_releases_all_waiters() {
    let seed = crate::chaos::seed();
    let server = server();
    let keeper = client(&server).await;
    let gate = Barrier::new(&keeper, "/test/gate");
    let others = [client(&server).await, client(&server).await, client(&server).await];
    with_drops(&server, seed, async {
        for _ in 0..10 {
            gate.close().await.unwrap();
            let waiting = others
                .clone()
                .map(|client| tokio::spawn(async move { Barrier::new(&client, "/test/gate").wait().await }));
            tokio::time::sleep(Duration::from_millis(20)).await;
            assert!(waiting.iter().all(|task| !task.is_finished()), "the barrier is set");
            gate.open().await.unwrap();
            for task in waiting {
                task.await.unwrap().unwrap();
            }
        }
    })
    .await;
}

#[tokio::test]
async fn members_expired_inside_do_not_open_the_next_round() {
    let server = server();
    let dying = client(&server).await;
    let entered = with_timeout(DoubleBarrier::new(&dying, "/crew", 1).enter()).await.unwrap();
    server.expire(dying.session().unwrap().id).unwrap();
    drop(entered);
    let living = client(&server).await;
    let barrier = DoubleBarrier::new(&living, "/crew", 2);
    assert!(tokio::time::timeout(Duration::from_millis(100), barrier.enter()).await.is_err());
    let (one, other) = with_timeout(async { tokio::join!(barrier.enter(), barrier.enter()) }).await;
    let (one, other) = tokio::join!(with_timeout(one.unwrap().leave()), with_timeout(other.unwrap().leave()));
    one.and(other).unwrap();
}
