//! What goes wrong is said with a hint.

use crate::fake_server::{Manner, job, server, start};
use ox_bench::job::Server;
use ox_bench::perf::server::{Data, Running, ServerCommand};
use ox_bench::progress::Progress;
use ox_bench::stop_flag::Stop;
use std::net::TcpListener;

fn check(server: Server, workload: &str, expected: &str) {
    let error = job(workload, 3).measure(&[server], 0, &Stop::default(), &Progress::hidden()).unwrap_err();
    let text = format!("{error:#}");
    assert!(text.contains(expected) && text.contains("hint: "), "{workload}: {text}");
}

#[test]
fn nobody_listens() {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for workload in ["get", "session", "notify"] {
        check(server(address), workload, &format!("cannot connect to {address}"));
    }
}

#[test]
fn the_server_closes() {
    check(start(Manner::Closes), "get", "closed a connection while under load");
    check(start(Manner::Closes), "notify", "closed a connection while");
}

#[test]
fn replies_come_out_of_order() {
    check(start(Manner::Confuses), "get", "xid 77 where xid 1 was due");
}

#[test]
fn the_server_is_something_else() {
    check(start(Manner::SpeaksHttp), "get", "hint: is this the client port of a ZooKeeper server?");
}

#[test]
fn errors_are_counted_by_code() {
    let figures = job("get=1,set=1", 5)
        .measure(&[start(Manner::Refuses(-101))], 0, &Stop::default(), &Progress::hidden())
        .unwrap();
    assert_eq!(figures.errors.keys().copied().collect::<Vec<_>>(), [-101]);
    assert_eq!(figures.error_count(), figures.by_operation["get"].operations);
}

#[test]
fn a_root_of_somebody_else_is_left_alone() {
    let clean = |manner| format!("{:#}", job("get", 1).clean(start(manner), &Progress::hidden()).unwrap_err());
    let error = clean(Manner::IsForeign);
    assert!(error.starts_with("/it exists and was not made by this tool, so it is left alone\nhint: "), "{error}");
    let error = clean(Manner::Refuses(ox_proto::ErrorCode::NoAuth.code()));
    assert!(error.contains("cannot read /it: not authorized (-102)"), "{error}");
}

#[test]
fn a_port_in_use_is_not_taken_for_the_server_to_be_started() {
    let dir = tempfile::tempdir().unwrap();
    let port = start(Manner::Good).target.address.port();
    let command = ServerCommand::new("x", vec!["true".into()], dir.path().into(), port);
    let error = format!("{:#}", Running::start(&command, Data::Fresh).unwrap_err());
    assert!(error.contains("is not free"), "{error}");
}

#[test]
fn a_server_that_ends_at_once_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let command = ServerCommand::new("x", vec!["true".into()], dir.path().into(), port);
    let error = format!("{:#}", Running::start(&command, Data::Fresh).unwrap_err());
    assert!(error.contains("ended while starting"), "{error}");
}
