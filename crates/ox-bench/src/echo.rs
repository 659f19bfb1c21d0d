//! A stand-in server that sends a fixed reply to every request: the upper limit for an I/O design, and the server of
//! this crate's tests.
//!
//! Contains only the protocol; the examples `echo_mio` and `echo_tokio` add the sockets.

use crate::tree_layout::MARK;
use ox_proto::connect::ConnectResponse;
use ox_proto::frame::{FrameError, begin_frame, end_frame, split_frame};
use ox_proto::jute::{Jute, put_buffer, put_count};
use ox_proto::limits::FRAME_BYTES_MAX_DEFAULT;
use ox_proto::reply::ReplyHeader;
use ox_proto::{OpCode, Reader, SessionId, Stat, Zxid};

const DATA_BYTES: usize = 100;

/// What the caller does after a batch of replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Send the replies and keep reading.
    Serve,
    /// Send the replies and close: the client closed its session.
    Close,
}

#[derive(Debug)]
pub struct Echo {
    connected: bool,
    /// The reply to everything, complete except for the xid: 100 bytes of data and a stat.
    reply: Vec<u8>,
}

impl Default for Echo {
    fn default() -> Self {
        let mut reply = Vec::new();
        let mark = begin_frame(&mut reply);
        ReplyHeader { xid: 0, zxid: Zxid(1), err: 0 }.put(&mut reply);
        // Marked, so that the clean-up of a run accepts every node as its own.
        let mut data = MARK.to_vec();
        data.resize(DATA_BYTES, b'x');
        put_buffer(&mut reply, Some(&data));
        Stat::default().put(&mut reply);
        end_frame(&mut reply, mark);
        Self { connected: false, reply }
    }
}

impl Echo {
    /// Appends the replies to all complete frames of `input` to `out`; returns the number of bytes consumed.
    pub fn reply(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<(usize, Next), FrameError> {
        let mut rest = input;
        while let Some((payload, behind)) = split_frame(rest, FRAME_BYTES_MAX_DEFAULT)? {
            rest = behind;
            if self.reply_to_frame(payload, out) == Next::Close {
                return Ok((input.len() - rest.len(), Next::Close));
            }
        }
        Ok((input.len() - rest.len(), Next::Serve))
    }

    fn reply_to_frame(&mut self, payload: &[u8], out: &mut Vec<u8>) -> Next {
        if !self.connected {
            self.connected = true;
            ConnectResponse {
                timeout_ms: 30_000,
                session: SessionId(1),
                password: Default::default(),
                read_only: Some(false),
            }
            .put_frame(out);
            return Next::Serve;
        }
        let mut from = Reader::new(payload);
        let (Ok(xid), Ok(op)) = (from.get::<i32>(), from.get::<i32>()) else { return Next::Close };
        if op == OpCode::GetChildren.code() {
            let mark = begin_frame(out);
            ReplyHeader { xid, zxid: Zxid(1), err: 0 }.put(out);
            put_count(out, 0);
            end_frame(out, mark);
            return Next::Serve;
        }
        let start = out.len();
        out.extend_from_slice(&self.reply);
        out[start + 4..start + 8].copy_from_slice(&xid.to_be_bytes());
        if op == OpCode::CloseSession.code() { Next::Close } else { Next::Serve }
    }
}
