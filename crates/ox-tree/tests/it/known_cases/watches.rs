//! Known cases of watches (K127 to K137).

use crate::harness::{Harness, Seen, plain};
use crate::ops::{ANYONE, BOB, SUPER};
use crate::request::{create, delete, set_acl, set_data, set_watches};
use ox_history::Op;

fn add(path: &str, mode: i32) -> Op {
    Op::AddWatch { path: path.into(), mode }
}

fn children(path: &str) -> Op {
    Op::GetChildren { path: path.into(), watch: true }
}

fn exists(path: &str) -> Op {
    Op::Exists { path: path.into(), watch: true }
}

fn get(path: &str) -> Op {
    Op::GetData { path: path.into(), watch: true }
}

fn kinds(events: &[Seen]) -> Vec<(i32, &str)> {
    events.iter().map(|(kind, path, _)| (*kind, path.as_str())).collect()
}

/// Each list with a node that is missing, and with one that changed before, after and exactly at the client's last
/// zxid.
#[test]
fn k127_rearming_reports_exactly_the_missed_changes() {
    let mut harness = Harness::new(plain());
    harness.ok(ANYONE, &create("/n", 0)); // czxid and mzxid at zxid 5
    harness.ok(ANYONE, &create("/n/child", 0)); // pzxid at zxid 6
    let zxid = harness.state.last_zxid().0;
    let seen_before = [zxid - 2, zxid - 1, zxid, zxid + 1];
    let expected: [[Option<i32>; 4]; 5] = [
        [Some(3), None, None, None],          // data: mzxid is zxid - 1
        [Some(1), Some(1), Some(1), Some(1)], // exists: it is there
        [Some(4), Some(4), None, None],       // child: pzxid is zxid
        [None; 4],
        [None; 4],
    ];
    for (list, row) in expected.iter().enumerate() {
        for (seen, event) in seen_before.iter().zip(row) {
            let mut lists: [Vec<String>; 5] = Default::default();
            lists[list].push("/n".into());
            harness.drop_conn(BOB);
            let read = set_watches(zxid - seen, lists);
            assert_eq!(harness.read_code(BOB, &read), 0);
            let events = harness.events_in_reply();
            assert_eq!(events.iter().map(|(kind, _, zxid)| (*kind, *zxid)).next(), event.map(|kind| (kind, -1)));
            assert_eq!(harness.state.watches().lock().is_empty(), event.is_some(), "an event or a watch, never both");
        }
        let mut lists: [Vec<String>; 5] = Default::default();
        lists[list].push("/missing".into());
        harness.drop_conn(BOB);
        assert_eq!(harness.read_code(BOB, &set_watches(0, lists)), 0);
        let expected: &[(i32, &str)] = if list == 0 || list == 2 { &[(2, "/missing")] } else { &[] };
        assert_eq!(kinds(&harness.events_in_reply()), expected);
    }
}

/// Clients split their watches into many requests.
#[test]
fn k128_rearming_in_several_requests() {
    let mut harness = Harness::new(plain());
    for part in 0..20 {
        let paths: Vec<String> = (0..50).map(|at| format!("/{part}-{at}")).collect();
        let lists = [vec![], paths.clone(), vec![], vec![], paths];
        assert_eq!(harness.read_code(BOB, &set_watches(0, lists)), 0);
    }
    assert_eq!(harness.state.watches().lock().total(), 1000);
    harness.ok(ANYONE, &create("/7-33", 0));
    assert_eq!(kinds(&harness.events(BOB)), [(1, "/7-33")], "two modes, one event");
}

#[test]
fn k130_recursive_watches_receive_no_children_events() {
    let mut harness = Harness::new(plain());
    assert_eq!(harness.read_code(BOB, &add("/", 1)), 0);
    harness.ok(ANYONE, &create("/a", 0));
    harness.ok(ANYONE, &create("/a/b", 0));
    harness.ok(ANYONE, &set_data("/a/b", "x"));
    harness.ok(ANYONE, &delete("/a/b"));
    assert_eq!(kinds(&harness.events(BOB)), [(1, "/a"), (1, "/a/b"), (3, "/a/b"), (2, "/a/b")]);
    // A child watch on the same path receives the children event, once.
    assert_eq!(harness.read_code(BOB, &children("/a")), 0);
    harness.ok(ANYONE, &create("/a/c", 0));
    harness.ok(ANYONE, &create("/a/d", 0));
    assert_eq!(kinds(&harness.events(BOB)), [(1, "/a/c"), (4, "/a"), (1, "/a/d")]);
}

#[test]
fn k131_watches_on_the_root_and_of_several_clients() {
    let mut harness = Harness::new(plain());
    for conn in [ANYONE, BOB, SUPER] {
        assert_eq!(harness.read_code(conn, &children("/")), 0);
        assert_eq!(harness.read_code(conn, &get("/")), 0);
    }
    assert_eq!(harness.read_code(BOB, &exists("/a")), -101);
    harness.ok(ANYONE, &create("/a", 0));
    harness.ok(ANYONE, &set_data("/", "x"));
    for conn in [ANYONE, SUPER] {
        assert_eq!(kinds(&harness.events(conn)), [(4, "/"), (3, "/")]);
    }
    assert_eq!(kinds(&harness.events(BOB)), [(1, "/a"), (4, "/"), (3, "/")]);
    harness.ok(ANYONE, &delete("/a"));
    harness.ok(ANYONE, &set_data("/", "y"));
    for conn in [ANYONE, BOB, SUPER] {
        assert_eq!(harness.events(conn), [], "one-shot watches are used up");
    }
}

#[test]
fn k136_changes_fire_matching_watches_and_counts_do_not_drift() {
    let mut harness = Harness::new(plain());
    harness.ok(ANYONE, &create("/n", 0));
    for round in 0..50 {
        assert_eq!(harness.read_code(BOB, &children("/n")), 0);
        harness.ok(ANYONE, &set_data("/n", "x"));
        harness.ok(ANYONE, &set_acl("/n", &crate::request::open().unwrap()));
        assert_eq!(harness.events(BOB), [], "a child watch does not fire for data or lists");
        assert_eq!(harness.read_code(BOB, &get("/n")), 0);
        harness.ok(ANYONE, &create("/n/c", 0));
        assert_eq!(kinds(&harness.events(BOB)), [(4, "/n")]);
        harness.ok(ANYONE, &delete("/n/c"));
        assert_eq!(harness.events(BOB), []);
        harness.ok(ANYONE, &set_data("/n", "y"));
        assert_eq!(kinds(&harness.events(BOB)), [(3, "/n")]);
        assert_eq!(harness.state.watches().lock().total(), 0, "round {round}");
    }
    assert_eq!(harness.read_code(BOB, &get("/n")), 0);
    harness.code(ANYONE, &set_data("/n", "z").at_version(7));
    assert_eq!(harness.events(BOB), [], "a refused write fires nothing");
}

/// Both watches on a deleted node are removed; the client receives one event.
#[test]
fn deleted_node_fires_one_event_per_client() {
    let mut harness = Harness::new(plain());
    harness.ok(ANYONE, &create("/n", 0));
    assert_eq!(harness.read_code(BOB, &get("/n")), 0);
    assert_eq!(harness.read_code(BOB, &children("/n")), 0);
    assert_eq!(harness.read_code(SUPER, &children("/n")), 0);
    assert_eq!(harness.read_code(ANYONE, &add("/n", 0)), 0);
    harness.ok(ANYONE, &delete("/n"));
    for conn in [ANYONE, BOB, SUPER] {
        assert_eq!(kinds(&harness.events(conn)), [(2, "/n")]);
    }
    assert_eq!(harness.state.watches().lock().total(), 2, "the persistent one stays, in both tables");
}

#[test]
fn k137_events_carry_the_zxid_of_the_change() {
    let mut harness = Harness::new(plain());
    assert_eq!(harness.read_code(BOB, &add("/", 1)), 0);
    assert_eq!(harness.read_code(BOB, &add("/", 0)), 0);
    harness.ok(ANYONE, &Op::Multi(vec![create("/a", 0), create("/a/b", 0), set_data("/a", "x"), delete("/a/b")]));
    let zxid = harness.state.last_zxid().0;
    let events = harness.events(BOB);
    assert!(events.iter().all(|(_, _, at)| *at == zxid), "one multi, one zxid: {events:?}");
    assert_eq!(kinds(&events), [(1, "/a"), (4, "/"), (1, "/a/b"), (3, "/a"), (2, "/a/b")]);
    harness.ok(ANYONE, &create("/e", 1));
    harness.events(BOB);
    harness.close(ANYONE);
    let zxid = harness.state.last_zxid().0;
    assert_eq!(harness.events(BOB), [(2, "/e".to_owned(), zxid), (4, "/".to_owned(), zxid)]);
}

/// Every watcher type, with each kind of watch registered.
#[test]
fn k129_removing_one_kind_leaves_the_others() {
    // The watcher type, and which of standard data, standard child, persistent and recursive watches it matches.
    for (kind, found) in [(1, [false, true, false, false]), (2, [true, false, false, false]), (3, [true; 4])]
        .into_iter()
        .chain([(4, [false, false, true, false]), (5, [false, false, false, true])])
    {
        for (which, expected) in found.into_iter().enumerate() {
            let mut harness = Harness::new(plain());
            harness.ok(ANYONE, &create("/n", 0));
            let asks = [get("/n"), children("/n"), add("/n", 0), add("/n", 1)];
            assert_eq!(harness.read_code(BOB, &asks[which]), 0);
            let path = "/n".to_owned();
            let code = if expected { 0 } else { -121 };
            assert_eq!(harness.read_code(BOB, &Op::CheckWatches { path: path.clone(), kind }), code, "{kind} {which}");
            assert_eq!(harness.read_code(BOB, &Op::RemoveWatches { path: path.clone(), kind }), code, "{kind} {which}");
            assert_eq!(harness.read_code(BOB, &Op::RemoveWatches { path, kind }), -121);
            assert_eq!(harness.state.watches().lock().is_empty(), expected);
        }
        let mut harness = Harness::new(plain());
        harness.ok(ANYONE, &create("/n", 0));
        for read in [get("/n"), children("/n"), add("/n", 0), add("/n", 1)] {
            assert_eq!(harness.read_code(BOB, &read), 0);
        }
        assert_eq!(harness.read_code(BOB, &Op::RemoveWatches { path: "/n".into(), kind }), 0);
        harness.ok(ANYONE, &set_data("/n", "x"));
        harness.ok(ANYONE, &create("/n/c", 0));
        harness.events(BOB); // the harness compares them
        assert_eq!(harness.read_code(BOB, &Op::RemoveWatches { path: "/n".into(), kind: 6 }), -5);
    }
}
