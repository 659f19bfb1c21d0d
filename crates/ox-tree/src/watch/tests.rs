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
    let mut watches = WatchTable::new(0);
    watches.add(conn(1), "/a", Table::Data, Mode::Standard);
    watches.add(conn(2), "/a", Table::Data, Mode::Standard);
    watches.add(conn(2), "/a", Table::Data, Mode::Standard);
    assert_eq!(watches.total(), 2);
    assert_eq!(fire(&mut watches, Table::Child, "/a"), []);
    assert_eq!(fire(&mut watches, Table::Data, "/a"), [1, 2]);
    assert_eq!(fire(&mut watches, Table::Data, "/a"), []);
    assert!(watches.is_empty());
}

#[test]
fn k129_each_mode_is_independent() {
    let mut watches = WatchTable::new(0);
    for mode in [Mode::Standard, Mode::Persistent, Mode::Recursive] {
        watches.add(conn(1), "/a", Table::Data, mode);
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
    let mut watches = WatchTable::new(0);
    watches.add(conn(1), "/", Table::Data, Mode::Recursive);
    watches.add(conn(1), "/a", Table::Data, Mode::Recursive);
    watches.add(conn(2), "/a/b", Table::Data, Mode::Standard);
    assert_eq!(fire(&mut watches, Table::Data, "/a/b"), [1, 2]);
    assert_eq!(fire(&mut watches, Table::Data, "/"), [1]);
    assert_eq!(fire(&mut watches, Table::Data, "/ab"), [1]);
}

#[test]
fn k118_nothing_stays_of_a_closed_connection() {
    let mut watches = WatchTable::new(0);
    for path in ["/a", "/b", "/a/b"] {
        watches.add(conn(1), path, Table::Data, Mode::Standard);
        watches.add(conn(1), path, Table::Child, Mode::Persistent);
        watches.add(conn(2), path, Table::Data, Mode::Recursive);
    }
    watches.drop_conn(conn(1));
    assert_eq!(watches.total(), 3);
    watches.drop_conn(conn(2));
    assert!(watches.is_empty() && watches.conns.is_empty());
    assert_eq!((watches.total(), watches.recursive), (0, 0));
}

#[test]
fn a_connection_that_watches_for_ever_keeps_a_short_list() {
    let mut watches = WatchTable::new(0);
    for round in 0..10_000 {
        watches.add(conn(1), &format!("/{}", round % 3), Table::Data, Mode::Standard);
        fire(&mut watches, Table::Data, &format!("/{}", round % 3));
    }
    assert!(watches.conns[&conn(1)].slots.len() <= 32);
}

#[test]
fn the_root_alias_never_fires() {
    let mut watches = WatchTable::new(0);
    watches.add(conn(1), "", Table::Data, Mode::Recursive);
    assert_eq!(fire(&mut watches, Table::Data, "/a"), []);
}

#[test]
fn k118_memory_follows_live_watches() {
    let mut watches = WatchTable::new(0);
    for at in 0..10_000 {
        watches.add(conn(at % 7), &format!("/{at}"), Table::Data, Mode::Standard);
        watches.add(conn(7), &format!("/{at}"), Table::Child, Mode::Persistent);
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
