//! Queues that both fill and empty. Whoever takes an item notes it below `seen`, in order.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Result, ensure};
use ox_client::CreateMode;
use ox_recipes::queue::{Queue, QueueItem};

use super::case::{Case, Stage};

pub(super) async fn run(stage: &mut Stage) {
    stage.case("queue", queue).await;
    stage.case("priority queue emptied by us", async |case| by_priority(case, false).await).await;
    stage.case("priority queue emptied by curator", async |case| by_priority(case, true).await).await;
    stage.case("delay queue emptied by us", async |case| by_time(case, false).await).await;
    stage.case("delay queue emptied by curator", async |case| by_time(case, true).await).await;
}

async fn note(case: &Case<'_>, item: QueueItem) -> Result<()> {
    case.client.create(&case.path("seen/n-"), item.data(), CreateMode::PersistentSequential).await?;
    Ok(item.done().await?)
}

/// What was noted, in order.
async fn seen(case: &Case<'_>) -> Result<Vec<String>> {
    let mut names = case.client.children(&case.path("seen")).await?;
    names.sort();
    let mut items = Vec::new();
    for name in names {
        let node = case.client.get(&case.path(&format!("seen/{name}"))).await?;
        items.push(String::from_utf8(node.data)?);
    }
    Ok(items)
}

/// Nothing is left, not even a lock.
async fn is_clean(case: &Case<'_>) -> Result<()> {
    for list in ["queue", "queue-locks"] {
        let left = case.client.children(&case.path(list)).await?;
        ensure!(left.is_empty(), "{left:?} in {list}");
    }
    Ok(())
}

/// All put and all take at the same time: every item is taken once.
async fn queue(case: &Case<'_>) -> Result<()> {
    case.node("seen", "").await?;
    let items = |who: &str| (0..case.stage.rounds).map(|number| format!("{who}-{number}")).collect::<Vec<_>>();
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
        while case.client.children(&case.path("seen")).await?.len() < total {
            if let Some(item) = queue.take_within(Duration::from_millis(200)).await? {
                note(case, item).await?;
            }
        }
        anyhow::Ok(())
    };
    let (theirs_text, most) = (theirs.join(" "), total.to_string());
    tokio::try_join!(case.ask("put", &theirs_text), case.ask("take", &most), put, take)?;
    let (mut found, mut expected) = (seen(case).await?, [theirs, ours].concat());
    found.sort();
    expected.sort();
    ensure!(found == expected, "{found:?}");
    is_clean(case).await
}

/// Some of Curator's and some of ours; the order is that of the priorities, and then that of putting.
async fn by_priority(case: &Case<'_>, is_curator: bool) -> Result<()> {
    case.node("seen", "").await?;
    let queue = Queue::new(&case.client, &case.path("queue"));
    queue.put_with_priority("a=5", 5).await?;
    case.ask("put-by-priority", "b=5 c=-3 d=300000000").await?;
    queue.put_with_priority("e=-3", -3).await?;
    queue.put_with_priority("f=5", 5).await?;
    case.ask("put-by-priority", "g=1").await?;
    if is_curator {
        case.ask("take-by-priority", "7").await?;
    } else {
        for _ in 0..7 {
            note(case, queue.take().await?).await?;
        }
    }
    let found = seen(case).await?;
    ensure!(found == ["c=-3", "e=-3", "g=1", "a=5", "b=5", "f=5", "d=300000000"], "{found:?}");
    is_clean(case).await
}

/// Nobody takes an item before its time.
async fn by_time(case: &Case<'_>, is_curator: bool) -> Result<()> {
    case.node("seen", "").await?;
    let queue = Queue::delayed(&case.client, &case.path("queue"));
    let start = SystemTime::now();
    let due = |ms| start + Duration::from_millis(ms);
    let text = |ms| due(ms).duration_since(UNIX_EPOCH).map(|due| due.as_millis());
    queue.put_due("c", due(700)).await?;
    case.ask("put-due", &format!("b={} d={}", text(500)?, text(900)?)).await?;
    queue.put_due("a", due(300)).await?;
    if is_curator {
        case.ask("take-due", "4").await?;
    } else {
        for _ in 0..4 {
            note(case, queue.take().await?).await?;
        }
    }
    ensure!(due(900) <= SystemTime::now(), "nobody is too early");
    let found: String = seen(case).await?.iter().filter_map(|item| item.chars().next()).collect();
    ensure!(found == "abcd", "{found}");
    is_clean(case).await
}
