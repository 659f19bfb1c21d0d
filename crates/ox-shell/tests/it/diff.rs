//! Tests of the `diff` command.

use crate::shell_harness::ShellHarness;
use ox_client::{CreateMode, Null, Version, acl};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn diff_lists_all_differences() {
    let mut harness = ShellHarness::new().await;
    harness.create_nodes("/a /a/same=1 /a/changed=1 /a/gone /a/gone/below /a/x /a/x/y /a/x-y").await;
    harness.create_nodes("/b /b/same=1 /b/changed=22 /b/new /b/x /b/x/y /b/x-y").await;
    let differ = harness.run("diff /a /b").await;
    let expected = "~ /a/changed data (1 byte and 2 bytes)\n- /a/gone\n- /a/gone/below\n+ /b/new\n";
    assert_eq!((differ.status, differ.out.as_str(), differ.err.as_str()), (1, expected, ""));
    let quiet = harness.run("diff -q /a /b").await;
    assert_eq!((quiet.status, quiet.out.as_str()), (1, ""));
    let listed = harness.run("diff --json /a /b").await;
    let lines: Vec<_> = listed.out.lines().collect();
    assert_eq!(lines[0], r#"{"change":"changed","path":"/a/changed","other":"/b/changed","what":["data"]}"#);
    assert_eq!(lines[3], r#"{"change":"added","path":"/b/new"}"#);
    assert_eq!(harness.run("diff /a /a").await.lines(), [""; 0]);
    let missing = harness.run("diff /a /nope").await;
    assert_eq!((missing.status, missing.err.as_str()), (2, "Node does not exist: /nope\n"));
    assert_eq!(harness.run("diff /a/same /b/same").await.lines(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn diff_compares_null_acl_and_kind() {
    let mut harness = ShellHarness::new().await;
    harness.create_nodes("/a /b /a/k /a/l /b/l /a/n").await;
    harness.other.create("/b/k", "", CreateMode::Ephemeral).await.unwrap();
    harness.other.create("/b/n", Null, CreateMode::Persistent).await.unwrap();
    harness.other.set_acl("/b/l", &acl::read_only(), Version::Any).await.unwrap();
    let differ = harness.run("diff /a /b").await;
    assert_eq!(differ.out, "~ /a/k kind\n~ /a/n data (0 bytes and null)\n");
    assert_eq!(harness.run("diff --acl /a/l /b/l").await.out, "~ /a/l acl\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unreadable_nodes_are_not_reported_as_different() {
    let mut harness = ShellHarness::new().await;
    harness.create_nodes("/a /a/k /a/k/below /b /b/z").await;
    harness.create_locked_node("/b/k").await;
    let differ = harness.run("diff /a /b").await;
    assert_eq!((differ.status, differ.out.as_str()), (2, "+ /b/z\n"));
    assert_eq!(differ.err, "No permission: /b/k\n1 node could not be compared\n");
}
