//! `du`.

use crate::shell_harness::Desk;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sums_of_subtrees() {
    let mut desk = Desk::new().await;
    desk.plant("/a=1 /a/b=22 /a/b/c=333 /a/b/d /a/e=4444 /ab=9").await;
    let sums = desk.run("du /a").await;
    assert_eq!(
        sums.lines(),
        ["           5         3  /a/b", "           4         1  /a/e", "          10         5  /a"]
    );
    assert_eq!(desk.run("du -s --json /a").await.lines(), [r#"{"path":"/a","bytes":10,"nodes":5}"#]);
    let deep = desk.run("du -d 9 --json /a/b").await;
    let expected = [
        r#"{"path":"/a/b/c","bytes":3,"nodes":1}"#,
        r#"{"path":"/a/b/d","bytes":0,"nodes":1}"#,
        r#"{"path":"/a/b","bytes":5,"nodes":3}"#,
    ];
    assert_eq!(deep.lines(), expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_locked_node_counts_as_far_as_it_is_seen() {
    let mut desk = Desk::new().await;
    desk.plant("/a=1").await;
    desk.plant_locked("/a/locked").await;
    let sums = desk.run("du -s --json /a").await;
    assert_eq!((sums.status, sums.out.as_str()), (1, "{\"path\":\"/a\",\"bytes\":1,\"nodes\":2}\n"));
    assert_eq!(sums.err, "Insufficient permission : /a/locked\n1 node could not be read\n");
}
