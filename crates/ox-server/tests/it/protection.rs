//! Requirements of protection that concern a whole server: permissions of all operations, failed logins, weak settings.

use crate::authentication::{login, sasl_server};
use crate::four_letter_client::ALL_COMMANDS;
use crate::server_fixture::ServerFixture;
use crate::tls_client::Certificates;
use ox_proto::Acl;
use ox_proto::acl::put_acls;
use ox_testkit::{RawClient, check_permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::{fs, thread};

/// The super user has the password `secret`.
const SUPER: &str = "DigestAuthenticationProvider.superDigest=super:lK75jTNcA+U9vtVEw5vB51mj/w4=\n";
/// More failures than have no consequence (`FAILED_LOGINS_MAX`), so that none may be forgotten while a test runs.
const GUESSES: usize = 12;

#[test]
fn s14_each_operation_needs_the_permission_of_the_table() {
    check_permissions(ServerFixture::with("extendedTypesEnabled=true\n").address());
}

#[test]
fn s2_weak_settings_are_counted() {
    let weak = |settings: &str| {
        ServerFixture::with(&format!("{ALL_COMMANDS}{settings}")).metric("weak_settings").parse::<i64>().unwrap()
    };
    let none = weak(""); // one if the tests run as root
    assert_eq!(weak("skipACL=yes\n"), none + 1);
    assert_eq!(weak(&format!("skipACL=yes\n{SUPER}")), none + 2);
    assert_eq!(weak("forceSync=no\n"), none + 1);
}

#[test]
fn s12_unified_port_is_a_weak_setting_and_its_plain_connections_are_counted() {
    let certificates = Certificates::new();
    let secure = ServerFixture::with(&format!("{}{ALL_COMMANDS}", certificates.secure_port()));
    let unified = ServerFixture::with(&format!("{}client.portUnification=true\n{ALL_COMMANDS}", certificates.stores()));
    let weak = |server: &ServerFixture| server.metric("weak_settings").parse::<i64>().unwrap();
    assert_eq!(weak(&unified), weak(&secure) + 1);
    let plain = |server: &ServerFixture| server.metric("non_mtls_local_conn_count").parse::<i64>().unwrap();
    let before = plain(&unified);
    certificates.client("alice").open(unified.address());
    assert_eq!(plain(&unified), before + 1, "that of the command itself");
    unified.client();
    assert_eq!(plain(&unified), before + 3);
}

/// A login waits after failures from its address; connections that were open before are served meanwhile.
#[test]
fn s16_logins_wait_after_ten_failures() {
    let (server, _jaas) = sasl_server(ALL_COMMANDS);
    let mut open = server.client();
    for attempt in 0..GUESSES {
        assert_eq!(login(&mut server.client(), "bob", "guess").err, -115, "{attempt}");
    }
    thread::scope(|scope| {
        let waiting = scope.spawn(|| login(&mut server.client(), "bob", "hunter2").err);
        assert_eq!(open.create("/served", b"").err, 0);
        assert_eq!(waiting.join().unwrap(), 0, "it is served after the delay");
    });
    assert!(1 <= server.metric("delayed_connections").parse::<i64>().unwrap());
}

/// Passwords of the super user cannot be tried one after another on one connection.
#[test]
fn s16_super_user_has_one_attempt_per_connection() {
    let server = ServerFixture::with(&format!("{ALL_COMMANDS}{SUPER}"));
    let auth = |client: &mut RawClient, text: &str| {
        client.try_ask(|packet, xid| packet.auth(xid, "digest", text.as_bytes())).map(|reply| reply.err).ok()
    };
    let mut client = server.client();
    assert_eq!(auth(&mut client, "bob:one"), Some(0));
    assert_eq!(auth(&mut client, "bob:two"), Some(0), "other users may have several passwords");
    assert_eq!(auth(&mut client, "super:wrong"), Some(0), "as in Apache");
    assert_eq!(auth(&mut client, "super:wrong"), Some(0), "the same again is no attempt");
    assert_eq!(auth(&mut client, "super:secret"), Some(0), "the right one is accepted");
    let mut client = server.client();
    assert_eq!(auth(&mut client, "super:wrong"), Some(0));
    assert_eq!(auth(&mut client, "super:wronger"), Some(-115));
    assert!(client.try_ask(|packet, _| packet.ping()).is_err(), "the connection is closed");
    for _ in 0..GUESSES {
        auth(&mut server.client(), "super:guess");
    }
    assert!(1 <= server.metric("delayed_connections").parse::<i64>().unwrap());
}

#[test]
fn s19_super_user_exists_only_if_configured_and_is_audited() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("audit.log");
    let audit = format!("audit.enable=true\noxkeeper.audit.file={}\n", file.display());
    let mut acl = Vec::new();
    put_acls(&mut acl, &[Acl::new(31, "digest", "bob:ikIaKsbtGweaHnb/jKn7OHqbunM=")]);
    for (settings, expected) in [("", -102), (SUPER, 0)] {
        let mut server = ServerFixture::with(&format!("{audit}{settings}"));
        let mut client = server.client();
        assert_eq!(client.ask(|packet, xid| packet.create_with_acl(xid, "/bobs", &acl)).err, 0);
        assert_eq!(client.ask(|packet, xid| packet.auth(xid, "digest", b"super:secret")).err, 0);
        assert_eq!(client.create("/bobs/by-super", b"").err, expected);
        server.stop().unwrap();
    }
    let text = fs::read_to_string(&file).unwrap();
    let results: Vec<&str> = text.lines().filter(|line| line.contains("znode=/bobs/by-super\t")).collect();
    assert_eq!(results.len(), 2, "{text}");
    assert!(results.iter().all(|line| line.contains("\tuser=super,127.0.0.1\t")), "{text}");
    assert!(results[0].ends_with("result=failure") && results[1].ends_with("result=success"), "{text}");
}

#[test]
fn s20_links_among_the_data_files_stop_the_start_and_open_directories_are_counted() {
    let mut server = ServerFixture::with(ALL_COMMANDS);
    server.client().create("/a", b"");
    let data = server.dir().join("version-2");
    for path in fs::read_dir(&data).unwrap().map(|entry| entry.unwrap().path()).chain([data.clone()]) {
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o077, 0, "{}", path.display());
    }
    let weak: i64 = server.metric("weak_settings").parse().unwrap();
    fs::set_permissions(&data, fs::Permissions::from_mode(0o755)).unwrap();
    server.restart();
    assert_eq!(server.metric("weak_settings").parse::<i64>().unwrap(), weak + 1);
    server.stop().unwrap();
    symlink("/dev/null", data.join("snapshot.ffff")).unwrap();
    let error = server.try_begin().unwrap_err();
    assert!(error.to_string().contains("snapshot.ffff is a symbolic link"), "{error}");
    assert_eq!(error.exit_code(), 3);
}
