//! Malformed input, and requests that crash other servers.

use crate::server_fixture::{ServerFixture, TIMEOUT_MS};
use ox_proto::acl::put_acls;
use ox_proto::multi::MultiOp;
use ox_proto::request::{CreateRequest, CreateTtlRequest, PathVersion, SetDataRequest};
use ox_proto::{Acl, OpCode, RawAcls};
use ox_testkit::{RawClient, RawHandshake, RawPacket, Rng};

/// Checks that the server still serves clients.
fn check_alive(server: &ServerFixture) {
    let mut client = server.client();
    let path = client.create_as("/alive-", 2).path();
    assert_eq!(client.set(&path, b"x").err, 0);
    assert_eq!(client.get(&path).data().unwrap(), b"x");
    assert_eq!(client.ask(|packet, xid| packet.delete(xid, &path)).err, 0);
    client.close();
}

#[test]
fn k162_garbage_of_any_length_does_not_affect_the_server() {
    let server = ServerFixture::start();
    let mut random = Rng::new(1);
    for round in 0..600_usize {
        let length = if round < 300 { round } else { random.index(100_000) };
        let mut bytes: Vec<u8> = (0..length).map(|_| random.byte()).collect();
        let mut raw = server.connect();
        if round % 2 == 0 {
            assert!(raw.handshake(&RawHandshake::new(TIMEOUT_MS)).is_some());
        }
        if round % 3 != 0 && 4 <= length {
            let honest = u32::try_from(length - 4).unwrap();
            bytes[..4].copy_from_slice(&honest.to_be_bytes());
        }
        if raw.try_send(&bytes) {
            raw.finish();
        }
        raw.rest();
    }
    check_alive(&server);
}

/// One valid request of every kind, with bytes changed, cut or added: it gets a reply or is closed.
#[test]
fn k162_mutated_requests_do_not_affect_the_server() {
    let mut server = ServerFixture::with("extendedTypesEnabled=true\nenforceQuota=true\n");
    let mut random = Rng::new(2);
    let templates = templates();
    let mut client = server.client();
    for _ in 0..6000 {
        let (op, body) = random.pick(&templates);
        let mut body = body.clone();
        match random.below(4) {
            0 => body.truncate(random.index(body.len() + 1)),
            1 => body.extend(random.next_u64().to_be_bytes()),
            _ => {
                for _ in 0..=random.below(3) {
                    if !body.is_empty() {
                        let (at, any) = (random.index(body.len()), random.byte());
                        body[at] = *random.pick(&[0, 1, 0x7f, 0x80, 0xff, any]);
                    }
                }
            }
        }
        let xid = i32::try_from(random.between(1, 1000)).unwrap();
        client.raw.try_send(&RawPacket::default().raw(xid, *op, &body).0);
        match client.try_reply() {
            Some(reply) => assert!(reply.xid == xid || reply.xid == -2, "{reply:?} answers {xid}"),
            None => client = server.client(),
        }
    }
    check_alive(&server);
    let digest = state_of(&server);
    server.restart();
    assert_eq!(state_of(&server), digest, "the log can be replayed");
    check_alive(&server);
}

/// Names, data and versions of all nodes, two levels deep.
fn state_of(server: &ServerFixture) -> Vec<(String, Vec<u8>)> {
    let mut client = RawClient::open(server.address(), TIMEOUT_MS);
    let mut seen = Vec::new();
    for name in client.children("/").into_iter().filter(|name| name != "zookeeper" && !name.starts_with("alive")) {
        let path = format!("/{name}");
        let reply = client.get(&path);
        if reply.err == 0 && reply.stat().ephemeral_owner == 0 {
            seen.push((path, reply.body));
        }
    }
    client.close();
    seen
}

fn templates() -> Vec<(i32, Vec<u8>)> {
    let path = || "/fuzz/a".to_owned();
    let packets = [
        RawPacket::default().create(1, "/fuzz", b"data", 0),
        RawPacket::default().create(1, "/fuzz/a", b"data", 3),
        RawPacket::default().create_ttl(1, "/fuzz/t", 5, 1000),
        RawPacket::default().set(1, "/fuzz", b"more"),
        RawPacket::default().delete(1, "/fuzz/a"),
        RawPacket::default().read(1, OpCode::GetData, "/fuzz", true),
        RawPacket::default().read(1, OpCode::GetChildren2, "/fuzz", true),
        RawPacket::default().read(1, OpCode::Exists, "/fuzz/a", true),
        RawPacket::default().of_path(1, OpCode::GetAcl, "/fuzz"),
        RawPacket::default().of_path(1, OpCode::GetEphemerals, "/"),
        RawPacket::default().of_path(1, OpCode::GetAllChildrenNumber, "/"),
        RawPacket::default().add_watch(1, "/fuzz", 1),
        RawPacket::default().auth(1, "digest", b"a:b"),
        RawPacket::default().multi(
            1,
            &[
                MultiOp::Create(
                    OpCode::Create2,
                    CreateRequest { path: Some(path().into()), data: None, acl: RawAcls::OPEN, flags: 2 },
                ),
                MultiOp::Check(PathVersion { path: Some("/fuzz".into()), version: -1 }),
                MultiOp::SetData(SetDataRequest { path: Some("/fuzz".into()), data: Some(b"m"), version: -1 }),
            ],
        ),
        RawPacket::default().create(1, "/zookeeper/quota/fuzz", b"", 0),
        RawPacket::default().create(1, "/zookeeper/quota/fuzz/zookeeper_limits", b"count=5,bytes=50", 0),
        RawPacket::default().create(1, "/zookeeper/quota/fuzz/zookeeper_stats", b"count=1,bytes=1", 0),
        RawPacket::default().set(1, "/zookeeper/quota/fuzz/zookeeper_stats", b"count=1,bytes=1"),
    ];
    let mut templates: Vec<_> = packets
        .iter()
        .map(|packet| (i32::from_be_bytes(packet.0[8..12].try_into().unwrap()), packet.0[12..].to_vec()))
        .collect();
    for op in [
        OpCode::SetAcl,
        OpCode::Reconfig,
        OpCode::SetWatches,
        OpCode::SetWatches2,
        OpCode::CheckWatches,
        OpCode::RemoveWatches,
        OpCode::MultiRead,
        OpCode::Sasl,
        OpCode::WhoAmI,
    ] {
        templates.push((
            op.code(),
            b"\0\0\0\x05/fuzz\0\0\0\x01\0\0\0\x1f\0\0\0\x05world\0\0\0\x06anyone\0\0\0\x01".to_vec(),
        ));
    }
    templates
}

/// Requests that Apache 3.9 logs, crashes of, and cannot recover from.
#[test]
fn k162_requests_that_crash_apache_are_refused() {
    for extended in [false, true] {
        let mut server = ServerFixture::with(&format!("extendedTypesEnabled={extended}\nenforceQuota={extended}\n"));
        let mut client = server.client();
        for flags in 0..=4 {
            let reply = client.ask(|packet, xid| packet.create_ttl(xid, "/ttl", flags, -1));
            assert_eq!(reply.err, -8, "flags {flags}");
        }
        assert_eq!(client.create("/zookeeper/quota/zookeeper_limits", b"count=1").err, -8);
        for path in ["/zookeeper/zookeeper_limits", "/zookeeperX/zookeeper_limits", "/zookeeper/abc/zookeeper_limits"] {
            let parent = path.rsplit_once('/').unwrap().0;
            client.create(parent, b"");
            assert_eq!(client.create_as(path, 1).err, -8, "{path} would go with its session");
            assert_eq!(client.create(path, b"").err, 0, "{path}");
            assert_eq!(client.ask(|packet, xid| packet.delete(xid, path)).err, -8, "{path}");
        }
        for path in ["/q", "/zookeeper/quota/q"] {
            assert_eq!(client.create(path, b"").err, 0);
        }
        client.create("/zookeeper/quota/q/zookeeper_limits", b"count=-1,bytes=-1");
        client.create("/zookeeper/quota/q/zookeeper_stats", b"");
        for stats in [None, Some(&b"nonsense"[..]), Some(b"count=x,bytes=1"), Some(b"")] {
            let body =
                SetDataRequest { path: Some("/zookeeper/quota/q/zookeeper_stats".into()), data: stats, version: -1 };
            let err = if stats == Some(b"") { 0 } else { -8 };
            assert_eq!(client.ask(|packet, xid| packet.request(xid, OpCode::SetData, &body)).err, err, "{stats:?}");
            assert_eq!(client.create("/q/child", b"x").err, 0, "{stats:?}");
            assert_eq!(client.set("/q/child", b"xyz").err, 0, "{stats:?}");
            assert_eq!(client.ask(|packet, xid| packet.delete(xid, "/q/child")).err, 0, "{stats:?}");
        }
        client.close();
        server.restart();
        check_alive(&server);
    }
}

#[test]
fn k162_undecodable_request_uses_no_zxid() {
    let server = ServerFixture::start();
    let mut client = server.client();
    let before = client.ping().zxid;
    for op in [
        OpCode::Create,
        OpCode::Create2,
        OpCode::CreateTtl,
        OpCode::Delete,
        OpCode::SetData,
        OpCode::SetAcl,
        OpCode::GetData,
        OpCode::Exists,
    ] {
        let reply = client.ask(|packet, xid| packet.raw(xid, op.code(), &[0, 0, 0, 9, b'/']));
        assert_eq!((reply.err, reply.zxid), (-5, before), "{op:?}");
    }
    let reply = client.ask(|packet, xid| packet.raw(xid, OpCode::Multi.code(), &[1]));
    assert_eq!((reply.err, reply.zxid), (-5, before + 1), "a multi does");
    assert_eq!(client.ping().zxid, before + 1);
}

#[test]
fn undecodable_authentication_is_closed_without_a_reply() {
    let server = ServerFixture::start();
    for (op, body) in [
        (OpCode::Auth, &[0, 0, 0][..]),
        (OpCode::Auth, &[0, 0, 0, 0, 0, 0, 0, 99]),
        (OpCode::Sasl, &[0xff; 4]),
        (OpCode::Sasl, &[]),
    ] {
        let mut client = server.client();
        client.send(&RawPacket::default().raw(1, op.code(), body));
        assert_eq!(client.try_reply(), None, "{op:?}");
        assert!(server.resume(&client).is_some());
    }
    let mut client = server.client();
    let reply = client.ask(|packet, xid| packet.raw(xid, OpCode::Sasl.code(), &[0, 0, 0, 1, 7]));
    assert_eq!((reply.zxid, reply.err, &reply.body[..]), (0, 0, &[0xff; 4][..]), "no SASL here");
    for scheme in ["sasl", "unknown", "super", "x509", ""] {
        let mut client = server.client();
        client.send(&RawPacket::default().auth(-4, scheme, b"x").ping());
        let reply = client.reply();
        assert_eq!((reply.xid, reply.zxid, reply.err), (-4, 0, -115), "{scheme}");
        assert_eq!(client.try_reply(), None);
    }
}

#[test]
fn identities_of_a_connection_are_bounded() {
    let server = ServerFixture::start();
    let mut client = server.client();
    // Repeating an identity uses no memory.
    let packet = (0..5000).fold(RawPacket::default(), |packet, xid| packet.auth(xid, "digest", b"bob:pw"));
    client.send(&packet);
    for xid in 0..5000 {
        let reply = client.reply();
        assert_eq!((reply.xid, reply.err), (xid, 0));
    }
    let packet =
        (0..255).fold(RawPacket::default(), |packet, xid| packet.auth(xid, "digest", format!("u{xid}:p").as_bytes()));
    client.send(&packet);
    let refused = (0..255).map(|_| client.reply().err).find(|err| *err != 0);
    assert_eq!(refused, Some(-115), "256 are enough, and the address is one of them");
    let mut client = server.client();
    let long = format!("{}:p", "u".repeat(1_000_000));
    assert_eq!(client.ask(|packet, xid| packet.auth(xid, "digest", long.as_bytes())).err, 0);
    let other = format!("{}:p", "v".repeat(1_000_000));
    assert_eq!(
        client.ask(|packet, xid| packet.auth(xid, "digest", other.as_bytes())).err,
        -115,
        "a megabyte is enough"
    );
}

/// `auth` stands for all identities of the connection: entries times identities must not fill the log.
#[test]
fn k151_acl_that_expands_to_too_many_entries_is_refused() {
    let mut server = ServerFixture::start();
    let mut client = server.client();
    for user in 0..200 {
        assert_eq!(client.ask(|packet, xid| packet.auth(xid, "digest", format!("u{user}:p").as_bytes())).err, 0);
    }
    let list = |entries: i32| {
        let mut list = Vec::new();
        put_acls(&mut list, &(0..entries).map(|perms| Acl::new(perms, "auth", "")).collect::<Vec<_>>());
        list
    };
    assert_eq!(client.ask(|packet, xid| packet.create_with_acl(xid, "/some", &list(10))).err, 0);
    let reply = client.ask(|packet, xid| packet.create_with_acl(xid, "/many", &list(20_000)));
    assert!([-5, -114].contains(&reply.err), "{reply:?}");
    assert_eq!(client.exists("/many").err, -101);
    client.close();
    server.restart();
    assert_eq!(server.client().exists("/some").err, -102, "it exists, and is not open to all");
}

#[test]
fn k157_password_hashes_are_shown_only_with_admin_permission() {
    let server = ServerFixture::start();
    let mut owner = server.client();
    owner.ask(|packet, xid| packet.auth(xid, "digest", b"bob:secret"));
    let mut list = Vec::new();
    put_acls(&mut list, &[Acl::new(31, "auth", ""), Acl::new(1, "world", "anyone")]);
    assert_eq!(owner.ask(|packet, xid| packet.create_with_acl(xid, "/a", &list)).err, 0);
    let shown = |client: &mut RawClient| {
        let reply = client.ask(|packet, xid| packet.of_path(xid, OpCode::GetAcl, "/a"));
        assert_eq!(reply.err, 0);
        let acls = reply.body.len() - 68; // the stat after them may contain any byte
        String::from_utf8_lossy(&reply.body[..acls]).into_owned()
    };
    assert!(!shown(&mut owner).contains("bob:x"));
    let text = shown(&mut server.client());
    assert!(text.contains("bob:x") && !text.contains('='), "{text}");
}

/// Every operation that a multi can contain, on nodes that the client has no permission for.
#[test]
fn k158_each_operation_of_a_multi_is_checked_for_permission() {
    let server = ServerFixture::with("extendedTypesEnabled=true\n");
    let mut owner = server.client();
    owner.ask(|packet, xid| packet.auth(xid, "digest", b"bob:secret"));
    let mut list = Vec::new();
    put_acls(&mut list, &[Acl::new(31, "auth", "")]);
    assert_eq!(owner.ask(|packet, xid| packet.create_with_acl(xid, "/private", &list)).err, 0);
    assert_eq!(owner.create("/private/child", b"").err, 0);
    let path = |path: &'static str| Some(path.into());
    let create = |op, flags| {
        MultiOp::Create(op, CreateRequest { path: path("/private/new"), data: None, acl: RawAcls::OPEN, flags })
    };
    let elements = [
        create(OpCode::Create, 0),
        create(OpCode::Create2, 1),
        create(OpCode::CreateContainer, 4),
        MultiOp::CreateTtl(CreateTtlRequest {
            path: path("/private/new"),
            data: None,
            acl: RawAcls::OPEN,
            flags: 5,
            ttl_ms: 9,
        }),
        MultiOp::Delete(PathVersion { path: path("/private/child"), version: -1 }),
        MultiOp::SetData(SetDataRequest { path: path("/private"), data: None, version: -1 }),
        MultiOp::Check(PathVersion { path: path("/private"), version: -1 }),
    ];
    let mut outsider = server.client();
    for element in &elements {
        let harmless = MultiOp::Create(
            OpCode::Create,
            CreateRequest { path: path("/mine"), data: None, acl: RawAcls::OPEN, flags: 0 },
        );
        let reply = outsider.ask(|packet, xid| packet.multi(xid, &[harmless, element.clone()]));
        assert!(reply.body.windows(4).any(|word| word == (-102_i32).to_be_bytes()), "{element:?}: {reply:?}");
        assert_eq!(outsider.exists("/mine").err, -101, "nothing of it took effect: {element:?}");
        let reply = owner.ask(|packet, xid| packet.multi(xid, std::slice::from_ref(element)));
        assert_eq!(reply.err, 0);
        assert!(!reply.body.windows(4).any(|word| word == (-102_i32).to_be_bytes()), "{element:?}: {reply:?}");
        owner.ask(|packet, xid| packet.delete(xid, "/private/new"));
        owner.create("/private/child", b"");
    }
}

/// As in Apache, the password derives from the id, and every ephemeral node shows the id: a client that can read such a
/// node can take over its session. COMPAT.md documents it, and `cargo xtask cases` lists it as kept.
#[test]
fn k165_session_can_be_taken_over_by_a_client_that_knows_its_id() {
    let server = ServerFixture::start();
    let mut client = server.client();
    client.create_as("/e", 1);
    let owner = server.client().exists("/e").stat().ephemeral_owner;
    let password = ox_proto::password::session_password(ox_proto::SessionId(owner));
    let hello = RawHandshake {
        session: ox_proto::SessionId(owner),
        password: Some(password.into()),
        ..RawHandshake::new(TIMEOUT_MS)
    };
    assert!(RawClient::try_open(server.address(), &hello).is_some());
}
