//! The `edit` command with scripted editors.

use crate::shell_harness::{CommandResult, ShellHarness};
use ox_client::{CreateMode, Null, Version};
use std::fs;
use std::path::PathBuf;
use tempfile::TempDir;

/// A scripted editor and its files.
struct Editor(TempDir);

impl Editor {
    /// `$1` is the file to edit, `$here` a directory of the test.
    fn new(script: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let here = format!("here={}\n", directory.path().display());
        fs::write(directory.path().join("script"), here + script).unwrap();
        Self(directory)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    async fn edit(&self, harness: &mut ShellHarness, rest: &str) -> CommandResult {
        harness.run(&format!("edit --editor \"sh {}\" {rest}", self.file("script").display())).await
    }
}

/// The file that a failed edit left behind.
fn kept(done: &CommandResult) -> PathBuf {
    let line = done.err.lines().find_map(|line| line.strip_prefix("Your edit is kept in ")).unwrap();
    PathBuf::from(line)
}

async fn data(harness: &ShellHarness, path: &str) -> Vec<u8> {
    harness.other.get(path).await.unwrap().data
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn edit_updates_the_data() {
    let mut harness = ShellHarness::new().await;
    harness.create_nodes("/alone=old").await;
    // No other test edits a node of this name: the file is in a directory that all tests of the process share.
    // Like most editors, terminates the last line. The file name keeps the extension.
    let editor = Editor::new("cp \"$1\" $here/before; echo \"$1\" > $here/name; echo new > \"$1\"\n");
    let done = editor.edit(&mut harness, "/alone").await;
    assert_eq!((done.status, done.err.as_str()), (0, "Changed /alone, now version 1\n"));
    assert_eq!(data(&harness, "/alone").await, b"new");
    assert_eq!(fs::read(editor.file("before")).unwrap(), b"old");
    let name = fs::read_to_string(editor.file("name")).unwrap();
    assert!(name.trim_end().ends_with("-alone") && !fs::exists(name.trim_end()).unwrap(), "{name}");
    let same = editor.edit(&mut harness, "/alone").await;
    assert_eq!((same.status, same.err.as_str()), (0, "Nothing changed\n"));
    assert_eq!(editor.edit(&mut harness, "/none").await.err, "Node does not exist: /none\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn edit_handles_null_and_binary_data() {
    let mut harness = ShellHarness::new().await;
    harness.other.create("/null", Null, CreateMode::Persistent).await.unwrap();
    harness.other.create("/bytes", [0xff, 0], CreateMode::Persistent).await.unwrap();
    let nothing = Editor::new("exit 0\n");
    assert_eq!(nothing.edit(&mut harness, "/null").await.err, "Nothing changed\n");
    let refused = nothing.edit(&mut harness, "/bytes").await;
    assert_eq!((refused.status, refused.err.as_str()), (1, "The data of /bytes is not text; -b edits it as base64\n"));
    let editor = Editor::new("cp \"$1\" $here/before; printf 'AA8\\n=\\n' > \"$1\"\n");
    assert_eq!(editor.edit(&mut harness, "-b /bytes").await.status, 0);
    assert_eq!(fs::read(editor.file("before")).unwrap(), b"/wA=");
    assert_eq!(data(&harness, "/bytes").await, [0, 15]);
}

/// Another client changes the node meanwhile. The edit is kept and can be continued.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn edit_conflict_keeps_the_edit() {
    let mut harness = ShellHarness::new().await;
    harness.create_nodes("/a=old").await;
    let script = "echo mine > \"$1\"; touch $here/edited; while [ ! -e $here/go ]; do sleep 0.05; done\n";
    let editor = Editor::new(script);
    let (other, directory) = (harness.other.clone(), editor.0.path().to_owned());
    let faster = tokio::spawn(async move {
        while !fs::exists(directory.join("edited")).unwrap() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        other.set("/a", "theirs", Version::Any).await.unwrap();
        fs::write(directory.join("go"), "").unwrap();
    });
    let done = editor.edit(&mut harness, "/a").await;
    faster.await.unwrap();
    assert_eq!((done.status, data(&harness, "/a").await), (1, b"theirs".to_vec()));
    assert!(done.err.contains("/a was changed by another client meanwhile"), "{}", done.err);
    let file = kept(&done);
    assert_eq!(fs::read(&file).unwrap(), b"mine\n");
    assert!(done.err.contains(&format!("hint: edit --from {} /a", file.display())), "{}", done.err);
    let done = Editor::new("exit 0\n").edit(&mut harness, &format!("--from {} /a", file.display())).await;
    assert_eq!((done.status, data(&harness, "/a").await), (0, b"mine".to_vec()));
    fs::remove_file(file).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failing_editor_changes_nothing() {
    let mut harness = ShellHarness::new().await;
    harness.create_nodes("/a=old").await;
    let done = Editor::new("echo half > \"$1\"; exit 3\n").edit(&mut harness, "/a").await;
    assert_eq!((done.status, data(&harness, "/a").await), (1, b"old".to_vec()));
    let file = kept(&done);
    assert_eq!(fs::read(&file).unwrap(), b"half\n");
    fs::remove_file(file).unwrap();
    let done = Editor::new("exit 3\n").edit(&mut harness, "/a").await;
    assert!(done.status == 1 && !done.err.contains("kept"), "no edit to keep: {}", done.err);
    let done = harness.run("edit --editor /no/such/editor /a").await;
    assert!(done.status == 1 && done.err.contains("cannot be run") && !done.err.contains("kept"), "{}", done.err);
}
