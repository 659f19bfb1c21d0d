//! Tests of the `watch` command.

use crate::shell_harness::ShellHarness;
use ox_client::{CreateMode, Version};
use std::time::Duration;

/// Runs `watch`, and `actions` once it is watching.
async fn watched(
    harness: &mut ShellHarness,
    line: &str,
    actions: impl AsyncFnOnce(&ox_client::Client),
) -> (u8, Vec<String>) {
    let (other, err) = (harness.other.clone(), harness.err.clone());
    let is_json = line.contains("--json");
    let run = harness.shell.run_line(line);
    let actions = async {
        // JSON output has no message; the server reports the watch instead.
        while !is_json && !err.take().contains("Watching") {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        actions(&other).await;
    };
    let (_, ()) = tokio::join!(run, actions);
    harness.err.take();
    (harness.shell.status(), harness.out.take().lines().map(str::to_owned).collect())
}

/// Output lines without timestamps.
fn events(lines: &[String]) -> Vec<&str> {
    lines.iter().map(|line| line.splitn(3, ' ').nth(2).unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watch_prints_changes_of_a_subtree() {
    let mut harness = ShellHarness::new().await;
    harness.create_nodes("/a /b").await;
    let (status, lines) = watched(&mut harness, "watch -r --data --count 4 /a", async |other| {
        other.create("/b/x", "", CreateMode::Persistent).await.unwrap();
        other.create("/a/x", "one\ntwo", CreateMode::Persistent).await.unwrap();
        other.create("/a/x/y", [0xff], CreateMode::Persistent).await.unwrap();
        other.set("/a", "3", Version::Any).await.unwrap();
        other.create("/a/z", "", CreateMode::Persistent).await.unwrap();
    })
    .await;
    assert_eq!(status, 0);
    let expected =
        ["created  /a/x \"one\\ntwo\"", "created  /a/x/y base64:/w==", "changed  /a \"3\"", "created  /a/z \"\""];
    assert_eq!(events(&lines), expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watch_prints_changes_of_one_node() {
    let mut harness = ShellHarness::new().await;
    harness.create_nodes("/a").await;
    harness.shell.set_prints_events(true);
    let (status, lines) = watched(&mut harness, "watch --count 3 /a", async |other| {
        other.set("/a", "1", Version::Any).await.unwrap();
        other.create("/a/x", "", CreateMode::Persistent).await.unwrap();
        other.create("/a/x/y", "", CreateMode::Persistent).await.unwrap();
        other.delete("/a/x/y", Version::Any).await.unwrap();
        other.delete("/a/x", Version::Any).await.unwrap();
    })
    .await;
    assert_eq!(status, 0);
    // Not printed a second time by the session.
    assert!(!lines.iter().any(|line| line.contains("type:Node")), "{lines:?}");
    let lines: Vec<_> = lines.into_iter().filter(|line| line.starts_with("20")).collect();
    assert_eq!(events(&lines), ["changed  /a", "children /a", "children /a"]);
    // The session prints events again afterwards.
    assert!(harness.shell.prints_events());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn end_of_session_is_reported() {
    let mut harness = ShellHarness::new().await;
    harness.create_nodes("/a").await;
    let client = harness.shell.client().unwrap();
    let (status, lines) = watched(&mut harness, "watch -r /a", async |_| client.close().await.unwrap()).await;
    assert_eq!(status, 1);
    assert_eq!(events(&lines), ["ended    the session has ended"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watch_prints_json() {
    let mut harness = ShellHarness::new().await;
    harness.create_nodes("/a").await;
    let watcher = tokio::spawn({
        let other = harness.other.clone();
        async move {
            loop {
                other.set("/a", "x", Version::Any).await.unwrap();
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
    });
    let (status, lines) = watched(&mut harness, "watch --json --data --count 1 /a", async |_| ()).await;
    watcher.abort();
    assert_eq!((status, lines.len()), (0, 1));
    let line: serde_json::Value = serde_json::from_str(&lines[0]).unwrap();
    assert_eq!((&line["event"], &line["path"], &line["data"]), (&"changed".into(), &"/a".into(), &"x".into()));
    assert!(line["zxid"].as_str().unwrap().starts_with("0x") && line["time"].as_str().unwrap().ends_with('Z'));
}

/// Silence would look like a node that does not change.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_connection_is_reported_while_the_server_is_down() {
    let mut harness = ShellHarness::new().await;
    harness.create_nodes("/a").await;
    let err = harness.err.clone();
    let ShellHarness { server, shell, .. } = &mut harness;
    let run = shell.run_line("watch --count 1 /a");
    let actions = async {
        let mut said = String::new();
        while !said.contains("Watching /a\n") {
            tokio::time::sleep(Duration::from_millis(5)).await;
            said += &err.take();
        }
        server.stop().unwrap();
        while !said.contains("Connection lost; changes are shown again when a server serves this session\n") {
            tokio::time::sleep(Duration::from_millis(5)).await;
            said += &err.take();
        }
    };
    tokio::select! {
        _ = run => panic!("nothing has changed"),
        () = actions => (),
    }
}
