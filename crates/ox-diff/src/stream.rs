//! What a connection hears during a batch.

use crate::normalize::Outcome;

/// What a heard frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The answer to a handshake.
    Handshake,
    /// The reply to a request.
    Reply,
    /// The reply to a request of the connection layer, which has no place in the order of the others.
    OutOfBand,
    /// A notification.
    Event,
    /// A frame nobody asked for.
    Stray,
    /// Bytes heard after raw bytes, or the end of an older connection of the session.
    Other,
}

/// One thing heard.
#[derive(Clone, Debug)]
pub struct Item {
    /// What it is.
    pub kind: Kind,
    /// The line of the batch it answers.
    pub line: Option<usize>,
    /// Zxid of the header; `None` without a header.
    pub zxid: Option<i64>,
    /// Everything else as it is compared.
    pub text: String,
    /// The payload.
    pub payload: Vec<u8>,
    /// What a reply says.
    pub outcome: Option<Outcome>,
}

impl Item {
    pub(crate) fn plain(kind: Kind, line: Option<usize>, text: String, payload: Vec<u8>) -> Self {
        Self { kind, line, zxid: None, text, payload, outcome: None }
    }

    /// The item in one line.
    pub fn describe(&self) -> String {
        let zxid = self.zxid.map_or(String::new(), |zxid| format!(" zxid={zxid}"));
        format!("{:?}{zxid} {}", self.kind, self.text)
    }
}

/// How the listening ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Everything expected is there; the connection is open.
    Open,
    /// The server closed the connection.
    Closed,
    /// Something expected did not come.
    Silent,
    /// There was no connection to begin with.
    Absent,
}

/// What one connection heard during a batch.
#[derive(Clone, Debug)]
pub struct Stream {
    /// In order of arrival.
    pub items: Vec<Item>,
    /// How it ended.
    pub end: End,
}

impl Stream {
    /// The stream, one item per line.
    pub fn describe(&self) -> Vec<String> {
        self.items.iter().map(Item::describe).chain([format!("{:?}", self.end)]).collect()
    }
}
