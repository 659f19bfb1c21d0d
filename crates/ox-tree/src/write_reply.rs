//! Replies to writes, built from the transaction and the result of applying it.

use crate::apply::Applied;
use ox_proto::frame::{begin_frame, end_frame};
use ox_proto::jute::{put_buffer, put_text};
use ox_proto::multi::{MultiHeader, put_error_result};
use ox_proto::reply::ReplyHeader;
use ox_proto::txn::{CreateKind, Record, Txn};
use ox_proto::{Jute, OpCode};

/// Appends the complete reply frame for the write that `record` logs.
pub fn put_write_reply(out: &mut Vec<u8>, record: &Record<'_>, applied: &Applied) {
    let mark = begin_frame(out);
    let err = if let Txn::Error { err } = record.txn { err } else { 0 };
    ReplyHeader { xid: record.header.cxid, zxid: record.header.zxid, err }.put(out);
    match (&record.txn, applied) {
        (Txn::Multi(elements), Applied::Multi(results)) => {
            for (element, result) in elements.iter().zip(results) {
                MultiHeader { op: result_type(element).code(), done: false, err: 0 }.put(out);
                put_body(out, element, result);
            }
            MultiHeader::END.put(out);
        }
        (Txn::Multi(elements), _) => {
            element_errors(elements).for_each(|err| put_error_result(out, err));
            MultiHeader::END.put(out);
        }
        (txn, applied) => put_body(out, txn, applied),
    }
    end_frame(out, mark);
}

fn put_body(out: &mut Vec<u8>, txn: &Txn<'_>, applied: &Applied) {
    if let Txn::Create(create) = txn {
        put_text(out, &create.path);
        if matches!(create.kind, CreateKind::Create { .. }) {
            return;
        }
    }
    if let Txn::Reconfig { data, .. } = txn {
        put_buffer(out, *data);
    }
    if let Applied::Stat(stat) = applied {
        stat.put(out);
    }
}

// Compat: the results of containers and TTL nodes have the type create2.
fn result_type(element: &Txn<'_>) -> OpCode {
    let kind = element.kind();
    if matches!(kind, OpCode::CreateContainer | OpCode::CreateTtl) { OpCode::Create2 } else { kind }
}

/// The error code of each element of a failed multi: 0 for the elements before the failure.
fn element_errors<'a>(elements: &'a [Txn<'_>]) -> impl Iterator<Item = i32> + 'a {
    elements.iter().map(|element| if let Txn::Error { err } = element { *err } else { 0 })
}
