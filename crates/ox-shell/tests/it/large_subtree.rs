//! Commands on a subtree of five thousand nodes.

use crate::shell_harness::ShellHarness;
use ox_client::CreateMode;
use tokio::task::JoinSet;

const PARENTS: usize = 50;
const CHILDREN: usize = 99;
pub(crate) const NODES: usize = 1 + PARENTS * (1 + CHILDREN);

pub(crate) async fn create_nodes(harness: &ShellHarness) {
    harness.create_nodes("/large").await;
    let mut planted = JoinSet::new();
    for parent in 0..PARENTS {
        let client = harness.other.clone();
        planted.spawn(async move {
            let path = format!("/large/p{parent:02}");
            client.create(&path, "", CreateMode::Persistent).await.unwrap();
            for child in 0..CHILDREN {
                client.create(&format!("{path}/c{child:02}"), "0123456789", CreateMode::Persistent).await.unwrap();
            }
        });
    }
    planted.join_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn subtree_commands_visit_every_node_in_order() {
    let mut harness = ShellHarness::new().await;
    create_nodes(&harness).await;
    let found = harness.run("find /large").await;
    let lines = found.lines();
    assert_eq!(lines.len(), NODES);
    // Parents before children, siblings by name.
    let parts = |path: &&str| path.split('/').map(str::to_owned).collect::<Vec<_>>();
    assert!(lines.iter().map(parts).is_sorted());
    assert_eq!(harness.run("tree /large").await.lines().len(), NODES);
    assert_eq!(harness.run("grep -l 5 /large").await.lines().len(), PARENTS * CHILDREN);
    let bytes = PARENTS * CHILDREN * 10;
    let sum = format!("{{\"path\":\"/large\",\"bytes\":{bytes},\"nodes\":{NODES}}}");
    assert_eq!(harness.run("du -s --json /large").await.lines(), [sum]);
    assert_eq!(harness.run("export /large").await.lines().len(), 1 + NODES);
    let copied = harness.run("cp /large /copy").await;
    assert_eq!(copied.err, format!("Copied /large to /copy: {NODES} nodes created\n"));
    assert_eq!(harness.run("diff --acl /large /copy").await.lines(), [""; 0]);
    let moved = harness.run("mv /copy /moved").await;
    assert_eq!(moved.err, format!("Moved /copy to /moved: {NODES} nodes\n"));
    assert_eq!(harness.run("diff /large /moved").await.lines(), [""; 0]);
    assert!(harness.other.exists("/copy").await.unwrap().is_none());
}
