//! The audit log: Apache's lines for the same requests, and what happens without free disk space.

use crate::server_fixture::ServerFixture;
use ox_proto::acl::put_acls;
use ox_proto::multi::MultiOp;
use ox_proto::request::{CreateRequest, PathVersion, SetAclRequest, SetDataRequest};
use ox_proto::{Acl, OpCode, RawAcls};
use ox_testkit::{RawClient, four_letter, wait_until};
use std::fs;
use std::path::Path;

const GOLDEN: &str = include_str!("../../testdata/audit/standalone.txt");

fn set(client: &mut RawClient, path: &str, version: i32) -> i32 {
    let body = SetDataRequest { path: Some(path.into()), data: Some(b"x"), version };
    client.ask(|packet, xid| packet.request(xid, OpCode::SetData, &body)).err
}

fn delete(client: &mut RawClient, path: &str) -> i32 {
    client.ask(|packet, xid| packet.delete(xid, path)).err
}

fn set_acl(client: &mut RawClient, path: &str, acls: &[Acl]) -> i32 {
    let mut bytes = Vec::new();
    put_acls(&mut bytes, acls);
    let acl = RawAcls::from_encoded(&bytes).unwrap();
    let body = SetAclRequest { path: Some(path.into()), acl, version: -1 };
    client.ask(|packet, xid| packet.request(xid, OpCode::SetAcl, &body)).err
}

fn multi(client: &mut RawClient, elements: &[MultiOp<'_>]) {
    client.ask(|packet, xid| packet.multi(xid, elements));
}

fn create_element(path: &str) -> MultiOp<'_> {
    let request = CreateRequest { path: Some(path.into()), data: Some(b""), acl: RawAcls::OPEN, flags: 0 };
    MultiOp::Create(OpCode::Create, request)
}

fn delete_element(path: &str) -> MultiOp<'_> {
    MultiOp::Delete(PathVersion { path: Some(path.into()), version: -1 })
}

/// The requests of the recording.
fn run_recorded_requests(server: &ServerFixture) {
    let mut client = server.client();
    let world = Acl::new(31, "world", "anyone");
    for (path, flags) in [("/aud", 0), ("/aud", 0), ("/aud/s-", 2), ("/aud/e", 1), ("/aud/es-", 3), ("/nope/x", 0)] {
        client.create_as(path, flags);
    }
    assert_eq!(
        [set(&mut client, "/aud", -1), set(&mut client, "/aud", 7), set(&mut client, "/missing", -1)],
        [0, -103, -101]
    );
    assert_eq!(set_acl(&mut client, "/aud", std::slice::from_ref(&world)), 0);
    let bob = Acl::new(31, "digest", "bob:ikIaKsbtGweaHnb/jKn7OHqbunM=");
    assert_eq!(set_acl(&mut client, "/aud", &[Acl::new(1, "world", "anyone"), bob]), 0);
    client.ask(|packet, xid| packet.auth(xid, "digest", b"bob:pw"));
    assert_eq!(set(&mut client, "/aud", -1), 0);
    assert_eq!(set_acl(&mut client, "/aud", std::slice::from_ref(&world)), 0);
    let set_element = MultiOp::SetData(SetDataRequest { path: Some("/aud".into()), data: Some(b"y"), version: -1 });
    multi(&mut client, &[create_element("/aud/m1"), set_element, delete_element("/aud/m1")]);
    multi(&mut client, &[create_element("/aud/m2"), delete_element("/missing")]);
    assert_eq!([delete(&mut client, "/aud"), delete(&mut client, "/missing")], [-111, -101]);
    client.close();
    let mut client = server.client();
    assert_eq!([delete(&mut client, "/aud/s-0000000000"), delete(&mut client, "/aud")], [0, 0]);
}

/// Level and message, without what differs between runs: the session, and the user of the process.
fn comparable(line: &str) -> String {
    let fields = line.split('\t').filter(|field| !field.contains("session=0x"));
    let fields: Vec<&str> = fields.map(|field| if is_server_user(field) { "user=SERVER" } else { field }).collect();
    fields.join("\t")
}

fn is_server_user(field: &str) -> bool {
    field.starts_with("user=") && !field.contains("127.0.0.1")
}

/// The lines of an audit file, in the form of the recordings.
fn recorded(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap();
    text.lines()
        .map(|line| {
            let (head, message) = line.split_once(" audit.Slf4jAuditLogger: ").unwrap_or_else(|| panic!("{line}"));
            format!("{}\t{message}", head.rsplit(' ').next().unwrap())
        })
        .collect()
}

#[test]
fn audit_lines_are_those_of_apache() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("audit.log");
    let mut server = ServerFixture::with(&format!("audit.enable=true\noxkeeper.audit.file={}\n", path.display()));
    run_recorded_requests(&server);
    server.stop().unwrap();
    let mut ours = recorded(&path);
    assert_eq!(comparable(&ours.remove(0)), "INFO\tuser=SERVER\toperation=serverStart\tresult=success");
    assert_eq!(comparable(&ours.pop().unwrap()), "INFO\tuser=SERVER\toperation=serverStop\tresult=invoked");
    let ours: Vec<String> = ours.iter().map(|line| comparable(line)).collect();
    let golden = GOLDEN.lines().filter(|line| !line.starts_with('#')).map(comparable);
    assert_eq!(ours, golden.collect::<Vec<_>>());
}

#[test]
fn json_lines_have_one_object_each() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("audit.log");
    let settings = format!("audit.enable=true\noxkeeper.audit.format=json\noxkeeper.audit.file={}\n", path.display());
    let mut server = ServerFixture::with(&settings);
    let mut client = server.client();
    client.create("/a", b"");
    client.create("/bad\nname", b"");
    server.stop().unwrap();
    let text = fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 4, "{text}");
    assert!(lines.iter().all(|line| line.starts_with("{\"time\":\"") && line.ends_with("\"}")), "{text}");
    assert!(
        lines[1]
            .contains("\"operation\":\"create\",\"znode\":\"/a\",\"znode_type\":\"persistent\",\"result\":\"success\"")
    );
    assert!(lines[2].contains("\"znode\":\"/bad\\nname\"") && lines[2].contains("\"level\":\"ERROR\""), "{text}");
}

/// `/dev/full` refuses every write, as a full disk does.
#[test]
fn full_disk_drops_events_and_counts_them_while_requests_are_served() {
    let server = ServerFixture::with("audit.enable=true\noxkeeper.audit.file=/dev/full\n4lw.commands.whitelist=mntr\n");
    let mut client = server.client();
    for number in 0..100 {
        assert_eq!(client.create(&format!("/n{number}"), b"").err, 0);
    }
    let dropped = || {
        let text = four_letter(server.address(), "mntr").unwrap();
        text.lines().find_map(|line| line.strip_prefix("zk_audit_events_dropped\t")).unwrap().parse::<u64>().unwrap()
    };
    wait_until("all events are counted", || dropped() == 101);
}

#[test]
fn audit_file_that_cannot_be_opened_stops_the_start() {
    let error =
        ServerFixture::try_start("audit.enable=true\noxkeeper.audit.file=/nonexistent/audit.log\n", "").unwrap_err();
    assert!(error.to_string().starts_with("cannot write the audit log /nonexistent/audit.log: "), "{error}");
}
