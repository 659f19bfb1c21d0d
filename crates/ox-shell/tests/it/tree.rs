//! `tree`.

use crate::shell_harness::Desk;
use ox_client::CreateMode;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn draws_what_there_is() {
    let mut desk = Desk::new().await;
    desk.plant("/a /a/b=12345 /a/b/c /a/b/d /a/e /a/e/f").await;
    let drawn = desk.run("tree /a").await;
    let expected = ["/a", "├── b", "│   ├── c", "│   └── d", "└── e", "    └── f"];
    assert_eq!(drawn.lines(), expected);
    assert_eq!(desk.run("tree -d 1 /a").await.lines(), ["/a", "├── b", "└── e"]);
    assert_eq!(desk.run("tree -d 0 /a").await.lines(), ["/a"]);
    desk.shell.set_directory("/a".to_owned());
    assert_eq!(desk.run("tree").await.lines(), expected);
    assert_eq!(desk.run("tree ../a/e").await.lines(), ["/a/e", "└── f"]);
    let missing = desk.run("tree /none").await;
    assert_eq!((missing.status, missing.err.as_str()), (1, "Node does not exist: /none\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sizes_and_kinds() {
    let mut desk = Desk::new().await;
    desk.plant("/a /a/b=1").await;
    desk.plant_locked("/a/c").await;
    desk.other.create("/a/e", "", CreateMode::Ephemeral).await.unwrap();
    let owner = desk.other.session().unwrap().id;
    let drawn = desk.run("tree -s /a").await;
    let ephemeral = format!("└── e (0 bytes, ephemeral of {:#x})", owner.0);
    let lines: Vec<_> = drawn.out.lines().collect();
    assert_eq!(lines, ["/a (0 bytes)", "├── b (1 byte)", "├── c (may not be read)", &ephemeral]);
    let listed = desk.run("tree --json /a").await;
    let lines: Vec<_> = listed.out.lines().collect();
    assert_eq!(lines[2], r#"{"path":"/a/c","depth":1}"#);
    assert_eq!(lines[1], r#"{"path":"/a/b","depth":1,"dataLength":1,"numChildren":0}"#);
    assert!(lines[3].contains(&format!("\"ephemeralOwner\":\"{:#x}\"", owner.0)), "{}", lines[3]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_may_not_be_read_is_told_and_the_rest_is_drawn() {
    let mut desk = Desk::new().await;
    desk.plant("/a /a/b /a/z").await;
    desk.plant_locked("/a/locked").await;
    let drawn = desk.run("tree /a").await;
    assert_eq!(drawn.out, "/a\n├── b\n├── locked\n└── z\n");
    assert_eq!(drawn.err, "Insufficient permission : /a/locked\n1 node could not be read\n");
    assert_eq!(drawn.status, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_of_all_letters() {
    let mut desk = Desk::new().await;
    desk.plant_odd_ones().await;
    let drawn = desk.run("tree /odd").await;
    assert_eq!(drawn.lines(), ["/odd", "├── bytes", "├── empty", "├── größe", "├── null", "└── two words"]);
}
