//! Requests with null fields.

use super::{ANYONE, BOB, check_codes, fixture};
use crate::harness::{Harness, plain};
use crate::request::{
    Bytes, add_watch, container, create, create_ttl, create2, delete, get, null_entry, set_acl, set_data,
};
use ox_history::{Op, RequestedAcl};

#[test]
fn null_paths_of_writes_are_refused() {
    let null = |op: Op| op.with_path(None);
    check_codes(&[
        (null(create("", 0)), -5),
        (null(create2("", 0)), -5),
        (null(container("", 4)), -5),
        (null(create_ttl("", 5, 1)), -5),
        (null(delete("")), -5),
        (null(set_data("", "")), -8),
        (null(set_acl("", &super::bobs())), -8),
    ]);
    for op in [create("", 0), delete(""), set_data("", "")] {
        let mut harness = fixture(plain());
        let before = harness.state.last_zxid().0;
        harness.code(ANYONE, &null(op));
        assert_eq!(harness.state.last_zxid().0, before + 1, "a zxid is taken");
    }
}

#[test]
fn null_paths_of_reads() {
    let mut harness = fixture(plain());
    let null = |op: Op| op.with_path(None);
    let path = String::new;
    for read in [
        Op::Exists { path: path(), watch: true },
        Op::GetData { path: path(), watch: true },
        Op::GetAcl { path: path() },
        Op::GetChildren { path: path(), watch: false },
        Op::GetChildren2 { path: path(), watch: false },
        Op::GetAllChildrenNumber { path: path() },
    ] {
        assert_eq!(harness.read_code(ANYONE, &null(read.clone())), -5, "{read:?}");
    }
    assert_eq!(harness.read_code(ANYONE, &null(Op::Sync { path: path() })), 0);
    assert_eq!(harness.reply[20..], [0xff; 4], "echoed as null");
    assert_eq!(harness.read_code(BOB, &null(Op::GetEphemerals { prefix: path() })), 0);
    assert_eq!(harness.reply[20..24], [0, 0, 0, 3], "as if all were requested");
    assert_eq!(harness.read_code(ANYONE, &null(Op::RemoveWatches { path: path(), kind: 3 })), -121);
    assert_eq!(harness.read_code(ANYONE, &null(Op::CheckWatches { path: path(), kind: 3 })), -121);
    assert_eq!(harness.read_code(ANYONE, &null(add_watch("", 0))), 0);
    harness.ok(ANYONE, &create("/fires", 0));
    assert_eq!(harness.events(ANYONE), []);
    assert_eq!(harness.read_code(ANYONE, &null(Op::RemoveWatches { path: path(), kind: 4 })), 0);
}

#[test]
fn data_may_be_null() {
    let mut harness = Harness::new(plain());
    harness.ok(ANYONE, &create("/n", 0).with_data(None));
    assert_eq!(harness.read_code(ANYONE, &get("/n")), 0);
    assert_eq!(harness.reply[20..24], [0xff; 4]);
    assert_eq!(harness.state.stat("/n").unwrap().data_length, 0);
    harness.ok(ANYONE, &set_data("/n", ""));
    assert_eq!(harness.read_code(ANYONE, &get("/n")), 0);
    assert_eq!(harness.reply[20..24], [0; 4], "empty is not null");
    harness.ok(ANYONE, &set_data("/n", "x").with_data(None));
    harness.compare_all();
    harness.reload();
    harness.compare_all();
}

#[test]
fn k162_null_lists_and_entries() {
    let entry = null_entry;
    let lists: Vec<(RequestedAcl, i32)> = vec![
        (None, -114),
        (Some(vec![]), -114),
        (Some(vec![entry(31, None, Some("anyone"))]), -114),
        (Some(vec![entry(31, Some("world"), None)]), -5),
        (Some(vec![entry(31, Some("digest"), None)]), -5),
        (Some(vec![entry(31, Some("ip"), None)]), -5),
        (Some(vec![entry(31, Some("auth"), None)]), 0),
        (Some(vec![entry(1, Some("auth"), None), entry(1, Some("auth"), None)]), -5),
        (Some(vec![entry(1, Some("auth"), None), entry(2, Some("auth"), None)]), 0),
        (Some(vec![entry(1, None, Some("a")), entry(1, None, Some("b"))]), -5),
        (Some(vec![entry(31, Some("world"), Some("anybody"))]), -114),
        (Some(vec![entry(31, Some("digest"), Some("no-colon"))]), -114),
        (Some(vec![entry(31, Some("digest"), Some(""))]), -114),
        (Some(vec![entry(31, Some("super"), Some(""))]), -114),
        (Some(vec![entry(31, Some("sasl"), Some("x"))]), -114),
        (Some(vec![entry(31, Some("ip"), Some("host"))]), -114),
        (Some(vec![entry(31, Some(""), Some(""))]), -114),
    ];
    for (list, expected) in lists {
        let mut harness = Harness::new(plain());
        let op = create("/n", 0).with_acl(list.clone());
        assert_eq!(harness.code(BOB, &op), expected, "{list:?}");
        // In a multi, a null list fails the request without a zxid, and a null field of an entry fails it with one.
        let (before, in_multi) = (harness.state.last_zxid().0, Op::Multi(vec![op.with_path(Some("/m"))]));
        let expected = if list.is_none() { -5 } else { expected };
        assert_eq!(harness.code(BOB, &in_multi), expected, "{list:?}");
        assert_eq!(harness.state.last_zxid().0 - before, i64::from(list.is_some()));
        let mut harness = Harness::new(plain());
        harness.ok(BOB, &create("/n", 0));
        let expected = if list.is_none() { -114 } else { expected };
        assert_eq!(harness.code(BOB, &set_acl("/n", &[]).with_acl(list.clone())), expected, "{list:?}");
    }
}

/// The lists before the null list take effect.
#[test]
fn null_list_of_set_watches_stops_the_request() {
    let mut harness = fixture(plain());
    let head = Bytes::default().long(0).texts(["/missing"].into_iter());
    let body = head.int(-1).texts(["/missing"].into_iter()).0;
    let reply = harness.reply_raw(ANYONE, 101, &body);
    let (event, reply) = reply.split_at(4 + 24 + 4 + "/missing".len());
    assert_eq!(event[20..24], [0, 0, 0, 2], "the deleted node of the first list");
    assert_eq!(reply[16..20], (-5_i32).to_be_bytes());
    let cut = Bytes::default().long(0).texts(["/missing"].into_iter()).int(7).0;
    assert_eq!(harness.reply_raw(ANYONE, 101, &cut).len(), 20, "a body that ends early has no effect");
}
