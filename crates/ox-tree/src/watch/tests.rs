use super::*;

fn conn(slot: usize) -> ConnId {
    ConnId::new(0, slot, 1)
}

fn fire(watches: &mut WatchTable, table: Table, path: &str) -> Vec<usize> {
    let mut found = Vec::new();
    watches.collect(table, path, &mut found);
    let mut slots: Vec<usize> = found.iter().map(|conn| conn.slot()).collect();
    slots.sort_unstable();
    slots
}

#[test]
fn standard_watches_fire_once() {
    let mut watches = WatchTable::new(0, 0);
    assert!(watches.add(conn(1), "/a", &[Table::Data], Mode::Standard));
    assert!(watches.add(conn(2), "/a", &[Table::Data], Mode::Standard));
    assert!(watches.add(conn(2), "/a", &[Table::Data], Mode::Standard));
    assert_eq!(watches.total(), 2);
    assert_eq!(fire(&mut watches, Table::Child, "/a"), []);
    assert_eq!(fire(&mut watches, Table::Data, "/a"), [1, 2]);
    assert_eq!(fire(&mut watches, Table::Data, "/a"), []);
    assert!(watches.is_empty());
}

#[test]
fn k129_each_mode_is_independent() {
    let mut watches = WatchTable::new(0, 0);
    for mode in [Mode::Standard, Mode::Persistent, Mode::Recursive] {
        assert!(watches.add(conn(1), "/a", &[Table::Data], mode));
    }
    assert_eq!(fire(&mut watches, Table::Data, "/a"), [1]);
    assert!(!watches.has(conn(1), "/a", Table::Data, &[Mode::Standard]));
    assert!(watches.remove(conn(1), "/a", Table::Data, &[Mode::Persistent]));
    assert!(!watches.remove(conn(1), "/a", Table::Data, &[Mode::Persistent]));
    assert_eq!(fire(&mut watches, Table::Data, "/a/b"), [1]);
    assert!(watches.remove(conn(1), "/a", Table::Data, &[Mode::Recursive]));
    assert_eq!(fire(&mut watches, Table::Data, "/a/b"), []);
    assert_eq!((watches.total(), watches.recursive), (0, 0));
}

#[test]
fn recursive_watches_see_descendants_once() {
    let mut watches = WatchTable::new(0, 0);
    assert!(watches.add(conn(1), "/", &[Table::Data], Mode::Recursive));
    assert!(watches.add(conn(1), "/a", &[Table::Data], Mode::Recursive));
    assert!(watches.add(conn(2), "/a/b", &[Table::Data], Mode::Standard));
    assert_eq!(fire(&mut watches, Table::Data, "/a/b"), [1, 2]);
    assert_eq!(fire(&mut watches, Table::Data, "/"), [1]);
    assert_eq!(fire(&mut watches, Table::Data, "/ab"), [1]);
}

#[test]
fn k118_nothing_stays_of_a_closed_connection() {
    let mut watches = WatchTable::new(0, 0);
    for path in ["/a", "/b", "/a/b"] {
        assert!(watches.add(conn(1), path, &[Table::Data], Mode::Standard));
        assert!(watches.add(conn(1), path, &[Table::Child], Mode::Persistent));
        assert!(watches.add(conn(2), path, &[Table::Data], Mode::Recursive));
    }
    watches.drop_conn(conn(1));
    assert_eq!(watches.total(), 3);
    watches.drop_conn(conn(2));
    assert!(watches.is_empty() && watches.conns.is_empty());
    assert_eq!((watches.total(), watches.recursive), (0, 0));
}

#[test]
fn a_connection_that_watches_for_ever_keeps_a_short_list() {
    let mut watches = WatchTable::new(0, 0);
    for round in 0..10_000 {
        assert!(watches.add(conn(1), &format!("/{}", round % 3), &[Table::Data], Mode::Standard));
        fire(&mut watches, Table::Data, &format!("/{}", round % 3));
    }
    assert!(watches.conns[&conn(1)].slots.len() <= 32);
}

#[test]
fn the_root_alias_never_fires() {
    let mut watches = WatchTable::new(0, 0);
    assert!(watches.add(conn(1), "", &[Table::Data], Mode::Recursive));
    assert_eq!(fire(&mut watches, Table::Data, "/a"), []);
}

#[test]
fn k118_memory_follows_live_watches() {
    let mut watches = WatchTable::new(0, 0);
    for at in 0..10_000 {
        assert!(watches.add(conn(at % 7), &format!("/{at}"), &[Table::Data], Mode::Standard));
        assert!(watches.add(conn(7), &format!("/{at}"), &[Table::Child], Mode::Persistent));
    }
    for at in 100..10_000 {
        assert_eq!(fire(&mut watches, Table::Data, &format!("/{at}")), [at % 7]);
    }
    watches.drop_conn(conn(7));
    assert_eq!((watches.total(), watches.index.len()), (100, 100));
    assert!(watches.paths.len() < SHRINK_MIN, "{}", watches.paths.len());
    for at in 0..100 {
        assert_eq!(fire(&mut watches, Table::Data, &format!("/{at}")), [at % 7]);
    }
    assert!(watches.is_empty());
    (0..8).for_each(|at| watches.drop_conn(conn(at)));
    assert!(watches.conns.is_empty());
}

/// Watches on fifty paths, in both tables, up and down in every way there is.
#[test]
fn an_address_has_as_many_watches_as_are_counted() {
    let mut watches = WatchTable::new(0, 1_000_000);
    let home = |slot: usize| IpAddr::from([10, 0, 0, u8::try_from(slot % 2).unwrap()]);
    (0..6).for_each(|slot| watches.add_conn(conn(slot), home(slot)));
    for at in 0..3000 {
        let (conn, path) = (conn(at % 6), format!("/{}", at % 50));
        let mode = [Mode::Standard, Mode::Persistent, Mode::Recursive][at % 3];
        match at % 7 {
            0 => {
                fire(&mut watches, Table::Data, &path);
            }
            1 => {
                watches.remove(conn, &path, Table::Child, &[Mode::Persistent, Mode::Standard]);
            }
            2 => assert!(watches.add(conn, &path, &[Table::Data, Table::Child], mode)),
            _ => assert!(watches.add(conn, &path, &[[Table::Data, Table::Child][at % 2]], mode)),
        }
        assert_eq!(watches.owners.total(), watches.total(), "after step {at}");
    }
    assert!(100 < watches.total());
    (0..6).for_each(|slot| watches.drop_conn(conn(slot)));
    assert_eq!(watches.total(), 0);
    assert!(watches.owners.is_empty());
}

#[test]
fn an_address_that_has_enough_gets_no_more() {
    let mut watches = WatchTable::new(0, 3);
    let [here, there] = [[10, 0, 0, 1], [10, 0, 0, 2]].map(IpAddr::from);
    for (slot, address) in [(1, here), (2, here), (3, there)] {
        watches.add_conn(conn(slot), address);
    }
    assert!(watches.add(conn(1), "/a", &[Table::Data, Table::Child], Mode::Persistent));
    assert!(!watches.add(conn(2), "/b", &[Table::Data, Table::Child], Mode::Persistent), "not even half of it");
    assert_eq!((watches.total(), watches.has(conn(2), "/b", Table::Data, &[Mode::Persistent])), (2, false));
    assert!(watches.add(conn(2), "/b", &[Table::Data], Mode::Standard));
    assert!(!watches.add(conn(1), "/b", &[Table::Data], Mode::Standard));
    assert!(watches.add(conn(1), "/a", &[Table::Data], Mode::Standard), "what is there may be repeated");
    assert!(watches.add(conn(3), "/b", &[Table::Data], Mode::Standard), "others are not concerned");
    assert_eq!(watches.refused(), (2, Some(here)));
    assert_eq!(fire(&mut watches, Table::Data, "/b"), [2, 3]);
    assert!(watches.add(conn(1), "/b", &[Table::Data], Mode::Standard));
    watches.drop_conn(conn(1));
    assert!(watches.add(conn(2), "/c", &[Table::Data, Table::Child], Mode::Persistent));
    assert!(!watches.has(conn(2), "/x", Table::Data, &[Mode::Standard]) && watches.find("/x").is_none());
}
