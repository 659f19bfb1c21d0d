//! Watches (K127 to K137).

use crate::model::reads::Ask;
use crate::ops::{ANYONE, BOB, SUPER};
use crate::request::{Op, create, delete, set_acl, set_data};
use crate::harness::{Seen, World, plain};

fn add(path: &str, mode: i32) -> Ask {
    Ask::AddWatch { path: Some(path.into()), mode }
}

fn children(path: &str) -> Ask {
    Ask::GetChildren { path: Some(path.into()), watch: true, with_stat: false }
}

fn exists(path: &str) -> Ask {
    Ask::Exists { path: Some(path.into()), watch: true }
}

fn get(path: &str) -> Ask {
    Ask::GetData { path: Some(path.into()), watch: true }
}

fn kinds(events: &[Seen]) -> Vec<(i32, &str)> {
    events.iter().map(|(kind, path, _)| (*kind, path.as_str())).collect()
}

/// Each list with a node that is missing, older, newer and exactly as old as what the client has seen.
#[test]
fn k127_rearming_tells_exactly_what_was_missed() {
    let mut world = World::new(plain());
    world.ok(ANYONE, &create("/n", 0)); // czxid and mzxid at zxid 5
    world.ok(ANYONE, &create("/n/child", 0)); // pzxid at zxid 6
    let zxid = world.state.last_zxid().0;
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
            world.drop_conn(BOB);
            let ask = Ask::SetWatches { all_five: true, relative: zxid - seen, lists };
            assert_eq!(world.asked(BOB, &ask), 0);
            let events = world.events_in_answer();
            assert_eq!(events.iter().map(|(kind, _, zxid)| (*kind, *zxid)).next(), event.map(|kind| (kind, -1)));
            assert_eq!(world.state.watches().lock().is_empty(), event.is_some(), "told or armed, never both");
        }
        let mut lists: [Vec<String>; 5] = Default::default();
        lists[list].push("/missing".into());
        world.drop_conn(BOB);
        assert_eq!(world.asked(BOB, &Ask::SetWatches { all_five: true, relative: 0, lists }), 0);
        let expected: &[(i32, &str)] = if list == 0 || list == 2 { &[(2, "/missing")] } else { &[] };
        assert_eq!(kinds(&world.events_in_answer()), expected);
    }
}

/// Many requests, each a part of what is watched.
#[test]
fn k128_lists_come_in_parts() {
    let mut world = World::new(plain());
    for part in 0..20 {
        let paths: Vec<String> = (0..50).map(|at| format!("/{part}-{at}")).collect();
        let lists = [vec![], paths.clone(), vec![], vec![], paths];
        assert_eq!(world.asked(BOB, &Ask::SetWatches { all_five: true, relative: 0, lists }), 0);
    }
    assert_eq!(world.state.watches().lock().total(), 1000);
    world.ok(ANYONE, &create("/7-33", 0));
    assert_eq!(kinds(&world.events(BOB)), [(1, "/7-33")], "two modes, one event");
}

#[test]
fn k130_recursive_watches_hear_of_nodes_not_of_lists() {
    let mut world = World::new(plain());
    assert_eq!(world.asked(BOB, &add("/", 1)), 0);
    world.ok(ANYONE, &create("/a", 0));
    world.ok(ANYONE, &create("/a/b", 0));
    world.ok(ANYONE, &set_data("/a/b", "x"));
    world.ok(ANYONE, &delete("/a/b"));
    assert_eq!(kinds(&world.events(BOB)), [(1, "/a"), (1, "/a/b"), (3, "/a/b"), (2, "/a/b")]);
    // With a child watch beside it the event of the list is sent, once.
    assert_eq!(world.asked(BOB, &children("/a")), 0);
    world.ok(ANYONE, &create("/a/c", 0));
    world.ok(ANYONE, &create("/a/d", 0));
    assert_eq!(kinds(&world.events(BOB)), [(1, "/a/c"), (4, "/a"), (1, "/a/d")]);
}

#[test]
fn k131_watches_on_the_root_and_of_several_clients() {
    let mut world = World::new(plain());
    for conn in [ANYONE, BOB, SUPER] {
        assert_eq!(world.asked(conn, &children("/")), 0);
        assert_eq!(world.asked(conn, &get("/")), 0);
    }
    assert_eq!(world.asked(BOB, &exists("/a")), -101);
    world.ok(ANYONE, &create("/a", 0));
    world.ok(ANYONE, &set_data("/", "x"));
    for conn in [ANYONE, SUPER] {
        assert_eq!(kinds(&world.events(conn)), [(4, "/"), (3, "/")]);
    }
    assert_eq!(kinds(&world.events(BOB)), [(1, "/a"), (4, "/"), (3, "/")]);
    world.ok(ANYONE, &delete("/a"));
    world.ok(ANYONE, &set_data("/", "y"));
    for conn in [ANYONE, BOB, SUPER] {
        assert_eq!(world.events(conn), [], "one-shot watches are used up");
    }
}

#[test]
fn k136_each_change_fires_what_it_concerns_and_counts_do_not_drift() {
    let mut world = World::new(plain());
    world.ok(ANYONE, &create("/n", 0));
    for round in 0..50 {
        assert_eq!(world.asked(BOB, &children("/n")), 0);
        world.ok(ANYONE, &set_data("/n", "x"));
        world.ok(ANYONE, &set_acl("/n", &crate::request::open().unwrap()));
        assert_eq!(world.events(BOB), [], "a child watch does not fire for data or lists");
        assert_eq!(world.asked(BOB, &get("/n")), 0);
        world.ok(ANYONE, &create("/n/c", 0));
        assert_eq!(kinds(&world.events(BOB)), [(4, "/n")]);
        world.ok(ANYONE, &delete("/n/c"));
        assert_eq!(world.events(BOB), []);
        world.ok(ANYONE, &set_data("/n", "y"));
        assert_eq!(kinds(&world.events(BOB)), [(3, "/n")]);
        assert_eq!(world.state.watches().lock().total(), 0, "round {round}");
    }
    assert_eq!(world.asked(BOB, &get("/n")), 0);
    world.code(ANYONE, &set_data("/n", "z").at_version(7));
    assert_eq!(world.events(BOB), [], "a refused write fires nothing");
}

/// Both watches on a deleted node are used up; its client hears of it once.
#[test]
fn a_deleted_node_is_told_once() {
    let mut world = World::new(plain());
    world.ok(ANYONE, &create("/n", 0));
    assert_eq!(world.asked(BOB, &get("/n")), 0);
    assert_eq!(world.asked(BOB, &children("/n")), 0);
    assert_eq!(world.asked(SUPER, &children("/n")), 0);
    assert_eq!(world.asked(ANYONE, &add("/n", 0)), 0);
    world.ok(ANYONE, &delete("/n"));
    for conn in [ANYONE, BOB, SUPER] {
        assert_eq!(kinds(&world.events(conn)), [(2, "/n")]);
    }
    assert_eq!(world.state.watches().lock().total(), 2, "the persistent one stays, in both tables");
}

#[test]
fn k137_events_carry_the_zxid_of_the_change() {
    let mut world = World::new(plain());
    assert_eq!(world.asked(BOB, &add("/", 1)), 0);
    assert_eq!(world.asked(BOB, &add("/", 0)), 0);
    world.ok(ANYONE, &Op::Multi(vec![create("/a", 0), create("/a/b", 0), set_data("/a", "x"), delete("/a/b")]));
    let zxid = world.state.last_zxid().0;
    let events = world.events(BOB);
    assert!(events.iter().all(|(_, _, at)| *at == zxid), "one multi, one zxid: {events:?}");
    assert_eq!(kinds(&events), [(1, "/a"), (4, "/"), (1, "/a/b"), (3, "/a"), (2, "/a/b")]);
    world.ok(ANYONE, &create("/e", 1));
    world.events(BOB);
    world.close(ANYONE);
    let zxid = world.state.last_zxid().0;
    assert_eq!(world.events(BOB), [(2, "/e".to_owned(), zxid), (4, "/".to_owned(), zxid)]);
}

/// Every way to look for and to remove each kind of watch.
#[test]
fn k129_removing_one_kind_leaves_the_others() {
    // Watcher type, and which of standard data, standard child, persistent, recursive it finds.
    for (kind, found) in [(1, [false, true, false, false]), (2, [true, false, false, false]), (3, [true; 4])]
        .into_iter()
        .chain([(4, [false, false, true, false]), (5, [false, false, false, true])])
    {
        for (which, expected) in found.into_iter().enumerate() {
            let mut world = World::new(plain());
            world.ok(ANYONE, &create("/n", 0));
            let asks = [get("/n"), children("/n"), add("/n", 0), add("/n", 1)];
            assert_eq!(world.asked(BOB, &asks[which]), 0);
            let path = Some("/n".to_owned());
            let code = if expected { 0 } else { -121 };
            assert_eq!(world.asked(BOB, &Ask::CheckWatches { path: path.clone(), kind }), code, "{kind} {which}");
            assert_eq!(world.asked(BOB, &Ask::RemoveWatches { path: path.clone(), kind }), code, "{kind} {which}");
            assert_eq!(world.asked(BOB, &Ask::RemoveWatches { path, kind }), -121);
            assert_eq!(world.state.watches().lock().is_empty(), expected);
        }
        let mut world = World::new(plain());
        world.ok(ANYONE, &create("/n", 0));
        for ask in [get("/n"), children("/n"), add("/n", 0), add("/n", 1)] {
            assert_eq!(world.asked(BOB, &ask), 0);
        }
        assert_eq!(world.asked(BOB, &Ask::RemoveWatches { path: Some("/n".into()), kind }), 0);
        world.ok(ANYONE, &set_data("/n", "x"));
        world.ok(ANYONE, &create("/n/c", 0));
        world.events(BOB); // the model has compared them
        assert_eq!(world.asked(BOB, &Ask::RemoveWatches { path: Some("/n".into()), kind: 6 }), -5);
    }
}
