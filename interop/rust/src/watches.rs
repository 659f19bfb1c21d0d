//! Cases of watches, with the zxids that servers since 3.9 send in events.

use zookeeper_client::{AddWatchMode, Error, EventType};

use crate::suite::{Case, Suite, expect, expect_once};

pub async fn run(suite: &mut Suite) {
    suite.test("one-shot watches", one_shot).await;
    suite.test("persistent watch", persistent).await;
    suite.test("recursive watch", recursive).await;
    suite.test("removed watches", removed).await;
}

async fn one_shot(case: &Case) {
    let zk = &case.zk;
    let path = case.path("a");
    let (stat, created) = zk.check_and_watch_stat(&path).await.unwrap();
    assert_eq!(None, stat);
    let (_, _, parent) = zk.get_and_watch_children(&case.root).await.unwrap();
    case.node("a", "").await;
    let zxid = zk.check_stat(&path).await.unwrap().unwrap().czxid;
    assert_eq!(zxid, expect_once(created, EventType::NodeCreated, &path).await);
    assert_eq!(zxid, expect_once(parent, EventType::NodeChildrenChanged, &case.root).await);

    let (_, _, data) = zk.get_and_watch_data(&path).await.unwrap();
    let stat = zk.set_data(&path, b"x", None).await.unwrap();
    assert_eq!(stat.mzxid, expect_once(data, EventType::NodeDataChanged, &path).await);
    let (_, _, data) = zk.get_and_watch_data(&path).await.unwrap();
    let (_, children) = zk.list_and_watch_children(&path).await.unwrap();
    zk.delete(&path, None).await.unwrap();
    expect_once(data, EventType::NodeDeleted, &path).await;
    expect_once(children, EventType::NodeDeleted, &path).await;
}

async fn persistent(case: &Case) {
    let path = case.path("a");
    let mut watcher = case.zk.watch(&path, AddWatchMode::Persistent).await.unwrap();
    for _ in 0..2 {
        case.node("a", "").await;
        expect(&mut watcher, EventType::NodeCreated, &path).await;
        case.touch(&path).await;
        expect(&mut watcher, EventType::NodeDataChanged, &path).await;
        let child = case.node("a/b", "").await;
        expect(&mut watcher, EventType::NodeChildrenChanged, &path).await;
        case.zk.delete(&child, None).await.unwrap();
        expect(&mut watcher, EventType::NodeChildrenChanged, &path).await;
        case.zk.delete(&path, None).await.unwrap();
        expect(&mut watcher, EventType::NodeDeleted, &path).await;
    }
}

async fn recursive(case: &Case) {
    let mut watcher = case.zk.watch(&case.root, AddWatchMode::PersistentRecursive).await.unwrap();
    let path = case.node("a", "").await;
    expect(&mut watcher, EventType::NodeCreated, &path).await;
    let child = case.node("a/b", "").await;
    expect(&mut watcher, EventType::NodeCreated, &child).await;
    case.touch(&child).await;
    expect(&mut watcher, EventType::NodeDataChanged, &child).await;
    case.zk.delete(&child, None).await.unwrap();
    expect(&mut watcher, EventType::NodeDeleted, &child).await;
}

#[expect(deprecated, reason = "dropping a watcher returns no result to check")]
async fn removed(case: &Case) {
    let path = case.node("a", "").await;
    let (_, _, data) = case.zk.get_and_watch_data(&path).await.unwrap();
    let mut kept = case.zk.watch(&path, AddWatchMode::Persistent).await.unwrap();
    let gone = case.zk.watch(&path, AddWatchMode::PersistentRecursive).await.unwrap();
    data.remove().await.unwrap();
    gone.remove().await.unwrap();
    case.touch(&path).await;
    expect(&mut kept, EventType::NodeDataChanged, &path).await;
    kept.remove().await.unwrap();
    assert_eq!(Err(Error::NoNode), case.zk.get_and_watch_data(&case.path("missing")).await.map(drop));
}
