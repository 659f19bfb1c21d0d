//! Visibility of nodes (K156, K166, K167) and the filter of events.

use crate::bare_tree::{BareTree, SESSION};
use crate::harness::{Harness, plain};
use crate::ops::{ANYONE, BOB, SUPER, bobs, secret};
use crate::request::{Bytes, create, delete, open, set_acl, set_data, set_watches};
use ox_history::Op;
use ox_proto::txn::{Record, Txn};
use ox_tree::auth::{SchemeSettings, authenticate};
use ox_tree::{State, TreeOptions};

fn recursive(path: &str) -> Op {
    Op::AddWatch { path: path.into(), mode: 1 }
}

#[test]
fn k156_watches_reveal_no_unreadable_nodes() {
    let mut harness = Harness::new(plain());
    harness.ok(BOB, &create("/open", 0));
    for conn in [ANYONE, BOB, SUPER] {
        assert_eq!(harness.read_code(conn, &recursive("/")), 0);
        assert_eq!(harness.read_code(conn, &Op::AddWatch { path: "/open/secret".into(), mode: 0 }), 0);
    }
    harness.ok(BOB, &create("/open/secret", 0).with_acl(Some(secret())));
    harness.ok(BOB, &set_data("/open/secret", "x"));
    harness.ok(BOB, &create("/open/secret/inside", 0).with_acl(Some(secret())));
    harness.ok(BOB, &delete("/open/secret/inside"));
    harness.ok(BOB, &delete("/open/secret"));
    assert_eq!(harness.events(ANYONE), [], "not even its deletion");
    assert_eq!(harness.events(BOB).len(), 7);
    assert_eq!(harness.events(SUPER).len(), 7);
}

/// A one-shot watch whose event is filtered is removed. The ACL at the time of the change decides.
#[test]
fn filtered_one_shot_watches_are_removed() {
    let mut harness = Harness::new(plain());
    harness.ok(BOB, &create("/n", 0).with_acl(Some(bobs())));
    assert_eq!(harness.read_code(ANYONE, &Op::GetData { path: "/n".into(), watch: true }), 0);
    harness.ok(BOB, &set_acl("/n", &secret()));
    harness.ok(BOB, &set_data("/n", "x"));
    assert_eq!(harness.events(ANYONE), []);
    harness.ok(BOB, &set_acl("/n", &open().unwrap()));
    harness.ok(BOB, &set_data("/n", "y"));
    assert_eq!(harness.events(ANYONE), [], "it does not fire later");
    assert!(harness.state.watches().lock().is_empty());
}

#[test]
fn k167_rearming_reveals_no_unreadable_nodes() {
    let mut harness = Harness::new(plain());
    harness.ok(BOB, &create("/secret", 0).with_acl(Some(secret())));
    for list in 0..5 {
        let mut lists: [Vec<String>; 5] = Default::default();
        lists[list].push("/secret".into());
        let read = set_watches(1000, lists);
        assert_eq!(harness.read_code(ANYONE, &read), 0);
        assert_eq!(harness.events_in_reply(), [], "list {list}");
        assert_eq!(harness.read_code(BOB, &read), 0);
        assert_eq!(harness.events_in_reply().len(), usize::from(list < 3), "list {list}");
    }
    harness.ok(BOB, &set_data("/secret", "x"));
    assert_eq!(harness.events(ANYONE), []);
}

#[test]
fn delete_container_is_refused_for_clients() {
    let mut tree = BareTree::with_node("/p", 0);
    let request = Bytes::default().text(Some("/p")).0;
    let record = tree.write_raw(SESSION, 20, &request).unwrap();
    assert_eq!(record[32..36], (-102_i32).to_be_bytes());
    assert!(tree.state.stat("/p").is_some());
}

const CONFIG: &str = "/zookeeper/config";

/// A standalone server refuses reconfig, with a code that depends on its settings.
#[test]
fn k166_standalone_server_refuses_reconfig() {
    let request = Bytes::default().text(None).text(None).text(Some("server.1=host:1:2;3")).long(-1).0;
    for (reconfig_enabled, expected) in [(false, -123), (true, -6)] {
        let options = TreeOptions { reconfig_enabled, ..plain().options() };
        let mut tree = BareTree::new(State::new(options));
        for credentials in [&b"bob:pw"[..], b"super:secret"] {
            let record = tree.write_raw(SESSION, 16, &request).unwrap();
            let Txn::Error { err } = Record::decode(&record).unwrap().txn else { panic!("not an error") };
            assert_eq!(err, expected);
            assert_eq!(tree.state.stat(CONFIG).unwrap().data_length, 0);
            assert!(tree.ids.add(authenticate(&tree.state, Some("digest"), Some(credentials)).proven().unwrap()));
        }
    }
}

/// The configuration node is read-only until an administrator changes its ACL.
#[test]
fn k166_configuration_node_obeys_its_acl() {
    let mut harness = Harness::new(plain());
    let write = set_data(CONFIG, "server.1=host:1:2;3");
    for conn in [ANYONE, BOB] {
        assert_eq!(harness.read_code(conn, &Op::GetData { path: CONFIG.into(), watch: false }), 0);
        for op in [&write, &set_acl(CONFIG, &open().unwrap()), &create("/zookeeper/config/below", 0)] {
            assert_eq!(harness.code(conn, op), -102, "{op:?}");
        }
        assert_eq!(harness.code(conn, &delete(CONFIG)), -8);
        harness.write(conn, &Op::Multi(vec![write.clone()]));
        assert_eq!(harness.state.stat(CONFIG).unwrap().data_length, 0, "nor inside a multi");
    }
    harness.ok(SUPER, &set_acl(CONFIG, &bobs()));
    assert_eq!(harness.code(ANYONE, &write), -102);
    harness.ok(BOB, &write);
    harness.compare_all();
}

/// Apache's example provider: `/key` contains a number, and clients send a multiple of it.
#[test]
fn key_scheme_accepts_multiples_of_the_key_node() {
    let mut tree = BareTree::new(State::new(TreeOptions {
        schemes: SchemeSettings { key: true, ..SchemeSettings::default() },
        ..plain().options()
    }));
    let prove = |tree: &BareTree, auth: &[u8]| authenticate(&tree.state, Some("key"), Some(auth)).proven();
    let proven = prove(&tree, b"anything").expect("without the node every client is accepted");
    assert_eq!(proven.iter().map(|proven| (&*proven.scheme, &*proven.id)).collect::<Vec<_>>(), [("key", "")]);
    tree.create("/key", 0).unwrap();
    tree.write(SESSION, &set_data("/key", "25")).unwrap();
    tree.drain();
    assert_eq!((prove(&tree, b"50"), prove(&tree, b"51"), prove(&tree, b"x")), (Some(proven), None, None));
}
