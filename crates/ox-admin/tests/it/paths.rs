//! Metrics of single nodes on Prometheus's page.

use crate::harness::Harness;
use ox_testkit::{OpCode, wait_for};

/// The value of a sample.
fn sample(page: &str, name: &str) -> Option<f64> {
    page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
}

#[test]
fn traffic_watches_and_size_are_shown_by_top_level_node() {
    let harness = Harness::new();
    let mut client = harness.client();
    client.create("/app", b"12345");
    for number in 0..20 {
        client.create(&format!("/app/node-{number:02}"), b"");
    }
    client.create("/other", &[1; 5000]);
    (0..3).for_each(|_| _ = client.get("/app"));
    client.watch(OpCode::GetData, "/app/node-01");
    client.watch(OpCode::GetData, "/app");
    let mut other = harness.client();
    other.watch(OpCode::GetChildren2, "/app");
    let page = wait_for(|| {
        let page = harness.get("/metrics").text();
        (sample(&page, "oxkeeper_path_nodes{path=\"/app\",}") == Some(21.0)).then_some(page)
    });
    let page = page.expect("the tree is measured");
    let bytes = f64::from(4 + 5 + 20 * 12);
    let expected = [
        ("oxkeeper_path_bytes{path=\"/app\",}", bytes),
        ("oxkeeper_path_nodes{path=\"/other\",}", 1.0),
        ("oxkeeper_path_writes_total{path=\"/app\",}", 21.0),
        ("oxkeeper_path_written_bytes_total{path=\"/app\",}", bytes),
        ("oxkeeper_path_reads_total{path=\"/app\",}", 6.0),
        ("oxkeeper_path_watches{path=\"/app\",}", 3.0),
        ("oxkeeper_parent_children{path=\"/app\",}", 20.0),
        ("oxkeeper_largest_reply_bytes{op=\"getData\",path=\"/other\",}", 5088.0),
        ("oxkeeper_largest_reply_bytes{op=\"getChildren2\",path=\"/app\",}", f64::from(88 + 20 * 11)),
        ("oxkeeper_serving", 1.0),
        ("oxkeeper_role{role=\"standalone\",}", 1.0),
    ];
    for (name, value) in expected {
        assert_eq!(sample(&page, name), Some(value), "{name}\n{page}");
    }
    let ratio = sample(&page, "oxkeeper_largest_reply_ratio{op=\"getData\",}").expect("a ratio");
    assert!((ratio - 5088.0 / 1_048_575.0).abs() < 1e-9, "{ratio}");
    client.set("/app", b"changed"); // fires two watches at /app: one of data
    other.close();
    wait_for(|| {
        (sample(&harness.get("/metrics").text(), "oxkeeper_path_watches{path=\"/app\",}") == Some(1.0)).then_some(())
    })
    .expect("fired watches, and those of a closed session, do not count");
}

#[test]
fn metrics_of_nodes_can_be_turned_off() {
    let harness = Harness::with(|config| config.metrics_paths = false, |_| ());
    let mut client = harness.client();
    client.create("/app", b"");
    client.watch(OpCode::GetData, "/app");
    let page = harness.get("/metrics").text();
    assert!(!page.contains("oxkeeper_path_") && !page.contains("oxkeeper_parent_"), "{page}");
    assert!(page.contains("write_per_namespace_count{key=\"app\",} 1.0\n"), "Apache's metrics stay");
}

#[test]
fn sessions_that_end_are_counted() {
    let harness = Harness::new();
    harness.client().close();
    wait_for(|| {
        let page = harness.get("/metrics").text();
        (sample(&page, "oxkeeper_sessions_closed_total{cause=\"client\",}") == Some(1.0)).then_some(())
    })
    .expect("the closed session is counted");
}
