//! Log diffs for learners: a complete range of this server's own history, or nothing.

use crate::lifecycle::{Txns, loaded, open_with, state_of, txns, with_logs, zx};
use crate::sim_stores::{damage, file, names, remove};
use crate::workload::make;
use ox_proto::Zxid;
use ox_store::disk::SimDisk;
use ox_store::names::old_name;
use ox_store::{MemberOptions, Store, StoreError, StoreOptions};

const NO_LIMIT: f64 = 1e9;

/// The zxids that a learner at `peer` receives before the recent transactions start at `below`.
fn served(store: &Store, peer: Zxid, below: Zxid, factor: f64) -> Option<Vec<Zxid>> {
    let history = store.log_diff(peer, below, factor).unwrap()?;
    Some(history.map(|logged| logged.unwrap().zxid).collect())
}

fn all() -> Txns {
    [txns(1, 1..=9, 0), txns(3, 1..=6, 0)].concat()
}

/// The expected zxids: everything between, if `peer` is a position above `floor`.
fn expected(floor: Zxid, peer: Zxid, below: Zxid) -> Option<Vec<Zxid>> {
    let zxids: Vec<Zxid> = all().into_iter().map(|(zxid, _)| zxid).collect();
    let is_position = zxids.contains(&peer) || peer == zx(3, 0) || (peer == floor && peer != Zxid::ZERO);
    let fits = is_position && floor <= peer && peer < below;
    fits.then(|| zxids.into_iter().filter(|zxid| peer < *zxid && *zxid < below).collect())
}

#[test]
fn range_is_served_completely_or_not_at_all() {
    for snapshots in [&[][..], &[zx(1, 4)], &[zx(1, 9)], &[zx(1, 4), zx(3, 3)]] {
        let (life, opened) = with_logs(snapshots);
        let strange = [Zxid::ZERO, Zxid(-1), zx(1, 12), zx(2, 0), zx(2, 1), zx(3, 0), zx(3, 7), zx(4, 0)];
        let peers = || all().into_iter().map(|(zxid, _)| zxid).chain(strange);
        let belows = || all().into_iter().map(|(zxid, _)| zxid).chain([zx(3, 7), zx(5, 1)]);
        let check = |store: &Store, floor: Zxid| {
            for (peer, below) in peers().flat_map(|peer| belows().map(move |below| (peer, below))) {
                let found = served(store, peer, below, NO_LIMIT);
                assert_eq!(found, expected(floor, peer, below), "from {peer} to {below} above {floor}");
                assert_eq!(served(store, peer, below, -1.0), None);
            }
        };
        check(&opened.store, Zxid::ZERO);
        life.end_process(opened);
        // A start proves only the records after the newest snapshot.
        let opened = open_with(&life.disk, &life.options, &MemberOptions::new(1)).unwrap();
        check(&opened.store, snapshots.last().copied().unwrap_or(Zxid::ZERO));
    }
}

#[test]
fn served_records_equal_the_logged_ones() {
    let (_, opened) = with_logs(&[]);
    let mut state = state_of(&txns(1, 1..=4, 0));
    for logged in opened.store.log_diff(zx(1, 4), zx(3, 5), NO_LIMIT).unwrap().unwrap() {
        let (logged, mut frame) = (logged.unwrap(), Vec::new());
        make(&mut state, logged.zxid, 0, &mut frame);
        assert_eq!(logged.record, frame[12..frame.len() - 1], "{}", logged.zxid);
    }
    assert_eq!(state.last_zxid(), zx(3, 4));
}

#[test]
fn size_is_limited_relative_to_the_snapshot() {
    let (life, opened) = with_logs(&[zx(1, 2)]);
    let snapshot = life.disk.content(&file("snapshot.100000002")).unwrap().len();
    let records = opened.store.log_diff(zx(1, 2), zx(3, 5), NO_LIMIT).unwrap().unwrap();
    let bytes: usize = records.map(|logged| logged.unwrap().record.len()).sum();
    let factor = bytes as f64 / snapshot as f64;
    assert!(served(&opened.store, zx(1, 2), zx(3, 5), factor * 1.01).is_some());
    assert!(served(&opened.store, zx(1, 2), zx(3, 5), factor * 0.99).is_none());
    assert!(served(&opened.store, zx(3, 3), zx(3, 5), factor * 0.99).is_some(), "only sent records count");
    assert!(served(&opened.store, zx(1, 2), zx(3, 5), 0.0).is_some(), "no limit");
}

/// A range with a gap or damage is not served (K15).
#[test]
fn k015_range_with_a_gap_is_not_served() {
    let (life, opened) = with_logs(&[]);
    let logs = names(&life.disk, "log.");
    for log in &logs[1..] {
        let (life, opened) = with_logs(&[]);
        remove(&life.disk, log);
        assert_eq!(served(&opened.store, zx(1, 1), zx(3, 7), NO_LIMIT), None, "{log} is missing");
        let (life, opened) = with_logs(&[]);
        damage(&life.disk, log, |bytes| bytes[40] ^= 1);
        assert_eq!(served(&opened.store, zx(1, 1), zx(3, 7), NO_LIMIT), None, "{log} is damaged");
    }
    assert!(served(&opened.store, zx(1, 1), zx(3, 7), NO_LIMIT).is_some());
    assert_eq!(served(&opened.store, zx(1, 1), zx(3, 8), NO_LIMIT), None, "a gap before the recent transactions");
    // The gap appears while the range is read.
    let mut history = opened.store.log_diff(zx(1, 1), zx(3, 7), NO_LIMIT).unwrap().unwrap();
    assert!(history.next().unwrap().is_ok());
    damage(&life.disk, &logs[2], |bytes| bytes[40] ^= 1);
    let rest: Vec<_> = history.take(100).collect();
    assert!(matches!(rest.last(), Some(Err(StoreError::HistoryChanged(_)))));
}

/// Damage in the last log of an epoch is noticed both by a log diff into the next epoch and by a purge (K15).
#[test]
fn k015_damage_before_an_epoch_is_noticed() {
    let with_epoch = || {
        let (mut life, mut opened) = with_logs(&[]);
        life.accept(&mut opened, 4).unwrap();
        life.take_over(&mut opened, 4).unwrap();
        opened.log.roll();
        for counter in 1..=3 {
            life.append(&mut opened, &[txns(4, counter..=counter, 0)]).unwrap();
            opened.log.roll();
        }
        (life, opened)
    };
    for is_gone in [false, true] {
        let harm = |disk: &SimDisk, log: &str| match is_gone {
            true => remove(disk, log),
            false => damage(disk, log, |bytes| bytes[40] ^= 1),
        };
        let (life, opened) = with_epoch();
        let last_of_epoch = names(&life.disk, "log.3").pop().unwrap();
        let mut history = opened.store.log_diff(zx(1, 1), zx(4, 3), NO_LIMIT).unwrap().unwrap();
        assert!(history.next().unwrap().is_ok());
        harm(&life.disk, &last_of_epoch);
        let rest: Vec<_> = history.take(100).collect();
        assert!(matches!(rest.last(), Some(Err(_))), "while it is read");
        assert_eq!(served(&opened.store, zx(1, 1), zx(4, 3), NO_LIMIT), None);
        let (life, opened) = with_epoch();
        harm(&life.disk, &last_of_epoch);
        let before = names(&life.disk, "");
        assert!(matches!(opened.store.purge(3, &|| false), Err(StoreError::PurgeRefused(_))));
        assert_eq!(names(&life.disk, ""), before);
    }
}

/// The last records of an epoch are purged, and nothing in the next epoch shows that they are missing.
#[test]
fn purged_records_are_noticed() {
    let (mut life, opened) = with_logs(&[zx(3, 4)]);
    life.end_process(opened);
    let mut opened = open_with(&life.disk, &life.options, &MemberOptions::new(1)).unwrap();
    life.accept(&mut opened, 4).unwrap();
    life.take_over(&mut opened, 4).unwrap();
    opened.log.roll();
    for counter in 1..=3 {
        assert_eq!(served(&opened.store, zx(3, 4), zx(4, 1), NO_LIMIT), Some(vec![zx(3, 5), zx(3, 6)]));
        life.append(&mut opened, &[txns(4, counter..=counter, 0)]).unwrap();
        opened.store.write_snapshot(&state_of(&life.txns).freeze()).unwrap();
    }
    assert!(!opened.store.purge(3, &|| false).unwrap().removed.is_empty());
    assert_eq!(served(&opened.store, zx(3, 4), zx(4, 4), NO_LIMIT), None);
    assert_eq!(served(&opened.store, zx(4, 1), zx(4, 4), NO_LIMIT), Some(vec![zx(4, 2), zx(4, 3)]));
}

/// Logs of a replaced history, as Apache leaves them beside a leader's snapshot (K16).
#[test]
fn k016_stale_logs_are_not_served() {
    let (mut life, mut opened) = with_logs(&[]);
    life.accept(&mut opened, 4).unwrap();
    life.install(&mut opened, [txns(1, 1..=7, 9), txns(2, 1..=3, 0)].concat()).unwrap();
    life.take_over(&mut opened, 4).unwrap();
    life.append(&mut opened, &[txns(4, 1..=3, 0)]).unwrap();
    life.end_process(opened);
    for log in ["log.100000001", "log.100000003"] {
        let bytes = life.disk.content(&file(&old_name(zx(2, 3), log))).unwrap();
        life.disk.install(&file(log), &bytes);
    }
    let opened = open_with(&life.disk, &life.options, &MemberOptions::new(1)).unwrap();
    for peer in [zx(1, 5), zx(1, 8), zx(1, 9), zx(2, 2), zx(4, 0)] {
        let found = served(&opened.store, peer, zx(4, 3), NO_LIMIT);
        assert_eq!(found.is_some(), peer == zx(4, 0), "{peer}");
    }
    assert_eq!(served(&opened.store, zx(2, 3), zx(4, 3), NO_LIMIT), Some(vec![zx(4, 1), zx(4, 2)]));
    assert_eq!(loaded(opened.outcome).state.last_zxid(), zx(4, 3));
}

/// Records that can be read but are not durable are not served.
#[test]
fn only_synced_records_are_served() {
    let (life, mut opened) = with_logs(&[]);
    let mut state = state_of(&life.txns);
    let mut frames = Vec::new();
    (7..=8).for_each(|counter| make(&mut state, zx(3, counter), 0, &mut frames));
    let _ = opened.log.append(&frames, zx(3, 7), zx(3, 8), 2).unwrap();
    assert_eq!(served(&opened.store, zx(3, 5), zx(3, 9), NO_LIMIT), None);
    assert_eq!(served(&opened.store, zx(3, 5), zx(3, 7), NO_LIMIT), Some(vec![zx(3, 6)]));
    opened.log.sync().unwrap();
    assert_eq!(served(&opened.store, zx(3, 5), zx(3, 9), NO_LIMIT), Some(vec![zx(3, 6), zx(3, 7), zx(3, 8)]));
}

#[test]
fn reading_stops_when_the_history_is_replaced() {
    let (_, mut opened) = with_logs(&[]);
    let mut history = opened.store.log_diff(zx(1, 1), zx(3, 7), NO_LIMIT).unwrap().unwrap();
    assert!(history.next().unwrap().is_ok());
    opened.log.truncate(zx(1, 5)).unwrap();
    assert!(matches!(history.next(), Some(Err(StoreError::HistoryChanged(_)))));
    assert!(served(&opened.store, zx(1, 1), zx(1, 6), NO_LIMIT).is_some());
}

#[test]
fn standalone_server_has_no_log_diffs() {
    let disk = SimDisk::new();
    let options = StoreOptions { reserve_bytes: 0, ..StoreOptions::new("/srv/zk") };
    let opened = Store::open(std::sync::Arc::new(disk), &options, &ox_tree::TreeOptions::default(), 1).unwrap();
    assert!(opened.store.log_diff(Zxid(1), Zxid(5), NO_LIMIT).unwrap().is_none());
}
