//! Handshakes and requests as bytes.

use ox_proto::connect::{ConnectRequest, ConnectResponse};
use ox_proto::frame::{begin_frame, end_frame};
use ox_proto::multi::{MultiHeader, MultiOp};
use ox_proto::request::{
    AuthPacket, CreateRequest, CreateTtlRequest, PathKind, PathRequest, PathVersion, PathWatch, SetDataRequest,
    put_bare_request, put_request, xid,
};
use ox_proto::{Jute, OpCode, RawAcls, SessionId, Zxid};

/// The fields of a handshake.
#[derive(Clone, Debug)]
pub struct RawHandshake {
    pub last_zxid_seen: i64,
    pub timeout_ms: i32,
    pub session: SessionId,
    pub password: Option<Vec<u8>>,
    pub read_only: Option<bool>,
}

impl RawHandshake {
    /// A handshake for a new session.
    pub fn new(timeout_ms: i32) -> Self {
        Self {
            last_zxid_seen: 0,
            timeout_ms,
            session: SessionId::NONE,
            password: Some(vec![0; 16]),
            read_only: Some(false),
        }
    }

    /// A handshake that resumes a session.
    pub fn resume(response: &ConnectResponse) -> Self {
        let password = Some(response.password.to_vec());
        Self { session: response.session, password, ..Self::new(response.timeout_ms) }
    }

    pub fn frame(&self) -> Vec<u8> {
        let mut out = Vec::new();
        ConnectRequest {
            last_zxid_seen: Zxid(self.last_zxid_seen),
            timeout_ms: self.timeout_ms,
            session: self.session,
            password: self.password.as_deref(),
            read_only: self.read_only,
        }
        .put_frame(&mut out);
        out
    }
}

/// A buffer to which requests are appended.
#[derive(Clone, Debug, Default)]
pub struct RawPacket(pub Vec<u8>);

impl RawPacket {
    pub fn request<'a>(mut self, xid: i32, op: OpCode, body: &impl Jute<'a>) -> Self {
        put_request(&mut self.0, xid, op.code(), body);
        self
    }

    /// A request with any opcode and body.
    pub fn raw(mut self, xid: i32, op: i32, body: &[u8]) -> Self {
        let mark = begin_frame(&mut self.0);
        xid.put(&mut self.0);
        op.put(&mut self.0);
        self.0.extend_from_slice(body);
        end_frame(&mut self.0, mark);
        self
    }

    pub fn create(self, xid: i32, path: &str, data: &[u8], flags: i32) -> Self {
        let body = CreateRequest { path: Some(path.into()), data: Some(data), acl: RawAcls::OPEN, flags };
        self.request(xid, OpCode::Create, &body)
    }

    pub fn create_with_acl(self, xid: i32, path: &str, acl: &[u8]) -> Self {
        let acl = RawAcls::from_encoded(acl).unwrap();
        self.request(xid, OpCode::Create, &CreateRequest { path: Some(path.into()), data: Some(b""), acl, flags: 0 })
    }

    pub fn create_ttl(self, xid: i32, path: &str, flags: i32, ttl_ms: i64) -> Self {
        let path = Some(path.into());
        self.request(xid, OpCode::CreateTtl, &CreateTtlRequest { path, data: None, acl: RawAcls::OPEN, flags, ttl_ms })
    }

    pub fn set(self, xid: i32, path: &str, data: &[u8]) -> Self {
        let body = SetDataRequest { path: Some(path.into()), data: Some(data), version: -1 };
        self.request(xid, OpCode::SetData, &body)
    }

    pub fn delete(self, xid: i32, path: &str) -> Self {
        self.request(xid, OpCode::Delete, &PathVersion { path: Some(path.into()), version: -1 })
    }

    /// An exists, getData or getChildren request.
    pub fn read(self, xid: i32, op: OpCode, path: &str, watch: bool) -> Self {
        self.request(xid, op, &PathWatch { path: Some(path.into()), watch })
    }

    pub fn get(self, xid: i32, path: &str) -> Self {
        self.read(xid, OpCode::GetData, path, false)
    }

    /// A getACL, sync, getEphemerals or getAllChildrenNumber request.
    pub fn of_path(self, xid: i32, op: OpCode, path: &str) -> Self {
        self.request(xid, op, &PathRequest { path: Some(path.into()) })
    }

    pub fn add_watch(self, xid: i32, path: &str, kind: i32) -> Self {
        self.request(xid, OpCode::AddWatch, &PathKind { path: Some(path.into()), kind })
    }

    pub fn auth(self, xid: i32, scheme: &str, auth: &[u8]) -> Self {
        self.request(xid, OpCode::Auth, &AuthPacket { kind: 0, scheme: Some(scheme.into()), auth: Some(auth) })
    }

    pub fn ping(mut self) -> Self {
        put_bare_request(&mut self.0, xid::PING, OpCode::Ping.code());
        self
    }

    pub fn close(mut self, xid: i32) -> Self {
        put_bare_request(&mut self.0, xid, OpCode::CloseSession.code());
        self
    }

    pub fn multi(self, xid: i32, elements: &[MultiOp<'_>]) -> Self {
        self.multi_as(xid, OpCode::Multi, elements)
    }

    /// A multi or multiRead.
    pub fn multi_as(self, xid: i32, op: OpCode, elements: &[MultiOp<'_>]) -> Self {
        let mut body = Vec::new();
        for element in elements {
            let mut put = |op: OpCode, put_body: &dyn Fn(&mut Vec<u8>)| {
                MultiHeader { op: op.code(), done: false, err: -1 }.put(&mut body);
                put_body(&mut body);
            };
            match element {
                MultiOp::Create(op, request) => put(*op, &|out| request.put(out)),
                MultiOp::CreateTtl(request) => put(OpCode::CreateTtl, &|out| request.put(out)),
                MultiOp::Delete(request) => put(OpCode::Delete, &|out| request.put(out)),
                MultiOp::SetData(request) => put(OpCode::SetData, &|out| request.put(out)),
                MultiOp::Check(request) => put(OpCode::Check, &|out| request.put(out)),
                MultiOp::GetData(request) => put(OpCode::GetData, &|out| request.put(out)),
                MultiOp::GetChildren(request) => put(OpCode::GetChildren, &|out| request.put(out)),
            }
        }
        MultiHeader::END.put(&mut body);
        self.raw(xid, op.code(), &body)
    }
}
