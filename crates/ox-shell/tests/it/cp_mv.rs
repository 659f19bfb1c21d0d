//! The commands `cp` and `mv`.

use crate::shell_harness::ShellHarness;
use ox_client::{CreateMode, CreateOptions, Version, acl};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn copy_equals_the_original() {
    let mut harness = ShellHarness::new().await;
    harness.create_odd_nodes().await;
    harness.other.add_auth("digest", "bob:secret").await.unwrap();
    let options = CreateOptions::new(CreateMode::Persistent).with_acl([acl::read_only(), acl::creator()].concat());
    harness.other.create("/odd/list", "", &options).await.unwrap();
    harness.shell.client().unwrap().add_auth("digest", "bob:secret").await.unwrap();
    let copied = harness.run("cp /odd /copy").await;
    assert_eq!((copied.status, copied.err.as_str()), (0, "Copied /odd to /copy: 7 nodes created\n"));
    assert_eq!(harness.run("diff --acl /odd /copy").await.lines(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cp_resolves_conflicts_by_option() {
    let mut harness = ShellHarness::new().await;
    harness.create_nodes("/a=1 /a/b=2 /a/c=3 /z /z/b=old").await;
    let refused = harness.run("cp /a /z").await;
    let text = "Node already exists: /z (0 nodes created before it, nothing after it; see --conflict)\n";
    assert_eq!((refused.status, refused.err.as_str()), (1, text));
    assert_eq!(harness.run("find /z").await.lines(), ["/z", "/z/b"]);
    let plan = harness.run("cp --dry-run --conflict skip /a /z").await;
    assert_eq!(plan.out, "skip      /z\nskip      /z/b\ncreate    /z/c\n");
    assert_eq!(harness.run("cp --dry-run --json /a/b /y").await.out, "{\"action\":\"create\",\"path\":\"/y\"}\n");
    let skipped = harness.run("cp --conflict skip /a /z").await;
    assert_eq!(skipped.err, "Copied /a to /z: 1 node created, 2 skipped\n");
    assert_eq!(harness.run("grep -v ! /z").await.lines(), ["/z/b:old", "/z/c:3"]);
    let over = harness.run("cp --conflict overwrite /a /z").await;
    assert_eq!(over.err, "Copied /a to /z: 0 nodes created, 3 overwritten\n");
    assert_eq!(harness.run("diff --acl /a /z").await.lines(), [""; 0]);
    assert_eq!(harness.run("cp --conflict maybe /a /z").await.status, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invalid_targets_are_rejected() {
    let mut harness = ShellHarness::new().await;
    harness.create_nodes("/a /a/b").await;
    for (line, text) in [
        ("cp /a /a/b/c", "/a/b/c is /a itself or below it\n"),
        ("cp /a /a", "/a is /a itself or below it\n"),
        ("mv / /x", "/x is / itself or below it\n"),
        ("cp /a /x/y", "Node does not exist: /x (-p creates it)\n"),
        ("cp /none /x", "Node does not exist: /none\n"),
        ("mv /a/b /a", "Node already exists: /a\n"),
    ] {
        let refused = harness.run(line).await;
        assert_eq!((refused.status, refused.err.as_str()), (1, text), "{line}");
    }
    assert_eq!(harness.run("cp -p /a /x/y").await.status, 0);
    assert_eq!(harness.run("find /x").await.lines(), ["/x", "/x/y", "/x/y/b"]);
    assert_eq!(harness.run("cp -d 0 /a /alone").await.status, 0);
    assert_eq!(harness.run("find /alone").await.lines(), ["/alone"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ephemeral_nodes_of_other_sessions_are_rejected() {
    let mut harness = ShellHarness::new().await;
    harness.create_nodes("/a /a/b").await;
    harness.other.create("/a/theirs", "", CreateMode::Ephemeral).await.unwrap();
    let owner = harness.other.session().unwrap().id;
    for (command, hint) in [
        ("cp", "a copy would not be deleted with it; --skip-ephemerals skips these nodes"),
        ("mv", "it would be lost; nothing was moved"),
    ] {
        let refused = harness.run(&format!("{command} /a /x")).await;
        let text = format!("/a/theirs is an ephemeral node of session {:#x}: {hint}\n", owner.0);
        assert_eq!((refused.status, refused.err.as_str()), (1, text.as_str()));
    }
    assert_eq!(harness.run("find --name x /").await.lines(), [""; 0]);
    assert_eq!(harness.run("cp --skip-ephemerals /a /x").await.err, "Copied /a to /x: 2 nodes created\n");
    // Ephemeral nodes of our own session stay ephemeral.
    harness.run("create -e /x/ours").await;
    assert_eq!(harness.run("mv /x /y").await.err, "Moved /x to /y: 3 nodes\n");
    assert_eq!(harness.run("find --ephemeral /y").await.lines(), ["/y/ours"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn move_preserves_everything_and_deletes_the_original() {
    let mut harness = ShellHarness::new().await;
    harness.create_odd_nodes().await;
    harness.run("cp /odd /before").await;
    let moved = harness.run("mv /odd /after").await;
    assert_eq!((moved.status, moved.err.as_str()), (0, "Moved /odd to /after: 6 nodes\n"));
    assert_eq!(harness.run("diff --acl /before /after").await.lines(), [""; 0]);
    assert!(harness.other.exists("/odd").await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unreadable_node_is_skipped_by_cp_and_stops_mv() {
    let mut harness = ShellHarness::new().await;
    harness.create_nodes("/a /a/b=1").await;
    harness.create_locked_node("/a/locked").await;
    let copied = harness.run("cp /a /x").await;
    let text = "No permission: /a/locked\nCopied /a to /x: 2 nodes created\n1 node could not be copied\n";
    assert_eq!((copied.status, copied.err.as_str()), (1, text));
    let moved = harness.run("mv /a /y").await;
    let text = "No permission: /a/locked\n1 node could not be read; nothing was moved\n";
    assert_eq!((moved.status, moved.err.as_str()), (1, text));
    assert!(harness.other.exists("/y").await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failed_move_reports_where_the_nodes_are() {
    let mut harness = ShellHarness::new().await;
    harness.create_nodes("/a /a/b=1").await;
    harness.run("setAcl /a world:anyone:rdwa").await; // prevents creating children of a copy
    let moved = harness.run("mv /a /x").await;
    let text = "No permission: /x/b\nNothing was deleted; the copied nodes are at /x\n\
                Not everything could be copied\n";
    assert_eq!((moved.status, moved.err.as_str()), (1, text));
    assert_eq!(harness.run("find /a").await.lines(), ["/a", "/a/b"]);
}

/// Servers mask hashes in ACLs. A copy with a masked ACL would lock its owner out.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node_with_masked_acl_is_not_copied() {
    let mut harness = ShellHarness::new().await;
    harness.other.add_auth("digest", "bob:secret").await.unwrap();
    let list = [acl::read_only(), acl::creator()].concat();
    let options = CreateOptions::new(CreateMode::Persistent).with_acl(list);
    harness.other.create("/a", "1", &options).await.unwrap();
    harness.other.create("/a/below", "1", CreateMode::Persistent).await.unwrap();
    for line in ["cp /a /x", "mv /a /x", "export /a"] {
        let refused = harness.run(line).await;
        assert_eq!(refused.status, 1, "{line}");
        assert!(refused.err.starts_with("The server shows only a part of its ACL: /a\n"), "{}", refused.err);
        assert!(!refused.out.contains("below"), "{}", refused.out);
    }
    assert!(harness.other.exists("/x").await.unwrap().is_none());
}

/// Writes of other clients during a move are never lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn move_loses_no_concurrent_write() {
    let mut harness = ShellHarness::new().await;
    harness.create_nodes("/a /a/n=0").await;
    let other = harness.other.clone();
    let writer = tokio::spawn(async move {
        let writes = 1..=200;
        for number in writes.clone() {
            if other.set("/a/n", number.to_string(), Version::Any).await.is_err() {
                return number - 1;
            }
        }
        *writes.end()
    });
    // The move fails while the node changes too fast, and succeeds in the end.
    let mut round = 0;
    while harness.run(&format!("mv /a /to{round}")).await.status != 0 {
        assert!(harness.other.exists("/a").await.unwrap().is_some());
        round += 1;
    }
    let last: i32 = writer.await.unwrap();
    let node = harness.other.get(&format!("/to{round}/n")).await.unwrap();
    assert_eq!(String::from_utf8(node.data).unwrap(), last.to_string());
}
