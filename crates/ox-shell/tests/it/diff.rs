//! `diff`.

use crate::shell_harness::Desk;
use ox_client::{CreateMode, Null, Version, acl};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tells_what_differs() {
    let mut desk = Desk::new().await;
    desk.plant("/a /a/same=1 /a/changed=1 /a/gone /a/gone/below /a/x /a/x/y /a/x-y").await;
    desk.plant("/b /b/same=1 /b/changed=22 /b/new /b/x /b/x/y /b/x-y").await;
    let differ = desk.run("diff /a /b").await;
    let expected = "~ /a/changed data (1 byte and 2 bytes)\n- /a/gone\n- /a/gone/below\n+ /b/new\n";
    assert_eq!((differ.status, differ.out.as_str(), differ.err.as_str()), (1, expected, ""));
    let quiet = desk.run("diff -q /a /b").await;
    assert_eq!((quiet.status, quiet.out.as_str()), (1, ""));
    let listed = desk.run("diff --json /a /b").await;
    let lines: Vec<_> = listed.out.lines().collect();
    assert_eq!(lines[0], r#"{"change":"changed","path":"/a/changed","other":"/b/changed","what":["data"]}"#);
    assert_eq!(lines[3], r#"{"change":"added","path":"/b/new"}"#);
    assert_eq!(desk.run("diff /a /a").await.lines(), [""; 0]);
    assert_eq!(desk.run("diff /a/same /b/same").await.lines(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn null_lists_and_kinds_count() {
    let mut desk = Desk::new().await;
    desk.plant("/a /b /a/k /a/l /b/l /a/n").await;
    desk.other.create("/b/k", "", CreateMode::Ephemeral).await.unwrap();
    desk.other.create("/b/n", Null, CreateMode::Persistent).await.unwrap();
    desk.other.set_acl("/b/l", &acl::read_only(), Version::Any).await.unwrap();
    let differ = desk.run("diff /a /b").await;
    assert_eq!(differ.out, "~ /a/k kind\n~ /a/n data (0 bytes and null)\n");
    assert_eq!(desk.run("diff --acl /a/l /b/l").await.out, "~ /a/l acl\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_hidden_is_not_called_different() {
    let mut desk = Desk::new().await;
    desk.plant("/a /a/k /a/k/below /b /b/z").await;
    desk.plant_locked("/b/k").await;
    let differ = desk.run("diff /a /b").await;
    assert_eq!((differ.status, differ.out.as_str()), (2, "+ /b/z\n"));
    assert_eq!(differ.err, "Insufficient permission : /b/k\n1 node could not be compared\n");
}
