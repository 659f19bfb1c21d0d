use super::volume::SECTOR;
use super::*;

const PATH: &str = "/d/f";

/// A synced file with three sectors of `A`s, in a synced directory.
fn disk() -> SimDisk {
    let disk = SimDisk::new();
    disk.install(Path::new(PATH), &[b'A'; 3 * SECTOR]);
    disk
}

fn open(disk: &SimDisk) -> Box<dyn DiskFile> {
    disk.open(Path::new(PATH), OpenMode::Write).unwrap()
}

/// The surviving contents of the file, each sector by its first letter.
fn after(disk: &SimDisk, keep: KeepUnsynced) -> Option<String> {
    let disk = disk.fork();
    disk.power_on(keep);
    let letters = |content: Vec<u8>| content.chunks(SECTOR).map(|sector| char::from(sector[0].max(b'.'))).collect();
    disk.content(Path::new(PATH)).map(letters)
}

#[test]
fn sectors_survive_individually() {
    let disk = disk();
    open(&disk).write_all_at(&[b'B'; 2 * SECTOR], 512).unwrap();
    assert_eq!(disk.unsynced_pieces(), 2);
    assert_eq!(after(&disk, KeepUnsynced::Nothing).unwrap(), "AAA");
    assert_eq!(after(&disk, KeepUnsynced::Everything).unwrap(), "ABB");
    assert_eq!(after(&disk, KeepUnsynced::Only(0)).unwrap(), "ABA");
    assert_eq!(after(&disk, KeepUnsynced::AllBut(0)).unwrap(), "AAB");
    open(&disk).sync_data().unwrap();
    assert_eq!((disk.unsynced_pieces(), after(&disk, KeepUnsynced::Nothing).unwrap()), (0, "ABB".into()));
}

#[test]
fn length_survives_independently_of_contents() {
    let disk = disk();
    open(&disk).write_all_at(&[b'B'; SECTOR], 3 * 512).unwrap();
    assert_eq!(after(&disk, KeepUnsynced::Nothing).unwrap(), "AAA");
    assert_eq!(after(&disk, KeepUnsynced::Only(0)).unwrap(), "AAA", "content without length");
    assert_eq!(after(&disk, KeepUnsynced::Only(1)).unwrap(), "AAA.", "length without content");
    assert_eq!(after(&disk, KeepUnsynced::Everything).unwrap(), "AAAB");
    open(&disk).set_len(512).unwrap();
    assert_eq!(after(&disk, KeepUnsynced::Nothing).unwrap(), "AAA");
}

#[test]
fn names_survive_after_a_directory_sync() {
    let disk = SimDisk::new();
    disk.create_dir_all(Path::new("/d")).unwrap();
    disk.open(Path::new("/d/t"), OpenMode::CreateNew).unwrap().write_all_at(b"C", 0).unwrap();
    disk.open(Path::new("/d/t"), OpenMode::Write).unwrap().sync_all().unwrap();
    disk.rename(Path::new("/d/t"), Path::new(PATH)).unwrap();
    assert_eq!(after(&disk, KeepUnsynced::Everything).unwrap(), "C");
    assert_eq!(after(&disk, KeepUnsynced::Nothing), None);
    disk.sync_dir(Path::new("/d")).unwrap();
    assert_eq!(after(&disk, KeepUnsynced::Nothing), None, "the directory's own name is lost");
    disk.sync_dir(Path::new("/")).unwrap();
    assert_eq!(after(&disk, KeepUnsynced::Nothing).unwrap(), "C");
    disk.remove(Path::new(PATH)).unwrap();
    assert_eq!(after(&disk, KeepUnsynced::Nothing).unwrap(), "C");
    assert_eq!(after(&disk, KeepUnsynced::Everything), None);
}

#[test]
fn sync_after_a_lost_sync_succeeds_without_writing() {
    let disk = disk();
    let file = open(&disk);
    file.write_all_at(&[b'B'; SECTOR], 0).unwrap();
    disk.set_fault(disk.calls() + 1, DiskFault::LostSync);
    assert!(file.sync_data().is_err());
    file.sync_data().unwrap();
    let mut letter = [0];
    file.read_at(&mut letter, 0).unwrap();
    assert_eq!((&letter, after(&disk, KeepUnsynced::Everything).unwrap()), (b"B", "AAA".into()));
    file.write_all_at(&letter, 0).unwrap();
    file.sync_data().unwrap();
    assert_eq!(after(&disk, KeepUnsynced::Nothing).unwrap(), "BAA", "written again, it is written");
}

#[test]
fn faults_occur_at_their_call_and_power_stays_off() {
    let disk = disk();
    let file = open(&disk);
    disk.set_fault(disk.calls() + 2, DiskFault::Error(ErrorKind::StorageFull));
    disk.set_fault(disk.calls() + 3, DiskFault::PowerCut);
    assert_eq!(file.len().unwrap(), 3 * 512);
    assert_eq!(file.write_all_at(&[b'B'; 2 * SECTOR], 0).unwrap_err().kind(), ErrorKind::StorageFull);
    assert!(file.sync_all().is_err() && file.len().is_err() && !disk.is_powered());
    assert_eq!(after(&disk, KeepUnsynced::Everything).unwrap(), "BAA", "half of the failed write took effect");
    disk.power_on(KeepUnsynced::Nothing);
    assert!(file.len().is_err(), "a handle of the previous run");
    assert!(disk.is_powered());
}

#[test]
fn capacity_is_limited_and_locks_end_with_the_process() {
    let disk = disk();
    disk.set_capacity(4 * 512);
    assert_eq!(disk.space(Path::new("/")).unwrap().free_bytes, 512);
    assert_eq!(open(&disk).set_len(5 * 512).unwrap_err().kind(), ErrorKind::StorageFull);
    open(&disk).set_len(4 * 512).unwrap();
    disk.remove(Path::new(PATH)).unwrap();
    assert_eq!(disk.space(Path::new("/")).unwrap().free_bytes, 4 * 512);
    let held = disk.lock(Path::new("/d/lock")).unwrap();
    assert!(disk.lock(Path::new("/d/lock")).is_err());
    disk.restart_process();
    let again = disk.lock(Path::new("/d/lock")).unwrap();
    drop(held);
    assert!(disk.lock(Path::new("/d/lock")).is_err(), "the old lock releases nothing");
    drop(again);
}
