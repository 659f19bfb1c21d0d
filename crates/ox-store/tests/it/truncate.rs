//! TRUNC: transactions after a zxid are removed, exactly and for good.

use crate::lifecycle::{Life, cut_power_everywhere, cut_power_twice, fail_everywhere, txns, with_logs, zx};
use crate::sim_stores::{file, names, remove};
use ox_proto::Zxid;
use ox_store::disk::{KeepUnsynced, SimDisk};
use ox_store::{OpenedMember, Truncated};

/// Nothing that must stay is lost, and nothing that was removed reappears (K11, K20, K21).
#[test]
fn k020_k021_truncating_survives_power_cuts_and_failing_calls() {
    cut_power_everywhere(&Life::new(), Life::be_cut, 1_000);
    cut_power_twice(&Life::new(), Life::be_cut);
    fail_everywhere(&Life::new(), Life::be_cut);
    let mut split = Life::new();
    split.options.log_dir = Some("/logs/zk".into());
    fail_everywhere(&split, Life::be_cut);
}

/// Truncates exactly as requested, across logs and epochs, with snapshots on either side; later appends are recovered
/// (K17, K18).
#[test]
fn k017_k018_truncation_is_exact() {
    let all = [txns(1, 1..=9, 0), txns(3, 1..=6, 0)].concat();
    for snapshots in [&[][..], &[zx(1, 3)], &[zx(1, 5), zx(1, 9)], &[zx(3, 2), zx(3, 6)]] {
        for (to, _) in all.iter().chain(&[(Zxid::ZERO, 0)]) {
            let (mut life, mut opened) = with_logs(snapshots);
            life.truncate(&mut opened, *to).unwrap();
            let salted = |zxid: Zxid| vec![(zxid, 5)];
            life.accept(&mut opened, 5).unwrap();
            life.allowed.epochs.1.current = 5;
            life.append(&mut opened, &[salted(zx(5, 1)), salted(zx(5, 2))]).unwrap();
            drop(opened);
            for keep in [KeepUnsynced::Nothing, KeepUnsynced::Everything] {
                life.check_after(keep, &format!("{to} with {snapshots:?}, {keep:?}"));
            }
        }
    }
}

/// A missing zxid is never pretended to exist, except for the start of the current epoch.
#[test]
fn truncation_to_a_missing_zxid_ends_before_it() {
    for (to, last, is_done) in [
        (zx(1, 12), zx(1, 9), false),
        (zx(2, 1), zx(1, 9), false),
        (zx(2, 0), zx(2, 0), true),
        (zx(3, 0), zx(3, 0), true),
        (zx(3, 6), zx(3, 6), true),
    ] {
        let (_, mut opened) = with_logs(&[zx(1, 5)]);
        let (loaded, done) = match opened.log.truncate(to).unwrap() {
            Truncated::Done(loaded) => (loaded, true),
            Truncated::Short(loaded) => (loaded, false),
            Truncated::NotPossible(reason) => panic!("{to}: {reason}"),
        };
        assert_eq!((loaded.state.last_zxid(), opened.log.last(), done), (last, last, is_done), "{to}");
    }
    let (_, mut opened) = with_logs(&[zx(1, 5)]);
    assert!(matches!(opened.log.truncate(zx(3, 7)).unwrap(), Truncated::NotPossible(_)), "beyond the end");
    assert!(matches!(opened.log.truncate(zx(3, 2)).unwrap(), Truncated::Done(_)), "nothing had happened");
}

/// If no complete history would remain, nothing is changed.
#[test]
fn impossible_truncation_changes_nothing() {
    let (mut life, mut opened) = with_logs(&[zx(1, 5), zx(3, 2)]);
    let contents = |disk: &SimDisk| -> Vec<_> {
        let names = names(disk, "").into_iter().filter(|name| !name.starts_with("oxk."));
        names.map(|name| (disk.content(&file(&name)), name)).collect()
    };
    let check = |life: &Life, opened: &mut OpenedMember, to: Zxid, what: &str| {
        opened.log.roll();
        assert!(opened.log.sync().is_ok());
        let before = contents(&life.disk);
        let truncated = opened.log.truncate(to).unwrap();
        assert!(matches!(truncated, Truncated::NotPossible(_)), "{what}");
        let after = contents(&life.disk);
        for ((before, name), (after, _)) in before.iter().zip(&after) {
            let (before, after) = (before.as_ref().unwrap(), after.as_ref().unwrap());
            assert!(before.starts_with(after) && before[after.len()..].iter().all(|byte| *byte == 0), "{what}: {name}");
        }
        assert_eq!(before.len(), after.len(), "{what}");
    };
    remove(&life.disk, "snapshot.0");
    check(&life, &mut opened, zx(1, 4), "no snapshot before it");
    remove(&life.disk, "log.100000003");
    check(&life, &mut opened, zx(1, 4), "no snapshot and no log");
    check(&life, &mut opened, zx(3, 1), "a hole behind the only snapshot");
    // The member continues all the same.
    life.append(&mut opened, &[txns(3, 7..=8, 0)]).unwrap();
}
