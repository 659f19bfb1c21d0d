//! Leader election: never two leaders, and a leader stops in time.

use crate::chaos::{Disruption, run_disrupted};
use crate::{builder, client, server, with_timeout};
use ox_recipes::leader::{LeaderLatch, LeaderSelector};
use ox_recipes::{LossCause, RecipeError};
use std::time::{Duration, Instant};

#[tokio::test]
async fn selector_has_one_leader_at_a_time() {
    for trouble in [Disruption::Drops, Disruption::Expiries] {
        run_disrupted(trouble, 5, 50, async |client, ledger, random| {
            let session = client.session().unwrap().id;
            let time = Duration::from_millis(random.below(8));
            let selector = LeaderSelector::new(client, "/master", &session.to_string());
            let led = selector.run_as_leader(|_| async {
                // Dropped work leaves the ledger as well.
                let _entry = Entry::new(ledger, session);
                tokio::time::sleep(time).await;
            });
            led.await
        })
        .await;
    }
}

struct Entry<'a>(&'a crate::chaos::Ledger, ox_client::SessionId);

impl<'a> Entry<'a> {
    fn new(ledger: &'a crate::chaos::Ledger, session: ox_client::SessionId) -> Self {
        ledger.enter(session, 1, |live| live.len() == 1);
        Self(ledger, session)
    }
}

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        self.0.leave(self.1, 1);
    }
}

#[tokio::test]
async fn leader_stops_before_its_session_can_expire() {
    let mut server = server();
    let client = builder(&server).session_timeout(Duration::from_secs(3)).connect().await.unwrap();
    let selector = LeaderSelector::new(&client, "/master", "a");
    let ended = with_timeout(selector.run_as_leader(|leadership| async move {
        assert!(leadership.is_safe());
        server.stop();
        std::future::pending::<()>().await;
    }))
    .await;
    assert!(Instant::now() < client.session_lost_after(), "stopped too late");
    assert!(matches!(ended, Err(RecipeError::Lost { cause: LossCause::NoReply, .. })), "{ended:?}");
}

#[tokio::test]
async fn leader_survives_connection_loss() {
    let server = server();
    let client = client(&server).await;
    let selector = LeaderSelector::new(&client, "/master", "a");
    let mut states = client.states();
    let led = selector.run_as_leader(|leadership| async {
        server.drop_connection(client.session().unwrap().id);
        while !matches!(states.next().await, Some(ox_client::SessionState::Suspended { .. })) {}
        while !states.next().await.unwrap().is_connected() {}
        drop(leadership);
    });
    with_timeout(led).await.unwrap();
}

#[tokio::test]
async fn next_candidate_leads_after_leader_expires() {
    let server = server();
    let mut clients = Vec::new();
    let mut latches = Vec::new();
    for name in ["a", "b", "c"] {
        let client = client(&server).await;
        latches.push(LeaderLatch::join(&client, "/latch", name).await.unwrap());
        clients.push(client);
    }
    let [a, b, c] = latches.try_into().unwrap();
    assert_eq!(c.participants().await.unwrap(), ["a", "b", "c"]);
    let first = a.await_leadership().await.unwrap();
    assert!(!b.has_leadership().await.unwrap());
    b.leave().await.unwrap();
    server.expire(clients[0].session().unwrap().id).unwrap();
    let last = with_timeout(c.await_leadership()).await.unwrap();
    assert!(first.token() < last.token());
    assert_eq!(with_timeout(first.lost()).await, LossCause::SessionEnded);
}
