//! Extracts reply headers from a byte stream without keeping or decoding the bodies.

use anyhow::{Result, bail};

/// Length prefix and reply header.
const HEADER: usize = 20;
/// Plus the header of a multi's first result, which shows whether the multi failed.
const HEAD: usize = HEADER + 9;
/// Bytes of the length prefix, which the length does not include.
const PREFIX: usize = 4;

/// The part of a reply that a load generator needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyHead {
    pub xid: i32,
    /// 0 or an error code.
    pub err: i32,
    /// The first bytes of the body; zero if it is shorter.
    body: [u8; HEAD - HEADER],
}

impl ReplyHead {
    /// The error code of a multi's reply: a failed multi has 0 in its header and only error results.
    pub fn multi_err(&self) -> i32 {
        let [op @ .., _, _, _, _, _] = self.body;
        if self.err != 0 || i32::from_be_bytes(op) != -1 {
            return self.err;
        }
        let [_, _, _, _, _, err @ ..] = self.body;
        match i32::from_be_bytes(err) {
            0 => ox_proto::ErrorCode::RuntimeInconsistency.code(), // a later element failed
            err => err,
        }
    }
}

/// Parser state of one connection's stream.
#[derive(Debug, Default)]
pub struct Replies {
    /// The start of a frame that arrived in pieces.
    held: Vec<u8>,
    /// Bytes of a body still to be received and discarded.
    skip: usize,
}

impl Replies {
    /// Parses `bytes` and calls `each` for every reply whose head is complete.
    pub fn feed(&mut self, mut bytes: &[u8], mut each: impl FnMut(ReplyHead) -> Result<()>) -> Result<()> {
        loop {
            let skipped = self.skip.min(bytes.len());
            self.skip -= skipped;
            bytes = &bytes[skipped..];
            if bytes.is_empty() {
                return Ok(());
            }
            if self.held.is_empty() {
                let Some((head, frame)) = head(bytes)? else {
                    self.held.extend_from_slice(bytes);
                    return Ok(());
                };
                each(head)?;
                self.skip = frame;
                continue;
            }
            // Holds at most HEAD bytes; the rest of the body is skipped from `bytes`.
            let taken = (HEAD - self.held.len()).min(bytes.len());
            self.held.extend_from_slice(&bytes[..taken]);
            let Some((head, frame)) = head(&self.held)? else { return Ok(()) };
            each(head)?;
            let before = self.held.len() - taken;
            self.held.clear();
            self.skip = frame - before;
        }
    }
}

/// The head of the frame at the start of `bytes` and that frame's length with its prefix; `None` if more bytes are
/// needed.
fn head(bytes: &[u8]) -> Result<Option<(ReplyHead, usize)>> {
    let Some((prefix, _)) = bytes.split_first_chunk::<PREFIX>() else { return Ok(None) };
    let announced = i32::from_be_bytes(*prefix);
    let frame = match usize::try_from(announced) {
        Ok(length) if HEADER - PREFIX <= length => PREFIX + length,
        _ => bail!("unexpected reply: a frame of {announced} bytes cannot be a reply"),
    };
    let Some(seen) = bytes.get(..HEAD.min(frame)) else { return Ok(None) };
    let int = |at: usize| i32::from_be_bytes([seen[at], seen[at + 1], seen[at + 2], seen[at + 3]]);
    let mut body = [0; HEAD - HEADER];
    body[..seen.len() - HEADER].copy_from_slice(&seen[HEADER..]);
    Ok(Some((ReplyHead { xid: int(4), err: int(16), body }, frame)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ox_proto::Zxid;
    use ox_proto::jute::{Jute, put_text};
    use ox_proto::multi::{MultiHeader, put_error_result};
    use ox_proto::reply::{ReplyHeader, put_bare_reply, put_reply};

    fn header(xid: i32, err: i32) -> ReplyHeader {
        ReplyHeader { xid, zxid: Zxid(9), err }
    }

    fn stream() -> Vec<u8> {
        let mut out = Vec::new();
        put_reply(&mut out, header(1, 0), |out| put_text(out, &"x".repeat(50)));
        put_bare_reply(&mut out, header(2, -101));
        put_reply(&mut out, header(3, 0), |out| out.push(1));
        put_bare_reply(&mut out, header(-2, 0));
        out
    }

    fn parse(chunks: &[&[u8]]) -> Vec<(i32, i32)> {
        let (mut replies, mut seen) = (Replies::default(), Vec::new());
        for chunk in chunks {
            replies
                .feed(chunk, |head| {
                    seen.push((head.xid, head.err));
                    Ok(())
                })
                .unwrap();
        }
        assert_eq!((replies.held.len(), replies.skip), (0, 0));
        seen
    }

    #[test]
    fn replies_do_not_depend_on_chunking() {
        let stream = stream();
        let expected = [(1, 0), (2, -101), (3, 0), (-2, 0)];
        assert_eq!(parse(&[&stream]), expected);
        for size in 1..stream.len() {
            assert_eq!(parse(&stream.chunks(size).collect::<Vec<_>>()), expected, "chunks of {size}");
        }
    }

    #[test]
    fn frame_shorter_than_header_is_refused() {
        for length in [-1, 0, 15] {
            let error = Replies::default().feed(&i32::to_be_bytes(length), |_| Ok(())).unwrap_err();
            assert_eq!(error.to_string(), format!("unexpected reply: a frame of {length} bytes cannot be a reply"));
        }
    }

    #[test]
    fn failed_multi_is_detected_in_first_result() {
        let check = |body: &dyn Fn(&mut Vec<u8>), expected| {
            let mut out = Vec::new();
            put_reply(&mut out, header(1, 0), |out| body(out));
            let mut found = None;
            Replies::default()
                .feed(&out, |head| {
                    found = Some(head.multi_err());
                    Ok(())
                })
                .unwrap();
            assert_eq!(found, Some(expected));
        };
        check(&|out| put_error_result(out, -101), -101);
        check(&|out| put_error_result(out, 0), -2);
        check(&|out| MultiHeader { op: 5, done: false, err: 0 }.put(out), 0);
        check(&|_| (), 0);
    }
}
