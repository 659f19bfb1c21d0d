//! Counters, barriers, groups and discovery, used by both.

use std::collections::BTreeSet;
use std::sync::Mutex;

use anyhow::{Result, ensure};
use ox_client::CreateMode;
use ox_recipes::barrier::{Barrier, DoubleBarrier};
use ox_recipes::counter::{AtomicLong, SharedCount};
use ox_recipes::discovery::{ProviderStrategy, ServiceInstance, ServiceProvider, register};
use ox_recipes::presence::GroupMember;

use super::case::{Case, Stage};

pub(super) async fn run(stage: &mut Stage) {
    stage.case("shared count", shared_count).await;
    stage.case("atomic long", atomic_long).await;
    stage.case("barrier", barrier).await;
    stage.case("double barrier", double_barrier).await;
    stage.case("group", group).await;
    stage.case("discovery", discovery).await;
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
    ensure!(usize::try_from(count.value)? == 4 * case.stage.rounds, "{count:?}");
    Ok(())
}

async fn atomic_long(case: &Case<'_>) -> Result<()> {
    let sums = Mutex::<BTreeSet<i64>>::default();
    let add = async {
        for _ in 0..case.stage.rounds {
            let sum = AtomicLong::new(&case.client, &case.path("total")).add(1).await?;
            sums.lock().expect("nobody panics with it").insert(sum);
        }
        anyhow::Ok(())
    };
    let rounds = case.stage.rounds.to_string();
    let (one, other, ()) = tokio::try_join!(case.ask("atomic-long", &rounds), case.ask("atomic-long", &rounds), add)?;
    let mut sums = sums.into_inner()?;
    for sum in [one, other].iter().flat_map(|sums| sums.split(' ')) {
        sums.insert(sum.parse()?);
    }
    let total = 3 * case.stage.rounds;
    ensure!(sums.len() == total && sums.last() == Some(&i64::try_from(total)?), "{sums:?}");
    Ok(())
}

async fn barrier(case: &Case<'_>) -> Result<()> {
    let gate = Barrier::new(&case.client, &case.path("gate"));
    gate.close().await?;
    let (waited, opened) = tokio::join!(case.ask("barrier-wait", ""), async {
        // Who has not begun to wait finds the gate open.
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        gate.open().await
    });
    waited?;
    opened?;
    case.ask("barrier-close", "").await?;
    ensure!(case.client.exists(&case.path("gate")).await?.is_some(), "Curator closes it");
    let (waited, opened) = tokio::join!(gate.wait(), case.ask("barrier-open", ""));
    waited?;
    opened?;
    Ok(())
}

/// Everybody signs before entering and before leaving; whoever is through finds all signatures.
async fn double_barrier(case: &Case<'_>) -> Result<()> {
    const CREW: usize = 4;
    case.node("come", "").await?;
    case.node("done", "").await?;
    let sign = async |list: &str| {
        case.client.create(&case.path(&format!("{list}/ours-")), b"", CreateMode::PersistentSequential).await
    };
    let all = async |list: &str| {
        let found = case.client.children(&case.path(list)).await?.len();
        ensure!(found == CREW, "{found} of {CREW} in {list}");
        Ok(())
    };
    let member = async || {
        let barrier = DoubleBarrier::new(&case.client, &case.path("crew"), CREW);
        sign("come").await?;
        let entered = barrier.enter().await?;
        all("come").await?;
        sign("done").await?;
        entered.leave().await?;
        all("done").await
    };
    let crew = CREW.to_string();
    let curator = || case.ask("double-barrier", &crew);
    tokio::try_join!(curator(), curator(), member(), member())?;
    Ok(())
}

async fn group(case: &Case<'_>) -> Result<()> {
    let mut member = GroupMember::join(&case.client, &case.path("group"), "ours", "from us").await?;
    let meet = async {
        while !member.members().contains_key("theirs") {
            member.changed().await?;
        }
        let shown = member.members()["theirs"].clone();
        case.node("bye", "").await?;
        while member.members().contains_key("theirs") {
            member.changed().await?;
        }
        anyhow::Ok(shown)
    };
    let (told, shown) = tokio::try_join!(case.ask("group", "theirs ours"), meet)?;
    ensure!((told.as_str(), shown.as_slice()) == ("from us", b"from curator"), "{told}, {shown:?}");
    Ok(())
}

async fn discovery(case: &Case<'_>) -> Result<()> {
    let own = ServiceInstance::new("mail", "10.0.0.1", 25).with_payload("ours".to_owned());
    let registered = register(&case.client, &case.path("services"), &own).await?;
    let mut service =
        ServiceProvider::<String>::follow(&case.client, &case.path("services"), "mail", ProviderStrategy::RoundRobin)
            .await?;
    let meet = async {
        while service.instances().len() < 2 {
            service.changed().await?;
        }
        let payloads: BTreeSet<_> =
            [service.pick(), service.pick()].into_iter().flatten().map(|one| one.payload).collect();
        case.node("bye", "").await?;
        while 1 < service.instances().len() {
            service.changed().await?;
        }
        anyhow::Ok(payloads)
    };
    let (told, payloads) = tokio::try_join!(case.ask("discovery", ""), meet)?;
    ensure!(told == "10.0.0.1:25=ours,true 10.0.0.2:25=curator,true", "Curator sees {told}");
    ensure!(payloads.into_iter().flatten().eq(["curator", "ours"]), "we see both");
    Ok(registered.stop().await?)
}
