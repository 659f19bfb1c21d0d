//! Reply headers and the reply bodies that are more than a shared record.

use crate::Zxid;
use crate::frame::{begin_frame, end_frame};
use crate::jute::{Jute, jute};

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

    #[test]
    fn ping_reply_has_apaches_bytes() {
        let mut out = Vec::new();
        put_bare_reply(&mut out, ReplyHeader { xid: -2, zxid: Zxid(1), err: 0 });
        assert_eq!(out, b"\x00\x00\x00\x10\xff\xff\xff\xfe\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00");
    }
}
