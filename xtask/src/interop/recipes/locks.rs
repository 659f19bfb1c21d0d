//! Locks and elections for which Curator's clients and ours compete.

use anyhow::{Result, ensure};
use ox_recipes::leader::{LeaderLatch, LeaderSelector};
use ox_recipes::lock::Lock;
use ox_recipes::multi_lock::MultiLock;
use ox_recipes::rw_lock::RwLock;
use ox_recipes::semaphore::Semaphore;
use tokio::time::sleep;

use super::case::{Case, RecipeRunner, SHORT_SESSION_TIMEOUT};
use super::critical_section::CriticalSection;

const POLL: std::time::Duration = std::time::Duration::from_millis(20);

const LEASES: usize = 2;

pub(super) async fn run(runner: &mut RecipeRunner) {
    runner.case("exclusive lock", exclusive_lock).await;
    runner.case("several locks", several_locks).await;
    runner.case("read and write lock", read_and_write_lock).await;
    runner.case("semaphore", semaphore).await;
    runner.case("leader latch", leader_latch).await;
    runner.case("leader selector", leader_selector).await;
    runner.case("revocation by curator", revocation_by_curator).await;
    runner.case("revocation of curator", revocation_of_curator).await;
    runner.case("our lock owner dies", our_owner_dies).await;
}

/// The case that ends the Curator process.
pub(super) async fn run_last(runner: &mut RecipeRunner) {
    runner.case("curator's lock owner dies", curator_owner_dies).await;
}

async fn exclusive_lock(case: &Case<'_>) -> Result<()> {
    case.contend_exclusively("lock", true, async |client, section| {
        let held = Lock::new(client, &case.path("lock")).acquire().await?;
        section.enter_exclusively(client, held.token()).await?;
        Ok(held.release().await?)
    })
    .await
}

async fn several_locks(case: &Case<'_>) -> Result<()> {
    case.contend_exclusively("multi-lock", false, async |client, section| {
        let held = MultiLock::new(client, [case.path("b"), case.path("a")]).acquire().await?;
        section.enter_exclusively(client, held.guards()[1].token()).await?;
        Ok(held.release().await?)
    })
    .await
}

async fn read_and_write_lock(case: &Case<'_>) -> Result<()> {
    let section = CriticalSection::open(case).await?;
    let readers = |names: &[String]| names.iter().all(|name| name.starts_with('r'));
    let work = async |client: &ox_client::Client, round: usize| {
        let lock = RwLock::new(client, &case.path("lock"));
        let reader = if round.is_multiple_of(3) {
            let writer = lock.write().await?;
            section.enter_exclusively(client, writer.token()).await?;
            if round.is_multiple_of(2) {
                lock.downgrade(writer).await?
            } else {
                writer.release().await?;
                lock.read().await?
            }
        } else {
            lock.read().await?
        };
        section.enter_shared(client, readers).await?;
        Ok(reader.release().await?)
    };
    case.contend("rw-lock", "", true, work).await?;
    section.check(4 * case.runner.rounds.div_ceil(3)).await
}

async fn semaphore(case: &Case<'_>) -> Result<()> {
    let section = CriticalSection::open(case).await?;
    let work = async |client: &ox_client::Client, _| {
        let lease = Semaphore::new(client, &case.path("pool"), LEASES).acquire().await?;
        section.enter_shared(client, |names| names.len() <= LEASES).await?;
        Ok(lease.release().await?)
    };
    case.contend("semaphore", &LEASES.to_string(), true, work).await
}

/// Without dropped connections, because Curator's latch then deletes its node.
async fn leader_latch(case: &Case<'_>) -> Result<()> {
    case.contend_exclusively("latch", false, async |client, section| {
        let leadership = LeaderLatch::join(client, &case.path("latch"), "ours").await?.await_leadership().await?;
        section.enter_exclusively(client, leadership.token()).await?;
        Ok(leadership.release().await?)
    })
    .await
}

/// Without dropped connections, because Curator's selector then ends.
async fn leader_selector(case: &Case<'_>) -> Result<()> {
    case.contend_exclusively("selector", false, async |client, section| {
        let selector = LeaderSelector::new(client, &case.path("selector"), "ours");
        selector.run_as_leader(async |leadership| section.enter_exclusively(client, leadership.token()).await).await?
    })
    .await
}

async fn revocation_by_curator(case: &Case<'_>) -> Result<()> {
    let held = Lock::new(&case.client, &case.path("lock")).acquire().await?;
    let (requested, reply) = tokio::join!(held.revocation_requested(), case.curator("revoke", ""));
    requested?;
    reply?;
    Ok(held.release().await?)
}

async fn revocation_of_curator(case: &Case<'_>) -> Result<()> {
    let lock = Lock::new(&case.client, &case.path("lock"));
    let revoke = async {
        // Curator misses a request that arrives before it has set its watch, so the request is repeated.
        while !lock.revoke().await? {
            sleep(POLL).await;
        }
        let held = loop {
            if let Some(held) = lock.acquire_within(POLL).await? {
                break held;
            }
            lock.revoke().await?;
        };
        held.release().await
    };
    let (reply, revoked) = tokio::join!(case.curator("hold", ""), revoke);
    revoked?;
    ensure!(reply? == "revoked", "Curator did not receive the request");
    Ok(())
}

async fn our_owner_dies(case: &Case<'_>) -> Result<()> {
    CriticalSection::open(case).await?;
    let dying = case.connect(SHORT_SESSION_TIMEOUT).await?;
    let held = Lock::new(&dying, &case.path("lock")).acquire().await?;
    dying.detach();
    case.curator("lock", "1").await?;
    ensure!(!held.is_safe(), "the former owner still considers its lock safe");
    Ok(())
}

async fn curator_owner_dies(case: &Case<'_>) -> Result<()> {
    let lock = Lock::new(&case.client, &case.path("lock"));
    ensure!(case.curator_with_short_session("die").await.is_err(), "the Curator worker did not end");
    ensure!(lock.participants().await?.len() == 1, "the lock has no owner");
    Ok(lock.acquire().await?.release().await?)
}
