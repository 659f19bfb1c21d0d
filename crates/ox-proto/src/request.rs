//! Request headers and bodies of the client port.
//!
//! Strings are `Option` because a client can send null; what null means is each operation's business.

use crate::Zxid;
use crate::acl::RawAcls;
use crate::frame::{begin_frame, end_frame};
use crate::jute::{Jute, jute};
use std::borrow::Cow;

/// A string that may be null.
pub type Text<'a> = Option<Cow<'a, str>>;
/// A byte buffer that may be null.
pub type Buffer<'a> = Option<&'a [u8]>;

/// Request ids with a meaning of their own.
pub mod xid {
    /// Server to client: a watch event.
    pub const NOTIFICATION: i32 = -1;
    /// A ping and its successful answer.
    pub const PING: i32 = -2;
    /// Authentication, as most clients send it.
    pub const AUTH: i32 = -4;
    /// Re-arming of watches, as some clients send it.
    pub const SET_WATCHES: i32 = -8;
}

jute! {
    /// Precedes every request body after the handshake.
    #[derive(Copy)]
    RequestHeader {
        /// Echoed in the reply.
        xid: i32,
        /// The opcode; may be one that does not exist.
        op: i32,
    }
}

jute! {
    /// create, create2 and createContainer.
    CreateRequest<'a> {
        /// Path, or its prefix for sequential modes.
        path: Text<'a>,
        /// Data of the node.
        data: Buffer<'a>,
        /// Access control list.
        acl: RawAcls<'a>,
        /// One of the create modes.
        flags: i32,
    }
}

jute! {
    /// createTTL.
    CreateTtlRequest<'a> {
        /// Path, or its prefix for sequential modes.
        path: Text<'a>,
        /// Data of the node.
        data: Buffer<'a>,
        /// Access control list.
        acl: RawAcls<'a>,
        /// One of the create modes.
        flags: i32,
        /// Time to live in milliseconds.
        ttl_ms: i64,
    }
}

jute! {
    /// delete, and check inside a multi: a path and the version it must have, -1 for any.
    PathVersion<'a> {
        /// The node.
        path: Text<'a>,
        /// Expected version.
        version: i32,
    }
}

jute! {
    /// exists, getData, getChildren and getChildren2.
    PathWatch<'a> {
        /// The node.
        path: Text<'a>,
        /// Whether to leave a watch.
        watch: bool,
    }
}

jute! {
    /// setData.
    SetDataRequest<'a> {
        /// The node.
        path: Text<'a>,
        /// New data.
        data: Buffer<'a>,
        /// Expected version, -1 for any.
        version: i32,
    }
}

jute! {
    /// getACL, sync, getAllChildrenNumber and getEphemerals.
    PathRequest<'a> {
        /// The node, or a prefix of paths for getEphemerals.
        path: Text<'a>,
    }
}

jute! {
    /// setACL.
    SetAclRequest<'a> {
        /// The node.
        path: Text<'a>,
        /// New list.
        acl: RawAcls<'a>,
        /// Expected ACL version, -1 for any.
        version: i32,
    }
}

jute! {
    /// reconfig.
    ReconfigRequest<'a> {
        /// Servers that join, comma separated.
        joining: Text<'a>,
        /// Ids that leave, comma separated.
        leaving: Text<'a>,
        /// The whole new membership instead.
        members: Text<'a>,
        /// Expected configuration version, -1 for any.
        config: i64,
    }
}

jute! {
    /// checkWatches and removeWatches, and addWatch with a mode in place of the type.
    PathKind<'a> {
        /// The watched path.
        path: Text<'a>,
        /// Watcher type or addWatch mode.
        kind: i32,
    }
}

jute! {
    /// auth.
    AuthPacket<'a> {
        /// Ignored.
        kind: i32,
        /// Authentication scheme.
        scheme: Text<'a>,
        /// Credentials.
        auth: Buffer<'a>,
    }
}

jute! {
    /// sasl: one token of the exchange, either way.
    SaslToken<'a> {
        /// The token.
        token: Buffer<'a>,
    }
}

/// setWatches and setWatches2 as a client builds them. A server reads the body list by list instead, because a
/// null list makes the request fail only after the lists before it have taken effect.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SetWatches<'a> {
    /// Last zxid the client has seen.
    pub relative_zxid: Zxid,
    /// Lists in wire order: data, exists, children, persistent, persistent-recursive.
    pub lists: [Vec<Cow<'a, str>>; 5],
}

impl SetWatches<'_> {
    /// Appends the body; setWatches has the first three lists, setWatches2 all five.
    pub fn put(&self, lists: usize, out: &mut Vec<u8>) {
        self.relative_zxid.put(out);
        for list in &self.lists[..lists] {
            crate::jute::put_count(out, list.len());
            list.iter().for_each(|path| crate::jute::put_text(out, path));
        }
    }
}

/// Appends a whole request frame with a body.
pub fn put_request<'a>(out: &mut Vec<u8>, xid: i32, op: i32, body: &impl Jute<'a>) {
    let mark = begin_frame(out);
    RequestHeader { xid, op }.put(out);
    body.put(out);
    end_frame(out, mark);
}

/// Appends a whole request frame without a body.
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
    fn bytes_equal_the_reference() {
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
