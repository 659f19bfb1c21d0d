//! Reply headers, and reply bodies with more than one field.

use crate::acl::RawAcls;
use crate::frame::{begin_frame, end_frame};
use crate::jute::{Jute, jute};
use crate::request::{Buffer, Text};
use crate::{Stat, Zxid};

jute! {
    /// Precedes every reply body after the handshake.
    #[derive(Copy)]
    ReplyHeader {
        /// The request's xid, or one of [`crate::request::xid`].
        xid: i32,
        /// Last transaction that the reply reflects; 0 or -1 where it has no meaning.
        zxid: Zxid,
        /// 0 or an error code.
        err: i32,
    }
}

jute! {
    /// Reply to create2, createContainer and createTTL. create returns the path alone.
    CreatedReply<'a> {
        /// Includes the sequence number.
        path: Text<'a>,
        stat: Stat,
    }
}

jute! {
    /// Reply to getData and reconfig.
    DataReply<'a> {
        data: Buffer<'a>,
        stat: Stat,
    }
}

jute! {
    /// Reply to getChildren2. getChildren returns the names alone.
    ChildrenReply<'a> {
        /// Names without the parent's path, in any order.
        children: Option<Vec<Text<'a>>>,
        stat: Stat,
    }
}

jute! {
    AclReply<'a> {
        acl: RawAcls<'a>,
        stat: Stat,
    }
}

jute! {
    /// An identity of the connection, in the reply to whoAmI.
    ClientInfo<'a> {
        scheme: Text<'a>,
        user: Text<'a>,
    }
}

/// Appends a complete reply frame without a body.
pub fn put_bare_reply(out: &mut Vec<u8>, header: ReplyHeader) {
    let mark = begin_frame(out);
    header.put(out);
    end_frame(out, mark);
}

/// Appends a complete reply frame whose body is written by `body`.
pub fn put_reply(out: &mut Vec<u8>, header: ReplyHeader, body: impl FnOnce(&mut Vec<u8>)) {
    let mark = begin_frame(out);
    header.put(out);
    body(out);
    end_frame(out, mark);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Reader;

    #[test]
    fn bodies_round_trip() {
        fn check<'a, T: Jute<'a> + PartialEq + std::fmt::Debug>(body: &T, out: &'a mut Vec<u8>) {
            body.put(out);
            let mut from = Reader::new(out);
            assert_eq!(from.get::<T>().as_ref(), Ok(body));
            assert!(from.is_empty());
        }
        let stat = Stat { version: 7, ..Stat::default() };
        check(&CreatedReply { path: Some("/a0000000001".into()), stat }, &mut Vec::new());
        check(&DataReply { data: None, stat }, &mut Vec::new());
        check(&ChildrenReply { children: Some(vec![Some("a".into()), Some("b".into())]), stat }, &mut Vec::new());
        check(&AclReply { acl: RawAcls::OPEN, stat }, &mut Vec::new());
        check(&ClientInfo { scheme: Some("ip".into()), user: Some("::1".into()) }, &mut Vec::new());
    }

    #[test]
    fn ping_reply_matches_apache_bytes() {
        let mut out = Vec::new();
        put_bare_reply(&mut out, ReplyHeader { xid: -2, zxid: Zxid(1), err: 0 });
        assert_eq!(out, b"\x00\x00\x00\x10\xff\xff\xff\xfe\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00");
    }
}
