//! Ensembles that begin with the data of one server, or lack that of another: an operator has to confirm that no better
//! data exists.

use crate::members;
use crate::server_log::{SUPER, admin_lines};
use crate::tools::run_command;
use ox_testkit::{TestEnsemble, http};
use std::fs;
use std::net::SocketAddr;
use std::path::Path;

/// Turns the AdminServer of a member on, with the commands of the superuser.
fn enable_admin(ensemble: &TestEnsemble, at: usize) -> SocketAddr {
    let (lines, admin) = admin_lines();
    let config = ensemble.directory(at).join("zoo.cfg");
    let text = fs::read_to_string(&config).unwrap();
    fs::write(config, text.replace("admin.enableServer=false\n", &lines)).unwrap();
    admin
}

/// Deletes everything that a backup of snapshots and logs would not contain.
fn keep_backup(data: &Path) {
    for entry in fs::read_dir(data.join("version-2")).unwrap().flatten() {
        let name = entry.file_name().into_string().unwrap();
        if !name.starts_with("snapshot.") && !name.starts_with("log.") {
            fs::remove_file(entry.path()).unwrap();
        }
    }
}

#[test]
fn ensemble_bootstraps_from_the_backup_of_one_server() {
    let mut ensemble = members::start(3, 0, "");
    let mut client = ensemble.client();
    (0..10).for_each(|number| client.create(&format!("/n{number}"), 0));
    client.close();
    ensemble.check_equal(); // the server with the backup has acknowledged all
    (0..3).for_each(|at| ensemble.kill(at));
    let data: Vec<_> = (0..3).map(|at| ensemble.directory(at).join("data")).collect();
    keep_backup(&data[0]);
    data[1..].iter().for_each(|data| fs::remove_dir_all(data.join("version-2")).unwrap());
    // Without confirmation it does not vote, and records that.
    ensemble.launch(0);
    ensemble.process_mut(0).wait_for("acceptedEpoch and currentEpoch are missing");
    ensemble.kill(0);
    // The quarantine is recorded: `initialize` comes too late.
    fs::write(data[0].join("initialize"), "").unwrap();
    ensemble.launch(0);
    let line = ensemble.process_mut(0).wait_for("the file initialize has no effect on quarantined data");
    assert!(line.contains("oxkeeper.recovery.onDamage=accept"), "{line}");
    ensemble.kill(0);
    let checked = run_command(&data[0], &["log", "check", "."]);
    assert!(
        checked.out.contains("hint: the data is quarantined, so that a file named initialize has no"),
        "{}",
        checked.out
    );
    assert!(!checked.out.contains("create a file named initialize"), "{}", checked.out);
    fs::remove_file(data[0].join("initialize")).unwrap();
    let config = ensemble.directory(0).join("zoo.cfg");
    let text = fs::read_to_string(&config).unwrap();
    fs::write(&config, format!("{text}oxkeeper.recovery.onDamage=accept\n")).unwrap();
    // With one other member it is a quorum. Two empty members could bootstrap without it.
    fs::write(data[1].join("initialize"), "").unwrap();
    ensemble.start_members(&[0, 1]);
    ensemble.restart(2);
    let tree = ensemble.check_equal();
    assert!((0..10).all(|number| tree.contains_key(&format!("/n{number}"))), "{:?}", tree.keys());
    fs::write(&config, text).unwrap();
    ensemble.kill(0);
    ensemble.restart(0);
    assert!(!ensemble.process(0).said.iter().any(|line| line.contains("quarantined")));
}

/// Server 3 is down and server 2 has lost its data: a quorum runs, but one of it may not vote.
#[test]
fn members_report_which_of_them_abstains_and_why() {
    let mut ensemble = members::start(3, 0, "");
    let mut client = ensemble.client();
    client.create("/a", 0);
    client.close();
    ensemble.wait_until_in_sync();
    (0..3).for_each(|at| ensemble.kill(at));
    fs::remove_dir_all(ensemble.directory(1).join("data/version-2")).unwrap();
    let admins = [0, 1].map(|at| enable_admin(&ensemble, at));
    [0, 1].into_iter().for_each(|at| ensemble.launch(at));
    let line = ensemble.process_mut(0).wait_for("no leader elected: too few voters with data can be reached");
    assert!(line.contains(r#"unreachable="3" abstaining="2 (data empty)""#), "{line}");
    let line = ensemble.process_mut(1).wait_for("no leader elected, and this server abstains until it has the data");
    assert!(line.contains(r#"unreachable="3" data="empty""#), "{line}");
    let reason = |admin: SocketAddr| http(admin, "GET", "/readyz", &[], b"").unwrap().text();
    let other =
        "there is no leader: server 2 abstains, because its data directory is empty; server 3 cannot be reached";
    assert!(reason(admins[0]).contains(other), "{}", reason(admins[0]));
    let own =
        "there is no leader: this server abstains, because its data directory is empty; server 3 cannot be reached";
    assert!(reason(admins[1]).contains(own), "{}", reason(admins[1]));
    let status = run_command(&std::env::temp_dir(), &["status", &ensemble.addresses[0].to_string()]);
    assert!(status.err.starts_with("hint: the log of a server that reports no quorum says"), "{}", status.err);
}

/// The steps of docs/operate/backup.md.
#[test]
fn ensemble_is_restored_from_one_snapshot() {
    let mut ensemble = members::prepare(3, 0, "", &[]);
    let admin = enable_admin(&ensemble, 0);
    let all = [0, 1, 2];
    ensemble.start_members(&all);
    let mut client = ensemble.client();
    client.create("/kept", 0);
    ensemble.wait_until_in_sync();
    let snapshot = http(admin, "GET", "/commands/snapshot", &[("Authorization", SUPER)], b"").unwrap();
    assert_eq!(snapshot.status, 200, "{}", snapshot.text());
    let name = format!("snapshot.{}", snapshot.header("last_zxid").unwrap().strip_prefix("0x").unwrap());
    client.create("/later", 0);
    client.close();
    for at in all {
        let process = ensemble.take(at);
        process.signal("TERM");
        process.end();
        let data = ensemble.directory(at).join("data");
        fs::rename(data.join("version-2"), data.join("old")).unwrap();
        fs::create_dir(data.join("version-2")).unwrap();
        fs::write(data.join("version-2").join(&name), &snapshot.body).unwrap();
        fs::write(data.join("initialize"), "").unwrap();
        let checked = run_command(&data, &["snapshot", "check", "."]);
        assert_eq!(checked.code, Some(0), "{}{}", checked.out, checked.err);
    }
    ensemble.start_members(&all);
    ensemble.client().create("/new", 0);
    ensemble.wait_until_in_sync();
    let tree = ensemble.check_equal();
    assert!(
        tree.contains_key("/kept") && tree.contains_key("/new") && !tree.contains_key("/later"),
        "{:?}",
        tree.keys()
    );
}
