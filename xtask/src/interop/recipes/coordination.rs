//! Counters, barriers, groups and service discovery that Curator's clients and ours use together.

use std::collections::BTreeSet;
use std::sync::Mutex;

use anyhow::{Result, ensure};
use ox_client::CreateMode;
use ox_recipes::barrier::{Barrier, DoubleBarrier};
use ox_recipes::counter::{AtomicLong, SharedCount};
use ox_recipes::discovery::{ProviderStrategy, ServiceInstance, ServiceProvider, register};
use ox_recipes::presence::GroupMember;

use super::case::{Case, RecipeRunner};

pub(super) async fn run(runner: &mut RecipeRunner) {
    runner.case("shared count", shared_count).await;
    runner.case("atomic long", atomic_long).await;
    runner.case("barrier", barrier).await;
    runner.case("double barrier", double_barrier).await;
    runner.case("group", group).await;
    runner.case("discovery", discovery).await;
}

async fn shared_count(case: &Case<'_>) -> Result<()> {
    let work = async |client: &ox_client::Client, _| {
        let count = SharedCount::open(client, &case.path("count"), 0).await?;
        loop {
            let seen = count.get().await?;
            if count.try_set(seen, seen.value + 1).await? {
                return Ok(());
            }
        }
    };
    case.contend("shared-count", "", false, work).await?;
    let count = SharedCount::open(&case.client, &case.path("count"), 0).await?.get().await?;
    ensure!(usize::try_from(count.value)? == 4 * case.runner.rounds, "{count:?}");
    Ok(())
}

async fn atomic_long(case: &Case<'_>) -> Result<()> {
    let sums = Mutex::<BTreeSet<i64>>::default();
    let add = async {
        for _ in 0..case.runner.rounds {
            let sum = AtomicLong::new(&case.client, &case.path("total")).add(1).await?;
            sums.lock().expect("no panic under the lock").insert(sum);
        }
        anyhow::Ok(())
    };
    let rounds = case.runner.rounds.to_string();
    let (one, other, ()) =
        tokio::try_join!(case.curator("atomic-long", &rounds), case.curator("atomic-long", &rounds), add)?;
    let mut sums = sums.into_inner()?;
    for sum in [one, other].iter().flat_map(|sums| sums.split(' ')) {
        sums.insert(sum.parse()?);
    }
    let total = 3 * case.runner.rounds;
    ensure!(sums.len() == total && sums.last() == Some(&i64::try_from(total)?), "{sums:?}");
    Ok(())
}

async fn barrier(case: &Case<'_>) -> Result<()> {
    let barrier = Barrier::new(&case.client, &case.path("barrier"));
    barrier.close().await?;
    let (waited, opened) = tokio::join!(case.curator("barrier-wait", ""), async {
        // Lets Curator begin to wait. If it begins later, it finds the barrier open, which is fine, too.
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        barrier.open().await
    });
    waited?;
    opened?;
    case.curator("barrier-close", "").await?;
    ensure!(case.client.exists(&case.path("barrier")).await?.is_some(), "Curator did not close the barrier");
    let (waited, opened) = tokio::join!(barrier.wait(), case.curator("barrier-open", ""));
    waited?;
    opened?;
    Ok(())
}

/// Each client creates a node before it enters and another before it leaves. After each step all nodes must exist.
async fn double_barrier(case: &Case<'_>) -> Result<()> {
    const CLIENTS: usize = 4;
    case.node("entering", "").await?;
    case.node("leaving", "").await?;
    let register = async |list: &str| {
        case.client.create(&case.path(&format!("{list}/ours-")), b"", CreateMode::PersistentSequential).await
    };
    let check_all = async |list: &str| {
        let found = case.client.children(&case.path(list)).await?.len();
        ensure!(found == CLIENTS, "{found} of {CLIENTS} clients in {list}");
        Ok(())
    };
    let member = async || {
        let barrier = DoubleBarrier::new(&case.client, &case.path("barrier"), CLIENTS);
        register("entering").await?;
        let entered = barrier.enter().await?;
        check_all("entering").await?;
        register("leaving").await?;
        entered.leave().await?;
        check_all("leaving").await
    };
    let clients = CLIENTS.to_string();
    let curator = || case.curator("double-barrier", &clients);
    tokio::try_join!(curator(), curator(), member(), member())?;
    Ok(())
}

async fn group(case: &Case<'_>) -> Result<()> {
    let mut member = GroupMember::join(&case.client, &case.path("group"), "ours", "from us").await?;
    let observe = async {
        while !member.members().contains_key("theirs") {
            member.changed().await?;
        }
        let shown = member.members()["theirs"].clone();
        case.node("stop", "").await?;
        while member.members().contains_key("theirs") {
            member.changed().await?;
        }
        anyhow::Ok(shown)
    };
    let (reply, shown) = tokio::try_join!(case.curator("group", "theirs ours"), observe)?;
    ensure!((reply.as_str(), shown.as_slice()) == ("from us", b"from curator"), "{reply}, {shown:?}");
    Ok(())
}

async fn discovery(case: &Case<'_>) -> Result<()> {
    let instance = ServiceInstance::new("mail", "10.0.0.1", 25).with_payload("ours".to_owned());
    let registered = register(&case.client, &case.path("services"), &instance).await?;
    let mut service =
        ServiceProvider::<String>::follow(&case.client, &case.path("services"), "mail", ProviderStrategy::RoundRobin)
            .await?;
    let observe = async {
        while service.instances().len() < 2 {
            service.changed().await?;
        }
        let payloads: BTreeSet<_> =
            [service.pick(), service.pick()].into_iter().flatten().map(|one| one.payload).collect();
        case.node("stop", "").await?;
        while 1 < service.instances().len() {
            service.changed().await?;
        }
        anyhow::Ok(payloads)
    };
    let (reply, payloads) = tokio::try_join!(case.curator("discovery", ""), observe)?;
    ensure!(reply == "10.0.0.1:25=ours,true 10.0.0.2:25=curator,true", "Curator sees {reply}");
    ensure!(payloads.into_iter().flatten().eq(["curator", "ours"]), "we do not see both instances");
    Ok(registered.stop().await?)
}
