//! Failures are reported with a hint.

use crate::fake_server::{Behaviour, job, server, start, start_interrupting};
use ox_bench::job::MeasuredServer;
use ox_bench::progress::ProgressLine;
use ox_bench::stop_flag::StopFlag;
use ox_testkit::free_port;
use std::time::Duration;

fn check(server: MeasuredServer, workload: &str, expected: &str) {
    let error = job(workload, 3).measure(&[server], 0, &StopFlag::default(), &ProgressLine::hidden()).unwrap_err();
    let text = format!("{error:#}");
    assert!(text.contains(expected) && text.contains("hint: "), "{workload}: {text}");
}

#[test]
fn refused_connection_is_reported() {
    let address = ([127, 0, 0, 1], free_port()).into();
    for workload in ["get", "session", "notify"] {
        check(server(address), workload, &format!("cannot connect to {address}"));
    }
}

#[test]
fn closed_connection_is_reported() {
    check(start(Behaviour::Closes), "get", "closed a connection while under load");
    check(start(Behaviour::Closes), "notify", "closed a connection while");
}

#[test]
fn wrong_xid_is_reported() {
    check(start(Behaviour::Confuses), "get", "xid 77 where xid 1 was due");
}

#[test]
fn foreign_protocol_is_reported() {
    check(start(Behaviour::SpeaksHttp), "get", "hint: is this the client port of a ZooKeeper server?");
}

#[test]
fn tls_port_is_named() {
    for workload in ["get", "notify"] {
        check(start(Behaviour::SpeaksTls), workload, "speaks TLS on this port, and this command does not\nhint: ");
    }
}

#[test]
fn interrupt_before_the_measurement_leaves_no_results() {
    let stop = StopFlag::default();
    stop.set();
    for workload in ["get", "session", "notify"] {
        let failed = job(workload, 1).measure(&[start(Behaviour::Good)], 0, &stop, &ProgressLine::hidden());
        let text = failed.unwrap_err().to_string();
        assert_eq!(text, "interrupted before the measurement: there are no results", "{workload}");
    }
}

#[test]
fn interrupt_marks_the_results() {
    let mut job = job("get", 1);
    (job.timing.warm_up, job.timing.duration) = (Duration::ZERO, Duration::from_secs(600));
    // An early interrupt may precede the measurement.
    let attempt = |number: u64| {
        let stop = StopFlag::default();
        let server = start_interrupting(&stop, number);
        job.measure(&[server], 0, &stop, &ProgressLine::hidden()).ok()
    };
    let results = (0..20).find_map(|power| attempt(100 << power)).unwrap();
    assert!(results.interrupted, "{results:?}");
    let text = ox_bench::report::results(&results);
    assert!(text.starts_with("interrupted  after "), "{text}");
    let json = serde_json::to_value(&results).unwrap();
    assert_eq!(json["interrupted"], true);
}

#[test]
fn errors_are_counted_by_code() {
    let results = job("get=1,set=1", 5)
        .measure(&[start(Behaviour::Refuses(-101))], 0, &StopFlag::default(), &ProgressLine::hidden())
        .unwrap();
    assert_eq!(results.errors.keys().copied().collect::<Vec<_>>(), [-101]);
    assert_eq!(results.error_count(), results.by_operation["get"].operations);
}

#[test]
fn foreign_root_is_not_deleted() {
    let clean =
        |behaviour| format!("{:#}", job("get", 1).clean(start(behaviour), &ProgressLine::hidden()).unwrap_err());
    let error = clean(Behaviour::IsForeign);
    assert!(error.starts_with("/it exists and was not made by this tool, so it is left alone\nhint: "), "{error}");
    let error = clean(Behaviour::Refuses(ox_proto::ErrorCode::NoAuth.code()));
    assert!(error.contains("cannot read /it: not authorized (-102)"), "{error}");
}
