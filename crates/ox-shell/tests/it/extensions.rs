//! Behaviour that `zkCli` does not have, without a terminal.

use crate::capture::{Session, UnusedPort};
use ox_server::Server;

#[test]
fn relative_paths_require_cd() {
    let server = Server::ephemeral().unwrap();
    let mut session = Session::with(&server);
    session.ok("create /a 1");
    session.ok("create /a/b 2");
    assert_eq!(session.run("get a").err, "Path must start with / character\n", "like zkCli");
    assert_eq!(session.ok("pwd"), "/\n");
    session.ok("cd a");
    assert_eq!(session.ok("get b"), "2\n");
    assert_eq!(session.ok("ls"), "[b]\n");
    assert_eq!(session.ok("get ../a/b/"), "2\n");
    assert_eq!(session.ok("pwd"), "/a\n");
    assert_eq!(session.run("cd nowhere").err, "Node does not exist: /a/nowhere\n");
    session.ok("cd ..");
    assert_eq!(session.ok("pwd"), "/\n");
}

#[test]
fn help_lists_every_command() {
    let server = Server::ephemeral().unwrap();
    let mut session = Session::with(&server);
    let all = session.ok("help all");
    for command in ox_shell::commands::COMMANDS {
        assert!(all.contains(&format!("  {}", command.name)) && all.contains(command.help), "{}", command.name);
    }
    let one = session.ok("help deleteall");
    assert!(one.contains("deleteall [-b batch size]") && one.contains("--yes"), "{one}");
}

#[test]
fn unreachable_server_is_reported() {
    let nobody = UnusedPort::new();
    let mut session = Session::begin(&nobody.address());
    assert_eq!(session.run("ls /").err, "KeeperErrorCode = ConnectionLoss for /\n");
    assert_eq!(session.shell.status(), 1);
    let server = Server::ephemeral().unwrap();
    session.ok(&format!("connect {}", server.address()));
    assert_eq!(session.ok("ls /"), "[zookeeper]\n");
}

#[test]
fn event_is_printed_once_and_in_order() {
    let server = Server::ephemeral().unwrap();
    let mut session = Session::with(&server);
    session.ok("create /a");
    for line in ["get -w /a", "get -w /a", "stat -w /a", "addWatch /a", "addWatch -m persistent /a"] {
        session.ok(line);
    }
    let printed = session.ok("set /a x");
    assert_eq!(printed.matches("WatchedEvent").count(), 1, "{printed}");
    let printed = session.ok("create /a/b");
    assert_eq!(printed.matches("NodeCreated path:/a/b").count(), 1, "{printed}");
    assert_eq!(printed.matches("NodeChildrenChanged path:/a").count(), 1, "{printed}");
    assert_eq!(session.shell.watches.len(), 2, "the persistent watches");
}

#[test]
fn deleteall_deletes_in_batches() {
    let server = Server::ephemeral().unwrap();
    let mut session = Session::with(&server);
    for line in ["create /a", "create /a/b", "create /keep"] {
        session.ok(line);
    }
    for number in 0..50 {
        session.ok(&format!("create /a/b/{number}"));
    }
    session.ok("deleteall -b 7 /a");
    assert_eq!(session.ok("ls /"), "[keep, zookeeper]\n");
}
