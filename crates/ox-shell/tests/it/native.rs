//! The native style without a terminal: data on standard output, everything else on standard error.

use crate::capture::UnusedPort;
use crate::invocations::{call, run};
use ox_server::{Server, TestServer};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// A command, its standard output, the lines of standard error, and its exit code.
type Case<'a> = (&'a str, &'a str, &'a str, u8);

fn check(server: &TestServer, cases: &[Case<'_>]) {
    for (line, out, err, status) in cases {
        let found = call(server, line);
        assert_eq!(found, ((*out).to_owned(), (*err).to_owned(), *status), "{line}");
    }
}

/// Runs commands from standard input.
fn script(server: &TestServer, options: &[&str], input: &str) -> (String, String, u8) {
    let address = server.address().to_string();
    let words = options.iter().copied().chain(["-server", &address]);
    run(&words.map(str::to_owned).collect::<Vec<_>>(), input)
}

#[test]
fn commands_print_only_data_on_standard_output() {
    let server = Server::ephemeral().unwrap();
    check(
        &server,
        &[
            ("create /a hello", "/a\n", "", 0),
            ("create -s /a/n-", "/a/n-0000000000\n", "", 0),
            ("ls /", "a\nzookeeper\n", "", 0),
            ("ls", "a\nzookeeper\n", "", 0),
            ("ls /a/n-0000000000", "", "", 0),
            ("get /a", "hello\n", "", 0),
            ("get --raw /a", "hello", "", 0),
            ("get a/", "hello\n", "", 0),
            ("set /a 2", "", "", 0),
            ("sync /", "", "", 0),
            ("getAcl /a", "world:anyone:cdrwa\n", "", 0),
            ("getAllChildrenNumber /a", "1\n", "", 0),
            ("whoami", "ip:127.0.0.1\n", "", 0),
            ("deleteall /a", "", "", 0),
            ("version", concat!("oxkeeper ", env!("CARGO_PKG_VERSION"), "\n"), "", 0),
        ],
    );
}

#[test]
fn dash_as_data_is_standard_input() {
    let server = Server::ephemeral().unwrap();
    let single = |line: &str, input: &[u8]| {
        let address = server.address().to_string();
        let mut command = Command::new(env!("CARGO_BIN_EXE_ox-shell"));
        command.args(["-server", &address]).args(line.split(' ')).stdin(Stdio::piped()).stderr(Stdio::piped());
        let mut shell = command.stdout(Stdio::null()).spawn().unwrap();
        let _ = shell.stdin.take().unwrap().write_all(input); // the shell may not read it
        let done = shell.wait_with_output().unwrap();
        (String::from_utf8(done.stderr).unwrap(), done.status.code())
    };
    let data = |path: &str| call(&server, &format!("get --raw {path}")).0;
    assert_eq!(single("create /a -", b"1\n"), (String::new(), Some(0)));
    assert_eq!(data("/a"), "1\n");
    assert_eq!(single("set /a -", b"two words"), (String::new(), Some(0)));
    assert_eq!(data("/a"), "two words");
    assert_eq!(single("set -b /a -", b"eA==\n"), (String::new(), Some(0)));
    assert_eq!(data("/a"), "x");
    assert_eq!(single("set /a -- -", b"ignored"), (String::new(), Some(0)));
    assert_eq!(data("/a"), "-");
    let (_, err, status) = script(&server, &[], "set /a -\n");
    assert_eq!(
        (err.as_str(), status),
        ("line 1: Standard input contains commands; data that is a dash follows --\n", 1)
    );
    assert_eq!(call(&server, "--zkcli set /a -").2, 0);
    assert_eq!(data("/a"), "-");
}

#[test]
fn wrong_numbers_of_arguments_name_the_argument() {
    let server = Server::ephemeral().unwrap();
    check(
        &server,
        &[
            ("addauth digest", "", "Missing argument: auth\nusage: addauth scheme auth\n", 1),
            ("cd / x", "", "Superfluous argument: x\nusage: cd [path]\n", 1),
            (
                "top x",
                "",
                "Superfluous argument: x\nusage: top [--count number] [--interval seconds] [-n sessions] [--json]\n",
                1,
            ),
            (
                "cp /full",
                "",
                "Missing argument: path\nusage: cp [--conflict fail|skip|overwrite] [--skip-ephemerals] [-p] [-d depth] [--dry-run] \
                 [--yes] path path\n",
                1,
            ),
            ("setquota -n 5", "", "Missing argument: path\nusage: setquota -n|-b|-N|-B val path\n", 1),
            ("redo", "", "Missing argument: cmdno\nusage: redo cmdno\n", 1),
            ("redo 1", "", "A single command has no history to redo\n", 1),
        ],
    );
}

#[test]
fn watch_of_a_single_command_is_a_warning() {
    let server = Server::ephemeral().unwrap();
    let warning = "warning: the session ends with this command, and the watch with it; `watch` waits for changes\n";
    check(&server, &[("ls -w /", "zookeeper\n", warning, 0), ("addWatch /", "", warning, 0)]);
}

#[test]
fn both_versions_of_a_conditional_write_are_named() {
    let server = Server::ephemeral().unwrap();
    call(&server, "create -p /full/child");
    check(
        &server,
        &[
            ("set -v 9 /full x", "", "Version does not match: /full has version 0, not 9\n", 1),
            ("delete -v 9 /full/child", "", "Version does not match: /full/child has version 0, not 9\n", 1),
            ("setAcl -v 9 /full world:anyone:a", "", "Version does not match: /full has version 0, not 9\n", 1),
            ("--zkcli set -v 9 /full x", &greeting(&server), "version No is not valid : /full\n", 1),
        ],
    );
}

#[test]
fn errors_are_plain_and_fail() {
    let server = Server::ephemeral().unwrap();
    call(&server, "create -p /full/child");
    check(
        &server,
        &[
            ("get /missing", "", "Node does not exist: /missing\n", 1),
            ("rm /full", "", "Node not empty: /full\nhint: rmr deletes a node and its whole subtree\n", 1),
            ("--zkcli delete /full", &greeting(&server), "Node not empty: /full\n", 1),
            (
                "addauth nonsense x",
                "",
                "add auth: authentication failed: the servers reject these credentials, or have no scheme `nonsense`\n",
                1,
            ),
            ("setquota -n x /full", "", "-n must be a number, not `x`\n", 1),
            ("listquota /full", "", "No quota: /full\n", 1),
            ("listquota /", "", "The root cannot have a quota; name a node below it\n", 1),
            (
                "create /a x y",
                "",
                "Invalid ACL y: \"y\" does not have the form scheme:id:perms\n\
                 hint: world:anyone:r, for example; quote data that contains spaces\n",
                1,
            ),
            (
                "set /full hello world",
                "",
                "Superfluous argument: world\nusage: set path data [-s] [-v version] [-b]\n\
                 hint: quote data that contains spaces\n",
                1,
            ),
            (
                "txn create /x b",
                "",
                "Operation 1: Wrong number of arguments of create: create\nNothing was changed.\n\
                 hint: quote each operation: txn 'create /a data' 'set /b data'\n",
                1,
            ),
            ("printwatches maybe", "", "Wrong arguments\nusage: printwatches [on|off]\n", 1),
            ("top --interval 0", "", "--interval must be a number of seconds, at least 0.1, not `0`\n", 1),
            (
                "get /full --server a:1",
                "",
                "Unrecognized option: --server\nhint: options of the program stand before the command: oxkeeper cli \
                 --server zk1 ls /\n",
                1,
            ),
            (
                "create -e /ephemeral x",
                "/ephemeral\n",
                "warning: the session ends with this command, which deletes the node\n",
                0,
            ),
            (
                "setAcl /full auth::r",
                "",
                "The server refuses the ACL of /full: unknown scheme, wrong id, or auth without addauth\n",
                1,
            ),
            ("config", "", "There is no ensemble configuration: the server is standalone\n", 0),
        ],
    );
}

/// The other tools take `-s SERVER` at the end; commands of the shell have a `-s` of their own.
#[test]
fn server_after_the_command_is_refused_and_never_becomes_data() {
    let server = Server::ephemeral().unwrap();
    call(&server, "create /a before");
    let hint = "hint: options of the program stand before the command: oxkeeper cli --server zk1 ls /\n";
    let data_hint = |name: &str, server: &str| {
        format!("{hint}hint: data that looks like a server follows `--`: {name} /a -s -- {server}\n")
    };
    for (line, expected) in [
        ("set /a -s :2191", format!("-s of set takes no server: :2191\n{}", data_hint("set", ":2191"))),
        ("set -s zk1:2181 /a", format!("-s of set takes no server: zk1:2181\n{}", data_hint("set", "zk1:2181"))),
        ("create /s -s [::1]:1", format!("-s of create takes no server: [::1]:1\n{}", data_hint("create", "[::1]:1"))),
        ("get /a -s :2191", format!("-s of get takes no server: :2191\n{hint}")),
        ("ll / -s zk1:1,zk2:2/app", format!("-s of ls takes no server: zk1:1,zk2:2/app\n{hint}")),
        ("deleteall /a -s :2191", format!("Unrecognized option: -s\n{hint}")),
    ] {
        assert_eq!(call(&server, line), (String::new(), expected, 1), "{line}");
    }
    check(&server, &[("get /a", "before\n", "", 0), ("ls /", "a\nzookeeper\n", "", 0)]);
    for (line, data) in [
        ("set /a -s -- :2191", ":2191\n"),
        ("set /a -s zk1:x", "zk1:x\n"),
        ("set /a -- -s", "-s\n"),
        ("set /a zk1:1", "zk1:1\n"),
        ("--zkcli set /a -s :2192", ":2192\n"),
    ] {
        assert_eq!(call(&server, line).2, 0, "{line}");
        assert_eq!(call(&server, "get /a").0, data, "{line}");
    }
    for (options, data) in [(&[][..], ":2193\n"), (&["--zkcli"], ":2194\n")] {
        let line = format!("set /a -s {data}");
        assert_eq!(script(&server, options, &line).2, 0, "{options:?}");
        assert_eq!(call(&server, "get /a").0, data, "{options:?}");
    }
    assert_eq!(call(&server, "create -s /a/n-").0, "/a/n-0000000000\n");
}

/// `zkCli` skips letters that it does not know, and sets what is left: such a node can be locked to all clients.
#[test]
fn invalid_permission_is_refused_before_anything_changes() {
    let server = Server::ephemeral().unwrap();
    call(&server, "create /a");
    let letters = "the letters are c (create), d (delete), r (read), w (write) and a (admin); cdrwa permits everything";
    for (acl, cause) in [
        ("world:anyone:q", format!("unknown permission q: {letters}")),
        ("world:anyone:all", format!("unknown permission l: {letters}")),
        ("world:anyone:cdrwA", format!("unknown permission A: {letters}")),
        ("world:anyone:r,ip:10.0.0.1:x", format!("unknown permission x: {letters}")),
        ("world:anyone:", "it permits nothing; r, for example, permits to read".to_owned()),
        ("world:anyone:r,oops", "\"oops\" does not have the form scheme:id:perms".to_owned()),
    ] {
        let refusal = format!("Invalid ACL {acl}: {cause}\n");
        for line in [format!("setAcl /a {acl}"), format!("setAcl -R /a {acl}"), format!("create /b x {acl}")] {
            assert_eq!(call(&server, &line), (String::new(), refusal.clone(), 1), "{line}");
        }
        let operation = format!("txn --file -\ncreate /b x {acl}\n");
        assert_eq!(script(&server, &["-e"], &operation).2, 1, "{acl}");
    }
    let refusal = "Invalid ACL: digest:bob is not followed by the hash of a password, so no client would match\n\
                   hint: `addauth digest user:password` first, then auth::cdrwa\n";
    for line in ["setAcl /a digest:bob:secret:r", "create /b x world:anyone:r,digest:bob:x:cdrwa"] {
        assert_eq!(call(&server, line), (String::new(), refusal.to_owned(), 1), "{line}");
    }
    check(&server, &[("getAcl /a", "world:anyone:cdrwa\n", "", 0), ("ls /", "a\nzookeeper\n", "", 0)]);
    let hash = "digest:bob:fyVmFCwVbTJYrznoSu1koqYEYF0=:cdrwa";
    assert_eq!(call(&server, &format!("create /hash x {hash}")).2, 0);
    let (_, err, status) = call(&server, "--zkcli setAcl /a world:anyone:rq");
    assert_eq!((err.as_str(), status), ("Unknown perm type: q\n", 0), "zkCli sets the letters that it knows");
}

#[test]
fn refusals_name_the_remedy() {
    let server = Server::ephemeral().unwrap();
    call(&server, "create -p /app/a");
    let big = "x".repeat(1 << 20);
    check(
        &server,
        &[
            (
                "create /neg -5",
                "",
                "Unrecognized option: -5\nhint: after `--`, data may begin with a dash: create /a -- -5\n",
                1,
            ),
            ("create /neg -- -5", "/neg\n", "", 0),
            ("delete /zookeeper/quota", "", "/zookeeper/quota is protected: servers need it\n", 1),
            (
                "create -t 1000 /t",
                "",
                "create /t: operation is not implemented: TTL nodes are off; set extendedTypesEnabled=true on all servers\n\
                 hint: without a zoo.cfg, start the server with -Dzookeeper.extendedTypesEnabled=true\n",
                1,
            ),
            (
                "reconfig -remove 3",
                "",
                "Reconfiguration is off\nhint: set reconfigEnabled=true in the configuration of all servers\n",
                1,
            ),
            (
                &format!("create /big {big}"),
                "",
                "create /big: request is too large: the limit of this client is 1048575 bytes, as jute.maxbuffer of \
                 servers is by default\n",
                1,
            ),
            (
                "rmr /",
                "",
                "/ cannot be deleted: servers need / and /zookeeper. Nothing was deleted\n\
                 hint: name the nodes: rmr /app, rmr /neg\n",
                1,
            ),
            (
                "rmr /zookeeper",
                "",
                "/zookeeper cannot be deleted: servers need / and /zookeeper. Nothing was deleted\n",
                1,
            ),
        ],
    );
}

#[test]
fn pasted_command_of_the_program_is_explained() {
    let server = Server::ephemeral().unwrap();
    let expected = "line 1: Unknown command: oxkeeper\nhint: this is the shell of `oxkeeper cli`: type the command alone, or \
                    Ctrl-D to exit first\n";
    assert_eq!(script(&server, &["-e"], "oxkeeper cli rm /hello\n"), (String::new(), expected.to_owned(), 127));
}

/// Servers accept a user without a password, as an identity that the user with the password does not have.
#[test]
fn addauth_without_a_password_is_refused() {
    let server = Server::ephemeral().unwrap();
    let refusal = "The password is missing: addauth digest user:password\n";
    assert_eq!(call(&server, "addauth digest bob"), (String::new(), refusal.to_owned(), 1));
    let (_, err, status) = script(&server, &[], "addauth digest bob\ncreate /a\n");
    assert_eq!((err, status), (format!("line 1: {refusal}"), 1), "the script stops");
    assert_eq!(call(&server, "ls /").0, "zookeeper\n");
    let (out, ..) = script(&server, &["--zkcli"], "addauth digest bob\nwhoami\n");
    assert!(out.contains("digest: bob\n"), "{out}");
}

#[test]
fn single_command_that_changes_only_the_shell_is_a_warning() {
    let server = Server::ephemeral().unwrap();
    let warning = "warning: this has no effect on later commands; ";
    for (line, remedy) in [
        ("addauth digest bob:secret", "credentials of single commands are in a profile\n"),
        ("cd /zookeeper", "it is of use in the shell and in scripts\n"),
        ("printwatches off", "it is of use in the shell and in scripts\n"),
    ] {
        let (_, err, status) = call(&server, line);
        assert_eq!((err, status), (format!("{warning}{remedy}"), 0), "{line}");
        let (_, err, _) = script(&server, &[], line);
        assert!(!err.contains("warning"), "{line}: {err}");
    }
    let (_, err, status) = call(&server, &format!("connect {}", server.address()));
    assert!(
        err.ends_with(&format!("{warning}give the server to each command: oxkeeper cli --server zk1 ls /\n")),
        "{err}"
    );
    assert_eq!(status, 0);
    assert_eq!(call(&server, "printwatches").1, "", "it only prints the setting");
}

#[test]
fn history_does_not_show_secrets() {
    let server = Server::ephemeral().unwrap();
    let (out, ..) = script(&server, &[], "addauth digest bob:secret\nredo 0\nwhoami\nhistory\n");
    assert!(out.contains("0 - addauth digest (not shown)\n1 - addauth digest (not shown)\n"), "{out}");
    assert!(out.contains("digest:bob\n") && !out.contains("secret"), "{out}");
    let (out, ..) = script(&server, &["--zkcli"], "addauth digest bob:secret\nhistory\n");
    assert!(out.contains("0 - addauth digest bob:secret"), "{out}");
}

#[test]
fn incomplete_deletion_names_cause_and_count() {
    let server = Server::ephemeral().unwrap();
    call(&server, "create -p /app/locked/below");
    let warning = "warning: without the permission `a`, only the super user can change this ACL again\n";
    let refusal = "3 of 3 nodes of /app were not deleted: No permission: /app/locked/below\n\
                   hint: `getAcl` shows whose identity has it (`addauth`, `whoami`); the super user has every permission\n";
    check(&server, &[("setAcl /app/locked world:anyone:r", "", warning, 0), ("rmr /app", "", refusal, 1)]);
}

/// What `--zkcli` prints before the output of a single command.
fn greeting(server: &TestServer) -> String {
    let address = server.address();
    format!("Connecting to {address}\n\nWATCHER::\n\nWatchedEvent state:SyncConnected type:None path:null zxid: -1\n")
}

#[test]
fn unclosed_quote_is_refused_and_stops_a_script() {
    let server = Server::ephemeral().unwrap();
    let input = "create /q 1\nset /q \"abc\nget /q\ntxn 'set /q \"x'\n";
    let quote = "line 2: Unclosed quote: \"abc\n";
    assert_eq!(script(&server, &["-e"], input), ("/q\n".to_owned(), quote.to_owned(), 1));
    let input = input.replace("create /q 1", "");
    let all = format!("{quote}line 4: Operation 1: Unclosed quote: \"x\nNothing was changed.\n");
    assert_eq!(script(&server, &[], &input), ("1\n".to_owned(), all, 1));
    let word = "A quote inside a word does not quote: /\"q\nhint: quote the whole word, as in '/two words'\n";
    let refused = script(&server, &["-e"], "create /\"q uote\n");
    assert_eq!(refused, (String::new(), format!("line 1: {word}"), 1));
    assert_eq!(script(&server, &["--zkcli"], "set /q \"abc\n").2, 0, "zkCli stores the quote");
    assert_eq!(call(&server, "get /q").0, "\"abc\n");
}

#[test]
fn missing_chroot_is_named_with_the_command_that_creates_it() {
    let server = Server::ephemeral().unwrap();
    let address = server.address().to_string();
    let below = |line: &str| {
        let words = ["-s".to_owned(), format!("{address}/app")];
        run(&words.into_iter().chain(line.split(' ').map(str::to_owned)).collect::<Vec<_>>(), "")
    };
    let text =
        format!("The chroot /app does not exist\nhint: `oxkeeper cli -server {address} create -p /app` creates it\n");
    assert_eq!(below("ls /"), (String::new(), text.clone(), 1));
    for line in ["create /a x", "create /a/b x", "create -p /a/b x", "get /a", "set /a x", "rm /a"] {
        assert_eq!(below(line), (String::new(), text.clone(), 1), "{line}");
    }
    assert_eq!(call(&server, "create -p /app").2, 0);
    assert_eq!(below("get /a").1, "Node does not exist: /a\n");
    assert_eq!(below("create /a x").2, 0);
}

#[test]
fn command_describes_itself_and_help_fits_a_screen() {
    let server = Server::ephemeral().unwrap();
    let described = call(&server, "help ls");
    assert!(described.0.contains("  -R       List the whole subtree, as paths\n"), "{}", described.0);
    for line in ["ls --help", "ls -h", "ls -?", "ls / --help", "ll --help", "? ls"] {
        assert_eq!(call(&server, line), described, "{line}");
    }
    assert_eq!(call(&server, "create /x -- --help").2, 0, "after -- it is data");
    let (all, _, status) = call(&server, "help");
    assert!(status == 0 && all.lines().count() < 24, "{all}");
    assert!(all.lines().all(|line| line.len() <= 100), "{all}");
    for names in ["ls (ll)", "create (mkdir)", "delete (rm), deleteall (rmr)", "get (cat)"] {
        assert!(all.contains(names), "{names}: {all}");
    }
    assert_eq!(call(&server, "--zkcli ? ls").2, 127);
    for line in ["help create", "help setAcl"] {
        assert!(call(&server, line).0.contains("  world:anyone:r "), "{line}");
    }
}

#[test]
fn mistaken_single_commands_get_a_hint() {
    let server = Server::ephemeral().unwrap();
    let hint = |word: &str| {
        let words = ["-s".to_owned(), server.address().to_string(), word.to_owned()];
        let (_, err, status) = run(&words, "");
        assert_eq!(status, 127, "{err}");
        err.lines().last().unwrap().to_owned()
    };
    assert_eq!(hint("ls /"), "hint: omit the quotes: oxkeeper cli ls /");
    assert_eq!(hint("localhost:2182"), "hint: name the server by an option: oxkeeper cli -s localhost:2182");
    let file = tempfile::NamedTempFile::new().unwrap();
    let name = file.path().to_str().unwrap();
    assert_eq!(hint(name), format!("hint: commands from a file: oxkeeper cli -e < {name}"));
}

#[test]
fn unknown_words_are_refused_with_a_suggestion() {
    let server = Server::ephemeral().unwrap();
    let usage = "usage: get [-s] [-w] [-b|-x|--raw|--pretty] [--json] path\n";
    check(
        &server,
        &[
            ("gte /", "", "Unknown command: gte\nhint: did you mean get?\n", 127),
            ("GetAcl /", "", "Unknown command: GetAcl\nhint: did you mean getAcl?\n", 127),
            ("frobnicate", "", "Unknown command: frobnicate\nhint: `help` lists the commands\n", 127),
            ("get --jsn /", "", "Unrecognized option: --jsn\nhint: did you mean --json?\n", 1),
            ("get -q /", "", &format!("Unrecognized option: -q\n{usage}"), 1),
            ("get", "", &format!("Missing argument: path\n{usage}"), 1),
            ("get / x", "", &format!("Superfluous argument: x\n{usage}"), 1),
        ],
    );
    assert_eq!(call(&server, "-sever x ls /").2, 2, "an unknown option of the program");
}

#[test]
fn parents_and_aliases() {
    let server = Server::ephemeral().unwrap();
    check(
        &server,
        &[
            ("create /a/b/c x", "", "Parent node does not exist: /a/b\nhint: create -p creates it\n", 1),
            ("create -p /a/b/c x", "/a/b/c\n", "", 0),
            ("create -p /a/b/c x", "", "Node already exists: /a/b/c\n", 1),
            ("cat /a/b/c", "x\n", "", 0),
            ("mkdir /m/n", "/m/n\n", "", 0),
            ("rm /m/n", "", "", 0),
            ("rmr /a", "", "", 0),
            ("ls /", "m\nzookeeper\n", "", 0),
        ],
    );
    let (out, _, _) = call(&server, "ll /");
    let fields: Vec<_> = out.lines().next().unwrap().split_whitespace().collect();
    assert_eq!((fields.len(), fields[0], fields[1], fields[4]), (5, "0", "0", "m"), "{out}");
    assert_eq!(call(&server, "--zkcli rm /m").2, 127, "zkCli has no aliases");
}

#[test]
fn data_is_printed_unchanged_or_indented() {
    let server = Server::ephemeral().unwrap();
    call(&server, "create /json {\"b\":[1,2],\"a\":null}");
    let pretty = "{\n  \"b\": [\n    1,\n    2\n  ],\n  \"a\": null\n}\n";
    check(&server, &[("get --pretty /json", pretty, "", 0), ("get --pretty /", "\n", "", 0)]);
    call(&server, "create /bytes");
    call(&server, "set -b /bytes /wD+Cg==");
    let output = program(&server, &["get", "--raw", "/bytes"], &[]);
    assert_eq!(output.stdout, [0xff, 0, 0xfe, b'\n']);
}

#[test]
fn script_stops_at_the_first_error_if_asked() {
    let server = Server::ephemeral().unwrap();
    let input = "# a comment\ncreate /a 1\nget /missing\nget /a\n";
    let error = "line 3: Node does not exist: /missing\n";
    assert_eq!(script(&server, &["-e"], input), ("/a\n".to_owned(), error.to_owned(), 1));
    let continued = script(&server, &[], &input.replace("/a 1", "/b 1"));
    assert_eq!(continued, ("/b\n1\n".to_owned(), error.to_owned(), 0));
}

#[test]
fn script_may_begin_with_a_byte_order_mark_and_have_comments() {
    let server = Server::ephemeral().unwrap();
    let (out, err, status) = script(&server, &["-e"], "\u{feff}create /a x\r\n  # comment\r\nget /a\r\n");
    assert_eq!((out.as_str(), err.as_str(), status), ("/a\nx\n", "", 0));
}

#[test]
fn edit_without_a_terminal_needs_an_editor() {
    let server = Server::ephemeral().unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&file, "new\n").unwrap();
    let name = file.path().to_str().unwrap();
    call(&server, "create /a old");
    let edit = |more: &[&str]| {
        let words = ["edit", "--from", name].iter().chain(more).copied().chain(["/a"]).collect::<Vec<_>>();
        program(&server, &words, &[("EDITOR", ""), ("VISUAL", "")])
    };
    let refused = edit(&[]);
    assert!(String::from_utf8_lossy(&refused.stderr).starts_with("edit needs a terminal\nhint: "), "{refused:?}");
    assert!(edit(&["--editor", "true"]).status.success());
    assert_eq!(call(&server, "get /a").0, "new\n");
    let (_, err, _) = call(&server, &format!("import {name}"));
    assert!(err.starts_with(&format!("{name} is not an export: ")), "{err}");
}

#[test]
fn long_listing_shows_what_the_client_may_read() {
    let server = Server::ephemeral().unwrap();
    call(&server, "create -p /a/b/c x");
    script(&server, &[], "addauth digest bob:secret\ncreate /a/locked x auth::cdrwa\n");
    let (out, err, status) = call(&server, "ls -l /a");
    let lines: Vec<&str> = out.lines().collect();
    assert!(lines[0].starts_with("       1        0  2") && lines[0].ends_with("  b"), "{out}");
    assert_eq!(lines[1], format!("       -        -  {:19}  locked", "-"));
    assert_eq!((err.as_str(), status), ("No permission: /a/locked\n1 node could not be read\n", 1));
    let json = call(&server, "ls -l --json /a").0;
    assert!(json.contains("\"czxid\"") && json.contains("{\"name\":\"locked\"}"), "{json}");
    let (out, _, _) = call(&server, "ls -l -R /a/b");
    let paths: Vec<&str> = out.lines().filter_map(|line| line.split_whitespace().last()).collect();
    assert_eq!(paths, ["/a/b", "/a/b/c"]);
    let (_, err, status) = call(&server, "ls -l /a/locked");
    assert!(err.starts_with("No permission: /a/locked\nhint: ") && status == 1, "{err}");
}

#[test]
fn transaction_executes_all_operations_or_none() {
    let server = Server::ephemeral().unwrap();
    let input = "create /a 1\n\
                 txn 'create /b/c x' 'set /a 2'\n\
                 txn 'create /b x' 'set -v 0 /a 2' 'create -s /b/n- y' 'check -v 1 /a' 'delete /b/n-0000000000'\n\
                 txn --json 'delete /b'\n\
                 txn 'ls /'\n\
                 get /a\n";
    let (out, err, status) = script(&server, &[], input);
    let results = "create /b\nset /a version 1\ncreate /b/n-0000000000\ncheck /a\ndelete /b/n-0000000000\n";
    assert_eq!(out, format!("/a\n{results}[{{\"op\":\"delete\",\"path\":\"/b\"}}]\n2\n"));
    let first = "line 2: Operation 1: Node does not exist: /b/c\nNothing was changed.\n";
    let last = "line 5: Operation 1: ls is not create, set, delete or check\nNothing was changed.\n";
    assert_eq!((err, status), (format!("{first}{last}"), 0));
}

/// Answers `srvr` like a member without a leader, and closes all other connections.
fn member_without_quorum() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = [0; 4];
            if stream.read_exact(&mut request).is_ok() && &request == b"srvr" {
                let _ = stream.write_all(b"This ZooKeeper instance is not currently serving requests\n");
            }
        }
    });
    address
}

#[test]
fn connect_error_names_the_cause_per_server() {
    let (closed, without_quorum) = (UnusedPort::new().address(), member_without_quorum());
    let get = |server: &str| {
        let words = ["-server", server, "-timeout", "2000", "get", "/a"];
        run(&words.map(str::to_owned), "")
    };
    let port = closed.rsplit(':').next().unwrap();
    let hint = format!("hint: is a server running, and is {port} its client port?\n");
    let refused = format!("Cannot connect to {closed}: connection refused\n{hint}");
    assert_eq!(get(&closed), (String::new(), refused, 1));
    let (_, err, _) = get(&format!("{closed},{without_quorum},unknown.invalid"));
    let cause = |server: &str| {
        let line = err.lines().find_map(|line| line.trim_start().strip_prefix(server));
        line.unwrap_or_else(|| panic!("no {server} in {err}")).trim().to_owned()
    };
    assert!(!err.contains("hint: "), "other servers failed for other reasons: {err}");
    assert_eq!(err.lines().next(), Some("Cannot connect to any server:"));
    assert_eq!(cause(&closed), "connection refused");
    assert_eq!(cause(&without_quorum), "no quorum: the server runs, but its ensemble has no leader");
    assert_eq!(cause("unknown.invalid:2181"), "unknown host");
}

/// The kernel accepts connections for a listener that never does.
#[test]
fn silent_port_is_told_from_a_host_that_does_not_answer() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let words = ["-s".to_owned(), address.to_string(), "--timeout".to_owned(), "500".to_owned(), "ls".to_owned()];
    let expected = format!(
        "Cannot connect to {address}: timeout: the server accepts connections but does not answer; is this a client \
         port of ZooKeeper?\n"
    );
    assert_eq!(run(&words, ""), (String::new(), expected, 1));
}

/// Runs the program itself.
fn program(server: &TestServer, words: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ox-shell"));
    command.args(words).env("OXKEEPER_SERVER", server.address().to_string());
    command.envs(variables.iter().copied()).output().unwrap()
}

fn set_mode(file: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(file, std::fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn servers_come_from_the_environment_and_from_profiles() {
    let server = Server::ephemeral().unwrap();
    assert_eq!(program(&server, &["ls"], &[]).stdout, b"zookeeper\n");
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("oxkeeper").join("cli.conf");
    std::fs::create_dir(dir.path().join("oxkeeper")).unwrap();
    let text = format!("[test]\nserver = {}\nauth = digest:bob:secret\n", server.address());
    std::fs::write(&file, text).unwrap();
    let config = dir.path().to_str().unwrap();
    let variables = [("OXKEEPER_SERVER", ""), ("XDG_CONFIG_HOME", config)];
    let shown = program(&server, &["--profile", "test", "whoami"], &variables);
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.lines().any(|line| line == "digest:bob"), "{shown}");
    set_mode(&file, 0o600);
    assert_eq!(program(&server, &["--profile", "test", "ls"], &variables).stderr, b"");
    set_mode(&file, 0o644);
    let warned = program(&server, &["--profile", "test", "ls"], &variables);
    let name = file.display();
    let text = format!(
        "warning: other users of this machine can read the credentials in {name}; `chmod 600 {name}` prevents that\n"
    );
    assert_eq!((String::from_utf8(warned.stderr).unwrap(), warned.status.code()), (text, Some(0)));
    let missing = dir.path().join("missing.conf");
    let variables_of_none = [("OXKEEPER_CLI_CONFIG", missing.to_str().unwrap())];
    let none = program(&server, &["--profile", "test", "ls"], &variables_of_none);
    let text = format!("there is no profile test: {} does not exist\n", missing.display());
    assert_eq!((String::from_utf8(none.stderr).unwrap(), none.status.code()), (text, Some(2)));
    let unknown = program(&server, &["--profile", "tset", "ls"], &variables);
    let text = format!("{} has no profile tset; did you mean test?\n", file.display());
    assert_eq!((String::from_utf8(unknown.stderr).unwrap(), unknown.status.code()), (text, Some(2)));
}

#[test]
fn name_zkcli_selects_the_output_of_zkcli() {
    let server = Server::ephemeral().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let link = dir.path().join("zkCli.sh");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_ox-shell"), &link).unwrap();
    let address = server.address().to_string();
    let output = Command::new(link).args(["-server", &address, "ls", "/"]).output().unwrap();
    let text = format!(
        "Connecting to {address}\n\nWATCHER::\n\nWatchedEvent state:SyncConnected type:None path:null zxid: \
         -1\n[zookeeper]\n"
    );
    assert_eq!(String::from_utf8(output.stdout).unwrap(), text);
}
