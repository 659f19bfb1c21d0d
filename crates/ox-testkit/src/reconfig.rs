//! Requests that change the members of an ensemble.

use crate::packet::RawPacket;
use crate::raw_client::RawReply;
use ox_proto::OpCode;
use ox_proto::request::ReconfigRequest;

/// The arguments of a reconfig request.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReconfigArguments<'a> {
    pub joining: Option<&'a str>,
    pub leaving: Option<&'a str>,
    pub members: Option<&'a str>,
    pub version: Option<i64>,
}

impl<'a> ReconfigArguments<'a> {
    pub fn joining(spec: &'a str) -> Self {
        Self { joining: Some(spec), ..Self::default() }
    }

    pub fn leaving(ids: &'a str) -> Self {
        Self { leaving: Some(ids), ..Self::default() }
    }

    pub fn members(members: &'a str) -> Self {
        Self { members: Some(members), ..Self::default() }
    }

    /// The request, for `ask` of a client.
    pub fn put(&self, packet: RawPacket, xid: i32) -> RawPacket {
        let body = ReconfigRequest {
            joining: self.joining.map(Into::into),
            leaving: self.leaving.map(Into::into),
            members: self.members.map(Into::into),
            config: self.version.unwrap_or(-1),
        };
        packet.request(xid, OpCode::Reconfig, &body)
    }
}

impl RawReply {
    /// The error code and the new configuration in the reply to a reconfig request.
    pub fn config(&self) -> (i32, String) {
        let text = if self.err == 0 { self.data().unwrap_or_default() } else { Vec::new() };
        (self.err, String::from_utf8(text).unwrap())
    }
}
