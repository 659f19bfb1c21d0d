//! multi: several writes that succeed together or not at all.
//!
//! A failed multi is a transaction of type multi all the same: what came before the failure as it would have been,
//! then errors. Whoever applies it sees the errors and does nothing.

use super::create::{Mode, New};
use super::{ErrorCode, Failure, check, create, delete, fits_a_record, set_data};
use crate::pending::View;
use ox_proto::frame::{begin_frame, end_frame};
use ox_proto::jute::{Jute, put_count};
use ox_proto::multi::MultiOp;
use ox_proto::request::CreateRequest;
use ox_proto::txn::CreateKind;
use ox_proto::{DecodeError, OpCode, Reader};

/// About what a small element takes; only how much room is made at first depends on it.
const ELEMENT_BYTES_GUESS: usize = 64;

/// Whether a body can be decoded.
pub(super) fn check_body(body: &[u8]) -> Result<(), Failure> {
    decode(body).map(drop)
}

/// Whether one of the elements asks for an ephemeral node.
// Compat: only create and create2 are looked at; others fail where they are prepared.
pub(super) fn makes_ephemeral(body: &[u8]) -> bool {
    let is_one = |element: &MultiOp<'_>| matches!(element, MultiOp::Create(op, request) if create::makes_ephemeral(*op, request));
    decode(body).is_ok_and(|elements| elements.iter().any(is_one))
}

pub(super) fn prepare(view: &mut View<'_>, body: &[u8], out: &mut Vec<u8>) -> Result<OpCode, Failure> {
    let elements = decode(body)?;
    let (begin, digest) = (out.len(), view.mark());
    put_count(out, elements.len());
    let mut failed = None;
    for element in &elements {
        let start = out.len();
        0_i32.put(out);
        let mark = begin_frame(out);
        let result = match failed {
            Some(_) => Err(ErrorCode::RuntimeInconsistency),
            None => prepare_element(view, element, out),
        };
        // Compat: what Apache stumbles over (a null id in a list, a limit that is no number) spoils the whole request.
        if result == Err(ErrorCode::MarshallingError) {
            view.roll_back(digest);
            return Err(ErrorCode::MarshallingError.into());
        }
        let kind = result.unwrap_or_else(|code| {
            failed.get_or_insert(code);
            out.truncate(mark);
            code.code().put(out);
            OpCode::Error
        });
        end_frame(out, mark);
        out[start..start + 4].copy_from_slice(&kind.code().to_be_bytes());
        // K151: what cannot be stored is not built to its end. A list that names `auth` grows a thousandfold.
        if !fits_a_record(view, out.len() - begin) {
            view.roll_back(digest);
            return Err(ErrorCode::MarshallingError.into());
        }
    }
    if failed.is_some() {
        view.roll_back(digest);
    }
    Ok(OpCode::Multi)
}

/// Decodes the list, or says how the whole request fails.
// Compat: what cannot be decoded takes a zxid here, except for a null list in a create.
fn decode(body: &[u8]) -> Result<Vec<MultiOp<'_>>, Failure> {
    let mut from = Reader::new(body);
    let mut elements = Vec::with_capacity(body.len() / ELEMENT_BYTES_GUESS);
    loop {
        match MultiOp::next(&mut from) {
            Ok(Some(element)) => {
                check_shape(&element)?;
                elements.push(element);
            }
            Ok(None) => break,
            Err(_) => return Err(ErrorCode::MarshallingError.into()),
        }
    }
    // Compat: null paths and reads are seen when the whole list is decoded, null lists before.
    if elements.iter().any(|element| element.is_read() || element.path().is_none()) {
        return Err(ErrorCode::MarshallingError.into());
    }
    Ok(elements)
}

/// Checks what is seen while the list is decoded.
fn check_shape(element: &MultiOp<'_>) -> Result<(), Failure> {
    let MultiOp::Create(_, request) = element else { return Ok(()) };
    // Compat: flags that are none, or TTL modes without a ttl, spoil the whole request. Of the two only the first is
    // seen before a null list.
    let mode = Mode::from_flags(request.flags).ok_or(ErrorCode::MarshallingError)?;
    if request.acl.is_null() {
        return Err(DecodeError::Null.into());
    }
    if mode.ttl { Err(ErrorCode::MarshallingError.into()) } else { Ok(()) }
}

fn prepare_element(view: &mut View<'_>, element: &MultiOp<'_>, out: &mut Vec<u8>) -> Result<OpCode, ErrorCode> {
    match element {
        MultiOp::Create(op, request) => prepare_create(view, *op, request, out),
        MultiOp::CreateTtl(request) => match Mode::from_flags(request.flags) {
            Some(mode) if !mode.ttl => {
                let plain = CreateRequest {
                    path: request.path.clone(),
                    data: request.data,
                    acl: request.acl,
                    flags: request.flags,
                };
                prepare_create(view, OpCode::Create, &plain, out)
            }
            _ => create::prepare_ttl(view, request, out),
        },
        MultiOp::Delete(request) => delete::prepare(view, request, out),
        MultiOp::SetData(request) => set_data::prepare(view, request, out),
        MultiOp::Check(request) => check::prepare(view, request, out),
        MultiOp::GetData(_) | MultiOp::GetChildren(_) => Err(ErrorCode::MarshallingError),
    }
}

// Compat: inside a multi the flags decide what the element is, not its type: a `create` with the flags
// of a container makes one.
fn prepare_create(
    view: &mut View<'_>,
    op: OpCode,
    request: &CreateRequest<'_>,
    out: &mut Vec<u8>,
) -> Result<OpCode, ErrorCode> {
    let mode = Mode::from_flags(request.flags).ok_or(ErrorCode::BadArguments)?;
    let kind = if mode.container { CreateKind::Container } else { mode.kind(op) };
    let (path, data, acl) = (request.path.as_deref(), request.data, request.acl);
    let Mode { sequential, ephemeral, .. } = mode;
    create::create(view, &New { path, data, acl, sequential, ephemeral, kind }, out)
}
