//! The content of the test directories: every kind of node and transaction that the files can contain.

use super::SESSION_MS;
use ox_proto::acl::{Acl, RawAcls, perms, put_acls};
use ox_proto::multi::{MultiHeader, MultiOp};
use ox_proto::request::{CreateRequest, CreateTtlRequest, PathVersion, SetAclRequest, SetDataRequest};
use ox_proto::{ErrorCode, OpCode};
use ox_testkit::{RawClient, RawPacket, RawReply};
use std::net::SocketAddr;

/// Values of `CreateRequest::flags`, as in Apache's `CreateMode`.
mod mode {
    pub(super) const PERSISTENT: i32 = 0;
    pub(super) const EPHEMERAL: i32 = 1;
    pub(super) const SEQUENTIAL: i32 = 2;
    pub(super) const CONTAINER: i32 = 4;
    pub(super) const TTL: i32 = 5;
}

/// Children of the node with the most children: enough for several snapshots.
const MANY: usize = 300;
/// Longer than any test.
const TTL_MS: i64 = 3_600_000;

/// Adds the identities that may read and write all nodes.
pub(super) fn authenticate(client: &mut RawClient) {
    for credentials in ["super:test", "bob:pw"] {
        ask(client, "auth", |packet, _| packet.auth(ox_proto::request::xid::AUTH, "digest", credentials.as_bytes()));
    }
}

/// Writes all kinds of transactions to an empty server.
pub(super) fn write(client: &mut RawClient, server: SocketAddr) {
    write_many(client);
    write_kinds(client);
    write_acls(client);
    write_multi(client);
    write_quota(client);
    // A second session that is closed, so that its ephemeral nodes are deleted.
    let mut other = RawClient::open(server, SESSION_MS);
    create(&mut other, "/kinds/of-other", Some(b""), mode::EPHEMERAL);
    other.close();
}

/// Continues to write on the second server. Sequential nodes must continue the numbering of the first.
pub(super) fn write_more(client: &mut RawClient) {
    let path = create(client, "/kinds/s-", Some(b"after"), mode::SEQUENTIAL).path();
    assert_eq!(path, "/kinds/s-0000000009", "the next sequential node");
    set(client, "/many/n7", b"after the change");
    delete(client, "/many/n8");
    create(client, "/kinds/second-ephemeral", Some(b""), mode::EPHEMERAL);
    for i in 0..MANY / 3 {
        create(client, &format!("/many/after-{i}"), Some(b""), mode::PERSISTENT);
    }
}

/// Prefix of the nodes whose records are lost by the damage.
pub(super) const LOST: &str = "/lost-";

/// Writes the nodes that the damage of the log will remove.
pub(super) fn write_lost(client: &mut RawClient) {
    for i in 0..5 {
        create(client, &format!("{LOST}{i}"), Some(b"damaged"), mode::PERSISTENT);
    }
}

/// Checks that the session owns its ephemeral nodes, and that closing it deletes them.
pub(super) fn check_ephemerals(mut client: RawClient, server: SocketAddr) {
    let paths = ["/kinds/ephemeral", "/kinds/second-ephemeral"];
    for path in paths {
        let owner = client.exists(path).stat().ephemeral_owner;
        assert_eq!(owner, client.session().0, "{path} is owned by its session");
    }
    client.close();
    let mut other = RawClient::open(server, SESSION_MS);
    paths.iter().for_each(|path| expect_error(&other.exists(path), ErrorCode::NoNode));
}

fn write_many(client: &mut RawClient) {
    create(client, "/many", None, mode::PERSISTENT);
    for i in 0..MANY {
        create(client, &format!("/many/n{i}"), Some(i.to_string().as_bytes()), mode::PERSISTENT);
    }
    for i in (0..MANY).step_by(3) {
        set(client, &format!("/many/n{i}"), b"changed");
    }
    for i in (0..MANY).step_by(10) {
        delete(client, &format!("/many/n{i}"));
    }
    // A node that was deleted and created again has a new czxid.
    create(client, "/many/n10", Some(b"again"), mode::PERSISTENT);
}

fn write_kinds(client: &mut RawClient) {
    create(client, "/kinds", Some(b""), mode::PERSISTENT);
    create(client, "/kinds/null", None, mode::PERSISTENT);
    create(client, "/kinds/empty", Some(b""), mode::PERSISTENT);
    create(client, "/kinds/large", Some(&vec![0xa5; 700_000]), mode::PERSISTENT);
    create(client, "/kinds/żółw 亀", Some("żółw 亀".as_bytes()), mode::PERSISTENT);
    create(client, "/kinds/s-", Some(b""), mode::SEQUENTIAL);
    create(client, "/kinds/ephemeral", Some(b"mine"), mode::EPHEMERAL);
    let container = request("/kinds/container", Some(b""), mode::CONTAINER);
    ask(client, "create a container", |packet, xid| packet.request(xid, OpCode::CreateContainer, &container));
    create(client, "/kinds/container/child", Some(b""), mode::PERSISTENT);
    let ttl = CreateTtlRequest {
        path: Some("/kinds/ttl".into()),
        data: Some(b"ttl"),
        acl: RawAcls::OPEN,
        flags: mode::TTL,
        ttl_ms: TTL_MS,
    };
    ask(client, "create /kinds/ttl", |packet, xid| packet.request(xid, OpCode::CreateTtl, &ttl));
    // Refused writes are logged as error transactions.
    expect_error(&client.create("/kinds/empty", b""), ErrorCode::NodeExists);
    expect_error(&client.ask(|packet, xid| packet.delete(xid, "/kinds")), ErrorCode::NotEmpty);
}

fn write_acls(client: &mut RawClient) {
    create(client, "/acls", Some(b""), mode::PERSISTENT);
    let digest = "bob:ikIaKsbtGweaHnb/jKn7OHqbunM=";
    let lists = [
        vec![Acl::new(perms::ALL, "digest", digest)],
        vec![Acl::new(perms::ALL, "auth", "")],
        vec![Acl::new(perms::ALL, "ip", "127.0.0.0/8"), Acl::new(perms::READ, "world", "anyone")],
        vec![Acl::new(0, "world", "anyone")],
        vec![Acl::new(perms::CREATE | perms::DELETE, "digest", "carol:x"), Acl::new(perms::ADMIN, "digest", digest)],
    ];
    for (i, list) in lists.iter().enumerate() {
        let path = format!("/acls/{i}");
        create(client, &path, Some(b""), mode::PERSISTENT);
        let mut encoded = Vec::new();
        put_acls(&mut encoded, list);
        let acl = RawAcls::from_encoded(&encoded).expect("just encoded");
        let request = SetAclRequest { path: Some(path.as_str().into()), acl, version: 0 };
        ask(client, &format!("set the ACL of {path}"), |packet, xid| packet.request(xid, OpCode::SetAcl, &request));
    }
}

fn write_multi(client: &mut RawClient) {
    create(client, "/multi", Some(b""), mode::PERSISTENT);
    let create_op = |path: &'static str, flags| MultiOp::Create(OpCode::Create2, request(path, Some(b"m"), flags));
    let set_op = |path: &'static str, version| {
        MultiOp::SetData(SetDataRequest { path: Some(path.into()), data: Some(b"set"), version })
    };
    let successful = [
        create_op("/multi/a", mode::PERSISTENT),
        create_op("/multi/s-", mode::SEQUENTIAL),
        create_op("/multi/gone", mode::PERSISTENT),
        set_op("/multi/a", 0),
        MultiOp::Check(PathVersion { path: Some("/multi/a".into()), version: 1 }),
        MultiOp::Delete(PathVersion { path: Some("/multi/gone".into()), version: -1 }),
    ];
    let mut first_header = |elements: &[MultiOp<'_>]| -> MultiHeader {
        let reply = ask(client, "multi", |packet, xid| packet.multi(xid, elements));
        reply.ok().and_then(|mut body| body.get().map_err(|_| -1)).expect("a header")
    };
    assert_eq!(first_header(&successful).err, 0, "the multi succeeds");
    // All results of a failed multi are errors, those before the failed operation with code 0.
    let failed = [create_op("/multi/b", mode::PERSISTENT), set_op("/multi/a", 7)];
    assert_eq!(first_header(&failed).op, -1, "the multi fails");
}

fn write_quota(client: &mut RawClient) {
    create(client, "/zookeeper/quota/many", Some(b""), mode::PERSISTENT);
    let limits = b"count=100000,bytes=100000000";
    create(client, "/zookeeper/quota/many/zookeeper_limits", Some(limits), mode::PERSISTENT);
    create(client, "/zookeeper/quota/many/zookeeper_stats", Some(b""), mode::PERSISTENT);
    create(client, "/many/counted", Some(b"12345"), mode::PERSISTENT);
}

fn request<'a>(path: &'a str, data: Option<&'a [u8]>, flags: i32) -> CreateRequest<'a> {
    CreateRequest { path: Some(path.into()), data, acl: RawAcls::OPEN, flags }
}

/// Sends a request that must succeed.
fn ask(client: &mut RawClient, what: &str, request: impl FnOnce(RawPacket, i32) -> RawPacket) -> RawReply {
    let reply = client.ask(request);
    assert_eq!(reply.err, 0, "{what}");
    reply
}

fn create(client: &mut RawClient, path: &str, data: Option<&[u8]>, flags: i32) -> RawReply {
    let body = request(path, data, flags);
    ask(client, &format!("create {path}"), |packet, xid| packet.request(xid, OpCode::Create, &body))
}

fn set(client: &mut RawClient, path: &str, data: &[u8]) {
    ask(client, &format!("set {path}"), |packet, xid| packet.set(xid, path, data));
}

fn delete(client: &mut RawClient, path: &str) {
    ask(client, &format!("delete {path}"), |packet, xid| packet.delete(xid, path));
}

fn expect_error(reply: &RawReply, code: ErrorCode) {
    assert_eq!(reply.err, code.code(), "expected {code}");
}
