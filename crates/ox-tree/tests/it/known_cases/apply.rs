//! Known cases of apply and snapshots (K63 to K78).

use crate::bare_tree::{BareTree, SESSION};
use crate::frozen_views::load;
use crate::harness::{Harness, plain};
use crate::image::Image;
use crate::ops::{ANYONE, BOB, BOB_ID, bobs};
use crate::request::{check, create, delete, entry, set_acl, set_data};
use ox_history::Op;
use ox_proto::stat::StatPersisted;
use ox_proto::txn::{CreateKind, CreateTxn, Record, Txn, TxnHeader};
use ox_proto::{RawAcls, SessionId, Zxid};
use ox_tree::{Loader, State};

fn record(zxid: i64, txn: Txn<'static>) -> Record<'static> {
    let header = TxnHeader { session: SESSION, cxid: 1, zxid: Zxid(zxid), time_ms: zxid, kind: txn.kind().code() };
    Record { header, txn, digest: None }
}

fn new_node(path: &'static str, parent_cversion: i32) -> Txn<'static> {
    let kind = CreateKind::Create { ephemeral: false };
    Txn::Create(CreateTxn { kind, path: path.into(), data: None, acl: RawAcls::OPEN, parent_cversion })
}

fn stat(zxid: i64) -> StatPersisted {
    let zxid = Zxid(zxid);
    StatPersisted { czxid: zxid, mzxid: zxid, pzxid: zxid, ..StatPersisted::default() }
}

/// A snapshot with a root and the nodes that `fill` adds.
fn snapshot(zxid: i64, fill: impl FnOnce(&mut Loader)) -> State {
    let mut loader = Loader::new(plain().options());
    loader.node("", Some(b""), -1, StatPersisted::default()).unwrap();
    fill(&mut loader);
    loader.finish(Zxid(zxid)).unwrap()
}

#[test]
fn k63_sessions_nodes_and_zxid_advance_together() {
    let mut harness = Harness::new(plain());
    for round in 0..3 {
        harness.ok(ANYONE, &create(&format!("/e{round}"), 1));
        harness.close(ANYONE);
        let closed = load(&harness.state.freeze(), &plain());
        assert_eq!(
            Image::of(&closed),
            Image::of_model(&harness.model, harness.state.last_zxid()),
            "a view right after a close"
        );
        assert_eq!(closed.ephemeral_count(), 0);
        harness.open(ANYONE);
        let opened = load(&harness.state.freeze(), &plain());
        assert_eq!(opened.last_zxid().0, harness.zxid);
        assert!(opened.has_session(harness.conns[ANYONE].session));
    }
}

/// The parent was copied before the child was deleted, or after later changes.
#[test]
fn k64_deleting_a_missing_node_raises_pzxid_and_never_lowers_it() {
    let close = || Txn::CloseSession { paths: Some(vec!["/p/e".into()]) };
    for txn in [close(), Txn::Delete { path: "/p/e".into() }, Txn::DeleteContainer { path: "/p/e".into() }] {
        let mut behind = snapshot(4, |loader| loader.node("/p", None, -1, stat(2)).unwrap());
        behind.replay(&record(5, txn.clone()));
        assert_eq!(behind.stat("/p").unwrap().pzxid, Zxid(5), "{txn:?}");
        let mut ahead = snapshot(4, |loader| loader.node("/p", None, -1, stat(9)).unwrap());
        ahead.replay(&record(5, txn.clone()));
        assert_eq!(ahead.stat("/p").unwrap().pzxid, Zxid(9), "{txn:?}");
    }
}

/// A frozen view contains all of a multi or nothing of it. Over half of a multi in a fuzzy snapshot, replay applies the
/// rest.
#[test]
fn k65_multi_is_atomic_in_views_and_replay() {
    let multi = || {
        Txn::Multi(vec![
            new_node("/a", 1),
            new_node("/a/b", 1),
            Txn::SetData { path: "/a".into(), data: Some(b"x"), version: 1 },
            new_node("/c", 2),
        ])
    };
    let mut whole = snapshot(4, |_| ());
    whole.replay(&record(5, multi()));
    let expected = Image::of(&whole);
    for parts in 0..=4 {
        let mut half = snapshot(4, |_| ());
        let Txn::Multi(elements) = multi() else { unreachable!() };
        elements.into_iter().take(parts).for_each(|element| _ = half.replay(&record(5, element)));
        half.set_last_zxid(Zxid(4));
        half.replay(&record(5, multi()));
        assert_eq!(Image::of(&half), expected, "after {parts} parts");
    }
    assert_eq!(whole.freeze().last_zxid(), Zxid(5));
}

#[test]
fn k66_sequence_numbers_continue_after_replay_over_a_fuzzy_snapshot() {
    // The snapshot of zxid 4 was written during creates 5 and 6: the parent shows both, one child is missing.
    let mut state = snapshot(4, |loader| {
        loader.node("/p", None, -1, StatPersisted { cversion: 2, pzxid: Zxid(6), ..stat(2) }).unwrap();
        loader.node("/p/n0000000001", None, -1, stat(6)).unwrap();
    });
    state.replay(&record(5, new_node("/p/n0000000000", 1)));
    assert_eq!((state.stat("/p").unwrap().pzxid, state.stat("/p").unwrap().cversion), (Zxid(6), 2));
    state.replay(&record(6, new_node("/p/n0000000001", 2)));
    let mut tree = BareTree::new(state);
    assert_eq!(tree.create("/p/n", 2), Ok("/p/n0000000002".into()));
}

#[test]
fn k67_node_with_missing_acl_is_closed_until_the_log_sets_one() {
    let bob = entry(31, "digest", BOB_ID);
    let bytes = crate::request::Bytes::default().acl(&Some(vec![bob])).0;
    let raw: &'static [u8] = bytes.leak();
    let bobs_list = RawAcls::from_encoded(raw).unwrap();
    let mut loader = Loader::new(plain().options());
    loader.acl(1, RawAcls::OPEN).unwrap();
    loader.acl(2, bobs_list).unwrap(); // no node uses it
    loader.node("", Some(b""), -1, StatPersisted::default()).unwrap();
    loader.node("/known", None, 1, stat(2)).unwrap();
    loader.node("/created", None, 7, stat(5)).unwrap();
    loader.node("/changed", None, 8, stat(2)).unwrap();
    loader.node("/lost", None, 9, stat(2)).unwrap();
    assert_eq!(loader.take_unresolved(), ["/created", "/changed", "/lost"]);
    let mut state = loader.finish(Zxid(4)).unwrap();
    assert_eq!(state.acl_count(), 2, "the open list and the closed one");
    let mut tree = BareTree::new(state);
    for path in ["/created", "/changed", "/lost"] {
        assert_eq!(tree.create(&format!("{path}/x"), 0), Err(-102), "{path} is closed");
    }
    assert_eq!(tree.create("/known/x", 0), Ok("/known/x".into()));
    state = tree.state;
    state.replay(&record(50, new_node("/created", 1)));
    state.replay(&record(51, Txn::SetAcl { path: "/changed".into(), acl: RawAcls::OPEN, version: 1 }));
    let mut tree = BareTree::new(state);
    assert_eq!(tree.create("/created/x", 0), Ok("/created/x".into()));
    assert_eq!(tree.create("/changed/x", 0), Ok("/changed/x".into()));
    assert_eq!(tree.create("/lost/x", 0), Err(-102));
    let is_closed = |path| tree.state.is_closed(path);
    assert!(is_closed("/lost") && !is_closed("/created") && !is_closed("/changed") && !is_closed("/nothing"));
    tree.state.replay(&record(99, Txn::Delete { path: "/lost".into() }));
    assert_eq!(tree.state.acl_count(), 1, "the closed list is dropped with its last node");
}

#[test]
fn k69_bare_check_is_refused_and_has_no_effect_in_a_log() {
    let mut tree = BareTree::with_node("/p", 0);
    let refused = tree.write(SESSION, &check("/p", 0)).unwrap();
    assert!(matches!(Record::decode(&refused).unwrap().txn, Txn::Error { err: -6 }));
    let (before, zxid) = (Image::of(&tree.state), tree.zxid + 1);
    let outcome = tree.state.replay(&record(zxid, Txn::Check { path: "/p".into(), version: 77 }));
    assert!(!outcome.conflict);
    assert_eq!(Image::of(&tree.state), Image { zxid: Zxid(zxid), ..before });
}

/// `auth` is expanded before the proposal: the transaction carries the identities.
#[test]
fn k74_transaction_carries_the_expanded_acl() {
    let mut harness = Harness::new(plain());
    harness.ok(BOB, &create("/a", 0).with_acl(Some(vec![entry(31, "auth", "")])));
    harness.ok(BOB, &set_acl("/a", &[entry(1, "auth", ""), entry(2, "world", "anyone")]));
    for bytes in &harness.history[harness.history.len() - 2..] {
        let (Txn::Create(CreateTxn { acl, .. }) | Txn::SetAcl { acl, .. }) = Record::decode(bytes).unwrap().txn else {
            panic!("carries a list")
        };
        let list = acl.to_stored();
        assert!(list.iter().all(|entry| &*entry.scheme != "auth"), "{list:?}");
        assert_eq!((&*list[0].scheme, &*list[0].id), ("digest", BOB_ID));
    }
    // A server that applies it needs no identities.
    let mut other = State::new(plain().options());
    harness.history.iter().for_each(|bytes| _ = other.replay(&Record::decode(bytes).unwrap()));
    assert_eq!(Image::of(&other), Image::of(&harness.state));
}

/// Requests, logs and snapshots decode an owner in the same way.
#[test]
fn k77_k114_owner_is_decoded_the_same_everywhere() {
    // Server ids 128 and 255; a session id of the latter, soon after a boot, looks like a TTL.
    for id in
        [0x0100_0000_0000_0001_i64, 0x8000_0000_0000_0001_u64.cast_signed(), 0xff00_0000_0012_0000_u64.cast_signed()]
    {
        let session = SessionId(id);
        let mut tree = BareTree::new(State::new(plain().options()));
        tree.open(session);
        tree.write(session, &create("/e", 1)).unwrap();
        assert_eq!(tree.state.stat("/e").unwrap().ephemeral_owner, id);
        assert_eq!(tree.create("/e/x", 0), Err(-108));
        assert_eq!(tree.state.expired_nodes(i64::MAX, 1), [""; 0]);
        let loaded = load(&tree.state.freeze(), &plain());
        assert_eq!(loaded.stat("/e"), tree.state.stat("/e"));
        // The snapshot contains the node but not its session, which the log then creates.
        let mut late = snapshot(3, |loader| {
            loader.node("/e", None, -1, StatPersisted { ephemeral_owner: id, ..stat(5) }).unwrap();
        });
        let header = TxnHeader { session, cxid: 0, zxid: Zxid(4), time_ms: 0, kind: -10 };
        late.replay(&Record { header, txn: Txn::CreateSession { timeout_ms: 1 }, digest: None });
        assert_eq!(late.stat("/e").unwrap().ephemeral_owner, id);
        for mut state in [tree.state, loaded, late] {
            assert_eq!(state.ephemeral_count(), 1);
            let header = TxnHeader { session, cxid: 0, zxid: Zxid(100), time_ms: 0, kind: -11 };
            state.replay(&Record { header, txn: Txn::CloseSession { paths: None }, digest: None });
            assert_eq!((state.stat("/e"), state.ephemeral_count()), (None, 0), "{id:#x}");
            assert_eq!(state.expired_nodes(i64::MAX, 1), [""; 0]);
        }
    }
}

/// The snapshot contains a node that was deleted and created again, with children of its second life.
#[test]
fn replay_overrides_nodes_of_later_transactions() {
    let mut state = snapshot(4, |loader| {
        loader.node("/p", None, -1, StatPersisted { cversion: 1, ..stat(7) }).unwrap();
        loader.node("/p/later", None, -1, stat(8)).unwrap();
    });
    let history = [
        new_node("/p/earlier", 3),
        Txn::Delete { path: "/p/earlier".into() },
        Txn::Delete { path: "/p".into() },
        new_node("/p", 2),
        new_node("/p/later", 1),
    ];
    for (zxid, txn) in (5..).zip(history) {
        state.replay(&record(zxid, txn));
    }
    let stat = state.stat("/p").unwrap();
    assert_eq!((stat.czxid, stat.pzxid, stat.cversion, stat.num_children), (Zxid(8), Zxid(9), 1, 1));
    assert_eq!(state.stat("/p/later").unwrap().czxid, Zxid(9));
}

#[test]
fn k148_lists_are_dropped_with_their_last_node() {
    let mut harness = Harness::new(plain());
    let base = harness.state.acl_count();
    for round in 0..100 {
        let own = vec![entry(31, "world", "anyone"), entry(round, "digest", "a:b")];
        harness.ok(ANYONE, &create("/n", 0).with_acl(Some(own.clone())));
        harness.ok(ANYONE, &create("/m", 0).with_acl(Some(own)));
        assert_eq!(harness.state.acl_count(), base + 1, "shared");
        harness.ok(ANYONE, &set_acl("/n", &[entry(31, "world", "anyone"), entry(round, "digest", "c:d")]));
        assert_eq!(harness.state.acl_count(), base + 2);
        harness.ok(ANYONE, &delete("/n"));
        harness.ok(ANYONE, &delete("/m"));
        assert_eq!(harness.state.acl_count(), base);
    }
    assert_eq!(harness.state.freeze().acl_count(), base);
    let failing = Op::Multi(vec![create("/n", 0).with_acl(Some(bobs())), delete("/missing")]);
    harness.code(ANYONE, &failing);
    harness.code(ANYONE, &set_data("/n", "x"));
    assert_eq!(harness.state.acl_count(), base, "a refused list is not kept");
}
