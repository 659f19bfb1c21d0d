//! `export` and `import`.

use crate::capture::streams;
use crate::shell_harness::Desk;
use ox_client::{CreateMode, CreateOptions, acl};
use ox_shell::Invocation;
use std::fs;
use tempfile::TempDir;

/// The name of a file in a directory.
fn file_in(directory: &TempDir, name: &str) -> String {
    directory.path().join(name).display().to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_exported_is_imported() {
    let directory = tempfile::tempdir().unwrap();
    let mut desk = Desk::new().await;
    desk.plant_odd_ones().await;
    let read_only = CreateOptions::new(CreateMode::Persistent).with_acl(acl::read_only());
    desk.other.create("/odd/list", "", read_only).await.unwrap();
    desk.other.create("/odd/theirs", "", CreateMode::Ephemeral).await.unwrap();
    for (name, option) in [("lines", ""), ("document", "--document")] {
        let file = file_in(&directory, name);
        let exported = desk.run(&format!("export {option} -o {file} /odd")).await;
        assert_eq!((exported.status, exported.err), (0, format!("Exported 8 nodes of /odd to {file}\n")));
        assert!(!fs::exists(format!("{file}.part")).unwrap());
        let imported = desk.run(&format!("import {file} /deep/{name}")).await;
        let text = format!(
            "Imported {file} to /deep/{name}: 7 nodes created\n1 ephemeral node left out: they belong to sessions\n"
        );
        assert_eq!((imported.status, imported.err), (0, text));
        let differ = desk.run(&format!("diff --acl /odd /deep/{name}")).await;
        assert_eq!(differ.out, "- /odd/theirs\n");
    }
    // The document is one, and the lines are lines.
    let text = fs::read_to_string(file_in(&directory, "document")).unwrap();
    let document: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(document["nodes"].as_array().unwrap().len(), 8);
    for line in fs::read_to_string(file_in(&directory, "lines")).unwrap().lines() {
        serde_json::from_str::<serde_json::Value>(line).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lines_on_standard_output() {
    let mut desk = Desk::new().await;
    desk.plant("/a=1 /a/b").await;
    let exported = desk.run("export /a").await;
    let lines = exported.lines();
    assert_eq!(lines[0], r#"{"format":"oxkeeper-export","version":1,"root":"/a"}"#);
    assert!(lines[1].starts_with(r#"{"path":"/a","data":"1","acl":["world:anyone:cdrwa"],"version":0,"mtime":1"#));
    assert_eq!(lines.len(), 3);
    // The nodes of the servers are theirs.
    assert!(!desk.run("export /").await.out.contains("zookeeper"));
    let missing = desk.run("export /none").await;
    assert_eq!((missing.status, missing.out.as_str()), (1, ""));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conflicts_and_dry_runs() {
    let directory = tempfile::tempdir().unwrap();
    let file = file_in(&directory, "a");
    let mut desk = Desk::new().await;
    desk.plant("/a=1 /a/b=2 /a/c=3").await;
    desk.run(&format!("export -o {file} /a")).await;
    desk.run("set /a/b changed").await;
    desk.other.delete("/a/c", 0).await.unwrap();
    let plan = desk.run(&format!("import --dry-run {file}")).await;
    assert_eq!((plan.status, plan.out.as_str()), (1, "conflict  /a\nconflict  /a/b\ncreate    /a/c\n"));
    let refused = desk.run(&format!("import {file}")).await;
    assert!(refused.status == 1 && refused.err.starts_with("Node already exists: /a (0 nodes"), "{}", refused.err);
    assert_eq!(desk.run("find /a").await.lines(), ["/a", "/a/b"]);
    let plan = desk.run(&format!("import --dry-run --json --conflict overwrite {file}")).await;
    assert_eq!(plan.out.lines().last(), Some(r#"{"action":"create","path":"/a/c"}"#));
    let skipped = desk.run(&format!("import --conflict skip {file}")).await;
    assert_eq!(skipped.err, format!("Imported {file} to /a: 1 node created, 2 skipped\n"));
    assert_eq!(desk.run("grep . /a").await.lines(), ["/a:1", "/a/b:changed", "/a/c:3"]);
    let over = desk.run(&format!("import --conflict overwrite --yes {file}")).await;
    assert_eq!(over.err, format!("Imported {file} to /a: 0 nodes created, 3 overwritten\n"));
    assert_eq!(desk.run("grep . /a").await.lines(), ["/a:1", "/a/b:2", "/a/c:3"]);
    // A node of another kind stays what it is.
    desk.other.delete("/a/c", -1).await.unwrap();
    desk.other.create("/a/c", "", CreateMode::Ephemeral).await.unwrap();
    let over = desk.run(&format!("import --conflict overwrite {file}")).await;
    assert_eq!(over.status, 1);
    assert!(over.err.contains("A node of another kind is there, and cannot be turned : /a/c\n"), "{}", over.err);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_that_are_no_exports() {
    let directory = tempfile::tempdir().unwrap();
    let mut desk = Desk::new().await;
    let header = r#"{"format":"oxkeeper-export","version":1,"root":"/a"}"#;
    for (text, reason) in [
        (String::new(), "EOF while parsing"),
        ("not JSON".to_owned(), "expected ident"),
        (r#"{"format":"x","version":1,"root":"/a"}"#.to_owned(), "is no export: its format is `x`"),
        (r#"{"format":"oxkeeper-export","version":9,"root":"/a"}"#.to_owned(), "is of version 9; this is 1"),
        (format!("{header}\n{{\"path\":\"/b\"}}"), "/b is not below /a, where the export begins"),
        (format!("{header}\n{{\"path\":\"/a/../b\"}}"), "relative paths not allowed"),
        (format!("{header}\n{{\"path\":\"/a\",\"acl\":[\"x\"]}}"), "`x` is not scheme:id:perms"),
        (format!("{header}\n{{\"path\":\"/a\",\"base64\":\"?\"}}"), "not base64"),
        (format!("{header}\n{{\"path\":\"/a\""), "EOF while parsing"),
    ] {
        let file = file_in(&directory, "file");
        fs::write(&file, &text).unwrap();
        let refused = desk.run(&format!("import {file}")).await;
        assert!(refused.status == 1 && refused.err.contains(reason), "{text}: {}", refused.err);
        assert!(desk.other.exists("/a").await.unwrap().is_none());
    }
    assert_eq!(desk.run("import /no/such/file").await.status, 1);
    assert_eq!(desk.run("export -o /no/such/file /").await.status, 1);
    // Here, standard input holds commands.
    assert_eq!(desk.run("import -").await.err, "Standard input holds commands here; name a file\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_may_not_be_read_or_written_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let file = file_in(&directory, "a");
    let mut desk = Desk::new().await;
    desk.plant("/a /a/b=1").await;
    desk.plant_locked("/a/locked").await;
    let exported = desk.run(&format!("export -o {file} /a")).await;
    assert_eq!(exported.status, 1);
    assert!(exported.err.starts_with("Insufficient permission : /a/locked\n"), "{}", exported.err);
    assert!(exported.err.ends_with("1 node could not be exported\n"), "{}", exported.err);
    let imported = desk.run(&format!("import {file} /a/locked/x")).await;
    assert_eq!((imported.status, imported.err.as_str()), (1, "Insufficient permission : /a/locked\n"));
    let read_only = CreateOptions::new(CreateMode::Persistent).with_acl(acl::read_only());
    desk.other.create("/shut", "", read_only).await.unwrap();
    let imported = desk.run(&format!("import {file} /shut/x")).await;
    let text = format!(
        "Insufficient permission : /shut/x\nNode does not exist: /shut/x/b\n\
         Imported {file} to /shut/x: 0 nodes created, 2 failed\n2 nodes could not be written\n"
    );
    assert_eq!((imported.status, imported.err), (1, text));
}

/// What is no plain file stays what it is: as root, a device would be gone for everybody.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn into_a_pipe_or_through_a_link() {
    let directory = tempfile::tempdir().unwrap();
    let mut desk = Desk::new().await;
    desk.plant("/a=1 /a/b=2").await;
    let pipe = file_in(&directory, "pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let reader = std::thread::spawn({
        let pipe = pipe.clone();
        move || fs::read_to_string(pipe).unwrap()
    });
    assert_eq!(desk.run(&format!("export -o {pipe} /a")).await.status, 0);
    assert_eq!(reader.join().unwrap().lines().count(), 3);
    assert!(!fs::metadata(&pipe).unwrap().is_file());
    let (file, link) = (file_in(&directory, "file"), file_in(&directory, "link"));
    fs::write(&file, "old").unwrap();
    std::os::unix::fs::symlink(&file, &link).unwrap();
    assert_eq!(desk.run(&format!("export -o {link} /a")).await.status, 0);
    assert_eq!(fs::read_to_string(&file).unwrap().lines().count(), 3);
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    let refused = desk.run(&format!("export -o {} /a", directory.path().display())).await;
    assert!(refused.status == 1 && refused.err.contains("Is a directory"), "{}", refused.err);
}

/// The output of a program is what another one reads: no word of the session is in it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn as_the_one_command_of_a_program() {
    let desk = Desk::new().await;
    desk.plant("/a=1").await;
    let (output, out, _err) = streams();
    let command = vec!["export".to_owned(), "/a".to_owned()];
    let invocation = Invocation { server: desk.server.address().to_string(), command, ..Invocation::default() };
    assert_eq!(ox_shell::script::run(invocation, output, std::io::empty()).await, 0);
    let text = out.take();
    assert_eq!(text.lines().count(), 2, "{text}");
    assert!(text.lines().all(|line| line.starts_with('{')), "{text}");
}
