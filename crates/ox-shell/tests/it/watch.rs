//! `watch`.

use crate::shell_harness::Desk;
use ox_client::{CreateMode, Version};
use std::time::Duration;

/// Runs `watch` and what others do once it watches.
async fn watched(desk: &mut Desk, line: &str, deeds: impl AsyncFnOnce(&ox_client::Client)) -> (u8, Vec<String>) {
    let (other, err) = (desk.other.clone(), desk.err.clone());
    let is_json = line.contains("--json");
    let run = desk.shell.run_line(line);
    let deeds = async {
        // JSON comes alone; then the server knows.
        while !is_json && !err.take().contains("Watching") {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        deeds(&other).await;
    };
    let (_, ()) = tokio::join!(run, deeds);
    desk.err.take();
    (desk.shell.status(), desk.out.take().lines().map(str::to_owned).collect())
}

/// Lines without their times.
fn events(lines: &[String]) -> Vec<&str> {
    lines.iter().map(|line| line.splitn(3, ' ').nth(2).unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_below_a_node() {
    let mut desk = Desk::new().await;
    desk.plant("/a /b").await;
    let (status, lines) = watched(&mut desk, "watch -r --data --count 4 /a", async |other| {
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
async fn one_node() {
    let mut desk = Desk::new().await;
    desk.plant("/a").await;
    desk.shell.set_prints_events(true);
    let (status, lines) = watched(&mut desk, "watch --count 3 /a", async |other| {
        other.set("/a", "1", Version::Any).await.unwrap();
        other.create("/a/x", "", CreateMode::Persistent).await.unwrap();
        other.create("/a/x/y", "", CreateMode::Persistent).await.unwrap();
        other.delete("/a/x/y", Version::Any).await.unwrap();
        other.delete("/a/x", Version::Any).await.unwrap();
    })
    .await;
    assert_eq!(status, 0);
    // Not twice, though the session would print them.
    assert!(!lines.iter().any(|line| line.contains("type:Node")), "{lines:?}");
    let lines: Vec<_> = lines.into_iter().filter(|line| line.starts_with("20")).collect();
    assert_eq!(events(&lines), ["changed  /a", "children /a", "children /a"]);
    // Others are told as before.
    assert!(desk.shell.prints_events());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_ends_is_told() {
    let mut desk = Desk::new().await;
    desk.plant("/a").await;
    let client = desk.shell.client().unwrap();
    let (status, lines) = watched(&mut desk, "watch -r /a", async |_| client.close().await.unwrap()).await;
    assert_eq!(status, 1);
    assert_eq!(events(&lines), ["ended    the session is over"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn as_json() {
    let mut desk = Desk::new().await;
    desk.plant("/a").await;
    let watcher = tokio::spawn({
        let other = desk.other.clone();
        async move {
            loop {
                other.set("/a", "x", Version::Any).await.unwrap();
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
    });
    let (status, lines) = watched(&mut desk, "watch --json --data --count 1 /a", async |_| ()).await;
    watcher.abort();
    assert_eq!((status, lines.len()), (0, 1));
    let line: serde_json::Value = serde_json::from_str(&lines[0]).unwrap();
    assert_eq!((&line["event"], &line["path"], &line["data"]), (&"changed".into(), &"/a".into(), &"x".into()));
    assert!(line["zxid"].as_str().unwrap().starts_with("0x") && line["time"].as_str().unwrap().ends_with('Z'));
}
