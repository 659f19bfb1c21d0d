//! Tests of the `find` command.

use crate::shell_harness::ShellHarness;
use ox_client::{CreateMode, Version};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn find_matches_name_path_and_data() {
    let mut harness = ShellHarness::new().await;
    harness.create_nodes("/a /a/one.json=red /a/two.json=green /a/deep /a/deep/Three.json=red").await;
    let found = harness.run("find --name *.json /a").await;
    assert_eq!(found.lines(), ["/a/deep/Three.json", "/a/one.json", "/a/two.json"]);
    assert_eq!(harness.run("find --name t* /a").await.lines(), ["/a/two.json"]);
    assert_eq!(harness.run("find -i --name t* /a").await.lines(), ["/a/deep/Three.json", "/a/two.json"]);
    assert_eq!(harness.run("find --regex deep/ /a").await.lines(), ["/a/deep/Three.json"]);
    assert_eq!(harness.run("find --data ^r.d$ /a").await.lines(), ["/a/deep/Three.json", "/a/one.json"]);
    assert_eq!(harness.run("find --data red --name one* /a").await.lines(), ["/a/one.json"]);
    assert_eq!(harness.run("find -d 1 --name *.json /a").await.lines(), ["/a/one.json", "/a/two.json"]);
    assert_eq!(harness.run("find --name none /a").await.lines(), [""; 0]);
    let wrong = harness.run("find --regex ( /a").await;
    assert!(wrong.status == 1 && wrong.err.starts_with("`(` is not a regular expression"), "{}", wrong.err);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn find_matches_size_kind_and_age() {
    let mut harness = ShellHarness::new().await;
    harness.create_nodes("/a /a/small=1 /a/large=123456789").await;
    harness.other.create("/a/mine", "123", CreateMode::Ephemeral).await.unwrap();
    assert_eq!(harness.run("find --ephemeral /a").await.lines(), ["/a/mine"]);
    assert_eq!(harness.run("find --min-size 3 /a").await.lines(), ["/a/large", "/a/mine"]);
    assert_eq!(harness.run("find --max-size 0 /a").await.lines(), ["/a"]);
    assert_eq!(harness.run("find --min-size 1 --max-size 3 /a").await.lines(), ["/a/mine", "/a/small"]);
    assert_eq!(harness.run("find --newer 7d --name large /a").await.lines(), ["/a/large"]);
    assert_eq!(harness.run("find --older 7d /a").await.lines(), [""; 0]);
    assert_eq!(harness.run("find --newer 1970-01-01T00:00:00Z /a/large").await.lines(), ["/a/large"]);
    let listed = harness.run("find --json --name small /a").await;
    assert!(listed.lines()[0].starts_with(r#"{"path":"/a/small","stat":{"czxid":"0x"#), "{}", listed.out);
    for line in ["find --min-size x /a", "find --newer soon /a", "find -d x /a"] {
        assert_eq!(harness.run(line).await.status, 1, "{line}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn find_handles_binary_data_and_locked_nodes() {
    let mut harness = ShellHarness::new().await;
    harness.create_odd_nodes().await;
    assert_eq!(harness.run(r"find --data (?-u)\xff /odd").await.lines(), ["/odd/bytes"]);
    assert_eq!(harness.run("find --name größe --data 名 /odd").await.lines(), ["/odd/größe"]);
    harness.create_locked_node("/odd/locked").await;
    let found = harness.run("find --data ^ --name locked /odd").await;
    assert_eq!((found.status, found.out.as_str()), (1, ""));
    assert!(found.err.starts_with("No permission: /odd/locked\n"));
    // Only its name is known.
    assert_eq!(harness.run("find --name locked /odd").await.out, "/odd/locked\n");
    assert_eq!(harness.run("find --name locked --json /odd").await.out, "{\"path\":\"/odd/locked\"}\n");
    assert_eq!(harness.run("find --name locked --max-size 9 /odd").await.out, "");
}

/// Nodes deleted during the walk are skipped, and only those.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn find_skips_nodes_deleted_meanwhile() {
    let mut harness = ShellHarness::new().await;
    harness.create_nodes("/a /a/stays /a/z").await;
    let other = harness.other.clone();
    let churn = tokio::spawn(async move {
        loop {
            for number in 0..50 {
                let path = format!("/a/n{number}");
                other.create(&path, "", CreateMode::Persistent).await.unwrap();
                other.create(&format!("{path}/below"), "", CreateMode::Persistent).await.unwrap();
            }
            for number in 0..50 {
                other.delete(&format!("/a/n{number}/below"), Version::Any).await.unwrap();
                other.delete(&format!("/a/n{number}"), Version::Any).await.unwrap();
            }
        }
    });
    for _ in 0..50 {
        let found = harness.run("find --data ^ /a").await;
        let lines = found.lines();
        for node in ["/a", "/a/stays", "/a/z"] {
            assert!(lines.contains(&node), "{lines:?}");
        }
    }
    churn.abort();
}
