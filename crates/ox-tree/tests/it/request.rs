//! Requests of tests, and bytes that no client of ours encodes.

use ox_history::{Create, Op, RequestedAcl};
use ox_proto::acl::RawAcl;
use ox_proto::{OpCode, Zxid};

/// An ACL entry; scheme and id may be null.
pub(crate) type Entry = RawAcl<'static>;

#[derive(Default)]
pub(crate) struct Bytes(pub(crate) Vec<u8>);

impl Bytes {
    pub(crate) fn int(mut self, value: i32) -> Self {
        self.0.extend(value.to_be_bytes());
        self
    }

    pub(crate) fn long(mut self, value: i64) -> Self {
        self.0.extend(value.to_be_bytes());
        self
    }

    pub(crate) fn bool(mut self, value: bool) -> Self {
        self.0.push(u8::from(value));
        self
    }

    pub(crate) fn raw(mut self, bytes: &[u8]) -> Self {
        self.0.extend(bytes);
        self
    }

    pub(crate) fn buffer(self, bytes: Option<&[u8]>) -> Self {
        match bytes {
            None => self.int(-1),
            Some(bytes) => self.int(i32::try_from(bytes.len()).unwrap()).raw(bytes),
        }
    }

    pub(crate) fn text(self, text: Option<&str>) -> Self {
        self.buffer(text.map(str::as_bytes))
    }

    pub(crate) fn texts<'a>(self, texts: impl ExactSizeIterator<Item = &'a str>) -> Self {
        let out = self.int(i32::try_from(texts.len()).unwrap());
        texts.fold(out, |out, text| out.text(Some(text)))
    }

    pub(crate) fn acl(mut self, acl: &RequestedAcl) -> Self {
        ox_history::wire::put_acl(&mut self.0, acl);
        self
    }
}

/// The body of a request.
pub(crate) fn body(op: &Op) -> Vec<u8> {
    let mut out = Vec::new();
    ox_history::wire::put_body(&mut out, op);
    out
}

/// `world:anyone` with all permissions.
pub(crate) fn open() -> RequestedAcl {
    Some(vec![entry(31, "world", "anyone")])
}

pub(crate) fn entry(perms: i32, scheme: &str, id: &str) -> Entry {
    null_entry(perms, Some(scheme), Some(id))
}

pub(crate) fn null_entry(perms: i32, scheme: Option<&str>, id: Option<&str>) -> Entry {
    let text = |text: &str| text.to_owned().into();
    RawAcl { perms, scheme: scheme.map(text), id: id.map(text) }
}

fn create_by(op: OpCode, path: &str, flags: i32, ttl_ms: i64) -> Op {
    Op::Create(Create { op, ttl_ms, ..Create::open(path, b"data", flags) })
}

pub(crate) fn create(path: &str, flags: i32) -> Op {
    create_by(OpCode::Create, path, flags, 0)
}

pub(crate) fn create2(path: &str, flags: i32) -> Op {
    create_by(OpCode::Create2, path, flags, 0)
}

pub(crate) fn container(path: &str, flags: i32) -> Op {
    create_by(OpCode::CreateContainer, path, flags, 0)
}

pub(crate) fn create_ttl(path: &str, flags: i32, ttl_ms: i64) -> Op {
    create_by(OpCode::CreateTtl, path, flags, ttl_ms)
}

pub(crate) fn set_acl(path: &str, acl: &[Entry]) -> Op {
    Op::SetAcl { path: path.into(), acl: Some(acl.to_vec()), version: -1 }
}

pub(crate) fn check(path: &str, version: i32) -> Op {
    Op::Check { path: path.into(), version }
}

pub(crate) fn delete(path: &str) -> Op {
    Op::Delete { path: path.into(), version: -1 }
}

pub(crate) fn set_data(path: &str, data: &str) -> Op {
    Op::SetData { path: path.into(), data: Some(data.into()), version: -1 }
}

/// setWatches with these five lists, by a client that has seen all but the last `missed` transactions.
pub(crate) fn set_watches(missed: i64, lists: [Vec<String>; 5]) -> Op {
    Op::SetWatches { relative: Zxid(missed), lists: lists.into() }
}

pub(crate) fn add_watch(path: &str, mode: i32) -> Op {
    Op::AddWatch { path: path.into(), mode }
}

pub(crate) fn get(path: &str) -> Op {
    Op::GetData { path: path.into(), watch: false }
}
