//! Encodes requests and decodes replies for clients that record a history.

use crate::op::{Create, ElementResult, Op, ReconfigOp, ReplyBody, RequestedAcl};
use ox_proto::frame::{begin_frame, end_frame};
use ox_proto::jute::{put_buffer, put_count, put_text};
use ox_proto::multi::MultiHeader;
use ox_proto::request::RequestHeader;
use ox_proto::{DecodeError, Jute, OpCode, RawAcls, Reader};

/// Appends the complete request frame.
pub fn put_request(out: &mut Vec<u8>, xid: i32, op: &Op) {
    let mark = begin_frame(out);
    RequestHeader { xid, op: op.code() }.put(out);
    put_body(out, op);
    end_frame(out, mark);
}

/// Appends the request without its header.
pub fn put_body(out: &mut Vec<u8>, op: &Op) {
    match op {
        Op::Create(create) => put_create(out, create),
        Op::Delete { path, version } | Op::Check { path, version } => put_path_and(out, path, *version),
        Op::CheckWatches { path, kind: number }
        | Op::RemoveWatches { path, kind: number }
        | Op::AddWatch { path, mode: number } => put_path_and(out, path, *number),
        Op::SetData { path, data, version } => {
            put_text(out, path);
            put_buffer(out, data.as_deref());
            version.put(out);
        }
        Op::SetAcl { path, acl, version } => {
            put_text(out, path);
            put_acl(out, acl);
            version.put(out);
        }
        Op::Multi(elements) | Op::MultiRead(elements) => {
            for element in elements {
                MultiHeader { op: element.code(), done: false, err: -1 }.put(out);
                put_body(out, element);
            }
            MultiHeader::END.put(out);
        }
        Op::Reconfig(ReconfigOp { joining, leaving, members, from }) => {
            for text in [joining, leaving, members] {
                put_buffer(out, text.as_ref().map(String::as_bytes));
            }
            from.put(out);
        }
        Op::Exists { path, watch }
        | Op::GetData { path, watch }
        | Op::GetChildren { path, watch }
        | Op::GetChildren2 { path, watch } => {
            put_text(out, path);
            watch.put(out);
        }
        Op::GetAcl { path }
        | Op::GetAllChildrenNumber { path }
        | Op::GetEphemerals { prefix: path }
        | Op::Sync { path } => put_text(out, path),
        Op::SetWatches { relative, lists } => {
            relative.put(out);
            for list in lists {
                put_count(out, list.len());
                list.iter().for_each(|path| put_text(out, path));
            }
        }
        Op::Auth { scheme, auth } => {
            0_i32.put(out);
            put_text(out, scheme);
            put_buffer(out, Some(auth));
        }
        Op::Sasl { token } => put_buffer(out, Some(token)),
        Op::NullPath(op) => {
            let mut body = Vec::new();
            put_body(&mut body, &op.as_ref().clone().with_path(Some("")));
            put_buffer(out, None);
            out.extend_from_slice(&body[4..]); // the path comes first
        }
        Op::Broken(_) => out.extend_from_slice(&[0, 0]),
        Op::CloseSession | Op::Ping | Op::WhoAmI | Op::Unknown(_) => (),
    }
}

fn put_path_and(out: &mut Vec<u8>, path: &str, number: i32) {
    put_text(out, path);
    number.put(out);
}

/// Appends an ACL as a client sends it.
pub fn put_acl(out: &mut Vec<u8>, acl: &RequestedAcl) {
    let Some(acl) = acl else { return (-1_i32).put(out) };
    put_count(out, acl.len());
    for entry in acl {
        entry.perms.put(out);
        put_buffer(out, entry.scheme.as_deref().map(str::as_bytes));
        put_buffer(out, entry.id.as_deref().map(str::as_bytes));
    }
}

fn put_create(out: &mut Vec<u8>, create: &Create) {
    put_text(out, &create.path);
    put_buffer(out, create.data.as_deref());
    put_acl(out, &create.acl);
    create.flags.put(out);
    if create.op == OpCode::CreateTtl {
        create.ttl_ms.put(out);
    }
}

/// Decodes the body of the reply to `op`.
pub fn decode_body(op: &Op, err: i32, bytes: &[u8]) -> ReplyBody {
    let mut from = Reader::new(bytes);
    // Clients ignore what may follow an error.
    let body = if err == 0 { get_body(op, &mut from) } else { Ok(ReplyBody::Empty) };
    match body {
        Ok(body) if err != 0 || from.is_empty() => body.normal(),
        _ => ReplyBody::Undecodable,
    }
}

fn get_body(op: &Op, from: &mut Reader<'_>) -> Result<ReplyBody, DecodeError> {
    Ok(match op {
        Op::Create(create) if create.op == OpCode::Create => ReplyBody::Path(text(from)?),
        Op::Create(_) => ReplyBody::Created(text(from)?, from.get()?),
        Op::Sync { .. } => ReplyBody::Path(text(from)?),
        Op::Exists { .. } | Op::SetData { .. } | Op::SetAcl { .. } => ReplyBody::Stat(from.get()?),
        Op::GetData { .. } | Op::Reconfig(_) => ReplyBody::Data(buffer(from)?, from.get()?),
        Op::GetChildren { .. } => ReplyBody::Children(texts(from)?),
        Op::GetChildren2 { .. } => ReplyBody::ChildrenStat(texts(from)?, from.get()?),
        Op::GetAcl { .. } => ReplyBody::Acl(from.get::<RawAcls<'_>>()?.to_stored(), from.get()?),
        Op::GetAllChildrenNumber { .. } | Op::AddWatch { .. } => ReplyBody::Number(from.get()?),
        Op::GetEphemerals { .. } => ReplyBody::Paths(texts(from)?),
        Op::WhoAmI => {
            let count = from.count()?.unwrap_or(0);
            let mut ids = Vec::new();
            for _ in 0..count {
                ids.push((text(from)?, text(from)?));
            }
            ReplyBody::Identities(ids)
        }
        Op::Multi(_) | Op::MultiRead(_) => ReplyBody::Multi(elements(from)?),
        Op::NullPath(op) if !matches!(**op, Op::Sync { .. }) => get_body(op, from)?,
        Op::Sasl { .. } | Op::NullPath(_) => match buffer(from)? {
            None => ReplyBody::Empty,
            Some(_) => ReplyBody::Undecodable,
        },
        Op::Delete { .. }
        | Op::Check { .. }
        | Op::CloseSession
        | Op::Ping
        | Op::CheckWatches { .. }
        | Op::RemoveWatches { .. }
        | Op::SetWatches { .. }
        | Op::Auth { .. }
        | Op::Broken(_)
        | Op::Unknown(_) => ReplyBody::Empty,
    })
}

fn elements(from: &mut Reader<'_>) -> Result<Vec<ElementResult>, DecodeError> {
    let mut elements = Vec::new();
    loop {
        let header = from.get::<MultiHeader>()?;
        if header.done {
            let is_end = header == MultiHeader::END;
            return if is_end { Ok(elements) } else { Err(DecodeError::UnknownType(header.op)) };
        }
        let body = match OpCode::try_from(header.op).map_err(DecodeError::UnknownType)? {
            OpCode::Error if from.get::<i32>()? != header.err => return Err(DecodeError::UnknownType(header.err)),
            OpCode::Error => ReplyBody::Empty,
            OpCode::Create => ReplyBody::Path(text(from)?),
            OpCode::Create2 => ReplyBody::Created(text(from)?, from.get()?),
            OpCode::SetData => ReplyBody::Stat(from.get()?),
            OpCode::GetData => ReplyBody::Data(buffer(from)?, from.get()?),
            OpCode::GetChildren => ReplyBody::Children(texts(from)?),
            OpCode::Delete | OpCode::Check => ReplyBody::Empty,
            _ => return Err(DecodeError::UnknownType(header.op)),
        };
        elements.push(ElementResult { op: header.op, err: header.err, body });
    }
}

fn text(from: &mut Reader<'_>) -> Result<String, DecodeError> {
    Ok(from.text()?.into_owned())
}

fn buffer(from: &mut Reader<'_>) -> Result<Option<Vec<u8>>, DecodeError> {
    Ok(from.get::<Option<&[u8]>>()?.map(<[u8]>::to_vec))
}

fn texts(from: &mut Reader<'_>) -> Result<Vec<String>, DecodeError> {
    let count = from.count()?.ok_or(DecodeError::Null)?;
    let mut texts = Vec::new();
    for _ in 0..count {
        texts.push(text(from)?);
    }
    Ok(texts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ox_proto::Stat;
    use ox_proto::acl::RawAcl;

    #[test]
    fn create_matches_apache_bytes() {
        let mut out = Vec::new();
        put_request(&mut out, 1, &Op::Create(Create::open("/a", b"x", 0)));
        let hex: String = out.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(
            hex,
            "000000320000000100000001000000022f61000000017800000001\
             0000001f00000005776f726c6400000006616e796f6e6500000000"
        );
    }

    #[test]
    fn null_fields_have_the_length_minus_one() {
        let body = |op: &Op| {
            let mut out = Vec::new();
            put_body(&mut out, op);
            out
        };
        let delete = Op::Delete { path: "/a".to_owned(), version: 7 };
        assert_eq!(body(&delete.with_path(None)), [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 7]);
        let null = RawAcl { perms: 1, scheme: None, id: Some("x".into()) };
        let set_acl = |acl| Op::SetAcl { path: String::new(), acl, version: 0 };
        assert_eq!(body(&set_acl(None))[4..8], [0xff; 4]);
        assert_eq!(body(&set_acl(Some(vec![null])))[4..21], *b"\0\0\0\x01\0\0\0\x01\xff\xff\xff\xff\0\0\0\x01x");
    }

    #[test]
    fn results_of_a_multi_are_decoded_strictly() {
        let results = |err: i32, end: MultiHeader| {
            let mut bytes = Vec::new();
            MultiHeader { op: -1, done: false, err: -101 }.put(&mut bytes);
            err.put(&mut bytes);
            end.put(&mut bytes);
            decode_body(&Op::Multi(Vec::new()), 0, &bytes)
        };
        assert_eq!(results(-101, MultiHeader::END), ReplyBody::Multi(vec![ElementResult::error(-101)]));
        assert_eq!(results(-102, MultiHeader::END), ReplyBody::Undecodable, "two codes");
        assert_eq!(results(-101, MultiHeader { err: 0, ..MultiHeader::END }), ReplyBody::Undecodable);
    }

    #[test]
    fn body_is_decoded_by_request_type() {
        let mut bytes = Vec::new();
        put_buffer(&mut bytes, None);
        Stat::default().put(&mut bytes);
        let op = Op::GetData { path: "/a".to_owned(), watch: false };
        assert_eq!(decode_body(&op, 0, &bytes), ReplyBody::Data(None, Stat::default()));
        assert_eq!(decode_body(&op, -101, &[]), ReplyBody::Empty);
        assert_eq!(decode_body(&op, 0, &bytes[..20]), ReplyBody::Undecodable);
        assert_eq!(decode_body(&Op::Ping, 0, &bytes), ReplyBody::Undecodable);
    }
}
