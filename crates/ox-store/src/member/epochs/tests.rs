use super::*;
use crate::disk::{Fault, Keep, SimDisk};

const DIR: &str = "/data";

fn stored(text: Option<&str>) -> Stored {
    Stored::parse(text.map(str::as_bytes))
}

#[test]
fn an_epoch_is_a_plain_number() {
    assert_eq!(stored(None), Stored::Missing);
    for (text, epoch) in [("0", 0), ("7", 7), ("7\n", 7), ("7\r\nmore", 7), ("-1", 0), ("2147483647", 0x7fff_ffff)] {
        assert_eq!(stored(Some(text)), Stored::Epoch(epoch), "{text:?}");
    }
    for text in ["", "\n7", " 7", "7 ", "+7", "-2", "x", "2147483648", "4294967296", "\u{663}"] {
        assert_eq!(stored(Some(text)), Stored::Unreadable, "{text:?}");
    }
}

/// `files`: accepted, current, accepted.tmp, current.tmp; `-` is a missing file, `?` one without a number.
fn check(files: &str, history: u32, expected: Result<(u32, u32), EpochError>) {
    let vouched = Vouched::default();
    check_vouched(files, history, vouched, expected);
}

fn check_vouched(files: &str, history: u32, vouched: Vouched, expected: Result<(u32, u32), EpochError>) {
    let mut stored = files.split(' ').map(|text| if text == "-" { Stored::Missing } else { stored(Some(text)) });
    let mut next = || stored.next().unwrap();
    let found = Found { accepted: next(), current: next(), accepted_tmp: next(), current_tmp: next() };
    let expected = expected.map(|(accepted, current)| Epochs { accepted, current });
    assert_eq!(found.judge(history, vouched), expected, "{files}, history of epoch {history}");
}

#[test]
fn what_a_start_makes_of_the_files() {
    let missing = |name, history, other| Err(EpochError::Missing { name, history, other });
    check("3 3 - -", 3, Ok((3, 3)));
    check("5 3 - -", 2, Ok((5, 3)));
    check("5 3 9 9", 2, Ok((5, 3)));
    // Both missing.
    check("- - - -", 0, Ok((0, 0)));
    check("- - - -", 2, Err(EpochError::BothMissing { history: 2 }));
    check_vouched("- - - -", 2, Vouched { initialize: true, ..Vouched::default() }, Ok((2, 2)));
    check_vouched("- - - -", 2, Vouched { accept_doubt: true, ..Vouched::default() }, Ok((2, 2)));
    // One missing: nobody can vouch for a lost promise.
    check("0 - - -", 0, Ok((0, 0)));
    check("1 - - -", 0, missing(CURRENT, 0, 1));
    check("0 - - -", 1, missing(CURRENT, 1, 0));
    check("- 0 - -", 0, Ok((0, 0)));
    check("- 1 - -", 0, missing(ACCEPTED, 0, 1));
    check("- 2 2 -", 2, missing(ACCEPTED, 2, 2));
    let all = Vouched { initialize: true, accept_doubt: true, is_copy: false };
    check_vouched("- 2 - -", 2, all, missing(ACCEPTED, 2, 2));
    check_vouched("2 - - -", 2, all, Ok((2, 2)));
    check_vouched("3 - - -", 2, all, missing(CURRENT, 2, 3));
    // The history is newer.
    check("4 2 - -", 3, Ok((4, 3)));
    check("4 2 - 4", 3, Ok((4, 4)));
    check("4 2 - 5", 3, Ok((4, 3)));
    check("4 2 - 2", 3, Ok((4, 3)));
    check("4 2 - ?", 3, Ok((4, 3)));
    check("2 2 - -", 3, Err(EpochError::NotAccepted { history: 3, accepted: 2 }));
    check("2 2 3 3", 3, Err(EpochError::NotAccepted { history: 3, accepted: 2 }));
    // They contradict each other.
    check("2 3 - -", 2, Err(EpochError::Order { accepted: 2, current: 3 }));
    // No number.
    check("? 3 - -", 3, Err(EpochError::Unreadable(ACCEPTED)));
    check("3 ? - -", 3, Err(EpochError::Unreadable(CURRENT)));
    check("? 3 4 -", 3, Ok((4, 3)));
    check("4 ? - 3", 3, Ok((4, 3)));
    check("4 ? - ?", 3, Err(EpochError::Unreadable(CURRENT)));
}

fn files(disk: &SimDisk, epochs: Epochs, are_stored: bool) -> EpochFiles {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    let reserve = Arc::new(Reserve::new(Arc::clone(&disk), Path::new(DIR), 0));
    EpochFiles::new(disk, DIR.into(), reserve, epochs, are_stored)
}

/// K48, K49: whatever call fails or loses power, the files hold the old promise or the new one, and the new one for
/// certain once the call has returned.
#[test]
fn k048_a_promise_is_old_or_new() {
    let started = SimDisk::new();
    started.create_dir_all(Path::new(DIR)).unwrap();
    started.sync_dir(Path::new("/")).unwrap();
    files(&started, Epochs { accepted: 2, current: 2 }, false).store().unwrap();
    for fault in [Fault::PowerCut, Fault::LostSync, Fault::Error(std::io::ErrorKind::StorageFull)] {
        for call in 1.. {
            let disk = started.fork();
            disk.set_fault(disk.calls() + call, fault);
            let reached = disk.calls() + call;
            let mut epochs = files(&disk, Epochs { accepted: 2, current: 2 }, true);
            let done = epochs.set_accepted(3).and_then(|()| epochs.set_current(3));
            let known = epochs.epochs();
            disk.clear_faults();
            for keep in [Keep::Nothing, Keep::Everything, Keep::Random(call), Keep::Random(call + 1_000)] {
                let disk = disk.fork();
                disk.power_on(keep);
                let after = Found::read(&disk, Path::new(DIR)).unwrap().judge(2, Vouched::default()).unwrap();
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
#[should_panic(expected = "was promised")]
fn a_promise_is_not_taken_back() {
    _ = files(&SimDisk::new(), Epochs { accepted: 3, current: 2 }, true).set_accepted(2);
}

#[test]
#[should_panic(expected = "is not between")]
fn only_an_accepted_epoch_becomes_current() {
    _ = files(&SimDisk::new(), Epochs { accepted: 3, current: 2 }, true).set_current(4);
}
