//! The shell in a pseudo terminal, driven by the test.

use ox_server::{Server, TestServer};
use ox_testkit::Proxy;
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

/// Time limit of a single wait in a test.
const PATIENCE: Duration = Duration::from_secs(120);

/// The shell running in a pseudo terminal.
pub(crate) struct Terminal {
    child: Child,
    keys: File,
    output: Receiver<String>,
    /// Output that was not waited for yet, without escape sequences.
    shown: String,
    /// All output, with escape sequences.
    all: String,
}

impl Terminal {
    /// Starts a shell and waits for its first prompt.
    fn start(server: &TestServer, history: &Path) -> Self {
        let mut terminal = Self::launch(&server.address().to_string(), history);
        terminal.wait_for("(CONNECTED) 0] ");
        terminal
    }

    /// Starts a shell whose prompts are numbered, so that the tests can wait for the right one.
    fn launch(server: &str, history: &Path) -> Self {
        Self::open(&["--zkcli", "-server", server], history, 200)
    }

    /// Starts a shell in a terminal with this number of columns.
    pub(crate) fn open(args: &[&str], history: &Path, columns: u16) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        tcsetwinsize(&master, Winsize { ws_row: 40, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
        let side = || OpenOptions::new().read(true).write(true).open(name.to_str().unwrap()).unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_ox-shell"))
            .args(args)
            .env("OXKEEPER_HISTORY", history)
            .env("TERM", "xterm")
            .env_remove("NO_COLOR")
            .stdin(side())
            .stdout(side())
            .stderr(side())
            .spawn()
            .unwrap();
        let (sender, output) = channel();
        let keys = File::from(master);
        let (mut reader, mut answers) = (keys.try_clone().unwrap(), keys.try_clone().unwrap());
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = reader.read(&mut bytes) {
                let text = String::from_utf8_lossy(&bytes[..count]).into_owned();
                // The line editor queries the cursor position.
                for _ in text.matches("\x1b[6n") {
                    let _ = answers.write_all(b"\x1b[1;1R");
                }
                if sender.send(text).is_err() {
                    return;
                }
            }
        });
        Self { child, keys, output, shown: String::new(), all: String::new() }
    }

    pub(crate) fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits until a text is shown and discards everything before it.
    pub(crate) fn wait_for(&mut self, text: &str) {
        loop {
            let plain = without_escapes(&self.shown);
            if let Some(at) = plain.find(text) {
                self.shown = plain[at + text.len()..].to_owned();
                return;
            }
            match self.output.recv_timeout(PATIENCE) {
                Ok(more) => self.receive(&more),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    panic!("no `{text}` in:\n{plain}")
                }
            }
        }
    }

    /// Runs a line, waits for a text and for the next prompt.
    fn run(&mut self, line: &str, shown: &str, prompt: usize) {
        self.press(&format!("{line}\r"));
        self.wait_for(shown);
        self.wait_for(&format!(" {prompt}] "));
    }

    /// Sends SIGINT, as a terminal does when the program does not read keys.
    pub(crate) fn interrupt(&self) {
        kill_process(Pid::from_child(&self.child), Signal::INT).unwrap();
    }

    /// Waits for the end of the program and returns everything shown since the last wait.
    pub(crate) fn rest(&mut self) -> String {
        while let Ok(more) = self.output.recv_timeout(PATIENCE) {
            self.receive(&more);
        }
        without_escapes(&self.shown)
    }

    fn receive(&mut self, more: &str) {
        self.shown.push_str(more);
        self.all.push_str(more);
    }

    /// Everything that was received, with escape sequences.
    pub(crate) fn all(&self) -> &str {
        &self.all
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn exit_code(mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Removes escape sequences; an incomplete one stays.
pub(crate) fn without_escapes(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once('\x1b') {
        plain.push_str(before);
        let Some(sequence) = behind.strip_prefix('[') else {
            rest = behind.get(1..).unwrap_or_default();
            continue;
        };
        match sequence.find(|letter: char| letter.is_ascii_alphabetic()) {
            Some(end) => rest = &sequence[end + 1..],
            None => return plain + "\x1b" + behind,
        }
    }
    plain + rest
}

pub(crate) fn history() -> (tempfile::TempDir, std::path::PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("history");
    (dir, file)
}

#[test]
fn lines_are_executed_and_ctrl_d_exits() {
    let server = Server::ephemeral().unwrap();
    let (_dir, history) = history();
    let mut terminal = Terminal::start(&server, &history);
    terminal.run("ls /", "[zookeeper]", 1);
    terminal.run("get /missing", "Node does not exist: /missing", 2);
    terminal.press("\x04");
    assert_eq!(terminal.exit_code(), Some(1), "the status of the last command");
}

#[test]
fn tab_completes_commands_and_node_paths() {
    let server = Server::ephemeral().unwrap();
    let (_dir, history) = history();
    let mut terminal = Terminal::start(&server, &history);
    terminal.run("create /alpha one", "Created /alpha", 1);
    terminal.run("create /alpha/beta two", "Created /alpha/beta", 2);
    terminal.press("getAll\t");
    terminal.wait_for("getAllChildrenNumber");
    terminal.run(" /", "5", 3);
    terminal.press("get /al\t");
    terminal.wait_for("get /alpha");
    terminal.press("/b\t");
    terminal.wait_for("get /alpha/beta");
    terminal.run("", "two", 4);
    terminal.run("cd /alpha", "(CONNECTED) /alpha", 5);
    terminal.press("get be\t");
    terminal.wait_for("get beta");
    terminal.run("", "two", 6);
}

#[test]
fn history_persists_without_passwords() {
    let server = Server::ephemeral().unwrap();
    let (_dir, history) = history();
    let mut terminal = Terminal::start(&server, &history);
    terminal.run("create /h 1", "Created /h", 1);
    terminal.run("addauth digest bob:secret", "", 2);
    terminal.press("quit\r");
    assert_eq!(terminal.exit_code(), Some(0));
    let kept = std::fs::read_to_string(&history).unwrap();
    assert_eq!(kept.lines().collect::<Vec<_>>(), ["create /h 1", "quit"]);
    let mut terminal = Terminal::start(&server, &history);
    terminal.press("\x1b[A"); // arrow up: the previous line
    terminal.wait_for("quit");
    terminal.press("\x1b[A");
    terminal.wait_for("create /h 1");
    terminal.run("", "Node already exists: /h", 1);
    terminal.press("\x12cre"); // search
    terminal.wait_for("(search: cre) create /h 1");
    terminal.press("\r");
    terminal.run("", "Node already exists: /h", 2);
}

#[test]
fn ctrl_c_stops_line_or_command_but_not_the_shell() {
    let server = Server::ephemeral().unwrap();
    let (_dir, history) = history();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap(); // accepts connections and never replies
    let mut terminal = Terminal::start(&server, &history);
    terminal.press("delete /zoo");
    terminal.wait_for("delete /zoo");
    terminal.press("\x03");
    terminal.wait_for(" 0] ");
    terminal.press(&format!("connect {}\r", silent.local_addr().unwrap()));
    terminal.wait_for("state:Closed"); // the old session has ended, the new one hangs
    terminal.interrupt();
    terminal.wait_for("Interrupted");
    terminal.wait_for("(CONNECTING) 1] ");
    terminal.run(&format!("connect {}", server.address()), "SyncConnected", 2);
    terminal.run("ls /", "[zookeeper]", 3);
}

#[test]
fn deleteall_asks_for_confirmation() {
    let server = Server::ephemeral().unwrap();
    let (_dir, history) = history();
    let mut terminal = Terminal::start(&server, &history);
    terminal.run("create /a", "Created /a", 1);
    terminal.run("create /a/b", "Created /a/b", 2);
    terminal.press("deleteall /a\r");
    terminal.wait_for("Delete /a and the node below it? [y/N] ");
    terminal.run("n", "Cancelled.", 3);
    terminal.run("ls /", "[a, zookeeper]", 4);
    terminal.press("deleteall /a\r");
    terminal.wait_for("[y/N] ");
    terminal.press("\x03");
    terminal.wait_for("Cancelled.");
    terminal.wait_for(" 5] ");
    terminal.press("setAcl -R /a world:anyone:r\r");
    terminal.wait_for("Change the ACL of /a and the node below it? [y/N] ");
    terminal.run("", "Cancelled.", 6);
    terminal.press("deleteall /a\r");
    terminal.wait_for("[y/N] ");
    terminal.run("y", "", 7);
    terminal.run("ls /", "[zookeeper]", 8);
    terminal.run("create /a", "Created /a", 9);
    terminal.run("deleteall --yes /a", "", 10);
    terminal.run("ls /", "[zookeeper]", 11);
}

#[test]
fn events_are_shown_while_a_line_is_edited() {
    let server = Server::ephemeral().unwrap();
    let (_dir, history) = history();
    let mut terminal = Terminal::start(&server, &history);
    terminal.run("create /a 1", "Created /a", 1);
    terminal.run("get -w /a", "1", 2);
    terminal.press("ls ");
    let mut other = crate::capture::Session::with(&server);
    other.ok("set /a 2");
    terminal.wait_for("NodeDataChanged path:/a");
    terminal.run("/", "[a, zookeeper]", 3);
}

#[test]
fn unknown_command_gets_a_hint() {
    let server = Server::ephemeral().unwrap();
    let (_dir, history) = history();
    let mut terminal = Terminal::start(&server, &history);
    terminal.run("getacl /", "did you mean getAcl", 1);
    terminal.run("frobnicate", "`help` lists the commands", 2);
}

/// These commands end by Ctrl-C, which is not a failure.
#[test]
fn ctrl_c_ends_watch_and_top_without_failure() {
    let server = Server::ephemeral().unwrap();
    let (_dir, history) = history();
    let mut terminal = Terminal::start(&server, &history);
    terminal.press("watch -r /\r");
    terminal.wait_for("Watching /");
    terminal.interrupt();
    terminal.wait_for(" 1] ");
    terminal.press("top --interval 1000\r");
    terminal.wait_for("standalone");
    terminal.interrupt();
    terminal.wait_for(" 2] ");
    terminal.press("redo 0\r");
    terminal.wait_for("Watching /");
    terminal.interrupt();
    terminal.wait_for(" 3] ");
    terminal.press("\x04");
    assert_eq!(terminal.exit_code(), Some(0));
}

#[test]
fn ctrl_c_stops_hanging_commands() {
    let server = Server::ephemeral().unwrap();
    let (dir, history) = history();
    let proxy = Proxy::start(server.address());
    let file = dir.path().join("export");
    let mut other = crate::capture::Session::with(&server);
    for line in ["create /a 1", "create /a/b 2", &format!("export -o {} /a", file.display())] {
        other.ok(line);
    }
    let mut terminal = Terminal::launch(&proxy.address().to_string(), &history);
    terminal.wait_for("(CONNECTED) 0] ");
    let import = format!("import {} /c", file.display());
    let lines = ["deleteall --yes /a", "cp /a /c", "mv /a /c", &import, "find /", "setAcl -R /a world:anyone:r"];
    for (number, line) in lines.into_iter().enumerate() {
        proxy.set_silent(true);
        terminal.press(&format!("{line}\r"));
        terminal.wait_for(line); // echoed; whether it has started does not matter
        terminal.wait_for("\n");
        terminal.interrupt();
        terminal.wait_for("Interrupted");
        terminal.wait_for(&format!(" {}] ", number + 1));
        proxy.set_silent(false);
    }
    // The shell continues, and nothing was changed.
    terminal.run("ls -R /a", "/a/b", 7);
    assert_eq!(other.ok("find --name c /"), "");
}

#[test]
fn destructive_commands_ask_for_confirmation() {
    let server = Server::ephemeral().unwrap();
    let (dir, history) = history();
    let file = dir.path().join("export");
    let mut terminal = Terminal::start(&server, &history);
    terminal.run("create /a new", "Created /a", 1);
    terminal.run("create /b old", "Created /b", 2);
    terminal.run(&format!("export -o {} /a", file.display()), "Exported 1 node of /a", 3);
    let mut number = 4;
    for (line, question, done) in [
        (format!("export -o {} /a", file.display()), "Overwrite ", "Exported 1 node"),
        ("cp --conflict overwrite /a /b".to_owned(), "Copy /a over the nodes at /b? ", "1 overwritten"),
        (format!("import --conflict overwrite {} /b", file.display()), "Overwrite nodes at /b? ", "1 overwritten"),
        ("mv /a /c".to_owned(), "Move /a to /c? ", "Moved /a to /c: 1 node"),
        ("deleteall /c".to_owned(), "Delete /c? ", ""),
    ] {
        // Answers that mean no: a letter, Enter, Ctrl-C, Ctrl-D, Escape, and a deleted yes.
        for no in ["n\r", "\r", "\x03", "\x04", "\x1b", "y\x7f\r"] {
            terminal.press(&format!("{line}\r"));
            terminal.wait_for(question);
            terminal.wait_for("[y/N] ");
            terminal.press(no);
            terminal.wait_for("Cancelled.");
            terminal.wait_for(&format!(" {number}] "));
            number += 1;
        }
        terminal.press(&format!("{line}\r"));
        terminal.wait_for("[y/N] ");
        terminal.run("yes", done, number);
        number += 1;
    }
    terminal.run("ls /", "[b, zookeeper]", number);
    terminal.run("get /b", "new", number + 1);
}

/// Ctrl-C while an editor runs is meant for the editor.
#[test]
fn ctrl_c_in_an_editor_does_not_stop_the_shell() {
    let server = Server::ephemeral().unwrap();
    let (dir, history) = history();
    let go = dir.path().join("go");
    let script = dir.path().join("editor");
    let text = format!("echo edited > \"$1\"; echo at work; while [ ! -e {} ]; do sleep 0.05; done\n", go.display());
    std::fs::write(&script, text).unwrap();
    let mut terminal = Terminal::start(&server, &history);
    terminal.run("create /a 1", "Created /a", 1);
    terminal.press(&format!("edit --editor \"sh {}\" /a\r", script.display()));
    terminal.wait_for("at work");
    terminal.interrupt();
    std::fs::write(&go, "").unwrap();
    terminal.wait_for("(CONNECTED) 2] ");
    terminal.run("ls /", "[a, zookeeper]", 3);
}

#[test]
fn tab_completion_quotes_names_with_blanks() {
    let server = Server::ephemeral().unwrap();
    let (_dir, history) = history();
    let mut terminal = Terminal::start(&server, &history);
    terminal.run("create '/two words' one", "Created /two words", 1);
    terminal.press("get /tw\t");
    terminal.wait_for("get \"/two words\"");
    terminal.run("", "one", 2);
    terminal.press("stat \"/two wo\t");
    terminal.wait_for("stat \"/two words\"");
    terminal.run("", "dataLength = 3", 3);
}

/// More than the line editor reads in one go.
#[test]
fn long_pasted_input_is_executed() {
    let server = Server::ephemeral().unwrap();
    let (_dir, history) = history();
    let mut terminal = Terminal::start(&server, &history);
    terminal.run(&format!("create /a {}", "x".repeat(3000)), "Created /a", 1);
    terminal.press("stat /a\rls /\r");
    terminal.wait_for("dataLength = 3000");
    terminal.wait_for("[a, zookeeper]");
}

/// Other clients choose the ids in an ACL, so control characters in them must be escaped.
#[test]
fn control_characters_in_acls_are_escaped() {
    let server = Server::ephemeral().unwrap();
    let (_dir, history) = history();
    let mut other = crate::capture::Session::with(&server);
    other.ok("create /a 1 digest:\x1b[2Jbob:hash=:cdrwa,world:anyone:ra");
    let mut terminal = Terminal::start(&server, &history);
    terminal.run("getAcl /a", "'digest,'\\u{1b}[2Jbob:", 1);
}
