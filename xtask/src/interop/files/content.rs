//! The content of the test directories: every kind of node and transaction that the files can contain.

use std::net::SocketAddr;

use anyhow::{Context, Result, bail, ensure};
use ox_proto::acl::{Acl, RawAcls, perms, put_acls};
use ox_proto::multi::{MultiHeader, MultiOp};
use ox_proto::request::{CreateRequest, CreateTtlRequest, PathVersion, PathWatch, SetAclRequest, SetDataRequest, Text};
use ox_proto::{DecodeError, ErrorCode, Jute, OpCode, Reader, Stat};

use crate::interop::wire::{Reply, WireClient};

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
pub(super) fn authenticate(client: &mut WireClient) -> Result<()> {
    client.auth("digest", "super:test")?;
    client.auth("digest", "bob:pw")
}

/// Writes all kinds of transactions to an empty server.
pub(super) fn write(client: &mut WireClient, server: SocketAddr) -> Result<()> {
    write_many(client)?;
    write_kinds(client)?;
    write_acls(client)?;
    write_multi(client)?;
    write_quota(client)?;
    // A second session that is closed, so that its ephemeral nodes are deleted.
    let mut other = WireClient::connect(server)?;
    create(&mut other, "/kinds/of-other", Some(b""), mode::EPHEMERAL)?;
    other.close()
}

/// Continues to write on the second server. Sequential nodes must continue the numbering of the first.
pub(super) fn write_more(client: &mut WireClient) -> Result<()> {
    let path = create(client, "/kinds/s-", Some(b"after"), mode::SEQUENTIAL)?;
    ensure!(path == "/kinds/s-0000000009", "the next sequential node is {path}");
    set(client, "/many/n7", b"after the change")?;
    delete(client, "/many/n8")?;
    create(client, "/kinds/second-ephemeral", Some(b""), mode::EPHEMERAL)?;
    (0..MANY / 3).try_for_each(|i| create(client, &format!("/many/after-{i}"), Some(b""), mode::PERSISTENT).map(drop))
}

/// Prefix of the nodes whose records are lost by the damage.
pub(super) const LOST: &str = "/lost-";

/// Writes the nodes that the damage of the log will remove.
pub(super) fn write_lost(client: &mut WireClient) -> Result<()> {
    (0..5).try_for_each(|i| create(client, &format!("{LOST}{i}"), Some(b"damaged"), mode::PERSISTENT).map(drop))
}

/// Checks that the session owns its ephemeral nodes, and that closing it deletes them.
pub(super) fn check_ephemerals(mut client: WireClient, server: SocketAddr) -> Result<()> {
    let paths = ["/kinds/ephemeral", "/kinds/second-ephemeral"];
    let session = client.session_handle().session;
    for path in paths {
        let stat: Stat = exists(&mut client, path)?.body().with_context(|| path.to_owned())?.get()?;
        ensure!(stat.ephemeral_owner == session.0, "{path} is not owned by its session");
    }
    client.close()?;
    let mut other = WireClient::connect(server)?;
    paths.iter().try_for_each(|path| expect_error(&exists(&mut other, path)?, ErrorCode::NoNode))
}

fn write_many(client: &mut WireClient) -> Result<()> {
    create(client, "/many", None, mode::PERSISTENT)?;
    for i in 0..MANY {
        create(client, &format!("/many/n{i}"), Some(i.to_string().as_bytes()), mode::PERSISTENT)?;
    }
    for i in (0..MANY).step_by(3) {
        set(client, &format!("/many/n{i}"), b"changed")?;
    }
    for i in (0..MANY).step_by(10) {
        delete(client, &format!("/many/n{i}"))?;
    }
    // A node that was deleted and created again has a new czxid.
    create(client, "/many/n10", Some(b"again"), mode::PERSISTENT).map(drop)
}

fn write_kinds(client: &mut WireClient) -> Result<()> {
    create(client, "/kinds", Some(b""), mode::PERSISTENT)?;
    create(client, "/kinds/null", None, mode::PERSISTENT)?;
    create(client, "/kinds/empty", Some(b""), mode::PERSISTENT)?;
    create(client, "/kinds/large", Some(&vec![0xa5; 700_000]), mode::PERSISTENT)?;
    create(client, "/kinds/żółw 亀", Some("żółw 亀".as_bytes()), mode::PERSISTENT)?;
    create(client, "/kinds/s-", Some(b""), mode::SEQUENTIAL)?;
    create(client, "/kinds/ephemeral", Some(b"mine"), mode::EPHEMERAL)?;
    create_with(client, OpCode::CreateContainer, "/kinds/container", mode::CONTAINER)?;
    create(client, "/kinds/container/child", Some(b""), mode::PERSISTENT)?;
    let ttl = CreateTtlRequest {
        path: Some("/kinds/ttl".into()),
        data: Some(b"ttl"),
        acl: RawAcls::OPEN,
        flags: mode::TTL,
        ttl_ms: TTL_MS,
    };
    client.call(OpCode::CreateTtl, &ttl)?.body().context("create /kinds/ttl")?;
    // Refused writes are logged as error transactions.
    expect_error(&create_reply(client, "/kinds/empty", None, mode::PERSISTENT)?, ErrorCode::NodeExists)?;
    expect_error(&delete_reply(client, "/kinds")?, ErrorCode::NotEmpty)
}

fn write_acls(client: &mut WireClient) -> Result<()> {
    create(client, "/acls", Some(b""), mode::PERSISTENT)?;
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
        create(client, &path, Some(b""), mode::PERSISTENT)?;
        let mut encoded = Vec::new();
        put_acls(&mut encoded, list);
        let request =
            SetAclRequest { path: Some(path.as_str().into()), acl: RawAcls::from_encoded(&encoded)?, version: 0 };
        client.call(OpCode::SetAcl, &request)?.body().with_context(|| format!("set the ACL of {path}"))?;
    }
    Ok(())
}

fn write_multi(client: &mut WireClient) -> Result<()> {
    create(client, "/multi", Some(b""), mode::PERSISTENT)?;
    let create_op = |path: &'static str, flags| {
        let request = CreateRequest { path: Some(path.into()), data: Some(b"m"), acl: RawAcls::OPEN, flags };
        MultiOp::Create(OpCode::Create2, request)
    };
    let set_op = |path: &'static str, version| {
        MultiOp::SetData(SetDataRequest { path: Some(path.into()), data: Some(b"set"), version })
    };
    let successful = Multi(vec![
        create_op("/multi/a", mode::PERSISTENT),
        create_op("/multi/s-", mode::SEQUENTIAL),
        create_op("/multi/gone", mode::PERSISTENT),
        set_op("/multi/a", 0),
        MultiOp::Check(PathVersion { path: Some("/multi/a".into()), version: 1 }),
        MultiOp::Delete(PathVersion { path: Some("/multi/gone".into()), version: -1 }),
    ]);
    ensure!(client.call(OpCode::Multi, &successful)?.body()?.get::<MultiHeader>()?.err == 0, "the multi failed");
    let failed = Multi(vec![create_op("/multi/b", mode::PERSISTENT), set_op("/multi/a", 7)]);
    // All results of a failed multi are errors, those before the failed operation with code 0.
    ensure!(client.call(OpCode::Multi, &failed)?.body()?.get::<MultiHeader>()?.op == -1, "the multi did not fail");
    Ok(())
}

fn write_quota(client: &mut WireClient) -> Result<()> {
    create(client, "/zookeeper/quota/many", Some(b""), mode::PERSISTENT)?;
    let limits = b"count=100000,bytes=100000000";
    create(client, "/zookeeper/quota/many/zookeeper_limits", Some(limits), mode::PERSISTENT)?;
    create(client, "/zookeeper/quota/many/zookeeper_stats", Some(b""), mode::PERSISTENT)?;
    create(client, "/many/counted", Some(b"12345"), mode::PERSISTENT).map(drop)
}

/// The operations of a multi request, which are only encoded.
struct Multi(Vec<MultiOp<'static>>);

impl<'a> Jute<'a> for Multi {
    fn get(_: &mut Reader<'a>) -> Result<Self, DecodeError> {
        unreachable!("a multi is never received")
    }

    fn put(&self, out: &mut Vec<u8>) {
        self.0.iter().for_each(|op| op.put(out));
        MultiHeader::END.put(out);
    }
}

/// Creates a node and returns its path with the sequence number.
fn create(client: &mut WireClient, path: &str, data: Option<&[u8]>, flags: i32) -> Result<String> {
    let reply = create_reply(client, path, data, flags)?;
    let created: Text<'_> = reply.body().with_context(|| format!("create {path}"))?.get()?;
    Ok(created.context("the reply has no path")?.into_owned())
}

fn create_reply(client: &mut WireClient, path: &str, data: Option<&[u8]>, flags: i32) -> Result<Reply> {
    client.call(OpCode::Create, &CreateRequest { path: Some(path.into()), data, acl: RawAcls::OPEN, flags })
}

fn create_with(client: &mut WireClient, op: OpCode, path: &str, flags: i32) -> Result<()> {
    let request = CreateRequest { path: Some(path.into()), data: Some(b""), acl: RawAcls::OPEN, flags };
    client.call(op, &request)?.body().map(drop).with_context(|| format!("create {path}"))
}

fn set(client: &mut WireClient, path: &str, data: &[u8]) -> Result<()> {
    let request = SetDataRequest { path: Some(path.into()), data: Some(data), version: -1 };
    client.call(OpCode::SetData, &request)?.body().map(drop).with_context(|| format!("set {path}"))
}

fn delete(client: &mut WireClient, path: &str) -> Result<()> {
    delete_reply(client, path)?.body().map(drop).with_context(|| format!("delete {path}"))
}

fn delete_reply(client: &mut WireClient, path: &str) -> Result<Reply> {
    client.call(OpCode::Delete, &PathVersion { path: Some(path.into()), version: -1 })
}

fn exists(client: &mut WireClient, path: &str) -> Result<Reply> {
    client.call(OpCode::Exists, &PathWatch { path: Some(path.into()), watch: false })
}

fn expect_error(reply: &Reply, code: ErrorCode) -> Result<()> {
    if reply.header.err != code.code() {
        bail!("expected {code}, got {}", reply.header.err);
    }
    Ok(())
}
