//! The native style in a pseudo terminal: prompt, events, tables, and an idle shell.

use crate::capture::{Session, UnusedPort};
use crate::terminal::{Terminal, history};
use ox_server::Server;
use ox_testkit::Proxy;
use rustix::termios::Winsize;
use std::time::Duration;

#[test]
fn prompt_shows_ensemble_directory_and_connection_state() {
    let server = Server::ephemeral().unwrap();
    let (_dir, history) = history();
    let proxy = Proxy::start(server.address());
    let address = proxy.address().to_string();
    let mut terminal = Terminal::open(&["-server", &address, "-timeout", "10000"], &history, 80);
    terminal.wait_for(&format!("Connected to {address}, session 0x"));
    terminal.wait_for(&format!("{address} /> "));
    terminal.press("create -p /app/x 1\r");
    terminal.wait_for("Created /app/x");
    terminal.press("cd /app\r");
    terminal.wait_for(&format!("{address} /app> "));
    terminal.press("ls\r");
    terminal.wait_for("x");
    server.drop_connections();
    terminal.wait_for("connection lost; reconnecting");
    terminal.wait_for("connected again");
    terminal.press("close\r");
    terminal.wait_for(&format!("{address} (closed) /app> "));
    terminal.press("ls\r");
    terminal.wait_for("Not connected; `connect` opens a session");
    terminal.press("connect\r");
    terminal.wait_for(&format!("Connected to {address}."));
}

#[test]
fn shell_without_server_names_the_cause_and_goes_on() {
    let (_dir, history) = history();
    let closed = UnusedPort::new();
    let mut terminal = Terminal::open(&["-server", &closed.address()], &history, 80);
    terminal.wait_for(&format!("Cannot connect to {}: connection refused", closed.address()));
    terminal.wait_for("hint: is a server running, and is ");
    terminal.wait_for("(connecting) /> ");
    terminal.press("get /a\t");
    terminal.wait_for("not connected: nodes cannot be completed");
    terminal.press("\r");
    terminal.wait_for("connection refused");
    terminal.wait_for("(connecting) /> ");
    terminal.press("help get\r");
    terminal.wait_for("cat is short for get");
    terminal.press("gte\r");
    terminal.wait_for("Unknown command: gte");
    terminal.wait_for("hint: did you mean get?");
    assert!(!terminal.all().contains("NO RECORDS"));
    terminal.press("quit\r");
    terminal.rest();
}

/// The style of `zkCli` tries to close the session of a lost connection for ten seconds; the native style ends before.
#[test]
fn lost_connection_does_not_delay_the_end() {
    let server = Server::ephemeral().unwrap();
    let (_dir, history) = history();
    let address = server.address().to_string();
    let mut zkcli = Terminal::open(&["--zkcli", "-server", &address], &history, 200);
    zkcli.wait_for("(CONNECTED) 0] ");
    let mut terminal = Terminal::open(&["-server", &address], &history, 80);
    terminal.wait_for("/> ");
    drop(server);
    zkcli.wait_for("state:Disconnected");
    terminal.wait_for("connection lost; reconnecting");
    zkcli.press("quit\r");
    zkcli.wait_for("quit");
    terminal.press("\u{4}");
    terminal.rest();
    assert!(!zkcli.has_ended());
}

/// Programs that drive a shell may give its terminal no size.
#[test]
fn shell_works_on_a_terminal_without_a_size() {
    let server = Server::ephemeral().unwrap();
    let (_dir, history) = history();
    let no_size = Winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
    let address = server.address().to_string();
    let mut terminal = Terminal::open_sized(&["-server", &address], &history, no_size);
    terminal.wait_for("/> ");
    server.drop_connections();
    terminal.wait_for("connection lost; reconnecting");
    terminal.press("pwd\r");
    terminal.wait_for("/\r\n");
    terminal.press("quit\r");
    terminal.rest();
    assert_eq!(terminal.exit_code(), Some(0));
}

#[test]
fn completion_menu_leaves_the_prompt_alone() {
    let server = Server::ephemeral().unwrap();
    let (_dir, history) = history();
    let mut terminal = Terminal::open(&["-server", &server.address().to_string()], &history, 80);
    terminal.wait_for("/> ");
    terminal.press("create -p /app/one\r");
    terminal.wait_for("Created /app/one");
    terminal.press("create -p /app/two\r");
    terminal.wait_for("Created /app/two");
    terminal.wait_for("/> ");
    terminal.press("get /app/\t");
    terminal.wait_for("/app/two");
    assert!(!terminal.all().contains("| "), "{}", terminal.all());
}

#[test]
fn events_are_shown_in_one_line_while_a_line_is_edited() {
    let server = Server::ephemeral().unwrap();
    let (_dir, history) = history();
    let mut terminal = Terminal::open(&["-server", &server.address().to_string()], &history, 80);
    terminal.wait_for("/> ");
    terminal.press("create /a 1\rget -w /a\r");
    terminal.wait_for("Created /a");
    terminal.wait_for("1");
    terminal.wait_for("/> ");
    terminal.press("ls ");
    terminal.wait_for("ls ");
    Session::with(&server).ok("set /a 2");
    terminal.wait_for("event: /a has new data");
    terminal.press("/\r");
    terminal.wait_for("zookeeper");
}

#[test]
fn top_fits_the_terminal() {
    let server = Server::ephemeral().unwrap();
    let (_dir, history) = history();
    let address = server.address().to_string();
    let mut terminal = Terminal::open(&["-server", &address, "top", "--count", "1"], &history, 60);
    terminal.wait_for("1 server");
    let shown = terminal.rest();
    assert!(!terminal.all().contains("\x1b[H"), "a single sample leaves the screen alone");
    assert!(shown.contains("SERVER") && shown.contains("standalone"), "{shown}");
    assert!(shown.lines().all(|line| line.trim_end().chars().count() <= 60), "{shown}");
}

/// The editor waits for keys and events without a timeout.
#[cfg(target_os = "linux")]
#[test]
fn idle_shell_does_not_wake_up() {
    let server = Server::ephemeral().unwrap();
    let (_dir, history) = history();
    let mut terminal = Terminal::open(&["-server", &server.address().to_string()], &history, 80);
    terminal.wait_for("/> ");
    let wake_ups = || {
        let mut count = 0;
        for task in std::fs::read_dir(format!("/proc/{}/task", terminal.id())).unwrap() {
            let status = std::fs::read_to_string(task.unwrap().path().join("status")).unwrap();
            let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
            count += line.unwrap().trim().parse::<u64>().unwrap();
        }
        count
    };
    std::thread::sleep(Duration::from_secs(1));
    let before = wake_ups();
    std::thread::sleep(Duration::from_secs(3));
    let count = wake_ups() - before;
    assert!(count < 10, "{count} wake-ups in 3 s");
}
