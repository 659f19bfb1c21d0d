//! `cp` and `mv`.

use crate::shell_harness::Desk;
use ox_client::{CreateMode, CreateOptions, Version, acl};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_is_the_same() {
    let mut desk = Desk::new().await;
    desk.plant_odd_ones().await;
    desk.other.add_auth("digest", "bob:secret").await.unwrap();
    let options = CreateOptions::new(CreateMode::Persistent).with_acl([acl::read_only(), acl::creator()].concat());
    desk.other.create("/odd/list", "", &options).await.unwrap();
    desk.shell.client().unwrap().add_auth("digest", "bob:secret").await.unwrap();
    let copied = desk.run("cp /odd /copy").await;
    assert_eq!((copied.status, copied.err.as_str()), (0, "Copied /odd to /copy: 7 nodes created\n"));
    assert_eq!(desk.run("diff --acl /odd /copy").await.lines(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conflicts() {
    let mut desk = Desk::new().await;
    desk.plant("/a=1 /a/b=2 /a/c=3 /z /z/b=old").await;
    let refused = desk.run("cp /a /z").await;
    let text = "Node already exists: /z (0 nodes created before it, nothing behind it; see --conflict)\n";
    assert_eq!((refused.status, refused.err.as_str()), (1, text));
    assert_eq!(desk.run("find /z").await.lines(), ["/z", "/z/b"]);
    let plan = desk.run("cp --dry-run --conflict skip /a /z").await;
    assert_eq!(plan.out, "skip      /z\nskip      /z/b\ncreate    /z/c\n");
    assert_eq!(desk.run("cp --dry-run --json /a/b /y").await.out, "{\"action\":\"create\",\"path\":\"/y\"}\n");
    let skipped = desk.run("cp --conflict skip /a /z").await;
    assert_eq!(skipped.err, "Copied /a to /z: 1 node created, 2 skipped\n");
    assert_eq!(desk.run("grep -v ! /z").await.lines(), ["/z/b:old", "/z/c:3"]);
    let over = desk.run("cp --conflict overwrite /a /z").await;
    assert_eq!(over.err, "Copied /a to /z: 0 nodes created, 3 overwritten\n");
    assert_eq!(desk.run("diff --acl /a /z").await.lines(), [""; 0]);
    assert_eq!(desk.run("cp --conflict maybe /a /z").await.status, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn places_that_cannot_be() {
    let mut desk = Desk::new().await;
    desk.plant("/a /a/b").await;
    for (line, text) in [
        ("cp /a /a/b/c", "/a/b/c is /a itself or below it\n"),
        ("cp /a /a", "/a is /a itself or below it\n"),
        ("mv / /x", "/x is / itself or below it\n"),
        ("cp /a /x/y", "Node does not exist: /x (-p creates it)\n"),
        ("cp /none /x", "Node does not exist: /none\n"),
        ("mv /a/b /a", "Node already exists: /a\n"),
    ] {
        let refused = desk.run(line).await;
        assert_eq!((refused.status, refused.err.as_str()), (1, text), "{line}");
    }
    assert_eq!(desk.run("cp -p /a /x/y").await.status, 0);
    assert_eq!(desk.run("find /x").await.lines(), ["/x", "/x/y", "/x/y/b"]);
    assert_eq!(desk.run("cp -d 0 /a /alone").await.status, 0);
    assert_eq!(desk.run("find /alone").await.lines(), ["/alone"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ephemeral_nodes_of_others_cannot_be_kept() {
    let mut desk = Desk::new().await;
    desk.plant("/a /a/b").await;
    desk.other.create("/a/theirs", "", CreateMode::Ephemeral).await.unwrap();
    let owner = desk.other.session().unwrap().id;
    for (command, hint) in [
        ("cp", "a copy would not go with it; --skip-ephemerals leaves such nodes out"),
        ("mv", "it would be lost; nothing was moved"),
    ] {
        let refused = desk.run(&format!("{command} /a /x")).await;
        let text = format!("/a/theirs is an ephemeral node of session {:#x}: {hint}\n", owner.0);
        assert_eq!((refused.status, refused.err.as_str()), (1, text.as_str()));
    }
    assert_eq!(desk.run("find --name x /").await.lines(), [""; 0]);
    assert_eq!(desk.run("cp --skip-ephemerals /a /x").await.err, "Copied /a to /x: 2 nodes created\n");
    // Our own are kept as what they are.
    desk.run("create -e /x/ours").await;
    assert_eq!(desk.run("mv /x /y").await.err, "Moved /x to /y: 3 nodes\n");
    assert_eq!(desk.run("find --ephemeral /y").await.lines(), ["/y/ours"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_move_keeps_everything_and_leaves_nothing() {
    let mut desk = Desk::new().await;
    desk.plant_odd_ones().await;
    desk.run("cp /odd /before").await;
    let moved = desk.run("mv /odd /after").await;
    assert_eq!((moved.status, moved.err.as_str()), (0, "Moved /odd to /after: 6 nodes\n"));
    assert_eq!(desk.run("diff --acl /before /after").await.lines(), [""; 0]);
    assert!(desk.other.exists("/odd").await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_may_not_be_read_is_not_copied_and_stops_a_move() {
    let mut desk = Desk::new().await;
    desk.plant("/a /a/b=1").await;
    desk.plant_locked("/a/locked").await;
    let copied = desk.run("cp /a /x").await;
    let text = "Insufficient permission : /a/locked\nCopied /a to /x: 2 nodes created\n1 node could not be copied\n";
    assert_eq!((copied.status, copied.err.as_str()), (1, text));
    let moved = desk.run("mv /a /y").await;
    let text = "Insufficient permission : /a/locked\n1 node could not be read; nothing was moved\n";
    assert_eq!((moved.status, moved.err.as_str()), (1, text));
    assert!(desk.other.exists("/y").await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_move_that_fails_says_where_everything_is() {
    let mut desk = Desk::new().await;
    desk.plant("/a /a/b=1").await;
    desk.run("setAcl /a world:anyone:rdwa").await; // so that nothing can be created below a copy
    let moved = desk.run("mv /a /x").await;
    let text = "Insufficient permission : /x/b\nNothing was deleted; what was copied is at /x\n\
                Not everything could be copied\n";
    assert_eq!((moved.status, moved.err.as_str()), (1, text));
    assert_eq!(desk.run("find /a").await.lines(), ["/a", "/a/b"]);
}

/// Servers show others a list without its hashes. A copy with such a list would lock its owner out.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_that_is_shown_in_part_is_not_copied() {
    let mut desk = Desk::new().await;
    desk.other.add_auth("digest", "bob:secret").await.unwrap();
    let list = [acl::read_only(), acl::creator()].concat();
    let options = CreateOptions::new(CreateMode::Persistent).with_acl(list);
    desk.other.create("/a", "1", &options).await.unwrap();
    desk.other.create("/a/below", "1", CreateMode::Persistent).await.unwrap();
    for line in ["cp /a /x", "mv /a /x", "export /a"] {
        let refused = desk.run(line).await;
        assert_eq!(refused.status, 1, "{line}");
        assert!(refused.err.starts_with("Its access control list is shown in part only : /a\n"), "{}", refused.err);
        assert!(!refused.out.contains("below"), "{}", refused.out);
    }
    assert!(desk.other.exists("/x").await.unwrap().is_none());
}

/// Whatever others write while a subtree is moved is there in the end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_when_the_original_changes_meanwhile() {
    let mut desk = Desk::new().await;
    desk.plant("/a /a/n=0").await;
    let other = desk.other.clone();
    let writer = tokio::spawn(async move {
        let writes = 1..=200;
        for number in writes.clone() {
            if other.set("/a/n", number.to_string(), Version::Any).await.is_err() {
                return number - 1;
            }
        }
        *writes.end()
    });
    // It cannot be moved while it changes too fast, but in the end it can.
    let mut round = 0;
    while desk.run(&format!("mv /a /to{round}")).await.status != 0 {
        assert!(desk.other.exists("/a").await.unwrap().is_some());
        round += 1;
    }
    let last: i32 = writer.await.unwrap();
    let node = desk.other.get(&format!("/to{round}/n")).await.unwrap();
    assert_eq!(String::from_utf8(node.data).unwrap(), last.to_string());
}
