//! Who sees what (K156, K167 and the filter of events).

use crate::bare_tree::{Direct, SESSION};
use crate::model::reads::Ask;
use crate::ops::{ANYONE, BOB, SUPER, bobs, secret};
use crate::request::{Bytes, Op, create, delete, open, set_acl, set_data};
use crate::harness::{World, plain};
use ox_proto::txn::{Record, Txn};
use ox_tree::auth::authenticate;
use ox_tree::{Options, State};

fn recursive(path: &str) -> Ask {
    Ask::AddWatch { path: Some(path.into()), mode: 1 }
}

#[test]
fn k156_watches_reveal_nothing_that_could_not_be_read() {
    let mut world = World::new(plain());
    world.ok(BOB, &create("/open", 0));
    for conn in [ANYONE, BOB, SUPER] {
        assert_eq!(world.asked(conn, &recursive("/")), 0);
        assert_eq!(world.asked(conn, &Ask::AddWatch { path: Some("/open/secret".into()), mode: 0 }), 0);
    }
    world.ok(BOB, &create("/open/secret", 0).with_acl(Some(secret())));
    world.ok(BOB, &set_data("/open/secret", "x"));
    world.ok(BOB, &create("/open/secret/inside", 0).with_acl(Some(secret())));
    world.ok(BOB, &delete("/open/secret/inside"));
    world.ok(BOB, &delete("/open/secret"));
    assert_eq!(world.events(ANYONE), [], "not even that it was there");
    assert_eq!(world.events(BOB).len(), 7);
    assert_eq!(world.events(SUPER).len(), 7);
}

/// A filtered one-shot watch is used up; the list that counts is the one at the moment of the change.
#[test]
fn filtered_watches_are_used_up() {
    let mut world = World::new(plain());
    world.ok(BOB, &create("/n", 0).with_acl(Some(bobs())));
    assert_eq!(world.asked(ANYONE, &Ask::GetData { path: Some("/n".into()), watch: true }), 0);
    world.ok(BOB, &set_acl("/n", &secret()));
    world.ok(BOB, &set_data("/n", "x"));
    assert_eq!(world.events(ANYONE), []);
    world.ok(BOB, &set_acl("/n", &open().unwrap()));
    world.ok(BOB, &set_data("/n", "y"));
    assert_eq!(world.events(ANYONE), [], "it does not fire later");
    assert!(world.state.watches().lock().is_empty());
}

#[test]
fn k167_rearming_tells_nothing_about_unreadable_nodes() {
    let mut world = World::new(plain());
    world.ok(BOB, &create("/secret", 0).with_acl(Some(secret())));
    for list in 0..5 {
        let mut lists: [Vec<String>; 5] = Default::default();
        lists[list].push("/secret".into());
        let ask = Ask::SetWatches { all_five: true, relative: 1000, lists };
        assert_eq!(world.asked(ANYONE, &ask), 0);
        assert_eq!(world.events_in_answer(), [], "list {list}");
        assert_eq!(world.asked(BOB, &ask), 0);
        assert_eq!(world.events_in_answer().len(), usize::from(list < 3), "list {list}");
    }
    world.ok(BOB, &set_data("/secret", "x"));
    assert_eq!(world.events(ANYONE), []);
}

#[test]
fn the_servers_own_removals_are_not_for_clients() {
    let mut direct = Direct::with_node("/p", 0);
    let request = Bytes::default().text(Some("/p")).0;
    let record = direct.write_raw(SESSION, 20, &request).unwrap();
    assert_eq!(record[32..36], (-102_i32).to_be_bytes());
    assert!(direct.state.stat("/p").is_some());
}

const CONFIG: &str = "/zookeeper/config";

/// A server alone is not reconfigured by anybody, and says which of the two reasons it has.
#[test]
fn k166_a_server_alone_cannot_be_reconfigured() {
    let request = Bytes::default().text(None).text(None).text(Some("server.1=host:1:2;3")).long(-1).0;
    for (reconfig_enabled, expected) in [(false, -123), (true, -6)] {
        let options = Options { reconfig_enabled, ..plain().options() };
        let mut direct = Direct::new(State::new(options));
        for credentials in [&b"bob:pw"[..], b"super:secret"] {
            let record = direct.write_raw(SESSION, 16, &request).unwrap();
            let Txn::Error { err } = Record::decode(&record).unwrap().txn else { panic!("not an error") };
            assert_eq!(err, expected);
            assert_eq!(direct.state.stat(CONFIG).unwrap().data_length, 0);
            assert!(direct.ids.add(authenticate(&direct.state, Some("digest"), Some(credentials)).unwrap()));
        }
    }
}

/// The node that holds the configuration is for reading, until an administrator gives it away.
#[test]
fn k166_the_configuration_is_written_by_those_who_may() {
    let mut world = World::new(plain());
    let write = set_data(CONFIG, "server.1=host:1:2;3");
    for conn in [ANYONE, BOB] {
        assert_eq!(world.asked(conn, &Ask::GetData { path: Some(CONFIG.into()), watch: false }), 0);
        for op in [&write, &set_acl(CONFIG, &open().unwrap()), &create("/zookeeper/config/below", 0)] {
            assert_eq!(world.code(conn, op), -102, "{op:?}");
        }
        assert_eq!(world.code(conn, &delete(CONFIG)), -8);
        world.write(conn, &Op::Multi(vec![write.clone()]));
        assert_eq!(world.state.stat(CONFIG).unwrap().data_length, 0, "nor inside a multi");
    }
    world.ok(SUPER, &set_acl(CONFIG, &bobs()));
    assert_eq!(world.code(ANYONE, &write), -102);
    world.ok(BOB, &write);
    world.compare_all();
}

/// The sample provider of Apache: `/key` holds a number, and clients prove that they know a multiple of it.
#[test]
fn key_scheme_reads_its_node() {
    let mut direct = Direct::new(State::new(Options { key_scheme: true, ..plain().options() }));
    let prove = |direct: &Direct, auth: &[u8]| authenticate(&direct.state, Some("key"), Some(auth));
    let proven = prove(&direct, b"anything").expect("without the node every client is accepted");
    assert_eq!(proven.iter().map(|proven| (&*proven.scheme, &*proven.id)).collect::<Vec<_>>(), [("key", "")]);
    direct.create("/key", 0).unwrap();
    direct.write(SESSION, &set_data("/key", "25")).unwrap();
    direct.drain();
    assert_eq!((prove(&direct, b"50"), prove(&direct, b"51"), prove(&direct, b"x")), (Some(proven), None, None));
}
