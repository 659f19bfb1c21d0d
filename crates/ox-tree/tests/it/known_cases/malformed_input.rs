//! Malformed records and requests, and excessive sizes (K76, K145, K151).

use crate::bare_tree::{BareTree, SESSION};
use crate::generators::check;
use crate::harness::{Events, Harness, Setup, plain};
use crate::image::Image;
use crate::request::{Bytes, add_watch, body, create, delete, entry, null_entry, set_acl};
use ox_history::Op;
use ox_proto::acl::put_acls;
use ox_proto::multi::MultiHeader;
use ox_proto::request::CreateRequest;
use ox_proto::txn::Record;
use ox_proto::{Acl, Jute, OpCode, RawAcls, SessionId};
use ox_tree::auth::authenticate;
use ox_tree::ops::{self, Prepared};
use ox_tree::{LoadError, Loader, PendingView, State, TreeOptions};
use proptest::prelude::*;
use std::time::Duration;

/// An encoded transaction of any type with arbitrary values.
fn wild_record() -> BoxedStrategy<Vec<u8>> {
    let path = || {
        prop::sample::select(vec![
            "",
            "/",
            "x",
            "/a",
            "/a/b",
            "/a/b/c",
            "/a/",
            "//",
            "/\0",
            "/zookeeper",
            "/zookeeper/quota",
            "/zookeeper/config",
            "/zookeeper/quota/a",
            "/zookeeper/quota/a/zookeeper_limits",
            "/zookeeper/quota/a/zookeeper_stats",
            "/zookeeper/quota/zookeeper_limits",
            "/e",
            "/e/f",
        ])
    };
    let data = || prop::option::of(prop::collection::vec(any::<u8>(), 0..6));
    let list = || {
        prop::sample::select(vec![
            Bytes::default().int(-1).0,
            Bytes::default().int(0).0,
            Bytes::default().acl(&crate::request::open()).0,
            Bytes::default().acl(&Some(vec![null_entry(5, None, None)])).0,
        ])
    };
    let number = || prop_oneof![Just(-1), Just(0), Just(1), Just(i32::MAX), Just(i32::MIN), any::<i32>()];
    let body = prop_oneof![
        4 => (prop::sample::select(vec![1, 15]), path(), data(), list(), any::<bool>(), number()).prop_map(
            |(kind, path, data, list, flag, number)| {
                let out = Bytes::default().text(Some(path)).buffer(data.as_deref()).raw(&list);
                (kind, out.bool(flag).int(number).0)
            }
        ),
        2 => (path(), data(), list(), number(), any::<i64>()).prop_map(|(path, data, list, number, ttl)| {
            (21, Bytes::default().text(Some(path)).buffer(data.as_deref()).raw(&list).int(number).long(ttl).0)
        }),
        1 => (path(), data(), list(), number()).prop_map(|(path, data, list, number)| {
            (19, Bytes::default().text(Some(path)).buffer(data.as_deref()).raw(&list).int(number).0)
        }),
        3 => (prop::sample::select(vec![2, 20]), path()).prop_map(|(kind, path)| {
            (kind, Bytes::default().text(Some(path)).0)
        }),
        2 => (prop::sample::select(vec![5, 16]), path(), data(), number()).prop_map(|(kind, path, data, number)| {
            (kind, Bytes::default().text(Some(path)).buffer(data.as_deref()).int(number).0)
        }),
        1 => (path(), list(), number()).prop_map(|(path, list, number)| {
            (7, Bytes::default().text(Some(path)).raw(&list).int(number).0)
        }),
        1 => number().prop_map(|number| (-10, Bytes::default().int(number).0)),
        1 => prop::collection::vec(path(), 0..3).prop_map(|paths| (-11, Bytes::default().texts(paths.into_iter()).0)),
        1 => Just((-11, Vec::new())),
    ]
    .boxed();
    let session = prop::sample::select(vec![0_i64, 1, -1, i64::MIN, 0xff00_0000_0000_0005_u64.cast_signed()]);
    (session, any::<i64>(), any::<i64>(), body)
        .prop_map(|(session, zxid, time, (kind, body))| {
            Bytes::default().long(session).int(0).long(zxid).long(time).int(kind).raw(&body).0
        })
        .boxed()
}

/// Every record that decodes can be applied completely, and the resulting state can be saved and loaded.
#[test]
fn k76_every_decodable_record_applies() {
    check(400, &prop::collection::vec(wild_record(), 1..60), |records| {
        let mut state = State::new(plain().options());
        for bytes in &records {
            if let Ok(record) = Record::decode(bytes) {
                state.replay(&record);
            }
        }
        let loaded = crate::frozen_views::load(&state.freeze(), &plain());
        assert_eq!(Image::of(&loaded).without_usage(), Image::of(&state).without_usage());
        assert_eq!((loaded.digest(), loaded.acl_count()), (state.digest(), state.acl_count()));
    });
}

/// Arbitrary request bodies are refused at worst.
#[test]
fn random_requests_do_not_panic() {
    let codes: Vec<i32> = OpCode::ALL.iter().map(|op| op.code()).collect();
    let strategy =
        (prop::sample::select(codes), prop::collection::vec(prop_oneof![Just(0), Just(255), any::<u8>()], 0..80));
    check(2000, &prop::collection::vec(strategy, 1..10), |requests| {
        let mut tree = BareTree::with_node("/p", 0);
        let mut harness = Harness::new(plain());
        for (code, body) in requests {
            let _ = tree.write_raw(SESSION, code, &body);
            let read = harness.reply_raw(0, code, &body);
            assert!(20 <= read.len() || code == 11);
        }
        tree.drain();
    });
}

#[test]
fn k145_session_with_many_nodes_closes_in_a_small_record() {
    let mut tree = BareTree::with_node("/a-parent-with-a-rather-long-name-for-the-sake-of-size", 0);
    let parent = "/a-parent-with-a-rather-long-name-for-the-sake-of-size";
    tree.depth = 1000;
    for _ in 0..40_000 {
        tree.create(&format!("{parent}/ephemeral-"), 3).unwrap();
    }
    let record = tree.close(SESSION);
    let limit = plain().options().record_bytes_max;
    assert!(record.len() <= limit, "{} bytes", record.len());
    assert_eq!(record.len(), 32, "neither list nor digest");
    let before = tree.state.freeze();
    tree.drain();
    assert_eq!(tree.state.ephemeral_count(), 0);
    assert_eq!(tree.state.stat(parent).unwrap().num_children, 0);
    assert_eq!(tree.state.stat(parent).unwrap().pzxid.0, tree.zxid);
    // After a restart the loaded tree knows the session's nodes as well.
    let mut restarted = crate::frozen_views::load(&before, &plain());
    let left: Vec<Vec<u8>> = vec![record];
    left.iter().for_each(|bytes| _ = restarted.replay(&Record::decode(bytes).unwrap()));
    assert_eq!(restarted.ephemeral_count(), 0);
    // A few paths fit into the record and are listed.
    let mut few = BareTree::with_node("/p", 0);
    few.create("/p/e", 1).unwrap();
    assert_eq!(few.close(SESSION).len(), 32 + 4 + 4 + "/p/e".len() + 12);
}

/// An `auth` entry expands to the identities of its connection. A record that is too large to be read is refused
/// without effect.
#[test]
fn r25_unreadable_records_are_refused() {
    let mut tree = BareTree::with_node("/p", 0);
    tree.depth = 50;
    for user in 0..100 {
        let credentials = format!("user-with-a-long-name-{user}:pw");
        assert!(
            tree.ids.add(authenticate(&tree.state, Some("digest"), Some(credentials.as_bytes())).proven().unwrap())
        );
    }
    let auth: Vec<_> = (0..1000).map(|perms| entry(perms, "auth", "")).collect();
    let digest = tree.state.digest();
    for op in [create("/p/x", 1).with_acl(Some(auth.clone())), set_acl("/p", &auth)] {
        let record = tree.write(SESSION, &op).unwrap();
        assert_eq!(record[32..36], (-5_i32).to_be_bytes(), "{:?}", op.code());
        assert_eq!(record[36 + 4..], digest.to_be_bytes(), "no pending changes");
    }
    assert_eq!(tree.create("/p/q-", 2), Ok("/p/q-0000000000".into()));
    // Ten entries are small enough.
    let record = tree.write(SESSION, &create("/p/y", 0).with_acl(Some(auth[..10].to_vec()))).unwrap();
    assert!(10 * 100 * 40 < record.len());
    tree.drain();
}

/// A multi is one record: each element fits, but not all together.
#[test]
fn r25_multis_are_measured_as_a_whole() {
    let mut tree = BareTree::with_node("/p", 0);
    for user in 0..100 {
        let credentials = format!("user-with-a-long-name-{user}:pw");
        assert!(
            tree.ids.add(authenticate(&tree.state, Some("digest"), Some(credentials.as_bytes())).proven().unwrap())
        );
    }
    let auth: Vec<_> = (0..100).map(|perms| entry(perms, "auth", "")).collect();
    let elements = |count: usize| {
        let element = |at| create(&format!("/p/{at}"), 0).with_acl(Some(auth.clone()));
        Op::Multi((0..count).map(element).collect())
    };
    let record = tree.write(SESSION, &elements(10)).unwrap();
    assert_eq!(record[28..36], [(-1_i32).to_be_bytes(), (-5_i32).to_be_bytes()].concat());
    assert_eq!(tree.state.stat("/p").unwrap().num_children, 0);
    let record = tree.write(SESSION, &elements(2)).unwrap();
    assert_eq!(record[28..32], 14_i32.to_be_bytes());
    assert_eq!(tree.state.stat("/p").unwrap().num_children, 2);
}

#[test]
fn identities_have_a_bound() {
    let mut ids = ox_tree::auth::Identities::of_address("10.0.0.1".parse().unwrap());
    let state = State::new(TreeOptions::default());
    let mut add = |user: String| ids.add(authenticate(&state, Some("digest"), Some(user.as_bytes())).proven().unwrap());
    assert!(add("a".repeat(500_000)));
    assert!(add("b".repeat(500_000)));
    assert!(!add("c".repeat(500_000)), "a megabyte is full");
    assert!(add("b".repeat(500_000)), "duplicates are accepted");
    assert!(add("bob:pw".to_owned()));
}

/// Duplicates in a list that fills a frame are found in less than quadratic time.
#[test]
fn long_lists_are_not_compared_pair_by_pair() {
    let mut tree = BareTree::with_node("/p", 0);
    let list: Vec<_> = (0..50_000).map(|perms| entry(perms, "ip", "1.2.3.4")).collect();
    let record = tree.write(SESSION, &create("/p/x", 0).with_acl(Some(list))).unwrap();
    assert_eq!(record[28..32], 1_i32.to_be_bytes());
}

#[test]
fn malformed_snapshots_are_refused() {
    let stat = ox_proto::stat::StatPersisted::default();
    let load = |nodes: &[&str]| {
        let mut loader = Loader::new(plain().options());
        for node in nodes {
            loader.node(node, None, -1, stat)?;
        }
        loader.finish(ox_proto::Zxid(0)).map(|state| state.node_count())
    };
    assert_eq!(load(&["", "/a", "/b", "/a/x"]), Ok(5), "any order with parents first");
    assert_eq!(load(&[]), Err(LoadError::NoRoot));
    assert_eq!(load(&["/a"]), Err(LoadError::NoRoot));
    assert_eq!(load(&["", ""]), Err(LoadError::Duplicate(String::new())));
    assert_eq!(load(&["", "/a", "/a"]), Err(LoadError::Duplicate("/a".into())));
    assert_eq!(load(&["", "/a/b", "/a"]), Err(LoadError::NoParent("/a/b".into())));
    assert_eq!(load(&["", "a"]), Err(LoadError::NoParent("a".into())));
    assert_eq!(load(&["", "/a", "/a/"]), Err(LoadError::BadName(0)));
    assert_eq!(load(&["", "/"]), Err(LoadError::BadName(0)));
    let mut loader = Loader::new(plain().options());
    let null = Bytes::default().int(-1).0;
    assert_eq!(loader.acl(3, ox_proto::RawAcls::from_encoded(&null).unwrap()), Err(LoadError::NullAcl(3)));
}

/// The cost is linear in the number of children of one parent.
#[test]
fn cost_of_many_siblings_is_linear() {
    let mut tree = BareTree::with_node("/p", 0);
    tree.depth = 100;
    for at in 0..50_000 {
        tree.create(&format!("/p/{at}"), 0).unwrap();
    }
    for at in (0..50_000).step_by(2).chain((1..50_000).step_by(2)) {
        tree.write(SESSION, &delete(&format!("/p/{at}"))).unwrap();
    }
    tree.drain();
    assert_eq!(tree.state.stat("/p").unwrap().num_children, 0);
    let _ = Duration::ZERO;
}

/// Thousands of connections watch one node, most of them with both kinds of watches, and then close one by one.
#[test]
fn cost_of_many_watchers_is_linear() {
    let harness = Harness::new(Setup { depth: 0, ..plain() });
    let mut events = Events::default();
    let ids = ox_tree::auth::Identities::of_address("10.0.0.1".parse().unwrap());
    let watchers: Vec<_> = (0..20_000).map(ox_tree::watch::WatcherId::new).collect();
    let read = add_watch("/zookeeper/crowd", 0);
    for watcher in &watchers {
        let requester = ox_tree::read::Requester { watcher: *watcher, session: SESSION, ids: &ids };
        let request = ox_tree::read::ReadRequest { xid: 1, op: OpCode::AddWatch, body: &body(&read) };
        let _ = ox_tree::read::put_reply(&harness.state, requester, request, &mut Vec::new());
    }
    let mut state = harness.state;
    for (zxid, kind, body) in
        [(100, 1, body(&create("/zookeeper/crowd", 0))), (101, 2, Bytes::default().text(Some("/zookeeper/crowd")).0)]
    {
        let body = if kind == 1 { [&body[..body.len() - 4], &[0], &9_i32.to_be_bytes()].concat() } else { body };
        let record = Bytes::default().long(0).int(0).long(zxid).long(0).int(kind).raw(&body).0;
        let outcome = state.apply(&Record::decode(&record).unwrap(), &mut ox_tree::NodeHints::default(), &mut events);
        assert!(!outcome.conflict);
    }
    assert_eq!(events.0.len(), 2 * watchers.len(), "created and deleted, once each");
    for watcher in watchers {
        state.watches().lock().drop_watcher(watcher);
    }
    assert!(state.watches().lock().is_empty());
    assert!(!state.has_session(SessionId(5)));
}

/// An `auth` entry expands to all identities of the connection: a small request could result in gigabytes.
#[test]
fn k151_oversized_multi_is_abandoned_early() {
    let mut tree = BareTree::new(State::new(plain().options()));
    for user in 0..250 {
        let proven = authenticate(&tree.state, Some("digest"), Some(format!("u{user}:p").as_bytes()));
        assert!(tree.ids.add(proven.proven().unwrap()));
    }
    let mut auth = Vec::new();
    put_acls(&mut auth, &[Acl::new(31, "auth", "")]);
    let mut body = Vec::new();
    for number in 0..20_000 {
        MultiHeader { op: OpCode::Create.code(), done: false, err: -1 }.put(&mut body);
        let (path, acl) = (format!("/{number}"), RawAcls::from_encoded(&auth).unwrap());
        CreateRequest { path: Some(path.into()), data: None, acl, flags: 0 }.put(&mut body);
    }
    MultiHeader::END.put(&mut body);
    let (stamp, mut out) = (tree.stamp(SESSION), Vec::new());
    let mut view = PendingView::new(&tree.state, &mut tree.pending, &tree.ids, stamp);
    assert_eq!(ops::prepare(&mut view, OpCode::Multi, &body, &mut out), Prepared::Txn(OpCode::Error));
    assert!(tree.pending.is_empty(), "no pending changes");
    assert!(out.capacity() < 8 * tree.state.options().record_bytes_max, "{}", out.capacity());
}
