//! Queues that Curator's clients and ours fill and empty together. A client that takes an item appends it to the
//! sequential nodes below `taken`.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Result, ensure};
use ox_client::CreateMode;
use ox_recipes::queue::{Queue, QueueItem};

use super::case::{Case, RecipeRunner};

pub(super) async fn run(runner: &mut RecipeRunner) {
    runner.case("queue", queue).await;
    runner.case("priority queue emptied by us", async |case| by_priority(case, false).await).await;
    runner.case("priority queue emptied by curator", async |case| by_priority(case, true).await).await;
    runner.case("delay queue emptied by us", async |case| by_time(case, false).await).await;
    runner.case("delay queue emptied by curator", async |case| by_time(case, true).await).await;
}

async fn record(case: &Case<'_>, item: QueueItem) -> Result<()> {
    case.client.create(&case.path("taken/n-"), item.data(), CreateMode::PersistentSequential).await?;
    Ok(item.done().await?)
}

/// The taken items, in the order of their nodes.
async fn taken(case: &Case<'_>) -> Result<Vec<String>> {
    let mut names = case.client.children(&case.path("taken")).await?;
    names.sort();
    let mut items = Vec::new();
    for name in names {
        let node = case.client.get(&case.path(&format!("taken/{name}"))).await?;
        items.push(String::from_utf8(node.data)?);
    }
    Ok(items)
}

/// Checks that neither items nor locks remain.
async fn check_empty(case: &Case<'_>) -> Result<()> {
    for list in ["queue", "queue-locks"] {
        let left = case.client.children(&case.path(list)).await?;
        ensure!(left.is_empty(), "{left:?} remain in {list}");
    }
    Ok(())
}

/// All clients put and take at the same time: every item is taken once.
async fn queue(case: &Case<'_>) -> Result<()> {
    case.node("taken", "").await?;
    let items = |source: &str| (0..case.runner.rounds).map(|number| format!("{source}-{number}")).collect::<Vec<_>>();
    let [theirs, ours] = ["theirs", "ours"].map(items);
    let total = theirs.len() + ours.len();
    let queue = Queue::new(&case.client, &case.path("queue"));
    let put = async {
        for item in &ours {
            queue.put(item).await?;
        }
        anyhow::Ok(())
    };
    let take = async {
        while case.client.children(&case.path("taken")).await?.len() < total {
            if let Some(item) = queue.take_within(Duration::from_millis(200)).await? {
                record(case, item).await?;
            }
        }
        anyhow::Ok(())
    };
    let (theirs_text, limit) = (theirs.join(" "), total.to_string());
    tokio::try_join!(case.curator("put", &theirs_text), case.curator("take", &limit), put, take)?;
    let (mut found, mut expected) = (taken(case).await?, [theirs, ours].concat());
    found.sort();
    expected.sort();
    ensure!(found == expected, "{found:?}");
    check_empty(case).await
}

/// Both put items. They are taken by priority, and in the order of putting within a priority.
async fn by_priority(case: &Case<'_>, by_curator: bool) -> Result<()> {
    case.node("taken", "").await?;
    let queue = Queue::new(&case.client, &case.path("queue"));
    queue.put_with_priority("a=5", 5).await?;
    case.curator("put-by-priority", "b=5 c=-3 d=300000000").await?;
    queue.put_with_priority("e=-3", -3).await?;
    queue.put_with_priority("f=5", 5).await?;
    case.curator("put-by-priority", "g=1").await?;
    if by_curator {
        case.curator("take-by-priority", "7").await?;
    } else {
        for _ in 0..7 {
            record(case, queue.take().await?).await?;
        }
    }
    let found = taken(case).await?;
    ensure!(found == ["c=-3", "e=-3", "g=1", "a=5", "b=5", "f=5", "d=300000000"], "{found:?}");
    check_empty(case).await
}

/// Both put items with a delay. None is taken before its time.
async fn by_time(case: &Case<'_>, by_curator: bool) -> Result<()> {
    case.node("taken", "").await?;
    let queue = Queue::delayed(&case.client, &case.path("queue"));
    let start = SystemTime::now();
    let due = |ms| start + Duration::from_millis(ms);
    let text = |ms| due(ms).duration_since(UNIX_EPOCH).map(|due| due.as_millis());
    queue.put_due("c", due(700)).await?;
    case.curator("put-due", &format!("b={} d={}", text(500)?, text(900)?)).await?;
    queue.put_due("a", due(300)).await?;
    if by_curator {
        case.curator("take-due", "4").await?;
    } else {
        for _ in 0..4 {
            record(case, queue.take().await?).await?;
        }
    }
    ensure!(due(900) <= SystemTime::now(), "an item was taken too early");
    let found: String = taken(case).await?.iter().filter_map(|item| item.chars().next()).collect();
    ensure!(found == "abcd", "{found}");
    check_empty(case).await
}
