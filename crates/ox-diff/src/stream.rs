//! What a connection receives during a batch.

use crate::normalize::ReplyFacts;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ItemKind {
    /// The reply to a handshake.
    Handshake,
    /// The reply to a request.
    Reply,
    /// The reply to a request of the connection layer, whose position among the others is not defined.
    OutOfBand,
    Event,
    /// A frame that matches no request.
    Stray,
    /// Bytes received after raw bytes, or the end of a replaced connection of the session.
    Other,
}

/// One frame or other occurrence on a connection.
#[derive(Clone, Debug)]
pub struct StreamItem {
    pub kind: ItemKind,
    /// Index of the line of the batch that it replies to.
    pub line: Option<usize>,
    /// Zxid of the header; `None` without a header.
    pub zxid: Option<i64>,
    /// All other fields in normalized form.
    pub text: String,
    pub payload: Vec<u8>,
    /// Facts of a reply for the generator.
    pub facts: Option<ReplyFacts>,
}

impl StreamItem {
    pub(crate) fn plain(kind: ItemKind, line: Option<usize>, text: String, payload: Vec<u8>) -> Self {
        Self { kind, line, zxid: None, text, payload, facts: None }
    }

    pub fn describe(&self) -> String {
        let zxid = self.zxid.map_or(String::new(), |zxid| format!(" zxid={zxid}"));
        format!("{:?}{zxid} {}", self.kind, self.text)
    }
}

/// How reading a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamEnd {
    /// Everything expected has arrived; the connection is open.
    Open,
    Closed,
    /// Something expected did not arrive in time.
    Silent,
    /// There was no connection.
    Absent,
}

/// What one connection received during a batch.
#[derive(Clone, Debug)]
pub struct Stream {
    /// In order of arrival.
    pub items: Vec<StreamItem>,
    pub end: StreamEnd,
}

impl Stream {
    /// One line per item.
    pub fn describe(&self) -> Vec<String> {
        self.items.iter().map(StreamItem::describe).chain([format!("{:?}", self.end)]).collect()
    }
}
