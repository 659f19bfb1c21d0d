//! Answers against the model: names (P33), versions (P34), Stats (P35), refusals without effect (P31), and the rest
//! (P23).

use super::multis;
use crate::history::LoggedTxn;
use crate::model::is_kept_by_server;
use crate::op::{Answer, Body, Create, Element, Op};
use crate::violation::Reason;
use ox_proto::{ErrorCode, Stat};

/// Whether an answer is the expected one. Usage of quotas is kept by the server and not looked at.
pub(crate) fn is_same(op: &Op, expected: &Answer, seen: &Answer) -> bool {
    let path = match op {
        // Each server has a stat of its own.
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

fn data(answer: &Answer) -> Option<&Vec<u8>> {
    if let Body::Data(data, _) = &answer.body { data.as_ref() } else { None }
}

fn is_same_list(elements: &[Op], expected: &Answer, seen: &Answer) -> bool {
    let (Body::Multi(expected_list), Body::Multi(seen_list)) = (&expected.body, &seen.body) else {
        return expected == seen;
    };
    let answer = |element: &Element| Answer { err: element.err, body: element.body.clone() };
    let mut pairs = elements.iter().zip(expected_list.iter().zip(seen_list));
    (expected.err, expected_list.len()) == (seen.err, seen_list.len())
        && pairs.all(|(op, (expected, seen))| expected.op == seen.op && is_same(op, &answer(expected), &answer(seen)))
}

fn without_usage(answer: &Answer) -> Answer {
    let unsized_stat = |stat: &Stat| Stat { data_length: 0, ..*stat };
    let body = match &answer.body {
        Body::Data(_, stat) => Body::Data(None, unsized_stat(stat)),
        Body::Stat(stat) => Body::Stat(unsized_stat(stat)),
        Body::Created(path, stat) => Body::Created(path.clone(), unsized_stat(stat)),
        Body::Acl(acl, stat) => Body::Acl(acl.clone(), unsized_stat(stat)),
        Body::ChildrenStat(names, stat) => Body::ChildrenStat(names.clone(), unsized_stat(stat)),
        other => other.clone(),
    };
    Answer { err: answer.err, body }
}

/// Why the log does not hold what the request asked for.
pub(crate) fn judge_txn(op: &Op, expected: &LoggedTxn, logged: &LoggedTxn) -> Reason {
    let refused_for_version = expected.is_error() && codes(expected).any(|err| err == ErrorCode::BadVersion.code());
    if refused_for_version && !logged.is_error() {
        return Reason::LostUpdate;
    }
    if is_sequential(op) && names(expected) != names(logged) && !logged.is_error() {
        return Reason::WrongName;
    }
    Reason::WrongTransaction
}

/// Why the answer to a write is not the expected one.
pub(crate) fn judge_write(op: &Op, expected: &Answer, seen: &Answer, logged: &LoggedTxn) -> Reason {
    if let Some(reason) = multis::judge(op, expected, seen, logged) {
        return reason;
    }
    if seen.err != 0 && !logged.is_error() {
        return Reason::ErrorTookEffect;
    }
    if seen.err == 0 && expected.err == ErrorCode::BadVersion.code() {
        return Reason::LostUpdate;
    }
    if is_sequential(op) && path(&expected.body) != path(&seen.body) {
        return Reason::WrongName;
    }
    if differs_in_stat_only(expected, seen) { Reason::WrongStat } else { Reason::WrongResult }
}

/// True when everything but the Stat is right.
pub(crate) fn differs_in_stat_only(expected: &Answer, seen: &Answer) -> bool {
    let blank = |body: &Body| match body {
        Body::Created(path, _) => Body::Created(path.clone(), Stat::default()),
        Body::Stat(_) => Body::Stat(Stat::default()),
        Body::Data(data, _) => Body::Data(data.clone(), Stat::default()),
        Body::ChildrenStat(names, _) => Body::ChildrenStat(names.clone(), Stat::default()),
        Body::Acl(acl, _) => Body::Acl(acl.clone(), Stat::default()),
        other => other.clone(),
    };
    expected.err == seen.err && expected.body != seen.body && blank(&expected.body) == blank(&seen.body)
}

fn path(body: &Body) -> Option<&str> {
    match body {
        Body::Path(path) | Body::Created(path, _) => Some(path),
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
