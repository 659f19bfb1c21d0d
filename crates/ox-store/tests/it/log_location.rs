//! Starts whose configuration names another directory for logs than the last run.

use crate::sim_stores::{file, open_with, options, worked};
use ox_store::disk::{Disk, SimDisk};
use ox_store::names::Dirs;
use ox_store::start_preview::check_dirs;
use ox_store::{StoreError, StoreOptions};
use std::path::Path;

fn with_logs_in(dir: &str) -> StoreOptions {
    StoreOptions { log_dir: Some(dir.into()), ..options() }
}

/// Copies the logs and markers from one directory to another.
fn copy_logs(disk: &SimDisk, from: &str, to: &str) {
    for name in disk.list(Path::new(from)).unwrap() {
        let bytes = disk.content(&Path::new(from).join(&name)).unwrap();
        disk.install(&Path::new(to).join(&name), &bytes);
    }
}

/// Snapshots alone are an older state, and would be served without a word.
#[test]
fn start_without_the_logs_of_the_last_run_is_refused() {
    let (disk, _) = worked(&with_logs_in("/logs"), &[3, 5]);
    let last = open_with(&disk, &with_logs_in("/logs")).unwrap().state.last_zxid();
    for wrong in [options(), with_logs_in("/other")] {
        let error = open_with(&disk, &wrong).err().expect("refused");
        assert!(
            matches!(&error, StoreError::LogsElsewhere { logs, .. } if logs == Path::new("/logs/version-2")),
            "{error}"
        );
        assert_eq!(error.exit_code(), 3);
        let snapshots = file("");
        let logs = wrong.log_dir.map_or_else(|| snapshots.clone(), |dir| dir.join("version-2"));
        let previewed = check_dirs(&disk, &Dirs { snapshots, logs }, None).unwrap_err();
        assert_eq!(previewed.to_string().split(", but").next(), error.to_string().split(", but").next());
    }
    assert_eq!(open_with(&disk, &with_logs_in("/logs")).unwrap().state.last_zxid(), last);
}

#[test]
fn logs_may_move_and_may_be_given_up() {
    let (disk, _) = worked(&with_logs_in("/logs"), &[3, 5]);
    let last = open_with(&disk, &with_logs_in("/logs")).unwrap().state.last_zxid();
    copy_logs(&disk, "/logs/version-2", "/moved/version-2");
    assert_eq!(open_with(&disk, &with_logs_in("/moved")).unwrap().state.last_zxid(), last);
    disk.remove(&file("oxk.logs")).unwrap();
    let older = open_with(&disk, &with_logs_in("/new")).unwrap().state.last_zxid();
    assert!(older < last, "{older}");
}

#[test]
fn misplaced_file_with_a_namesake_is_not_to_be_moved_over_it() {
    let (disk, _) = worked(&with_logs_in("/logs"), &[3, 5]);
    let log = disk.content(Path::new("/logs/version-2/log.1")).expect("the first log");
    disk.install(&file("log.1"), &log);
    let error = open_with(&disk, &with_logs_in("/logs")).err().expect("refused");
    assert!(matches!(error, StoreError::MisplacedTwice { .. }), "{error}");
    assert!(error.remedy().is_some_and(|remedy| remedy.starts_with("keep copies of both directories")));
}
