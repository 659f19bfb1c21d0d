//! multi: several writes that take effect together or not at all.
//!
//! A failed multi is still a transaction of type multi: the elements before the failure as prepared, then errors.
//! Servers that apply it find the errors and change nothing.

use super::create::{CreateMode, CreateParams};
use super::{ErrorCode, Failure, check, create, delete, fits_record, put_body, set_data};
use crate::apply::{Applied, Applier};
use crate::pending::PendingView;
use crate::watch::EventSink;
use ox_proto::frame::{begin_frame, end_frame};
use ox_proto::jute::{Jute, put_count};
use ox_proto::multi::{MultiHeader, MultiOp, put_error_result};
use ox_proto::request::CreateRequest;
use ox_proto::txn::{CreateKind, Txn, TxnHeader};
use ox_proto::{DecodeError, OpCode, Reader};

/// The approximate size of a small element, for the initial capacity.
const ELEMENT_BYTES_GUESS: usize = 64;

pub(super) fn check_body(body: &[u8]) -> Result<(), Failure> {
    decode(body).map(drop)
}

/// Whether an element creates an ephemeral node.
// Compat: only create and create2 are checked; other elements fail when they are prepared.
pub(super) fn creates_ephemeral(body: &[u8]) -> bool {
    let is_ephemeral = |element: &MultiOp<'_>| matches!(element, MultiOp::Create(op, request) if create::creates_ephemeral(*op, request));
    decode(body).is_ok_and(|elements| elements.iter().any(is_ephemeral))
}

pub(super) fn prepare(view: &mut PendingView<'_>, body: &[u8], out: &mut Vec<u8>) -> Result<OpCode, Failure> {
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
        // Compat: an error that Apache reports by an exception (a null id in a list, a malformed limit) fails the whole
        // request.
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
        // An `auth` entry can expand a thousandfold: stop as soon as the transaction is too large to be stored (K151).
        if !fits_record(view, out.len() - begin) {
            view.roll_back(digest);
            return Err(ErrorCode::MarshallingError.into());
        }
    }
    if failed.is_some() {
        view.roll_back(digest);
    }
    Ok(OpCode::Multi)
}

/// Decodes the elements, or returns how the whole request fails.
// Compat: a multi that cannot be decoded uses a zxid, except for a null ACL in a create.
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
    // Compat: null paths and reads are detected after the whole list is decoded, null ACLs before.
    if elements.iter().any(|element| element.is_read() || element.path().is_none()) {
        return Err(ErrorCode::MarshallingError.into());
    }
    Ok(elements)
}

/// The checks that Apache makes while it decodes the list.
fn check_shape(element: &MultiOp<'_>) -> Result<(), Failure> {
    let MultiOp::Create(_, request) = element else { return Ok(()) };
    // Compat: invalid flags, and TTL modes without a ttl, fail the whole request. Only invalid flags are detected
    // before a null ACL.
    let mode = CreateMode::from_flags(request.flags).ok_or(ErrorCode::MarshallingError)?;
    if request.acl.is_null() {
        return Err(DecodeError::Null.into());
    }
    if mode.ttl { Err(ErrorCode::MarshallingError.into()) } else { Ok(()) }
}

fn prepare_element(view: &mut PendingView<'_>, element: &MultiOp<'_>, out: &mut Vec<u8>) -> Result<OpCode, ErrorCode> {
    match element {
        MultiOp::Create(op, request) => prepare_create(view, *op, request, out),
        MultiOp::CreateTtl(request) => match CreateMode::from_flags(request.flags) {
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

// Compat: inside a multi the flags determine the kind of node, not the type: a `create` with the container flag makes a
// container.
fn prepare_create(
    view: &mut PendingView<'_>,
    op: OpCode,
    request: &CreateRequest<'_>,
    out: &mut Vec<u8>,
) -> Result<OpCode, ErrorCode> {
    let mode = CreateMode::from_flags(request.flags).ok_or(ErrorCode::BadArguments)?;
    let kind = if mode.container { CreateKind::Container } else { mode.kind(op) };
    let (path, data, acl) = (request.path.as_deref(), request.data, request.acl);
    let CreateMode { sequential, ephemeral, .. } = mode;
    create::create(view, &CreateParams { path, data, acl, sequential, ephemeral, kind }, out)
}

impl<E: EventSink> Applier<'_, E> {
    pub(crate) fn multi(&mut self, header: &TxnHeader, elements: &[Txn<'_>]) -> Applied {
        if elements.iter().any(|element| element.kind() == OpCode::Error) {
            return Applied::Nothing;
        }
        Applied::Multi(elements.iter().map(|element| self.txn(header, element)).collect())
    }
}

/// The result of each element, or for a failed multi its error code: 0 for the elements before the failure.
pub(super) fn put_reply(out: &mut Vec<u8>, elements: &[Txn<'_>], applied: &Applied) {
    if let Applied::Multi(results) = applied {
        for (element, result) in elements.iter().zip(results) {
            MultiHeader { op: result_type(element).code(), done: false, err: 0 }.put(out);
            put_body(out, element, result);
        }
    } else {
        let errors = elements.iter().map(|element| if let Txn::Error { err } = element { *err } else { 0 });
        errors.for_each(|err| put_error_result(out, err));
    }
    MultiHeader::END.put(out);
}

// Compat: the results of containers and TTL nodes have the type create2.
fn result_type(element: &Txn<'_>) -> OpCode {
    let kind = element.kind();
    if matches!(kind, OpCode::CreateContainer | OpCode::CreateTtl) { OpCode::Create2 } else { kind }
}
