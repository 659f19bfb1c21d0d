//! Logs that violate their invariants (P16, P37, P40).

use crate::history_builder::{HistoryBuilder, create};
use ox_history::{LoggedTxn, Op, ViolationKind};
use ox_proto::Zxid;

#[test]
fn p16_gap_is_found() {
    let (mut builder, [a]) = HistoryBuilder::connected();
    builder.write(a, create("/a"));
    builder.history.log.remove(0);
    builder.assert_violation(ViolationKind::LogGap);
}

#[test]
fn p16_repeated_zxid_is_found() {
    let (mut builder, [a]) = HistoryBuilder::connected();
    builder.write(a, create("/a"));
    builder.history.log[1].zxid = Zxid(1);
    builder.assert_violation(ViolationKind::LogGap);
}

#[test]
fn p37_reused_session_id_is_found() {
    let (mut builder, [a]) = HistoryBuilder::connected();
    builder.write(a, Op::CloseSession);
    builder.disconnect(a);
    builder.log(builder.session(a), 0, LoggedTxn::CreateSession { timeout_ms: 4000 });
    builder.assert_violation(ViolationKind::SessionIdReused);
}

#[test]
fn p40_write_after_close_is_found() {
    let (mut builder, [a]) = HistoryBuilder::connected();
    builder.write(a, Op::CloseSession);
    builder.disconnect(a);
    let delete = LoggedTxn::Delete { path: "/a".to_owned() };
    builder.log(builder.session(a), 7, delete);
    builder.assert_violation(ViolationKind::ClosedSessionWrote);
}
