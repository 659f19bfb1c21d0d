//! The permission that each operation needs, and a check of a running server against it (S14).
//!
//! The match over all operations has no default: a new operation without a row fails the build of the tests.

use crate::packet::RawPacket;
use crate::raw_client::RawClient;
use ox_proto::OpCode;
use ox_proto::acl::{Acl, RawAcls, perms, put_acls};
use ox_proto::multi::MultiOp;
use ox_proto::request::{CreateRequest, CreateTtlRequest, PathVersion, PathWatch, SetAclRequest, SetDataRequest};
use std::net::SocketAddr;

/// What a client needs for an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NeededPermission {
    /// Any of these bits, on the node of the request.
    Node(i32),
    /// Any of these bits, on the parent of that node.
    Parent(i32),
    /// What each operation inside needs.
    OfElements,
    /// Nothing: the reply has no contents of nodes, and events of watches are filtered when they fire.
    Nothing,
    /// Write permission on the node of the configuration.
    Configuration,
    /// Clients may not use it at all.
    Refused,
}

/// The row of an operation.
pub fn needed_permission(op: OpCode) -> NeededPermission {
    use NeededPermission as N;
    match op {
        OpCode::Create | OpCode::Create2 | OpCode::CreateContainer | OpCode::CreateTtl => N::Parent(perms::CREATE),
        OpCode::Delete => N::Parent(perms::DELETE),
        OpCode::SetData => N::Node(perms::WRITE),
        OpCode::SetAcl => N::Node(perms::ADMIN),
        OpCode::GetAcl => N::Node(perms::READ | perms::ADMIN),
        OpCode::GetData | OpCode::GetChildren | OpCode::GetChildren2 | OpCode::GetAllChildrenNumber | OpCode::Check => {
            N::Node(perms::READ)
        }
        OpCode::Multi | OpCode::MultiRead => N::OfElements,
        OpCode::Reconfig => N::Configuration,
        OpCode::Exists
        | OpCode::Sync
        | OpCode::Ping
        | OpCode::CheckWatches
        | OpCode::RemoveWatches
        | OpCode::SetWatches
        | OpCode::SetWatches2
        | OpCode::AddWatch
        | OpCode::GetEphemerals
        | OpCode::WhoAmI
        | OpCode::Auth
        | OpCode::Sasl
        | OpCode::CloseSession => N::Nothing,
        OpCode::CreateSession | OpCode::Error | OpCode::DeleteContainer => N::Refused,
    }
}

/// How an operation reaches the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Carrier {
    Single,
    Multi,
    MultiRead,
}

const NO_AUTH: i32 = -102;
const BITS: [i32; 5] = [perms::READ, perms::WRITE, perms::CREATE, perms::DELETE, perms::ADMIN];

/// Tries each operation with each permission alone, as a request and inside the requests that can contain it, and compares
/// the result with the table. Needs `extendedTypesEnabled=true`.
pub fn check_permissions(address: SocketAddr) {
    let mut owner = RawClient::open(address, 20_000);
    assert_eq!(owner.ask(|packet, xid| packet.auth(xid, "digest", b"owner:pw")).err, 0);
    let mut number = 0;
    for op in OpCode::ALL.iter().copied() {
        for carrier in [Carrier::Single, Carrier::Multi, Carrier::MultiRead] {
            for granted in BITS {
                number += 1;
                let node = format!("/permissions-{number}");
                create_granting(&mut owner, &node, granted);
                create_granting(&mut owner, &format!("{node}/child"), perms::ALL);
                let mut client = RawClient::open(address, 20_000);
                if let Some((needed, code)) = attempt(&mut client, op, carrier, &node) {
                    let is_refused = needed & granted == 0;
                    assert_eq!(code == NO_AUTH, is_refused, "{op:?} in {carrier:?} with {granted}: {code}");
                }
                client.close();
            }
        }
    }
}

/// Creates a node on which anyone has only the given permissions, and the owner all.
fn create_granting(owner: &mut RawClient, path: &str, granted: i32) {
    let mut acl = Vec::new();
    put_acls(&mut acl, &[Acl::new(perms::ALL, "auth", ""), Acl::new(granted, "world", "anyone")]);
    assert_eq!(owner.ask(|packet, xid| packet.create_with_acl(xid, path, &acl)).err, 0, "{path}");
}

/// Executes an operation. Returns the bits that it needs on `node`, and its error code; `None` if it needs none, or the
/// carrier cannot contain it.
fn attempt(client: &mut RawClient, op: OpCode, carrier: Carrier, node: &str) -> Option<(i32, i32)> {
    let (needed, path) = match needed_permission(op) {
        NeededPermission::Node(bits) => (bits, node.to_owned()),
        NeededPermission::Parent(bits) if op == OpCode::Delete => (bits, format!("{node}/child")),
        NeededPermission::Parent(bits) => (bits, format!("{node}/new")),
        NeededPermission::OfElements
        | NeededPermission::Nothing
        | NeededPermission::Configuration
        | NeededPermission::Refused => return None,
    };
    let reply = match carrier {
        // Alone, a check is not a request of clients.
        Carrier::Single if op == OpCode::Check => return None,
        Carrier::Single => client.ask(|packet, xid| single(packet, xid, op, &path)),
        Carrier::Multi => {
            let element = element(op, &path).filter(|element| !is_read(element))?;
            client.ask(|packet, xid| packet.multi(xid, &[element]))
        }
        Carrier::MultiRead => {
            let element = element(op, &path).filter(is_read)?;
            client.ask(|packet, xid| packet.multi_as(xid, OpCode::MultiRead, &[element]))
        }
    };
    let has_code = carrier != Carrier::Single && reply.body.windows(4).any(|word| word == NO_AUTH.to_be_bytes());
    Some((needed, if has_code { NO_AUTH } else { reply.err }))
}

fn single(packet: RawPacket, xid: i32, op: OpCode, path: &str) -> RawPacket {
    match element(op, path) {
        Some(MultiOp::Create(op, request)) => packet.request(xid, op, &request),
        Some(MultiOp::CreateTtl(request)) => packet.request(xid, op, &request),
        Some(MultiOp::Delete(request) | MultiOp::Check(request)) => packet.request(xid, op, &request),
        Some(MultiOp::SetData(request)) => packet.request(xid, op, &request),
        Some(MultiOp::GetData(request) | MultiOp::GetChildren(request)) => packet.request(xid, op, &request),
        None if op == OpCode::SetAcl => {
            let request = SetAclRequest { path: Some(path.into()), acl: RawAcls::OPEN, version: -1 };
            packet.request(xid, op, &request)
        }
        None if op == OpCode::GetChildren2 => packet.read(xid, op, path, false),
        None => packet.of_path(xid, op, path),
    }
}

/// The operation as an element of a multi or multiRead, if it can be one.
fn element(op: OpCode, path: &str) -> Option<MultiOp<'_>> {
    let path = Some(path.into());
    let create = |path, flags| {
        let request = CreateRequest { path, data: None, acl: RawAcls::OPEN, flags };
        Some(MultiOp::Create(op, request))
    };
    #[expect(clippy::wildcard_enum_match_arm, reason = "no other operation is an element")]
    match op {
        OpCode::Create => create(path, 0),
        OpCode::Create2 => create(path, 1),
        OpCode::CreateContainer => create(path, 4),
        OpCode::CreateTtl => {
            let request = CreateTtlRequest { path, data: None, acl: RawAcls::OPEN, flags: 5, ttl_ms: 9 };
            Some(MultiOp::CreateTtl(request))
        }
        OpCode::Delete => Some(MultiOp::Delete(PathVersion { path, version: -1 })),
        OpCode::SetData => Some(MultiOp::SetData(SetDataRequest { path, data: None, version: -1 })),
        OpCode::Check => Some(MultiOp::Check(PathVersion { path, version: -1 })),
        OpCode::GetData => Some(MultiOp::GetData(PathWatch { path, watch: false })),
        OpCode::GetChildren => Some(MultiOp::GetChildren(PathWatch { path, watch: false })),
        _ => None,
    }
}

fn is_read(element: &MultiOp<'_>) -> bool {
    matches!(element, MultiOp::GetData(_) | MultiOp::GetChildren(_))
}
