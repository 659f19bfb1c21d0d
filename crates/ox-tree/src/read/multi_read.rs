//! multiRead: several reads of one state.

use super::get_children::put_children;
use super::{Refusal, Requester, node_bytes, readable};
use crate::State;
use crate::limits::MULTI_READ_BYTES_MAX;
use ox_proto::jute::put_buffer;
use ox_proto::multi::{MultiHeader, MultiOp, put_error_result};
use ox_proto::request::PathWatch;
use ox_proto::{ErrorCode, Jute, OpCode, Reader};

pub(super) fn put(state: &State, requester: Requester<'_>, body: &[u8], out: &mut Vec<u8>) -> Result<(), Refusal> {
    let mut from = Reader::new(body);
    let mut elements = Vec::new();
    while let Some(element) = MultiOp::next(&mut from)? {
        elements.push(element);
    }
    let reads = elements.iter().filter(|element| element.is_read()).count();
    if reads != elements.len() {
        // Compat: a list that contains only writes is refused with an empty list of results.
        MultiHeader::END.put(out);
        return Err(Refusal { code: ErrorCode::MarshallingError, keeps_body: reads == 0 });
    }
    let start = out.len();
    for element in &elements {
        if MULTI_READ_BYTES_MAX < out.len() - start {
            return Err(ErrorCode::MarshallingError.into());
        }
        let (op, request) = match element {
            MultiOp::GetData(request) => (OpCode::GetData, request),
            MultiOp::GetChildren(request) => (OpCode::GetChildren, request),
            MultiOp::Create(..)
            | MultiOp::CreateTtl(_)
            | MultiOp::Delete(_)
            | MultiOp::SetData(_)
            | MultiOp::Check(_) => {
                unreachable!("writes were refused above")
            }
        };
        match put_element(state, requester, op, request, out) {
            Err(ErrorCode::MarshallingError) => {
                MultiHeader::END.put(out);
                return Err(Refusal { code: ErrorCode::MarshallingError, keeps_body: true });
            }
            Err(code) => put_error_result(out, code.code()),
            Ok(()) => (),
        }
    }
    MultiHeader::END.put(out);
    Ok(())
}

/// The approximate size of the results.
pub(super) fn reply_bytes(state: &State, body: &[u8]) -> usize {
    /// The size of a result's header and Stat.
    const RESULT_BYTES: usize = 80;
    let (mut from, mut bytes) = (Reader::new(body), 0);
    while let Ok(Some(element)) = MultiOp::next(&mut from) {
        bytes += match element {
            MultiOp::GetData(request) => RESULT_BYTES + node_bytes(state, OpCode::GetData, &request),
            MultiOp::GetChildren(request) => RESULT_BYTES + node_bytes(state, OpCode::GetChildren, &request),
            MultiOp::Create(..)
            | MultiOp::CreateTtl(_)
            | MultiOp::Delete(_)
            | MultiOp::SetData(_)
            | MultiOp::Check(_) => 0, // the whole request is refused
        };
    }
    bytes
}

// Compat: the watch flags of the elements are ignored.
fn put_element(
    state: &State,
    requester: Requester<'_>,
    op: OpCode,
    request: &PathWatch<'_>,
    out: &mut Vec<u8>,
) -> Result<(), ErrorCode> {
    let id = readable(state, requester, request.path.as_deref())?;
    MultiHeader { op: op.code(), done: false, err: 0 }.put(out);
    if op == OpCode::GetData {
        put_buffer(out, state.tree.get(id).data());
        state.stat_of(id).put(out);
    } else {
        put_children(state, id, out)?;
    }
    Ok(())
}
