//! Tests of the `du` command.

use crate::shell_harness::ShellHarness;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn du_sums_up_subtrees() {
    let mut harness = ShellHarness::new().await;
    harness.create_nodes("/a=1 /a/b=22 /a/b/c=333 /a/b/d /a/e=4444 /ab=9").await;
    let sums = harness.run("du /a").await;
    assert_eq!(
        sums.lines(),
        ["           5         3  /a/b", "           4         1  /a/e", "          10         5  /a"]
    );
    assert_eq!(harness.run("du -s --json /a").await.lines(), [r#"{"path":"/a","bytes":10,"nodes":5}"#]);
    let deep = harness.run("du -d 9 --json /a/b").await;
    let expected = [
        r#"{"path":"/a/b/c","bytes":3,"nodes":1}"#,
        r#"{"path":"/a/b/d","bytes":0,"nodes":1}"#,
        r#"{"path":"/a/b","bytes":5,"nodes":3}"#,
    ];
    assert_eq!(deep.lines(), expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn locked_node_is_counted_without_its_subtree() {
    let mut harness = ShellHarness::new().await;
    harness.create_nodes("/a=1").await;
    harness.create_locked_node("/a/locked").await;
    let sums = harness.run("du -s --json /a").await;
    assert_eq!((sums.status, sums.out.as_str()), (1, "{\"path\":\"/a\",\"bytes\":1,\"nodes\":2}\n"));
    assert_eq!(sums.err, "No permission: /a/locked\n1 node could not be read\n");
}
