//! What `zkCli` does not have, without a terminal.

use crate::capture::{Nobody, Session};
use ox_server::Server;

#[test]
fn relative_paths_begin_with_cd() {
    let server = Server::ephemeral().unwrap();
    let mut session = Session::with(&server);
    session.ok("create /a 1");
    session.ok("create /a/b 2");
    assert_eq!(session.run("get a").err, "Path must start with / character\n", "as zkCli has it");
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
fn help_comes_from_the_table() {
    let server = Server::ephemeral().unwrap();
    let mut session = Session::with(&server);
    let all = session.ok("help");
    for command in ox_shell::commands::COMMANDS {
        assert!(all.contains(&format!("  {}", command.name)) && all.contains(command.help), "{}", command.name);
    }
    let one = session.ok("help deleteall");
    assert!(one.contains("deleteall path [-b batch size]") && one.contains("--yes"), "{one}");
}

#[test]
fn a_server_that_is_not_there() {
    let nobody = Nobody::new();
    let mut session = Session::begin(&nobody.address());
    assert_eq!(session.run("ls /").err, "KeeperErrorCode = ConnectionLoss for /\n");
    assert_eq!(session.shell.status(), 1);
    let server = Server::ephemeral().unwrap();
    session.ok(&format!("connect {}", server.address()));
    assert_eq!(session.ok("ls /"), "[zookeeper]\n");
}

#[test]
fn an_event_is_told_once_and_in_order() {
    let server = Server::ephemeral().unwrap();
    let mut session = Session::with(&server);
    session.ok("create /a");
    for line in ["get -w /a", "get -w /a", "stat -w /a", "addWatch /a", "addWatch -m persistent /a"] {
        session.ok(line);
    }
    let told = session.ok("set /a x");
    assert_eq!(told.matches("WatchedEvent").count(), 1, "{told}");
    let told = session.ok("create /a/b");
    assert_eq!(told.matches("NodeCreated path:/a/b").count(), 1, "{told}");
    assert_eq!(told.matches("NodeChildrenChanged path:/a").count(), 1, "{told}");
    assert_eq!(session.shell.watches.len(), 2, "those that stay");
}

#[test]
fn large_subtrees_are_deleted_in_batches() {
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
