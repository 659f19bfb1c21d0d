//! Tests of the `top` command.

use crate::shell_harness::ShellHarness;
use ox_shell::Invocation;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn top_prints_once_for_scripts() {
    let mut harness = ShellHarness::new().await;
    harness.create_nodes("/a").await;
    harness.run("ls /").await;
    let shown = harness.run("top --count 1").await;
    let lines = shown.lines();
    assert!(lines[0].ends_with("  1 server"), "{}", lines[0]);
    let server: Vec<_> = lines[2].split_whitespace().collect();
    assert_eq!((server[0], server[1]), (harness.server.address().to_string().as_str(), "standalone"));
    let session = format!("{:#x}", harness.shell.client().unwrap().session().unwrap().id.0);
    assert!(shown.out.contains(&session), "{}", shown.out);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn top_repeats_as_json() {
    let mut harness = ShellHarness::new().await;
    harness.create_nodes("/a").await;
    let shown = harness.run("top --count 2 --interval 0.1 -n 1 --json").await;
    let views: Vec<serde_json::Value> = shown.lines().iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(views.len(), 2);
    let server = &views[1]["servers"][0];
    assert!(server["requestsPerSecond"].is_number() && server["watches"] == 0 && server["mode"] == "standalone");
    assert!(views[0]["servers"][0]["requestsPerSecond"].is_null());
    assert_eq!(views[1]["sessions"].as_array().unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unreachable_server_is_listed_among_the_others() {
    let mut harness = ShellHarness::new().await;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let gone = listener.local_addr().unwrap();
    drop(listener);
    let server = format!("{},{gone}/chroot", harness.server.address());
    harness.shell.invocation = Invocation { server, ..harness.shell.invocation.clone() };
    let shown = harness.run("top --count 1 --json").await;
    assert_eq!(shown.status, 1);
    let view: serde_json::Value = serde_json::from_str(&shown.out).unwrap();
    assert_eq!(view["servers"][0]["mode"], "standalone");
    assert_eq!(view["servers"][1]["server"], gone.to_string());
    assert!(view["servers"][1]["error"].is_string() && view["servers"][1]["mode"].is_null());
    assert_eq!(harness.run("top --interval soon").await.status, 1);
}
