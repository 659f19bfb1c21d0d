//! Requests of one connection take effect in the order they were sent (P24), and later ones see earlier ones (P25).

use super::matching::Matching;
use super::streams::Stream;
use crate::history::History;
use crate::op::Op;
use crate::violation::{Checked, Violation, ViolationKind, ViolationPlace};
use ox_proto::Zxid;

pub(crate) fn check(history: &History, streams: &[Stream], matching: &Matching) -> Checked {
    for (number, connection) in history.connections.iter().enumerate() {
        let (mut written, mut read) = (Zxid(0), Zxid(0));
        let mut missing = None;
        for (at, sent) in connection.requests.iter().enumerate() {
            let fail =
                |reason, detail: String| Err(Violation::new(reason, ViolationPlace::Request(number, at), detail));
            let reply = streams[number].reply_to(connection, at);
            match matching.zxid(history, number, at) {
                Some(zxid) => {
                    if let Some(missing) = missing {
                        return fail(
                            ViolationKind::SkippedWrite,
                            format!("{sent:?} is in the log, {missing:?} is not"),
                        );
                    }
                    if zxid <= written {
                        return fail(
                            ViolationKind::WritesOutOfOrder,
                            format!("{sent:?} got {zxid}, one before it {written}"),
                        );
                    }
                    if zxid <= read {
                        return fail(
                            ViolationKind::ReadAfterLaterWrite,
                            format!("{sent:?} got {zxid}, a read shows {read}"),
                        );
                    }
                    written = zxid;
                }
                None => {
                    if let Some(reply) = reply.filter(|reply| Zxid(0) < reply.zxid) {
                        if reply.zxid < written {
                            return fail(
                                ViolationKind::StaleOwnWrite,
                                format!("{sent:?} shows {}, {written} was written", reply.zxid),
                            );
                        }
                        read = read.max(reply.zxid);
                    } else if reply.is_none() && sent.op.is_write() && !may_be_refused(history, &sent.op) {
                        missing = Some(sent);
                    }
                }
            }
        }
    }
    Ok(())
}

/// Whether the server may have refused it without a log record; closeSession is never refused.
fn may_be_refused(history: &History, op: &Op) -> bool {
    history.settings.may_refuse_writes && *op != Op::CloseSession
}
