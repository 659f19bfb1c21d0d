//! Request headers and bodies of the client port.
//!
//! Strings are `Option` because a client can send null; each operation decides what null means.

use crate::Zxid;
use crate::acl::RawAcls;
use crate::frame::{begin_frame, end_frame};
use crate::jute::{Jute, jute};
use std::borrow::Cow;

/// A string that may be null.
pub type Text<'a> = Option<Cow<'a, str>>;
/// A byte buffer that may be null.
pub type Buffer<'a> = Option<&'a [u8]>;

/// Reserved xids with a special meaning.
pub mod xid {
    /// Server to client: a watch event.
    pub const NOTIFICATION: i32 = -1;
    /// Ping, and the server's reply to it.
    pub const PING: i32 = -2;
    /// Authentication, as most clients send it.
    pub const AUTH: i32 = -4;
    /// setWatches, as some clients send it.
    pub const SET_WATCHES: i32 = -8;
}

jute! {
    /// Precedes every request body after the handshake.
    #[derive(Copy)]
    RequestHeader {
        /// The reply carries the same xid.
        xid: i32,
        /// Not necessarily one of [`crate::OpCode`].
        op: i32,
    }
}

jute! {
    /// Body of create, create2 and createContainer.
    CreateRequest<'a> {
        /// Full path, or its prefix for sequential modes.
        path: Text<'a>,
        data: Buffer<'a>,
        acl: RawAcls<'a>,
        /// Create mode as a number.
        flags: i32,
    }
}

jute! {
    CreateTtlRequest<'a> {
        /// Full path, or its prefix for sequential modes.
        path: Text<'a>,
        data: Buffer<'a>,
        acl: RawAcls<'a>,
        /// Create mode as a number.
        flags: i32,
        ttl_ms: i64,
    }
}

jute! {
    /// Body of delete, and of check within a multi.
    PathVersion<'a> {
        path: Text<'a>,
        /// Expected version, -1 for any.
        version: i32,
    }
}

jute! {
    /// Body of exists, getData, getChildren and getChildren2.
    PathWatch<'a> {
        path: Text<'a>,
        /// Whether to set a watch.
        watch: bool,
    }
}

jute! {
    SetDataRequest<'a> {
        path: Text<'a>,
        data: Buffer<'a>,
        /// Expected version, -1 for any.
        version: i32,
    }
}

jute! {
    /// Body of getACL, sync, getAllChildrenNumber and getEphemerals.
    PathRequest<'a> {
        /// A path prefix for getEphemerals, the node otherwise.
        path: Text<'a>,
    }
}

jute! {
    SetAclRequest<'a> {
        path: Text<'a>,
        acl: RawAcls<'a>,
        /// Expected ACL version, -1 for any.
        version: i32,
    }
}

jute! {
    ReconfigRequest<'a> {
        /// Servers to add, comma separated.
        joining: Text<'a>,
        /// Ids of servers to remove, comma separated.
        leaving: Text<'a>,
        /// The complete new membership, instead of the other two.
        members: Text<'a>,
        /// Expected configuration version, -1 for any.
        config: i64,
    }
}

jute! {
    /// Body of checkWatches and removeWatches, and of addWatch with a mode instead of the type.
    PathKind<'a> {
        path: Text<'a>,
        /// Watcher type or addWatch mode.
        kind: i32,
    }
}

jute! {
    AuthPacket<'a> {
        /// Ignored by the server.
        kind: i32,
        scheme: Text<'a>,
        /// Credentials in the format of the scheme.
        auth: Buffer<'a>,
    }
}

jute! {
    /// One token of the SASL exchange, in either direction.
    SaslToken<'a> {
        token: Buffer<'a>,
    }
}

/// Body of setWatches and setWatches2 as a client builds it. A server decodes list by list instead, because a null list
/// makes the request fail only after the lists before it have taken effect.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SetWatches<'a> {
    /// Last zxid that the client has seen.
    pub relative_zxid: Zxid,
    /// In wire order: data, exists, children, persistent, persistent-recursive.
    pub lists: [Vec<Cow<'a, str>>; 5],
}

impl SetWatches<'_> {
    /// Appends the first `lists` lists: three for setWatches, all five for setWatches2.
    pub fn put(&self, lists: usize, out: &mut Vec<u8>) {
        self.relative_zxid.put(out);
        for list in &self.lists[..lists] {
            crate::jute::put_count(out, list.len());
            list.iter().for_each(|path| crate::jute::put_text(out, path));
        }
    }
}

/// Appends a complete request frame with a body.
pub fn put_request<'a>(out: &mut Vec<u8>, xid: i32, op: i32, body: &impl Jute<'a>) {
    let mark = begin_frame(out);
    RequestHeader { xid, op }.put(out);
    body.put(out);
    end_frame(out, mark);
}

/// Appends a complete request frame without a body.
pub fn put_bare_request(out: &mut Vec<u8>, xid: i32, op: i32) {
    let mark = begin_frame(out);
    RequestHeader { xid, op }.put(out);
    end_frame(out, mark);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{OpCode, Reader};

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn requests_match_reference_bytes() {
        let mut out = Vec::new();
        let create = CreateRequest { path: Some("/a".into()), data: Some(b"x"), acl: RawAcls::OPEN, flags: 0 };
        put_request(&mut out, 1, OpCode::Create.code(), &create);
        assert_eq!(
            hex(&out),
            "000000320000000100000001000000022f61000000017800000001\
             0000001f00000005776f726c6400000006616e796f6e6500000000"
        );
        out.clear();
        put_bare_request(&mut out, xid::PING, OpCode::Ping.code());
        assert_eq!(hex(&out), "00000008fffffffe0000000b");
        out.clear();
        let auth = AuthPacket { kind: 0, scheme: Some("digest".into()), auth: Some(b"bob:pw") };
        put_request(&mut out, xid::AUTH, OpCode::Auth.code(), &auth);
        assert_eq!(
            hex(&out),
            "00000020fffffffc000000640000000000000006646967657374 00000006626f623a7077".replace(' ', "")
        );
    }

    #[test]
    fn records_round_trip() {
        let mut out = Vec::new();
        let set = SetDataRequest { path: None, data: None, version: -1 };
        set.put(&mut out);
        assert_eq!(Reader::new(&out).get::<SetDataRequest<'_>>(), Ok(set));
    }
}
