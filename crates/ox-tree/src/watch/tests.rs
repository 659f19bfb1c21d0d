use super::*;

fn id(number: usize) -> WatcherId {
    WatcherId::new(number as u64)
}

fn fire(watches: &mut WatchTable, table: WatchKind, path: &str) -> Vec<u64> {
    let mut found = Vec::new();
    watches.collect(table, path, &mut found);
    let mut found: Vec<u64> = found.into_iter().map(WatcherId::bits).collect();
    found.sort_unstable();
    found
}

#[test]
fn standard_watches_fire_once() {
    let mut watches = WatchTable::new(0, 0);
    assert!(watches.add(id(1), "/a", &[WatchKind::Data], WatchMode::Standard));
    assert!(watches.add(id(2), "/a", &[WatchKind::Data], WatchMode::Standard));
    assert!(watches.add(id(2), "/a", &[WatchKind::Data], WatchMode::Standard));
    assert_eq!(watches.total(), 2);
    assert_eq!(fire(&mut watches, WatchKind::Child, "/a"), []);
    assert_eq!(fire(&mut watches, WatchKind::Data, "/a"), [1, 2]);
    assert_eq!(fire(&mut watches, WatchKind::Data, "/a"), []);
    assert!(watches.is_empty());
}

#[test]
fn k129_each_mode_is_independent() {
    let mut watches = WatchTable::new(0, 0);
    for mode in [WatchMode::Standard, WatchMode::Persistent, WatchMode::Recursive] {
        assert!(watches.add(id(1), "/a", &[WatchKind::Data], mode));
    }
    assert_eq!(fire(&mut watches, WatchKind::Data, "/a"), [1]);
    assert!(!watches.has(id(1), "/a", WatchKind::Data, &[WatchMode::Standard]));
    assert!(watches.remove(id(1), "/a", WatchKind::Data, &[WatchMode::Persistent]));
    assert!(!watches.remove(id(1), "/a", WatchKind::Data, &[WatchMode::Persistent]));
    assert_eq!(fire(&mut watches, WatchKind::Data, "/a/b"), [1]);
    assert!(watches.remove(id(1), "/a", WatchKind::Data, &[WatchMode::Recursive]));
    assert_eq!(fire(&mut watches, WatchKind::Data, "/a/b"), []);
    assert_eq!((watches.total(), watches.recursive), (0, 0));
}

#[test]
fn recursive_watches_see_descendants_once() {
    let mut watches = WatchTable::new(0, 0);
    assert!(watches.add(id(1), "/", &[WatchKind::Data], WatchMode::Recursive));
    assert!(watches.add(id(1), "/a", &[WatchKind::Data], WatchMode::Recursive));
    assert!(watches.add(id(2), "/a/b", &[WatchKind::Data], WatchMode::Standard));
    assert_eq!(fire(&mut watches, WatchKind::Data, "/a/b"), [1, 2]);
    assert_eq!(fire(&mut watches, WatchKind::Data, "/"), [1]);
    assert_eq!(fire(&mut watches, WatchKind::Data, "/ab"), [1]);
}

#[test]
fn k118_dropped_watcher_leaves_no_watches() {
    let mut watches = WatchTable::new(0, 0);
    for path in ["/a", "/b", "/a/b"] {
        assert!(watches.add(id(1), path, &[WatchKind::Data], WatchMode::Standard));
        assert!(watches.add(id(1), path, &[WatchKind::Child], WatchMode::Persistent));
        assert!(watches.add(id(2), path, &[WatchKind::Data], WatchMode::Recursive));
    }
    watches.drop_watcher(id(1));
    assert_eq!(watches.total(), 3);
    watches.drop_watcher(id(2));
    assert!(watches.is_empty() && watches.watchers.is_empty());
    assert_eq!((watches.total(), watches.recursive), (0, 0));
}

#[test]
fn repeated_watches_keep_the_path_list_short() {
    let mut watches = WatchTable::new(0, 0);
    for round in 0..10_000 {
        assert!(watches.add(id(1), &format!("/{}", round % 3), &[WatchKind::Data], WatchMode::Standard));
        fire(&mut watches, WatchKind::Data, &format!("/{}", round % 3));
    }
    assert!(watches.watchers[&id(1)].slots.len() <= 32);
}

#[test]
fn root_alias_never_fires() {
    let mut watches = WatchTable::new(0, 0);
    assert!(watches.add(id(1), "", &[WatchKind::Data], WatchMode::Recursive));
    assert_eq!(fire(&mut watches, WatchKind::Data, "/a"), []);
}

#[test]
fn k118_memory_follows_live_watches() {
    let mut watches = WatchTable::new(0, 0);
    for at in 0..10_000 {
        assert!(watches.add(id(at % 7), &format!("/{at}"), &[WatchKind::Data], WatchMode::Standard));
        assert!(watches.add(id(7), &format!("/{at}"), &[WatchKind::Child], WatchMode::Persistent));
    }
    for at in 100..10_000 {
        assert_eq!(fire(&mut watches, WatchKind::Data, &format!("/{at}")), [at as u64 % 7]);
    }
    watches.drop_watcher(id(7));
    assert_eq!((watches.total(), watches.index.len()), (100, 100));
    assert!(watches.paths.len() < SHRINK_MIN, "{}", watches.paths.len());
    for at in 0..100 {
        assert_eq!(fire(&mut watches, WatchKind::Data, &format!("/{at}")), [at as u64 % 7]);
    }
    assert!(watches.is_empty());
    (0..8).for_each(|at| watches.drop_watcher(id(at)));
    assert!(watches.watchers.is_empty());
}

/// Adds, fires and removes watches on fifty paths in every possible way.
#[test]
fn address_counts_match_the_watch_table() {
    let mut watches = WatchTable::new(0, 1_000_000);
    let home = |slot: usize| IpAddr::from([10, 0, 0, u8::try_from(slot % 2).unwrap()]);
    (0..6).for_each(|slot| watches.add_watcher(id(slot), home(slot)));
    for at in 0..3000 {
        let (id, path) = (id(at % 6), format!("/{}", at % 50));
        let mode = [WatchMode::Standard, WatchMode::Persistent, WatchMode::Recursive][at % 3];
        match at % 7 {
            0 => {
                fire(&mut watches, WatchKind::Data, &path);
            }
            1 => {
                watches.remove(id, &path, WatchKind::Child, &[WatchMode::Persistent, WatchMode::Standard]);
            }
            2 => assert!(watches.add(id, &path, &[WatchKind::Data, WatchKind::Child], mode)),
            _ => assert!(watches.add(id, &path, &[[WatchKind::Data, WatchKind::Child][at % 2]], mode)),
        }
        assert_eq!(watches.limits.total(), watches.total(), "after step {at}");
    }
    assert!(100 < watches.total());
    (0..6).for_each(|slot| watches.drop_watcher(id(slot)));
    assert_eq!(watches.total(), 0);
    assert!(watches.limits.is_empty());
}

#[test]
fn address_at_its_limit_gets_no_more_watches() {
    let mut watches = WatchTable::new(0, 3);
    let [here, there] = [[10, 0, 0, 1], [10, 0, 0, 2]].map(IpAddr::from);
    for (slot, address) in [(1, here), (2, here), (3, there)] {
        watches.add_watcher(id(slot), address);
    }
    assert!(watches.add(id(1), "/a", &[WatchKind::Data, WatchKind::Child], WatchMode::Persistent));
    assert!(
        !watches.add(id(2), "/b", &[WatchKind::Data, WatchKind::Child], WatchMode::Persistent),
        "not even half of it"
    );
    assert_eq!((watches.total(), watches.has(id(2), "/b", WatchKind::Data, &[WatchMode::Persistent])), (2, false));
    assert!(watches.add(id(2), "/b", &[WatchKind::Data], WatchMode::Standard));
    assert!(!watches.add(id(1), "/b", &[WatchKind::Data], WatchMode::Standard));
    assert!(watches.add(id(1), "/a", &[WatchKind::Data], WatchMode::Standard), "an existing watch may be repeated");
    assert!(watches.add(id(3), "/b", &[WatchKind::Data], WatchMode::Standard), "other addresses are not affected");
    assert_eq!(watches.refused(), (2, Some(here)));
    assert_eq!(fire(&mut watches, WatchKind::Data, "/b"), [2, 3]);
    assert!(watches.add(id(1), "/b", &[WatchKind::Data], WatchMode::Standard));
    watches.drop_watcher(id(1));
    assert!(watches.add(id(2), "/c", &[WatchKind::Data, WatchKind::Child], WatchMode::Persistent));
    assert!(!watches.has(id(2), "/x", WatchKind::Data, &[WatchMode::Standard]) && watches.find("/x").is_none());
}
