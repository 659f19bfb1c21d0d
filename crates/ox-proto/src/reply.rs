//! Reply headers and the reply bodies that are more than a shared record.

use crate::acl::RawAcls;
use crate::frame::{begin_frame, end_frame};
use crate::jute::{Jute, jute};
use crate::request::{Buffer, Text};
use crate::{Stat, Zxid};

jute! {
    /// Precedes every reply body after the handshake.
    #[derive(Copy)]
    ReplyHeader {
        /// The request's xid, or that of a notification or ping.
        xid: i32,
        /// Last transaction the reply reflects; 0 or -1 where it means nothing.
        zxid: Zxid,
        /// 0 or an error code.
        err: i32,
    }
}

jute! {
    /// create2, createContainer and createTTL. create has the path alone.
    CreatedReply<'a> {
        /// The final name, with its sequence number.
        path: Text<'a>,
        /// The new node.
        stat: Stat,
    }
}

jute! {
    /// getData and reconfig.
    DataReply<'a> {
        /// The data.
        data: Buffer<'a>,
        /// The node.
        stat: Stat,
    }
}

jute! {
    /// getChildren2. getChildren has the names alone.
    ChildrenReply<'a> {
        /// Bare names, in any order.
        children: Option<Vec<Text<'a>>>,
        /// The node.
        stat: Stat,
    }
}

jute! {
    /// getACL.
    AclReply<'a> {
        /// The list.
        acl: RawAcls<'a>,
        /// The node.
        stat: Stat,
    }
}

jute! {
    /// An identity of a connection, in the list that answers whoAmI.
    ClientInfo<'a> {
        /// Authentication scheme.
        scheme: Text<'a>,
        /// Identity within the scheme.
        user: Text<'a>,
    }
}

/// Appends a whole reply frame without a body.
pub fn put_bare_reply(out: &mut Vec<u8>, header: ReplyHeader) {
    let mark = begin_frame(out);
    header.put(out);
    end_frame(out, mark);
}

/// Appends a whole reply frame whose body `body` writes.
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
    fn ping_reply_has_apaches_bytes() {
        let mut out = Vec::new();
        put_bare_reply(&mut out, ReplyHeader { xid: -2, zxid: Zxid(1), err: 0 });
        assert_eq!(out, b"\x00\x00\x00\x10\xff\xff\xff\xfe\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00");
    }
}
