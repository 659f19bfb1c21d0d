//! Tests of the `grep` command.

use crate::shell_harness::ShellHarness;
use ox_client::Version;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn grep_prints_matching_lines() {
    let mut harness = ShellHarness::new().await;
    harness.create_nodes("/a=one /a/b /a/b/c").await;
    harness.other.set("/a/b/c", "alpha\nBeta\ngamma\nONE\nomega\n", Version::Any).await.unwrap();
    assert_eq!(harness.run("grep one /a").await.lines(), ["/a:one"]);
    assert_eq!(harness.run("grep -i one /a").await.lines(), ["/a:one", "/a/b/c:ONE"]);
    assert_eq!(harness.run("grep -n ^.eta$ /a").await.lines(), ["/a/b/c:2:Beta"]);
    assert_eq!(harness.run("grep -v a /a").await.lines(), ["/a:one", "/a/b/c:ONE"]);
    assert_eq!(harness.run("grep -l a /a").await.lines(), ["/a/b/c"]);
    assert_eq!(harness.run("grep -F . /a").await.status, 1);
    assert_eq!(harness.run("grep -d 0 -i one /a").await.lines(), ["/a:one"]);
    assert_eq!(harness.run("grep --json one /a").await.lines(), [r#"{"path":"/a","line":1,"text":"one"}"#]);
    assert_eq!(harness.run("grep --json -l one /a").await.lines(), [r#"{"path":"/a"}"#]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn grep_prints_context_lines() {
    let mut harness = ShellHarness::new().await;
    harness.create_nodes("/a /b=1").await;
    harness.other.set("/a", "1\n2\n3\n4\n5\n6\n7\n8", Version::Any).await.unwrap();
    assert_eq!(harness.run("grep -C 1 3 /a").await.lines(), ["/a-2", "/a:3", "/a-4"]);
    assert_eq!(harness.run("grep -n -A 1 [36] /a").await.lines(), ["/a:3:3", "/a-4-4", "--", "/a:6:6", "/a-7-7"]);
    assert_eq!(harness.run("grep -C 1 [24] /a").await.lines(), ["/a-1", "/a:2", "/a-3", "/a:4", "/a-5"]);
    assert_eq!(harness.run("grep -B 2 1 /").await.lines(), ["/a:1", "--", "/b:1"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn grep_handles_binary_data_and_locked_nodes() {
    let mut harness = ShellHarness::new().await;
    harness.create_odd_nodes().await;
    assert_eq!(harness.run("grep x /odd").await.lines(), ["/odd:text", "/odd/bytes: binary data"]);
    assert_eq!(harness.run("grep 名. /odd").await.lines(), ["/odd/größe:名前"]);
    assert_eq!(harness.run("grep --json x /odd/bytes").await.lines(), [r#"{"path":"/odd/bytes","binary":true}"#]);
    // Null data has no line, not even one that does not match.
    let nothing = harness.run("grep -v zzz /odd/null").await;
    assert_eq!((nothing.status, nothing.out.as_str(), nothing.err.as_str()), (1, "", ""));
    harness.create_locked_node("/odd/locked").await;
    let found = harness.run("grep b /odd").await;
    assert_eq!((found.status, found.out.as_str()), (1, "/odd/two words:b\n"));
    assert_eq!(found.err, "No permission: /odd/locked\n1 node could not be read\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn grep_context_beyond_the_data_is_clamped() {
    let mut harness = ShellHarness::new().await;
    harness.create_odd_nodes().await;
    let line = format!("grep -B {0} -A {0} b \"/odd/two words\"", usize::MAX);
    let expected = ["/odd/two words-a", "/odd/two words:b", "/odd/two words-c"];
    assert_eq!(harness.run(&line).await.lines(), expected);
}
