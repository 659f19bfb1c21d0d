//! The records of the session handshake.

use crate::frame::{begin_frame, end_frame};
use crate::ids::{SessionId, Zxid};
use crate::jute::{DecodeError, Jute, Reader, put_buffer};
use crate::limits::PASSWORD_BYTES;

/// The first frame that a client sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectRequest<'a> {
    /// Highest zxid the client has seen.
    pub last_zxid_seen: Zxid,
    /// Session timeout that the client requests.
    pub timeout_ms: i32,
    /// Session to resume, or [`SessionId::NONE`].
    pub session: SessionId,
    /// Password of the session to resume.
    pub password: Option<&'a [u8]>,
    /// Whether the client accepts a read-only server; `None` from clients that predate the field.
    pub read_only: Option<bool>,
}

impl<'a> ConnectRequest<'a> {
    /// Decodes the payload; bytes after the record are ignored.
    pub fn decode(payload: &'a [u8]) -> Result<Self, DecodeError> {
        let mut from = Reader::new(payload);
        from.get::<i32>()?; // the protocol version is ignored
        Ok(Self {
            last_zxid_seen: from.get()?,
            timeout_ms: from.get()?,
            session: from.get()?,
            password: from.get()?,
            read_only: from.get().ok(),
        })
    }

    /// Appends the record with its frame length.
    pub fn put_frame(&self, out: &mut Vec<u8>) {
        let mark = begin_frame(out);
        0_i32.put(out);
        self.last_zxid_seen.put(out);
        self.timeout_ms.put(out);
        self.session.put(out);
        put_buffer(out, self.password);
        if let Some(read_only) = self.read_only {
            read_only.put(out);
        }
        end_frame(out, mark);
    }
}

/// The first frame that a server sends. A refused session has timeout, id and password all zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectResponse {
    /// Negotiated timeout; 0 if the session is refused.
    pub timeout_ms: i32,
    /// [`SessionId::NONE`] if the session is refused.
    pub session: SessionId,
    pub password: [u8; PASSWORD_BYTES],
    /// Whether this server is read-only; sent only if the client's request had the field.
    pub read_only: Option<bool>,
}

impl ConnectResponse {
    /// The reply for a session that is unknown or expired, or whose password is wrong.
    pub fn refused(read_only: Option<bool>) -> Self {
        Self { timeout_ms: 0, session: SessionId::NONE, password: [0; PASSWORD_BYTES], read_only }
    }

    pub fn decode(payload: &[u8]) -> Result<Self, DecodeError> {
        let mut from = Reader::new(payload);
        from.get::<i32>()?;
        Ok(Self {
            timeout_ms: from.get()?,
            session: from.get()?,
            password: from
                .get::<Option<&[u8]>>()?
                .and_then(|bytes| bytes.try_into().ok())
                .ok_or(DecodeError::Truncated)?,
            read_only: from.get().ok(),
        })
    }

    /// Appends the record with its frame length.
    pub fn put_frame(&self, out: &mut Vec<u8>) {
        let mark = begin_frame(out);
        0_i32.put(out);
        self.timeout_ms.put(out);
        self.session.put(out);
        put_buffer(out, Some(&self.password));
        if let Some(read_only) = self.read_only {
            read_only.put(out);
        }
        end_frame(out, mark);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::password::session_password;

    fn request(read_only: Option<bool>) -> Vec<u8> {
        let mut out = Vec::new();
        let password = Some(&[0; 16][..]);
        ConnectRequest { last_zxid_seen: Zxid(0), timeout_ms: 10_000, session: SessionId::NONE, password, read_only }
            .put_frame(&mut out);
        out
    }

    #[test]
    fn request_of_old_client_has_no_read_only_byte() {
        assert_eq!((request(None).len(), request(Some(false)).len()), (48, 49));
        assert_eq!(ConnectRequest::decode(&request(None)[4..]).unwrap().read_only, None);
        assert_eq!(ConnectRequest::decode(&request(Some(true))[4..]).unwrap().read_only, Some(true));
    }

    #[test]
    fn response_matches_apache_bytes() {
        let session = SessionId(0x0100_000d_7c70_0000);
        let password = session_password(session);
        let mut out = Vec::new();
        let response = ConnectResponse { timeout_ms: 10_000, session, password, read_only: Some(false) };
        response.put_frame(&mut out);
        let hex: String = out.iter().map(|byte| format!("{byte:02x}")).collect();
        let expected = "00000025000000000000271001 00000d7c700000000000106233b0a7471e1ddb107a0e9868a136bc00";
        assert_eq!(hex, expected.replace(' ', ""));
        assert_eq!(ConnectResponse::decode(&out[4..]), Ok(response));
    }
}
