//! Locks and elections that Curator's clients and ours want at the same time.

use anyhow::{Result, ensure};
use ox_recipes::leader::{LeaderLatch, LeaderSelector};
use ox_recipes::lock::Lock;
use ox_recipes::multi_lock::MultiLock;
use ox_recipes::rw_lock::RwLock;
use ox_recipes::semaphore::Semaphore;
use tokio::time::sleep;

use super::case::{Case, SHORT_SESSION, Stage};
use super::critical_section::Book;

/// Between two looks at a lock.
const LOOK_AGAIN: std::time::Duration = std::time::Duration::from_millis(20);

/// Leases of the semaphore.
const LEASES: usize = 2;

pub(super) async fn run(stage: &mut Stage) {
    stage.case("exclusive lock", exclusive_lock).await;
    stage.case("several locks", several_locks).await;
    stage.case("read and write lock", read_and_write_lock).await;
    stage.case("semaphore", semaphore).await;
    stage.case("leader latch", leader_latch).await;
    stage.case("leader selector", leader_selector).await;
    stage.case("revocation by curator", revocation_by_curator).await;
    stage.case("revocation of curator", revocation_of_curator).await;
    stage.case("an owner of ours dies", own_death).await;
}

/// What the partner does not survive.
pub(super) async fn run_last(stage: &mut Stage) {
    stage.case("an owner of curators dies", partner_death).await;
}

async fn exclusive_lock(case: &Case<'_>) -> Result<()> {
    case.contend_alone("lock", true, async |client, book| {
        let held = Lock::new(client, &case.path("lock")).acquire().await?;
        book.alone(client, held.token()).await?;
        Ok(held.release().await?)
    })
    .await
}

async fn several_locks(case: &Case<'_>) -> Result<()> {
    case.contend_alone("multi-lock", false, async |client, book| {
        let held = MultiLock::new(client, [case.path("b"), case.path("a")]).acquire().await?;
        book.alone(client, held.guards()[1].token()).await?;
        Ok(held.release().await?)
    })
    .await
}

async fn read_and_write_lock(case: &Case<'_>) -> Result<()> {
    let book = Book::open(case).await?;
    let readers = |names: &[String]| names.iter().all(|name| name.starts_with('r'));
    let work = async |client: &ox_client::Client, round: usize| {
        let lock = RwLock::new(client, &case.path("lock"));
        let reader = if round.is_multiple_of(3) {
            let writer = lock.write().await?;
            book.alone(client, writer.token()).await?;
            if round.is_multiple_of(2) {
                lock.downgrade(writer).await?
            } else {
                writer.release().await?;
                lock.read().await?
            }
        } else {
            lock.read().await?
        };
        book.among(client, readers).await?;
        Ok(reader.release().await?)
    };
    case.contend("rw-lock", "", true, work).await?;
    book.check(4 * case.stage.rounds.div_ceil(3)).await
}

async fn semaphore(case: &Case<'_>) -> Result<()> {
    let book = Book::open(case).await?;
    let work = async |client: &ox_client::Client, _| {
        let lease = Semaphore::new(client, &case.path("pool"), LEASES).acquire().await?;
        book.among(client, |names| names.len() <= LEASES).await?;
        Ok(lease.release().await?)
    };
    case.contend("semaphore", &LEASES.to_string(), true, work).await
}

/// Curator's latch leaves the line when its connection is lost, so connections stay here.
async fn leader_latch(case: &Case<'_>) -> Result<()> {
    case.contend_alone("latch", false, async |client, book| {
        let leadership = LeaderLatch::join(client, &case.path("latch"), "ours").await?.await_leadership().await?;
        book.alone(client, leadership.token()).await?;
        Ok(leadership.release().await?)
    })
    .await
}

/// Curator's selector gives up when its connection is lost, so connections stay here.
async fn leader_selector(case: &Case<'_>) -> Result<()> {
    case.contend_alone("selector", false, async |client, book| {
        let selector = LeaderSelector::new(client, &case.path("selector"), "ours");
        selector.run_as_leader(async |leadership| book.alone(client, leadership.token()).await).await?
    })
    .await
}

async fn revocation_by_curator(case: &Case<'_>) -> Result<()> {
    let held = Lock::new(&case.client, &case.path("lock")).acquire().await?;
    let (asked, told) = tokio::join!(held.revocation_requested(), case.ask("revoke", ""));
    asked?;
    told?;
    Ok(held.release().await?)
}

async fn revocation_of_curator(case: &Case<'_>) -> Result<()> {
    let lock = Lock::new(&case.client, &case.path("lock"));
    let ask = async {
        // Whoever asks before Curator watches its node is not heard.
        while !lock.revoke().await? {
            sleep(LOOK_AGAIN).await;
        }
        let held = loop {
            if let Some(held) = lock.acquire_within(LOOK_AGAIN).await? {
                break held;
            }
            lock.revoke().await?;
        };
        held.release().await
    };
    let (told, asked) = tokio::join!(case.ask("hold", ""), ask);
    asked?;
    ensure!(told? == "asked", "Curator is told");
    Ok(())
}

async fn own_death(case: &Case<'_>) -> Result<()> {
    Book::open(case).await?;
    let dying = case.connect(SHORT_SESSION).await?;
    let held = Lock::new(&dying, &case.path("lock")).acquire().await?;
    dying.detach();
    case.ask("lock", "1").await?;
    ensure!(!held.is_safe(), "the owner knows that it may be one no more");
    Ok(())
}

async fn partner_death(case: &Case<'_>) -> Result<()> {
    let lock = Lock::new(&case.client, &case.path("lock"));
    ensure!(case.ask_briefly("die").await.is_err(), "the partner ends");
    ensure!(lock.participants().await?.len() == 1, "the lock is held");
    Ok(lock.acquire().await?.release().await?)
}
