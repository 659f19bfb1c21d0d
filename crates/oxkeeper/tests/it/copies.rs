//! Data directories copied by the usual tools, while the server ran under load and after it was stopped.

use crate::members;
use crate::process::{self, LISTENS, Running, Site, TIMEOUT_MS};
use ox_testkit::{PATIENCE, RawClient, RawPacket, TestEnsemble};
use std::collections::BTreeSet;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;

const IS_COPY: &str = "is a copy of a running server, or files were removed from it";

/// Frequent snapshots and new logs.
const SETTINGS: &str = "snapCount=500\n";

/// A client that creates nodes below `/n`, many at a time, until the server ends.
struct Load {
    seen: Arc<(Mutex<Vec<String>>, Condvar)>,
    worker: JoinHandle<()>,
}

impl Load {
    fn on(address: SocketAddr) -> Self {
        let seen = Arc::new((Mutex::new(Vec::new()), Condvar::new()));
        let told = Arc::clone(&seen);
        let mut client = RawClient::open(address, TIMEOUT_MS);
        client.create("/n", b"");
        let worker = std::thread::spawn(move || {
            for first in (0..).step_by(50) {
                let packet = (first..first + 50)
                    .fold(RawPacket::default(), |packet, xid| packet.create(xid, &format!("/n/{xid}"), &[7; 200], 0));
                client.raw.try_send(&packet.0);
                for _ in 0..50 {
                    let Some(reply) = client.try_reply() else { return };
                    told.0.lock().unwrap().push(reply.path());
                }
                told.1.notify_all();
            }
        });
        let load = Self { seen, worker };
        load.wait_for(2_000);
        load
    }

    fn acknowledged(&self) -> Vec<String> {
        self.seen.0.lock().unwrap().clone()
    }

    /// Waits until this many more creates are acknowledged.
    fn wait_for(&self, more: usize) {
        let paths = self.seen.0.lock().unwrap();
        let wanted = paths.len() + more;
        let waited = self.seen.1.wait_timeout_while(paths, PATIENCE, |paths| paths.len() < wanted).unwrap();
        assert!(!waited.1.timed_out(), "the server acknowledges nothing");
    }

    /// Waits until the server has ended. Returns all acknowledged paths.
    fn end(self) -> Vec<String> {
        self.worker.join().unwrap();
        std::mem::take(&mut *self.seen.0.lock().unwrap())
    }
}

fn check_there(names: &[String], acknowledged: &[String], what: &str) {
    let there: BTreeSet<String> = names.iter().map(|name| format!("/n/{name}")).collect();
    let missing: Vec<&String> = acknowledged.iter().filter(|path| !there.contains(*path)).collect();
    assert!(missing.is_empty(), "{what}: {} nodes are missing, the first is {}", missing.len(), missing[0]);
}

/// Runs a shell command. Its errors, such as files that vanish or change meanwhile, are ignored.
fn shell(command: &str, from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    Command::new("sh").args(["-c", command]).env("FROM", from).env("TO", to).output().expect("there is a shell");
}

/// The tools that this machine has. The output of the test names missing ones.
fn tools() -> Vec<(&'static str, &'static str)> {
    let all = [
        ("cp", "cp -r \"$FROM/.\" \"$TO\""),
        ("cp", "cp -a \"$FROM/.\" \"$TO\""),
        ("rsync", "rsync -a \"$FROM/\" \"$TO\""),
        ("tar", "tar -C \"$FROM\" -cf - . | tar -C \"$TO\" -xf -"),
    ];
    let is_there =
        |tool: &str| Command::new(tool).arg("--version").output().is_ok_and(|output| output.status.success());
    let (there, missing): (Vec<_>, Vec<_>) = all.into_iter().partition(|(tool, _)| is_there(tool));
    missing.iter().for_each(|(tool, _)| eprintln!("SKIPPED: {tool} is not installed"));
    there
}

/// Starts a server on a copy. A refused copy is made again, as the server advises.
fn start_on_copy(directory: &Path, copy: impl Fn(&Path)) -> Running {
    Site::new(directory, SETTINGS);
    for _ in 0..5 {
        let data = directory.join("data");
        if data.exists() {
            fs::remove_dir_all(&data).unwrap();
        }
        copy(&data);
        let mut process = process::start(&["server", "zoo.cfg"], directory);
        let line = process.wait_for_one(&[LISTENS, "copy the directory again"]);
        if line.contains(LISTENS) {
            return Running::bound(process, &line);
        }
    }
    panic!("no copy starts");
}

#[test]
fn standalone_on_a_copy_of_a_running_server_starts_with_a_warning() {
    let home = tempfile::tempdir().unwrap();
    let running = Site::new(home.path(), SETTINGS).start();
    let load = Load::on(running.address);
    for (number, (_, command)) in tools().into_iter().enumerate() {
        let directory = home.path().join(number.to_string());
        fs::create_dir(&directory).unwrap();
        load.wait_for(200);
        let before = load.acknowledged();
        let data = home.path().join("data");
        let copied = start_on_copy(&directory, |to| shell(command, &data, to));
        let said = copied.process.said.join("\n");
        assert!(said.contains(IS_COPY) && said.contains("it ends at 0x"), "{command}: {said}");
        let mut client = copied.client();
        check_there(&client.children("/n"), &before, command);
        client.create("/more", b"");
        client.close();
        copied.stop();
        // From now on the directory is no copy any more.
        let again = Site::new(&directory, SETTINGS).start();
        assert!(!again.process.said.join("\n").contains(IS_COPY), "{command}");
        assert_eq!(again.client().exists("/more").err, 0, "{command}");
        again.stop();
    }
    running.stop();
    load.end();
}

#[test]
fn standalone_on_a_copy_without_a_log_in_between_is_refused() {
    let home = tempfile::tempdir().unwrap();
    let running = Site::new(home.path(), SETTINGS).start();
    let load = Load::on(running.address);
    let directory = home.path().join("copied");
    fs::create_dir(&directory).unwrap();
    Site::new(&directory, SETTINGS);
    shell(
        "cp -r \"$FROM/.\" \"$TO\"; rm \"$TO/version-2/\"snapshot.*",
        &home.path().join("data"),
        &directory.join("data"),
    );
    running.stop();
    load.end();
    let files = directory.join("data/version-2");
    fs::copy(home.path().join("data/version-2/snapshot.0"), files.join("snapshot.0")).unwrap();
    let first = |name: &str| name.strip_prefix("log.").and_then(|first| u64::from_str_radix(first, 16).ok());
    let names = fs::read_dir(&files).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut logs: Vec<u64> = names.filter_map(|name| first(&name)).collect();
    logs.sort_unstable();
    assert!(3 <= logs.len(), "the log was rolled: {logs:x?}");
    fs::remove_file(files.join(format!("log.{:x}", logs[1]))).unwrap();
    let ended = process::start(&["server", "zoo.cfg"], &directory).end();
    assert_eq!(ended.status.code(), Some(1), "{}", ended.said);
    assert!(ended.said.contains(IS_COPY) && ended.said.contains("copy the directory again"), "{}", ended.said);
}

/// Checks that the data without its newest log is refused.
fn check_protected(directory: &Path) {
    let first = |path: &PathBuf| {
        let name = path.file_name()?.to_str()?;
        u64::from_str_radix(name.strip_prefix("log.")?, 16).ok()
    };
    let files = fs::read_dir(directory.join("data/version-2")).unwrap().map(|entry| entry.unwrap().path());
    let newest = files.filter(|path| first(path).is_some()).max_by_key(first).unwrap();
    fs::remove_file(newest).unwrap();
    let ended = process::start(&["server", "zoo.cfg"], directory).end();
    assert_eq!(ended.status.code(), Some(1), "{}", ended.said);
    assert!(ended.said.contains("was synced up to zxid"), "{}", ended.said);
}

/// A directory that was moved, by a rename after a crash or by copying after a clean stop, is the original.
#[test]
fn standalone_on_a_moved_directory_starts_and_keeps_its_protection() {
    let home = tempfile::tempdir().unwrap();
    for (number, stops) in [(0, false), (1, true)] {
        let first = home.path().join(number.to_string());
        let moved = home.path().join(format!("moved-{number}"));
        fs::create_dir(&first).unwrap();
        let running = Site::new(&first, SETTINGS).start();
        let load = Load::on(running.address);
        if stops {
            running.stop();
            shell("cp -a \"$FROM/.\" \"$TO\"", &first, &moved);
        } else {
            running.process.kill();
            fs::rename(&first, &moved).unwrap();
        }
        let acknowledged = load.end();
        let site = Site::new(&moved, SETTINGS);
        let running = site.start();
        assert!(!running.process.said.join("\n").contains(IS_COPY));
        check_there(&running.client().children("/n"), &acknowledged, "moved");
        running.client().create("/more", b"");
        running.process.kill();
        check_protected(&moved);
    }
}

/// A file system in a file, unmounted when dropped.
struct Mounted(PathBuf);

impl Mounted {
    fn new(image: &Path, at: PathBuf) -> Option<Self> {
        fs::create_dir_all(&at).unwrap();
        let mount = Command::new("mount").args(["-o", "loop"]).arg(image).arg(&at).output();
        mount.is_ok_and(|output| output.status.success()).then(|| Self(at))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

/// On the snapshot of a volume device numbers differ, inode numbers and birth times do not.
#[test]
fn standalone_on_a_snapshot_of_its_volume_is_the_original() {
    let home = tempfile::tempdir().unwrap();
    let (image, frozen) = (home.path().join("image"), home.path().join("frozen"));
    fs::File::create(&image).unwrap().set_len(96 << 20).unwrap();
    let made = Command::new("mkfs.ext4").arg("-q").arg(&image).output();
    let volume = made.is_ok_and(|output| output.status.success());
    let Some(volume) = volume.then(|| Mounted::new(&image, home.path().join("volume"))).flatten() else {
        return eprintln!("SKIPPED: no file system can be made and mounted here");
    };
    let running = Site::new(&volume.0, "").start();
    let load = Load::on(running.address);
    let before = load.acknowledged();
    let script =
        "fsfreeze -f \"$FROM\" && cp --sparse=always \"$FROM/../image\" \"$FROM/../frozen\"; fsfreeze -u \"$FROM\"";
    shell(script, &volume.0, &volume.0);
    running.process.kill();
    load.end();
    let Some(snapshot) = Mounted::new(&frozen, home.path().join("snapshot")) else {
        return eprintln!("SKIPPED: no file system can be frozen here");
    };
    let site = Site::new(&snapshot.0, "");
    let running = site.start();
    assert!(!running.process.said.join("\n").contains(IS_COPY), "{:?}", running.process.said);
    check_there(&running.client().children("/n"), &before, "a snapshot of the volume");
    running.client().create("/more", b"");
    running.process.kill();
    // Mounted again, and damaged.
    drop(snapshot);
    let snapshot = Mounted::new(&frozen, home.path().join("remounted")).unwrap();
    Site::new(&snapshot.0, "");
    check_protected(&snapshot.0);
    drop((snapshot, volume));
}

/// Replaces the data of a member by a copy.
fn put_copy(ensemble: &TestEnsemble, at: usize, copy: &Path) {
    let data = ensemble.directory(at).join("data");
    fs::remove_dir_all(&data).unwrap();
    shell("cp -r \"$FROM/.\" \"$TO\"", copy, &data);
}

fn copy_of(ensemble: &TestEnsemble, at: usize) -> PathBuf {
    ensemble.home().join(format!("copy-{at}"))
}

fn copy_members(ensemble: &TestEnsemble, members: &[usize]) {
    for at in members {
        shell("cp -r \"$FROM/.\" \"$TO\"", &ensemble.directory(*at).join("data"), &copy_of(ensemble, *at));
    }
}

fn said(ensemble: &TestEnsemble, at: usize) -> String {
    ensemble.process(at).said.join("\n")
}

#[test]
fn member_on_a_copy_serves_after_a_leader_has_synchronised_it() {
    let mut ensemble = members::start(3, 0, SETTINGS);
    let follower = (ensemble.leader() + 1) % 3;
    let load = Load::on(ensemble.addresses[ensemble.leader()]);
    copy_members(&ensemble, &[follower]);
    load.wait_for(100);
    ensemble.kill(follower);
    put_copy(&ensemble, follower, &copy_of(&ensemble, follower));
    ensemble.launch(follower);
    let line = ensemble.process_mut(follower).wait_for("quarantined");
    assert!(line.contains(IS_COPY) && line.contains("onDamage=accept"), "{line}");
    ensemble.wait_until_serving(follower);
    (0..3).for_each(|at| ensemble.kill(at));
    let acknowledged = load.end();
    ensemble.start_members(&[0, 1, 2]);
    assert!(!said(&ensemble, follower).contains("quarantined"), "{}", said(&ensemble, follower));
    check_there(&ensemble.client_of(follower).children("/n"), &acknowledged, "after all");
}

#[test]
fn members_that_all_are_copies_serve_when_the_operator_vouches_for_them() {
    let mut ensemble = members::start(3, 0, SETTINGS);
    let load = Load::on(ensemble.addresses[0]);
    let before = load.acknowledged();
    copy_members(&ensemble, &[0, 1, 2]);
    (0..3).for_each(|at| ensemble.kill(at));
    load.end();
    (0..3).for_each(|at| put_copy(&ensemble, at, &copy_of(&ensemble, at)));
    (0..3).for_each(|at| ensemble.launch(at));
    for at in 0..3 {
        let line = ensemble.process_mut(at).wait_for("quarantined");
        assert!(line.contains("oxkeeper.recovery.onDamage=accept"), "{line}");
    }
    (0..3).for_each(|at| ensemble.kill(at));
    let config = |at: usize| ensemble.directory(at).join("zoo.cfg");
    let texts: Vec<String> = (0..3).map(|at| fs::read_to_string(config(at)).unwrap()).collect();
    for (at, text) in texts.iter().enumerate() {
        fs::write(config(at), format!("{text}oxkeeper.recovery.onDamage=accept\n")).unwrap();
    }
    ensemble.start_members(&[0, 1, 2]);
    check_there(&ensemble.client().children("/n"), &before, "copies of all");
    ensemble.client().create("/more", 0);
    ensemble.check_equal();
    (0..3).for_each(|at| ensemble.kill(at));
    texts.iter().enumerate().for_each(|(at, text)| fs::write(ensemble.directory(at).join("zoo.cfg"), text).unwrap());
    ensemble.start_members(&[0, 1, 2]);
    assert!(ensemble.check_equal().contains_key("/more"));
}

#[test]
fn members_that_were_moved_after_a_clean_stop_serve() {
    let mut ensemble = members::start(3, 0, SETTINGS);
    let load = Load::on(ensemble.addresses[0]);
    for at in 0..3 {
        let process = ensemble.take(at);
        process.signal("TERM");
        assert_eq!(process.end().status.code(), Some(0));
    }
    let acknowledged = load.end();
    copy_members(&ensemble, &[0, 1, 2]);
    (0..3).for_each(|at| put_copy(&ensemble, at, &copy_of(&ensemble, at)));
    ensemble.start_members(&[0, 1, 2]);
    (0..3).for_each(|at| assert!(!said(&ensemble, at).contains("quarantined"), "{}", said(&ensemble, at)));
    check_there(&ensemble.client().children("/n"), &acknowledged, "moved");
}

fn snapshots(data: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(data.join("version-2")).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with("snapshot.")).collect()
}

/// As after an upgrade from a release that wrote no snapshot of the empty tree.
#[test]
fn members_started_with_trust_empty_have_a_snapshot_before_they_serve() {
    let mut ensemble = members::start(3, 0, "");
    let mut client = ensemble.client();
    (0..10).for_each(|number| client.create(&format!("/n{number}"), 0));
    client.close();
    (0..3).for_each(|at| ensemble.kill(at));
    let data: Vec<PathBuf> = (0..3).map(|at| ensemble.directory(at).join("data")).collect();
    data.iter().flat_map(|data| snapshots(data)).for_each(|path| fs::remove_file(path).unwrap());
    let configs: Vec<PathBuf> = (0..3).map(|at| ensemble.directory(at).join("zoo.cfg")).collect();
    let texts: Vec<String> = configs.iter().map(|config| fs::read_to_string(config).unwrap()).collect();
    for (config, text) in configs.iter().zip(&texts) {
        fs::write(config, format!("{text}snapshot.trust.empty=true\n")).unwrap();
    }
    ensemble.start_members(&[0, 1, 2]);
    data.iter().for_each(|data| assert_ne!(snapshots(data).len(), 0, "{}", data.display()));
    (0..3).for_each(|at| ensemble.kill(at));
    configs.iter().zip(&texts).for_each(|(config, text)| fs::write(config, text).unwrap());
    ensemble.start_members(&[0, 1, 2]);
    let tree = ensemble.check_equal();
    assert!((0..10).all(|number| tree.contains_key(&format!("/n{number}"))), "{:?}", tree.keys());
}
