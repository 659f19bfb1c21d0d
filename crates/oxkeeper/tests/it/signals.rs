//! Signals: only SIGTERM and SIGINT end a server, and some make it report.

use crate::process::{Running, Site};

#[test]
fn signals_other_than_term_and_int_do_not_end_the_server() {
    let directory = tempfile::tempdir().unwrap();
    let mut running = Site::new(directory.path(), "").start();
    running.client().create("/a", b"");
    let mut check = |signal: &str, lines: &[&str]| {
        running.process.signal(signal);
        lines.iter().for_each(|line| drop(running.process.wait_for(line)));
    };
    check("HUP", &["log files opened again; reloading the configuration", "configuration reloaded"]);
    check("USR2", &[]);
    for signal in ["USR1", "QUIT"] {
        check(
            signal,
            &[
                "logging the state of the server",
                "state of a thread name=\"log\" state=",
                "mode=\"standalone\" zxid=0x",
            ],
        );
    }
    assert_eq!(running.client().exists("/a").err, 0, "it serves on");
    let said = running.stop();
    assert!(said.contains("SIGTERM"), "{said}");
}

#[test]
fn requested_state_is_visible_at_the_level_warn() {
    let directory = tempfile::tempdir().unwrap();
    let mut running =
        Site::new(directory.path(), "oxkeeper.log.levels=info,ox_server::status::state_dump=warn").start();
    running.process.signal("USR1");
    running.process.wait_for("state of a thread name=\"log\" state=");
    running.process.wait_for("mode=\"standalone\" zxid=0x");
    running.stop();
}

#[test]
fn sigint_stops_the_server_cleanly() {
    let directory = tempfile::tempdir().unwrap();
    let running: Running = Site::new(directory.path(), "").start();
    running.process.signal("INT");
    let ended = running.process.end();
    assert_eq!(ended.status.code(), Some(0), "{}", ended.said);
    assert!(ended.said.ends_with("Exiting normally"), "{}", ended.said);
}
