//! Compares replies with the model: names (P33), versions (P34), Stats (P35), errors without effect (P31), and
//! everything else (P23).

use super::multis;
use crate::history::LoggedTxn;
use crate::model::is_kept_by_server;
use crate::op::{Create, ElementResult, Op, OpResult, ReplyBody};
use crate::violation::ViolationKind;
use ox_proto::{ErrorCode, Stat};

/// Whether a reply is the expected one. Ignores quota usage, which the server maintains.
pub(crate) fn is_same(op: &Op, expected: &OpResult, seen: &OpResult) -> bool {
    let path = match op {
        // Each server has its own stat of the configuration node.
        Op::Reconfig(_) => return (expected.err, data(expected)) == (seen.err, data(seen)),
        Op::Multi(elements) | Op::MultiRead(elements) => return is_same_list(elements, expected, seen),
        Op::GetData { path, .. } | Op::Exists { path, .. } | Op::GetAcl { path } | Op::GetChildren2 { path, .. } => {
            path
        }
        Op::SetData { path, .. } | Op::SetAcl { path, .. } | Op::Create(Create { path, .. }) => path,
        _ => return expected == seen,
    };
    if is_kept_by_server(path) { without_usage(expected) == without_usage(seen) } else { expected == seen }
}

fn data(result: &OpResult) -> Option<&Vec<u8>> {
    if let ReplyBody::Data(data, _) = &result.body { data.as_ref() } else { None }
}

fn is_same_list(elements: &[Op], expected: &OpResult, seen: &OpResult) -> bool {
    let (ReplyBody::Multi(expected_list), ReplyBody::Multi(seen_list)) = (&expected.body, &seen.body) else {
        return expected == seen;
    };
    let result = |element: &ElementResult| OpResult { err: element.err, body: element.body.clone() };
    let mut pairs = elements.iter().zip(expected_list.iter().zip(seen_list));
    (expected.err, expected_list.len()) == (seen.err, seen_list.len())
        && pairs.all(|(op, (expected, seen))| expected.op == seen.op && is_same(op, &result(expected), &result(seen)))
}

fn without_usage(result: &OpResult) -> OpResult {
    let unsized_stat = |stat: &Stat| Stat { data_length: 0, ..*stat };
    let body = match &result.body {
        ReplyBody::Data(_, stat) => ReplyBody::Data(None, unsized_stat(stat)),
        ReplyBody::Stat(stat) => ReplyBody::Stat(unsized_stat(stat)),
        ReplyBody::Created(path, stat) => ReplyBody::Created(path.clone(), unsized_stat(stat)),
        ReplyBody::Acl(acl, stat) => ReplyBody::Acl(acl.clone(), unsized_stat(stat)),
        ReplyBody::ChildrenStat(names, stat) => ReplyBody::ChildrenStat(names.clone(), unsized_stat(stat)),
        other => other.clone(),
    };
    OpResult { err: result.err, body }
}

/// Why the log record does not match the request.
pub(crate) fn classify_txn(op: &Op, expected: &LoggedTxn, logged: &LoggedTxn) -> ViolationKind {
    let refused_for_version = expected.is_error() && codes(expected).any(|err| err == ErrorCode::BadVersion.code());
    if refused_for_version && !logged.is_error() {
        return ViolationKind::LostUpdate;
    }
    if is_sequential(op) && names(expected) != names(logged) && !logged.is_error() {
        return ViolationKind::WrongName;
    }
    ViolationKind::WrongTransaction
}

/// Why the reply to a write is not the expected one.
pub(crate) fn classify_write(op: &Op, expected: &OpResult, seen: &OpResult, logged: &LoggedTxn) -> ViolationKind {
    if let Some(reason) = multis::classify(op, expected, seen, logged) {
        return reason;
    }
    if seen.err != 0 && !logged.is_error() {
        return ViolationKind::ErrorTookEffect;
    }
    if seen.err == 0 && expected.err == ErrorCode::BadVersion.code() {
        return ViolationKind::LostUpdate;
    }
    if is_sequential(op) && path(&expected.body) != path(&seen.body) {
        return ViolationKind::WrongName;
    }
    if differs_in_stat_only(expected, seen) { ViolationKind::WrongStat } else { ViolationKind::WrongResult }
}

/// Whether only the Stat is wrong.
pub(crate) fn differs_in_stat_only(expected: &OpResult, seen: &OpResult) -> bool {
    let blank = |body: &ReplyBody| match body {
        ReplyBody::Created(path, _) => ReplyBody::Created(path.clone(), Stat::default()),
        ReplyBody::Stat(_) => ReplyBody::Stat(Stat::default()),
        ReplyBody::Data(data, _) => ReplyBody::Data(data.clone(), Stat::default()),
        ReplyBody::ChildrenStat(names, _) => ReplyBody::ChildrenStat(names.clone(), Stat::default()),
        ReplyBody::Acl(acl, _) => ReplyBody::Acl(acl.clone(), Stat::default()),
        other => other.clone(),
    };
    expected.err == seen.err && expected.body != seen.body && blank(&expected.body) == blank(&seen.body)
}

fn path(body: &ReplyBody) -> Option<&str> {
    match body {
        ReplyBody::Path(path) | ReplyBody::Created(path, _) => Some(path),
        _ => None,
    }
}

fn is_sequential(op: &Op) -> bool {
    match op {
        Op::Create(create) => create.is_sequential(),
        Op::Multi(elements) => elements.iter().any(is_sequential),
        _ => false,
    }
}

fn names(txn: &LoggedTxn) -> Vec<&str> {
    match txn {
        LoggedTxn::Create { path, .. } => vec![path],
        LoggedTxn::Multi(elements) => elements.iter().flat_map(names).collect(),
        _ => Vec::new(),
    }
}

fn codes(txn: &LoggedTxn) -> Box<dyn Iterator<Item = i32> + '_> {
    match txn {
        LoggedTxn::Error { err } => Box::new(std::iter::once(*err)),
        LoggedTxn::Multi(elements) => Box::new(elements.iter().flat_map(codes)),
        _ => Box::new(std::iter::empty()),
    }
}
