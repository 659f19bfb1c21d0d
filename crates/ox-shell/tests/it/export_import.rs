//! The commands `export` and `import`.

use crate::capture::streams;
use crate::shell_harness::ShellHarness;
use ox_client::{CreateMode, CreateOptions, acl};
use ox_shell::Invocation;
use std::fs;
use tempfile::TempDir;

/// The path of a file in a directory.
fn file_in(directory: &TempDir, name: &str) -> String {
    directory.path().join(name).display().to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exported_subtree_is_imported_unchanged() {
    let directory = tempfile::tempdir().unwrap();
    let mut harness = ShellHarness::new().await;
    harness.create_odd_nodes().await;
    let read_only = CreateOptions::new(CreateMode::Persistent).with_acl(acl::read_only());
    harness.other.create("/odd/list", "", read_only).await.unwrap();
    harness.other.create("/odd/theirs", "", CreateMode::Ephemeral).await.unwrap();
    for (name, option) in [("lines", ""), ("document", "--document")] {
        let file = file_in(&directory, name);
        let exported = harness.run(&format!("export {option} -o {file} /odd")).await;
        assert_eq!((exported.status, exported.err), (0, format!("Exported 8 nodes of /odd to {file}\n")));
        assert!(!fs::exists(format!("{file}.part")).unwrap());
        let imported = harness.run(&format!("import {file} /deep/{name}")).await;
        let text = format!(
            "Imported {file} to /deep/{name}: 7 nodes created\n1 ephemeral node skipped: they belong to sessions\n"
        );
        assert_eq!((imported.status, imported.err), (0, text));
        let differ = harness.run(&format!("diff --acl /odd /deep/{name}")).await;
        assert_eq!(differ.out, "- /odd/theirs\n");
    }
    // A document is one JSON value; lines are one value each.
    let text = fs::read_to_string(file_in(&directory, "document")).unwrap();
    let document: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(document["nodes"].as_array().unwrap().len(), 8);
    for line in fs::read_to_string(file_in(&directory, "lines")).unwrap().lines() {
        serde_json::from_str::<serde_json::Value>(line).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn export_writes_lines_to_standard_output() {
    let mut harness = ShellHarness::new().await;
    harness.create_nodes("/a=1 /a/b").await;
    let exported = harness.run("export /a").await;
    let lines = exported.lines();
    assert_eq!(lines[0], r#"{"format":"oxkeeper-export","version":1,"root":"/a"}"#);
    assert!(lines[1].starts_with(r#"{"path":"/a","data":"1","acl":["world:anyone:cdrwa"],"version":0,"mtime":1"#));
    assert_eq!(lines.len(), 3);
    // Nodes below /zookeeper are not exported.
    assert!(!harness.run("export /").await.out.contains("zookeeper"));
    let missing = harness.run("export /none").await;
    assert_eq!((missing.status, missing.out.as_str()), (1, ""));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn import_conflicts_and_dry_runs() {
    let directory = tempfile::tempdir().unwrap();
    let file = file_in(&directory, "a");
    let mut harness = ShellHarness::new().await;
    harness.create_nodes("/a=1 /a/b=2 /a/c=3").await;
    harness.run(&format!("export -o {file} /a")).await;
    harness.run("set /a/b changed").await;
    harness.other.delete("/a/c", 0).await.unwrap();
    let plan = harness.run(&format!("import --dry-run {file}")).await;
    assert_eq!((plan.status, plan.out.as_str()), (1, "conflict  /a\nconflict  /a/b\ncreate    /a/c\n"));
    let refused = harness.run(&format!("import {file}")).await;
    assert!(refused.status == 1 && refused.err.starts_with("Node already exists: /a (0 nodes"), "{}", refused.err);
    assert_eq!(harness.run("find /a").await.lines(), ["/a", "/a/b"]);
    let plan = harness.run(&format!("import --dry-run --json --conflict overwrite {file}")).await;
    assert_eq!(plan.out.lines().last(), Some(r#"{"action":"create","path":"/a/c"}"#));
    let skipped = harness.run(&format!("import --conflict skip {file}")).await;
    assert_eq!(skipped.err, format!("Imported {file} to /a: 1 node created, 2 skipped\n"));
    assert_eq!(harness.run("grep . /a").await.lines(), ["/a:1", "/a/b:changed", "/a/c:3"]);
    let over = harness.run(&format!("import --conflict overwrite --yes {file}")).await;
    assert_eq!(over.err, format!("Imported {file} to /a: 0 nodes created, 3 overwritten\n"));
    assert_eq!(harness.run("grep . /a").await.lines(), ["/a:1", "/a/b:2", "/a/c:3"]);
    // A node of another kind is not converted.
    harness.other.delete("/a/c", -1).await.unwrap();
    harness.other.create("/a/c", "", CreateMode::Ephemeral).await.unwrap();
    let over = harness.run(&format!("import --conflict overwrite {file}")).await;
    assert_eq!(over.status, 1);
    assert!(over.err.contains("A node of another kind exists, and cannot be converted : /a/c\n"), "{}", over.err);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invalid_export_files_are_rejected() {
    let directory = tempfile::tempdir().unwrap();
    let mut harness = ShellHarness::new().await;
    let header = r#"{"format":"oxkeeper-export","version":1,"root":"/a"}"#;
    for (text, reason) in [
        (String::new(), "is not an export: it is empty, or ends in its first line"),
        ("not JSON".to_owned(), "expected ident"),
        (r#"{"format":"x","version":1,"root":"/a"}"#.to_owned(), "is not an export: its format is `x`"),
        (r#"{"format":"oxkeeper-export","version":9,"root":"/a"}"#.to_owned(), "has version 9; this shell reads 1"),
        (format!("{header}\n{{\"path\":\"/b\"}}"), "/b is not below /a, the root of the export"),
        (format!("{header}\n{{\"path\":\"/a/../b\"}}"), "relative paths not allowed"),
        (format!("{header}\n{{\"path\":\"/a\",\"acl\":[\"x\"]}}"), "`x` is not scheme:id:perms"),
        (format!("{header}\n{{\"path\":\"/a\",\"base64\":\"?\"}}"), "not base64"),
        (format!("{header}\n{{\"path\":\"/a\""), "EOF while parsing"),
    ] {
        let file = file_in(&directory, "file");
        fs::write(&file, &text).unwrap();
        let refused = harness.run(&format!("import {file}")).await;
        assert!(refused.status == 1 && refused.err.contains(reason), "{text}: {}", refused.err);
        assert!(harness.other.exists("/a").await.unwrap().is_none());
    }
    assert_eq!(harness.run("import /no/such/file").await.status, 1);
    assert_eq!(harness.run("export -o /no/such/file /").await.status, 1);
    // Standard input contains the commands here.
    assert_eq!(harness.run("import -").await.err, "Standard input contains commands; name a file\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn denied_nodes_are_reported() {
    let directory = tempfile::tempdir().unwrap();
    let file = file_in(&directory, "a");
    let mut harness = ShellHarness::new().await;
    harness.create_nodes("/a /a/b=1").await;
    harness.create_locked_node("/a/locked").await;
    let exported = harness.run(&format!("export -o {file} /a")).await;
    assert_eq!(exported.status, 1);
    assert!(exported.err.starts_with("No permission: /a/locked\n"), "{}", exported.err);
    assert!(exported.err.ends_with("1 node could not be exported\n"), "{}", exported.err);
    let imported = harness.run(&format!("import {file} /a/locked/x")).await;
    assert!(imported.status == 1 && imported.err.starts_with("No permission: /a/locked\n"), "{}", imported.err);
    let read_only = CreateOptions::new(CreateMode::Persistent).with_acl(acl::read_only());
    harness.other.create("/shut", "", read_only).await.unwrap();
    let imported = harness.run(&format!("import {file} /shut/x")).await;
    let text = format!(
        "No permission: /shut/x\nNode does not exist: /shut/x/b\n\
         Imported {file} to /shut/x: 0 nodes created, 2 failed\n2 nodes could not be written\n"
    );
    assert_eq!((imported.status, imported.err), (1, text));
}

/// A target that is not a regular file is not replaced: as root, that would destroy a device node.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn export_preserves_pipes_and_links() {
    let directory = tempfile::tempdir().unwrap();
    let mut harness = ShellHarness::new().await;
    harness.create_nodes("/a=1 /a/b=2").await;
    let pipe = file_in(&directory, "pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let reader = std::thread::spawn({
        let pipe = pipe.clone();
        move || fs::read_to_string(pipe).unwrap()
    });
    assert_eq!(harness.run(&format!("export -o {pipe} /a")).await.status, 0);
    assert_eq!(reader.join().unwrap().lines().count(), 3);
    assert!(!fs::metadata(&pipe).unwrap().is_file());
    let (file, link) = (file_in(&directory, "file"), file_in(&directory, "link"));
    fs::write(&file, "old").unwrap();
    std::os::unix::fs::symlink(&file, &link).unwrap();
    assert_eq!(harness.run(&format!("export -o {link} /a")).await.status, 0);
    assert_eq!(fs::read_to_string(&file).unwrap().lines().count(), 3);
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    let refused = harness.run(&format!("export -o {} /a", directory.path().display())).await;
    assert!(refused.status == 1 && refused.err.contains("Is a directory"), "{}", refused.err);
}

/// The output of a single command is pure data, without messages of the session.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn single_command_export_prints_data_only() {
    let harness = ShellHarness::new().await;
    harness.create_nodes("/a=1").await;
    let (output, out, _err) = streams();
    let command = vec!["export".to_owned(), "/a".to_owned()];
    let invocation = Invocation { server: harness.server.address().to_string(), command, ..Invocation::default() };
    assert_eq!(ox_shell::script::run(invocation, output, std::io::empty()).await, 0);
    let text = out.take();
    assert_eq!(text.lines().count(), 2, "{text}");
    assert!(text.lines().all(|line| line.starts_with('{')), "{text}");
}
