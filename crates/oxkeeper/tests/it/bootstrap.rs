//! Bootstrapping an ensemble from the backup of one server: an operator has to confirm that no better data exists.

use crate::members;
use std::fs;
use std::path::Path;

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
