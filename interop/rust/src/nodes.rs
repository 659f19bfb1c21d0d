//! Cases of nodes of all kinds, transactions and access control.

use std::time::Duration;

use zookeeper_client::{
    Acl, Acls, AuthId, AuthUser, CreateMode, EnsembleUpdate, Error, LockOptions, LockPrefix, MultiReadResult,
    MultiWriteError, MultiWriteResult, Permission,
};

use crate::suite::{Case, EPHEMERAL, OPEN, Suite, await_absence};

pub async fn run(suite: &mut Suite) {
    suite.test("create and stat", create_and_stat).await;
    suite.test("errors", errors).await;
    suite.test("sequence and ephemeral", sequence_and_ephemeral).await;
    suite.test("container and ttl", container_and_ttl).await;
    suite.test("counts and ephemerals", counts_and_ephemerals).await;
    suite.test("large data", large_data).await;
    suite.test("pipelined", pipelined).await;
    suite.test("multi write", multi_write).await;
    suite.test("multi read", multi_read).await;
    suite.test("acl", acl).await;
    suite.test("chroot", chroot).await;
    suite.test("lock", lock).await;
    suite.test("config", config).await;
}

async fn create_and_stat(case: &Case) {
    let zk = &case.zk;
    let path = case.path("a");
    let (created, sequence) = zk.create(&path, b"one", &OPEN).await.unwrap();
    assert_eq!(-1, sequence.into_i64());
    assert_eq!((0, 3, created.czxid), (created.version, created.data_length, created.mzxid));
    let changed = zk.set_data(&path, b"three", Some(0)).await.unwrap();
    assert_eq!((1, created.czxid), (changed.version, changed.czxid));
    case.node("a/b", "").await;
    let (data, stat) = zk.get_data(&path).await.unwrap();
    assert_eq!(b"three", data.as_slice());
    assert_eq!((1, 1), (stat.cversion, stat.num_children));
    let (names, again) = zk.get_children(&path).await.unwrap();
    assert_eq!((vec!["b".to_owned()], stat), (names, again));
    zk.delete(&case.path("a/b"), Some(0)).await.unwrap();
    zk.delete(&path, None).await.unwrap();
    assert_eq!(None, zk.check_stat(&path).await.unwrap());
    zk.sync(&path).await.unwrap();
    zk.mkdir(&case.path("x/y/z"), &OPEN).await.unwrap();
}

async fn errors(case: &Case) {
    let zk = &case.zk;
    let path = case.node("a", "").await;
    assert_eq!(Err(Error::NodeExists), zk.create(&path, b"", &OPEN).await.map(drop));
    assert_eq!(Err(Error::NoNode), zk.create(&case.path("x/y"), b"", &OPEN).await.map(drop));
    assert_eq!(Err(Error::NoNode), zk.get_data(&case.path("x")).await.map(drop));
    assert_eq!(Err(Error::BadVersion), zk.set_data(&path, b"", Some(7)).await.map(drop));
    assert_eq!(Err(Error::BadVersion), zk.delete(&path, Some(7)).await);
    case.node("a/b", "").await;
    assert_eq!(Err(Error::NotEmpty), zk.delete(&path, None).await);
    zk.create(&case.path("e"), b"", &EPHEMERAL).await.unwrap();
    assert_eq!(Err(Error::NoChildrenForEphemerals), zk.create(&case.path("e/x"), b"", &OPEN).await.map(drop));
}

async fn sequence_and_ephemeral(case: &Case) {
    let owner = case.connect().await;
    let persistent = CreateMode::PersistentSequential.with_acls(Acls::anyone_all());
    let ephemeral = CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());
    let (_, first) = owner.create(&case.path("n-"), b"", &persistent).await.unwrap();
    let (stat, second) = owner.create(&case.path("n-"), b"", &ephemeral).await.unwrap();
    assert_eq!((0, 1), (first.into_i64(), second.into_i64()));
    assert_eq!(owner.session_id().0, stat.ephemeral_owner);
    drop(owner);
    await_absence(&case.zk, &case.path("n-0000000001")).await;
    assert!(case.zk.check_stat(&case.path("n-0000000000")).await.unwrap().is_some());
}

async fn container_and_ttl(case: &Case) {
    let container = CreateMode::Container.with_acls(Acls::anyone_all());
    case.zk.create(&case.path("c"), b"", &container).await.unwrap();
    let child = case.node("c/x", "").await;
    case.zk.delete(&child, None).await.unwrap();
    await_absence(&case.zk, &case.path("c")).await;
    let short = OPEN.with_ttl(Duration::from_millis(300));
    let sequential = CreateMode::PersistentSequential.with_acls(Acls::anyone_all()).with_ttl(Duration::from_secs(600));
    case.zk.create(&case.path("t"), b"", &short).await.unwrap();
    let (_, sequence) = case.zk.create(&case.path("s-"), b"", &sequential).await.unwrap();
    await_absence(&case.zk, &case.path("t")).await;
    assert!(case.zk.check_stat(&case.path(&format!("s-{sequence}"))).await.unwrap().is_some());
}

async fn counts_and_ephemerals(case: &Case) {
    let zk = case.connect().await;
    case.node("a", "").await;
    case.node("a/b", "").await;
    assert_eq!(2, zk.count_descendants_number(&case.root).await.unwrap());
    zk.create(&case.path("a/e"), b"", &EPHEMERAL).await.unwrap();
    zk.create(&case.path("f"), b"", &EPHEMERAL).await.unwrap();
    assert_eq!(vec![case.path("a/e")], zk.list_ephemerals(&case.path("a")).await.unwrap());
    assert_eq!(2, zk.list_ephemerals("/").await.unwrap().len());
}

async fn large_data(case: &Case) {
    let data: Vec<u8> = (0..1_000_000_u32).map(|i| i.to_le_bytes()[1]).collect();
    case.zk.create(&case.path("a"), &data, &OPEN).await.unwrap();
    assert!(case.zk.get_data(&case.path("a")).await.unwrap().0 == data);
}

/// The client sends requests before their replies are awaited; replies keep the order.
async fn pipelined(case: &Case) {
    let path = case.node("a", "").await;
    let writes: Vec<_> = (0..300).map(|i: i32| case.zk.set_data(&path, &i.to_be_bytes(), Some(i))).collect();
    let read = case.zk.get_data(&path);
    for (i, write) in (1..).zip(writes) {
        assert_eq!(i, write.await.unwrap().version);
    }
    assert_eq!(299_i32.to_be_bytes().as_slice(), read.await.unwrap().0);
}

async fn multi_write(case: &Case) {
    let old = case.node("old", "").await;
    let sequential = CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());
    let mut writer = case.zk.new_multi_writer();
    writer.add_check_version(&old, 0).unwrap();
    writer.add_create(&case.path("a"), b"x", &OPEN).unwrap();
    writer.add_create(&case.path("a/s-"), b"", &sequential).unwrap();
    writer.add_set_data(&case.path("a"), b"y", Some(0)).unwrap();
    writer.add_delete(&old, None).unwrap();
    let results = writer.commit().await.unwrap();
    assert_eq!(5, results.len());
    let MultiWriteResult::Create { path, stat } = &results[2] else { panic!("got {:?}", results[2]) };
    assert_eq!((&case.path("a/s-0000000000"), case.zk.session_id().0), (path, stat.ephemeral_owner));
    let MultiWriteResult::SetData { stat } = &results[3] else { panic!("got {:?}", results[3]) };
    assert_eq!(1, stat.version);

    writer.add_create(&case.path("b"), b"", &OPEN).unwrap();
    writer.add_create(&case.path("a"), b"", &OPEN).unwrap();
    writer.add_delete(&case.path("a"), None).unwrap();
    let failure = MultiWriteError::OperationFailed { index: 1, source: Error::NodeExists };
    assert_eq!(Err(failure), writer.commit().await);
    assert_eq!(None, case.zk.check_stat(&case.path("b")).await.unwrap());
}

async fn multi_read(case: &Case) {
    let path = case.node("a", "data").await;
    case.node("a/b", "").await;
    let mut reader = case.zk.new_multi_reader();
    reader.add_get_data(&path).unwrap();
    reader.add_get_data(&case.path("missing")).unwrap();
    reader.add_get_children(&path).unwrap();
    let results = reader.commit().await.unwrap();
    assert!(matches!(&results[0], MultiReadResult::Data { data, .. } if data == b"data"));
    assert!(matches!(&results[1], MultiReadResult::Error { err: Error::NoNode }));
    assert!(matches!(&results[2], MultiReadResult::Children { children } if *children == ["b"]));
}

async fn acl(case: &Case) {
    let bob = case.connect().await;
    bob.auth("digest", b"bob:pw").await.unwrap();
    let users = bob.list_auth_users().await.unwrap();
    assert!(users.contains(&AuthUser::new("digest", "bob")), "{users:?}");
    let path = case.path("a");
    bob.create(&path, b"secret", &CreateMode::Persistent.with_acls(Acls::creator_all())).await.unwrap();
    let mine = Acl::new(Permission::ALL, AuthId::new("digest", "bob:ikIaKsbtGweaHnb/jKn7OHqbunM="));
    assert_eq!(vec![mine], bob.get_acl(&path).await.unwrap().0);
    let anonymous = case.connect().await;
    assert_eq!(Err(Error::NoAuth), anonymous.get_data(&path).await.map(drop));
    assert_eq!(Err(Error::NoAuth), anonymous.set_data(&path, b"", None).await.map(drop));
    let stat =
        bob.set_acl(&path, &[Acl::new(Permission::READ, AuthId::new("ip", "127.0.0.1"))], Some(0)).await.unwrap();
    assert_eq!(1, stat.aversion);
    assert_eq!(b"secret", anonymous.get_data(&path).await.unwrap().0.as_slice());
    assert_eq!(Err(Error::NoAuth), bob.set_data(&path, b"", None).await.map(drop));
    case.zk.set_data(&path, b"by super", None).await.unwrap();
}

async fn chroot(case: &Case) {
    let inside = case.connect().await.chroot(&case.root).unwrap_or_else(|_| panic!("the path is invalid"));
    inside.create("/a", b"x", &OPEN).await.unwrap();
    assert_eq!(b"x", case.zk.get_data(&case.path("a")).await.unwrap().0.as_slice());
    assert_eq!(vec!["a".to_owned()], inside.list_children("/").await.unwrap());
}

async fn lock(case: &Case) {
    let (first, second) = (case.connect().await, case.connect().await);
    let dir = case.path("locks");
    let options = || LockOptions::new(Acls::anyone_all()).with_ancestor_options(OPEN).unwrap();
    let held = first.lock(LockPrefix::new_curator(&dir, "latch-").unwrap(), b"", options()).await.unwrap();
    let waiting = second.lock(LockPrefix::new_curator(&dir, "latch-").unwrap(), b"", options());
    tokio::pin!(waiting);
    assert!(
        tokio::time::timeout(Duration::from_millis(200), &mut waiting).await.is_err(),
        "a held lock is not granted"
    );
    held.create(&case.path("made-under-lock"), b"", &OPEN).await.unwrap();
    drop(held);
    let next =
        tokio::time::timeout(Duration::from_secs(5), waiting).await.expect("a released lock is granted").unwrap();
    drop(next);
}

async fn config(case: &Case) {
    case.zk.get_config().await.unwrap();
    let anonymous = case.connect().await;
    let change = EnsembleUpdate::New { ensemble: ["server.9=localhost:1:2"].into_iter() };
    assert_eq!(Err(Error::ReconfigDisabled), anonymous.update_ensemble(change, None).await.map(drop));
}
