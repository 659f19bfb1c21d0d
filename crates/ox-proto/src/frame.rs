//! Frames: a 4-byte length followed by the payload.

/// A length prefix that is invalid or over the limit. The connection must be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("frame of {announced} bytes is malformed or too large (limit {limit})")]
pub struct FrameError {
    /// The length prefix as received.
    pub announced: i32,
    /// The largest length accepted.
    pub limit: usize,
}

/// The payload of a frame and the bytes after it.
pub type Split<'a> = (&'a [u8], &'a [u8]);

/// Splits the first complete frame off `buffer`. `Ok(None)` means that more bytes are needed; the length is checked
/// before its payload arrives.
pub fn split_frame(buffer: &[u8], limit: usize) -> Result<Option<Split<'_>>, FrameError> {
    let Some((prefix, rest)) = buffer.split_first_chunk::<4>() else { return Ok(None) };
    let announced = i32::from_be_bytes(*prefix);
    match usize::try_from(announced) {
        Ok(length) if length <= limit => Ok(rest.split_at_checked(length)),
        _ => Err(FrameError { announced, limit }),
    }
}

/// Starts a frame at the end of `out`. Pass the returned mark to [`end_frame`].
pub fn begin_frame(out: &mut Vec<u8>) -> usize {
    out.extend_from_slice(&[0; 4]);
    out.len()
}

/// Writes the length of the frame started at `mark`.
///
/// # Panics
/// If the frame exceeds the 2 GiB that a length prefix can express.
pub fn end_frame(out: &mut [u8], mark: usize) {
    let length = i32::try_from(out.len() - mark).expect("a reply stays below 2 GiB");
    out[mark - 4..mark].copy_from_slice(&length.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_split_one_at_a_time() {
        let mut out = Vec::new();
        for payload in [&b"abc"[..], b""] {
            let mark = begin_frame(&mut out);
            out.extend_from_slice(payload);
            end_frame(&mut out, mark);
        }
        let (first, rest) = split_frame(&out, 10).unwrap().unwrap();
        let (second, rest) = split_frame(rest, 10).unwrap().unwrap();
        assert_eq!((first, second, rest), (&b"abc"[..], &b""[..], &b""[..]));
        assert_eq!(split_frame(&out[..6], 10), Ok(None));
        assert_eq!(split_frame(&out[..3], 10), Ok(None));
    }

    #[test]
    fn limit_is_inclusive_and_checked_before_payload() {
        assert_eq!(split_frame(&[0, 0, 0, 10], 10), Ok(None));
        assert_eq!(split_frame(&[0, 0, 0, 11], 10), Err(FrameError { announced: 11, limit: 10 }));
        assert_eq!(split_frame(&[0xff; 4], 10), Err(FrameError { announced: -1, limit: 10 }));
    }
}
