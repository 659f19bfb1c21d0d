//! Tests of the `tree` command.

use crate::shell_harness::ShellHarness;
use ox_client::CreateMode;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tree_draws_the_subtree() {
    let mut harness = ShellHarness::new().await;
    harness.create_nodes("/a /a/b=12345 /a/b/c /a/b/d /a/e /a/e/f").await;
    let drawn = harness.run("tree /a").await;
    let expected = ["/a", "├── b", "│   ├── c", "│   └── d", "└── e", "    └── f"];
    assert_eq!(drawn.lines(), expected);
    assert_eq!(harness.run("tree -d 1 /a").await.lines(), ["/a", "├── b", "└── e"]);
    assert_eq!(harness.run("tree -d 0 /a").await.lines(), ["/a"]);
    harness.shell.set_directory("/a".to_owned());
    assert_eq!(harness.run("tree").await.lines(), expected);
    assert_eq!(harness.run("tree ../a/e").await.lines(), ["/a/e", "└── f"]);
    let missing = harness.run("tree /none").await;
    assert_eq!((missing.status, missing.err.as_str()), (1, "Node does not exist: /none\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tree_shows_sizes_and_owners() {
    let mut harness = ShellHarness::new().await;
    harness.create_nodes("/a /a/b=1").await;
    harness.create_locked_node("/a/c").await;
    harness.other.create("/a/e", "", CreateMode::Ephemeral).await.unwrap();
    let owner = harness.other.session().unwrap().id;
    let drawn = harness.run("tree -s /a").await;
    let ephemeral = format!("└── e (0 bytes, ephemeral of {:#x})", owner.0);
    let lines: Vec<_> = drawn.out.lines().collect();
    assert_eq!(lines, ["/a (0 bytes)", "├── b (1 byte)", "├── c (not readable)", &ephemeral]);
    let listed = harness.run("tree --json /a").await;
    let lines: Vec<_> = listed.out.lines().collect();
    assert_eq!(lines[2], r#"{"path":"/a/c","depth":1}"#);
    assert_eq!(lines[1], r#"{"path":"/a/b","depth":1,"dataLength":1,"numChildren":0}"#);
    assert!(lines[3].contains(&format!("\"ephemeralOwner\":\"{:#x}\"", owner.0)), "{}", lines[3]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unreadable_node_is_reported_and_the_rest_is_drawn() {
    let mut harness = ShellHarness::new().await;
    harness.create_nodes("/a /a/b /a/z").await;
    harness.create_locked_node("/a/locked").await;
    let drawn = harness.run("tree /a").await;
    assert_eq!(drawn.out, "/a\n├── b\n├── locked\n└── z\n");
    assert_eq!(drawn.err, "No permission: /a/locked\n1 node could not be read\n");
    assert_eq!(drawn.status, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tree_draws_non_ascii_names() {
    let mut harness = ShellHarness::new().await;
    harness.create_odd_nodes().await;
    let drawn = harness.run("tree /odd").await;
    assert_eq!(drawn.lines(), ["/odd", "├── bytes", "├── empty", "├── größe", "├── null", "└── two words"]);
}
