//! Watch events as the server sends them.

use crate::Zxid;
use crate::frame::{begin_frame, end_frame};
use crate::jute::{DecodeError, Jute, Reader, put_text};
use crate::reply::ReplyHeader;
use crate::request::xid;
use std::borrow::Cow;

/// What happened to a node. Clients have more event types but generate those locally.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum EventType {
    NodeCreated = 1,
    NodeDeleted = 2,
    NodeDataChanged = 3,
    NodeChildrenChanged = 4,
}

impl TryFrom<i32> for EventType {
    type Error = i32;
    fn try_from(code: i32) -> Result<Self, i32> {
        match code {
            1 => Ok(Self::NodeCreated),
            2 => Ok(Self::NodeDeleted),
            3 => Ok(Self::NodeDataChanged),
            4 => Ok(Self::NodeChildrenChanged),
            other => Err(other),
        }
    }
}

/// The only keeper state that a server sends.
const SYNC_CONNECTED: i32 = 3;

/// Appends a complete notification frame. `zxid` is that of the change, or -1 if setWatches found the change.
pub fn put_event(out: &mut Vec<u8>, zxid: Zxid, kind: EventType, path: &str) {
    let mark = begin_frame(out);
    ReplyHeader { xid: xid::NOTIFICATION, zxid, err: 0 }.put(out);
    (kind as i32).put(out);
    SYNC_CONNECTED.put(out);
    put_text(out, path);
    end_frame(out, mark);
}

/// The body of a notification, as a client decodes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatcherEvent<'a> {
    /// May be a type that is not in [`EventType`].
    pub kind: i32,
    pub state: i32,
    pub path: Cow<'a, str>,
}

impl<'a> WatcherEvent<'a> {
    /// Decodes the body after the reply header.
    pub fn get(from: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { kind: from.get()?, state: from.get()?, path: from.text()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notification_matches_apache_bytes() {
        let mut out = Vec::new();
        put_event(&mut out, Zxid(0x100), EventType::NodeDataChanged, "/a");
        let hex: String = out.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, "0000001effffffff0000000000000100000000000000000300000003000000022f61");
    }
}
