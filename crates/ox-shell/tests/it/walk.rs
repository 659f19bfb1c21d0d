//! Subtree walks across connection losses.

use crate::large_subtree::{self, NODES};
use crate::shell_harness::ShellHarness;
use std::fs;

/// A long walk survives connection losses: no node is missing or repeated.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn walk_survives_connection_loss() {
    let mut harness = ShellHarness::new().await;
    large_subtree::create_nodes(&harness).await;
    for (command, lines) in [("find /large", NODES), ("export /large", 1 + NODES), ("ls -R /large", NODES)] {
        let session = harness.shell.client().unwrap().session().unwrap().id;
        let (server, out) = (&harness.server, harness.out.clone());
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
            done = harness.shell.run_line(command) => done.unwrap(),
            () = disturb => unreachable!(),
        }
        text.push_str(&harness.out.take());
        assert!(0 < drops, "{command} was not disrupted");
        assert_eq!(text.lines().count(), lines, "{command}");
        let mut seen: Vec<_> = text.lines().collect();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), lines, "{command}");
    }
}

/// Without a server, every command fails immediately.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn walk_without_server_fails_immediately() {
    let mut harness = ShellHarness::new().await;
    harness.server.stop().unwrap();
    while harness.shell.client().unwrap().state().is_connected() {
        tokio::task::yield_now().await;
    }
    let (address, port) = (harness.server.address(), harness.server.address().port());
    let hint = format!("hint: is a server running, and is {port} its client port?");
    let error = format!("Cannot connect to {address}: connection refused\n{hint}\n");
    assert_eq!(harness.run("find /").await.err, error);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn interrupted_export_leaves_no_file() {
    let directory = tempfile::tempdir().unwrap();
    let mut harness = ShellHarness::new().await;
    large_subtree::create_nodes(&harness).await;
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
        _ = harness.shell.run_line(&line) => (), // the export finished first
    }
    let left: Vec<_> = fs::read_dir(directory.path()).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| name == "file"), "{left:?}");
}
