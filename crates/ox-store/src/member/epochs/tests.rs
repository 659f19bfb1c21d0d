use super::*;
use crate::disk::{DiskFault, KeepUnsynced, SimDisk};

const DIR: &str = "/data";

fn stored(text: Option<&str>) -> StoredEpoch {
    StoredEpoch::parse(text.map(str::as_bytes))
}

#[test]
fn epoch_is_a_plain_number() {
    assert_eq!(stored(None), StoredEpoch::Missing);
    for (text, epoch) in [("0", 0), ("7", 7), ("7\n", 7), ("7\r\nmore", 7), ("-1", 0), ("2147483647", 0x7fff_ffff)] {
        assert_eq!(stored(Some(text)), StoredEpoch::Epoch(epoch), "{text:?}");
    }
    for text in ["", "\n7", " 7", "7 ", "+7", "-2", "x", "2147483648", "4294967296", "\u{663}"] {
        assert_eq!(stored(Some(text)), StoredEpoch::Unreadable, "{text:?}");
    }
}

/// `files`: accepted, current, accepted.tmp, current.tmp; `-` is a missing file, `?` a file without a number.
fn check(files: &str, history: u32, expected: Result<(u32, u32), EpochError>) {
    let trust = TrustHints::default();
    check_trusted(files, history, trust, expected);
}

fn check_trusted(files: &str, history: u32, trust: TrustHints, expected: Result<(u32, u32), EpochError>) {
    let mut stored = files.split(' ').map(|text| if text == "-" { StoredEpoch::Missing } else { stored(Some(text)) });
    let mut next = || stored.next().unwrap();
    let found = FoundEpochs { accepted: next(), current: next(), accepted_tmp: next(), current_tmp: next() };
    let expected = expected.map(|(accepted, current)| StoredEpochs { accepted, current });
    assert_eq!(found.resolve(history, trust), expected, "{files}, history of epoch {history}");
}

#[test]
fn start_derives_the_epochs_from_the_files() {
    let missing = |name, history, other| Err(EpochError::Missing { name, history, other });
    check("3 3 - -", 3, Ok((3, 3)));
    check("5 3 - -", 2, Ok((5, 3)));
    check("5 3 9 9", 2, Ok((5, 3)));
    // Both files are missing.
    check("- - - -", 0, Ok((0, 0)));
    check("- - - -", 2, Err(EpochError::BothMissing { history: 2 }));
    check_trusted("- - - -", 2, TrustHints { initialize: true, ..TrustHints::default() }, Ok((2, 2)));
    check_trusted("- - - -", 2, TrustHints { accept_doubt: true, ..TrustHints::default() }, Ok((2, 2)));
    // One file is missing: no consent of the operator replaces a lost accepted epoch.
    check("0 - - -", 0, Ok((0, 0)));
    check("1 - - -", 0, missing(CURRENT, 0, 1));
    check("0 - - -", 1, missing(CURRENT, 1, 0));
    check("- 0 - -", 0, Ok((0, 0)));
    check("- 1 - -", 0, missing(ACCEPTED, 0, 1));
    check("- 2 2 -", 2, missing(ACCEPTED, 2, 2));
    let all = TrustHints { initialize: true, accept_doubt: true, is_copy: false };
    check_trusted("- 2 - -", 2, all, missing(ACCEPTED, 2, 2));
    check_trusted("2 - - -", 2, all, Ok((2, 2)));
    check_trusted("3 - - -", 2, all, missing(CURRENT, 2, 3));
    // The history is newer than the epochs.
    check("4 2 - -", 3, Ok((4, 3)));
    check("4 2 - 4", 3, Ok((4, 4)));
    check("4 2 - 5", 3, Ok((4, 3)));
    check("4 2 - 2", 3, Ok((4, 3)));
    check("4 2 - ?", 3, Ok((4, 3)));
    check("2 2 - -", 3, Err(EpochError::NotAccepted { history: 3, accepted: 2 }));
    check("2 2 3 3", 3, Err(EpochError::NotAccepted { history: 3, accepted: 2 }));
    // The files contradict each other.
    check("2 3 - -", 2, Err(EpochError::Order { accepted: 2, current: 3 }));
    // A file without a number.
    check("? 3 - -", 3, Err(EpochError::Unreadable(ACCEPTED)));
    check("3 ? - -", 3, Err(EpochError::Unreadable(CURRENT)));
    check("? 3 4 -", 3, Ok((4, 3)));
    check("4 ? - 3", 3, Ok((4, 3)));
    check("4 ? - ?", 3, Err(EpochError::Unreadable(CURRENT)));
}

fn files(disk: &SimDisk, epochs: StoredEpochs, are_stored: bool) -> EpochFiles {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    let reserve = Arc::new(Reserve::new(Arc::clone(&disk), Path::new(DIR), 0));
    EpochFiles::new(disk, DIR.into(), reserve, epochs, are_stored)
}

/// After a failure or power cut at any call, the files contain the old epoch or the new one, and certainly the new one
/// once the call has returned (K48, K49).
#[test]
fn k048_interrupted_store_leaves_the_old_or_the_new_epoch() {
    let started = SimDisk::new();
    started.create_dir_all(Path::new(DIR)).unwrap();
    started.sync_dir(Path::new("/")).unwrap();
    files(&started, StoredEpochs { accepted: 2, current: 2 }, false).store().unwrap();
    for fault in [DiskFault::PowerCut, DiskFault::LostSync, DiskFault::Error(std::io::ErrorKind::StorageFull)] {
        for call in 1.. {
            let disk = started.fork();
            disk.set_fault(disk.calls() + call, fault);
            let reached = disk.calls() + call;
            let mut epochs = files(&disk, StoredEpochs { accepted: 2, current: 2 }, true);
            let done = epochs.set_accepted(3).and_then(|()| epochs.set_current(3));
            let known = epochs.epochs();
            disk.clear_faults();
            for keep in [
                KeepUnsynced::Nothing,
                KeepUnsynced::Everything,
                KeepUnsynced::Random(call),
                KeepUnsynced::Random(call + 1_000),
            ] {
                let disk = disk.fork();
                disk.power_on(keep);
                let after =
                    FoundEpochs::read(&disk, Path::new(DIR)).unwrap().resolve(2, TrustHints::default()).unwrap();
                assert!((2..=3).contains(&after.accepted) && known.accepted <= after.accepted, "{call}, {keep:?}");
                assert!((2..=3).contains(&after.current) && known.current <= after.current, "{call}, {keep:?}");
            }
            if disk.calls() < reached {
                assert!(done.is_ok());
                break;
            }
        }
    }
}

#[test]
#[should_panic(expected = "was accepted")]
fn accepted_epoch_never_decreases() {
    _ = files(&SimDisk::new(), StoredEpochs { accepted: 3, current: 2 }, true).set_accepted(2);
}

#[test]
#[should_panic(expected = "is not between")]
fn only_an_accepted_epoch_becomes_current() {
    _ = files(&SimDisk::new(), StoredEpochs { accepted: 3, current: 2 }, true).set_current(4);
}
