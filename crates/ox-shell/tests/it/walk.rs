//! Walks over subtrees, disturbed.

use crate::large_subtree::{self, NODES};
use crate::shell_harness::Desk;
use std::fs;

/// A long walk outlives its connection: nothing is missing, nothing comes twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_connection_does_not_end_a_walk() {
    let mut desk = Desk::new().await;
    large_subtree::plant(&desk).await;
    for (command, lines) in [("find /large", NODES), ("export /large", 1 + NODES), ("ls -R /large", NODES)] {
        let session = desk.shell.client().unwrap().session().unwrap().id;
        let (server, out) = (&desk.server, desk.out.clone());
        let mut text = String::new();
        let mut drops = 0;
        let disturb = async {
            while drops < 3 {
                tokio::task::yield_now().await;
                let more = out.take();
                if !more.is_empty() && server.drop_connection(session) {
                    drops += 1;
                }
                text.push_str(&more);
            }
            std::future::pending::<()>().await;
        };
        tokio::select! {
            done = desk.shell.run_line(command) => done.unwrap(),
            () = disturb => unreachable!(),
        }
        text.push_str(&desk.out.take());
        assert!(0 < drops, "{command} was not disturbed");
        assert_eq!(text.lines().count(), lines, "{command}");
        let mut seen: Vec<_> = text.lines().collect();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), lines, "{command}");
    }
}

/// Without a server, everything says so at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_walk_does_not_wait_for_a_server_that_was_never_there() {
    let mut desk = Desk::new().await;
    desk.server.stop().unwrap();
    while desk.shell.client().unwrap().state().is_connected() {
        tokio::task::yield_now().await;
    }
    assert_eq!(desk.run("find /").await.err, "KeeperErrorCode = ConnectionLoss for /\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_export_that_is_stopped_leaves_no_file() {
    let directory = tempfile::tempdir().unwrap();
    let mut desk = Desk::new().await;
    large_subtree::plant(&desk).await;
    let line = format!("export -o {} /large", directory.path().join("file").display());
    let is_there = || fs::read_dir(directory.path()).unwrap().next().is_some();
    let begun = async {
        while !is_there() {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        biased;
        () = begun => (),
        _ = desk.shell.run_line(&line) => (), // it was faster
    }
    let left: Vec<_> = fs::read_dir(directory.path()).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| name == "file"), "{left:?}");
}
