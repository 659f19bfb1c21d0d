//! Never two leaders, and a leader stops in time.

use crate::chaos::{Trouble, disturb};
use crate::{builder, client, server, soon};
use ox_recipes::Error;
use ox_recipes::leader::{LeaderLatch, LeaderSelector};
use rand::RngExt;
use std::time::{Duration, Instant};

#[tokio::test]
async fn one_leader_at_a_time() {
    for trouble in [Trouble::Drops, Trouble::Expiries] {
        disturb(trouble, 5, 50, async |client, book, random| {
            let session = client.session().unwrap().id;
            let time = Duration::from_millis(random.random_range(0..8));
            let selector = LeaderSelector::new(client, "/master", &session.to_string());
            let led = selector.run_as_leader(|_| async {
                // Work that is dropped on the way leaves the book as well.
                let _entry = Entry::new(book, session);
                tokio::time::sleep(time).await;
            });
            led.await
        })
        .await;
    }
}

struct Entry<'a>(&'a crate::chaos::Book, ox_client::SessionId);

impl<'a> Entry<'a> {
    fn new(book: &'a crate::chaos::Book, session: ox_client::SessionId) -> Self {
        book.enter(session, 1, |live| live.len() == 1);
        Self(book, session)
    }
}

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        self.0.leave(self.1, 1);
    }
}

#[tokio::test]
async fn a_leader_stops_before_its_session_can_be_lost() {
    let mut server = server();
    let client = builder(&server).session_timeout(Duration::from_secs(3)).connect().await.unwrap();
    let selector = LeaderSelector::new(&client, "/master", "a");
    let ended = soon(selector.run_as_leader(|leadership| async move {
        assert!(leadership.is_safe());
        server.stop();
        std::future::pending::<()>().await;
    }))
    .await;
    assert!(Instant::now() < client.session_lost_after(), "stopped too late");
    assert!(matches!(ended, Err(Error::Lost { .. })), "{ended:?}");
}

#[tokio::test]
async fn a_leader_goes_on_over_a_lost_connection() {
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
    soon(led).await.unwrap();
}

#[tokio::test]
async fn the_next_in_line_leads_when_the_leader_is_gone() {
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
    let first = a.lead().await.unwrap();
    assert!(!b.leads().await.unwrap());
    b.leave().await.unwrap();
    server.expire(clients[0].session().unwrap().id).unwrap();
    let last = soon(c.lead()).await.unwrap();
    assert!(first.token() < last.token());
    soon(first.lost()).await;
}
