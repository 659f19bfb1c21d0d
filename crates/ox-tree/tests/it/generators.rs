//! Random requests, biased towards collisions.

use crate::harness::{CONNS, Harness, Setup};
use crate::model::KNOWN_IPS;
use crate::model::reads::ReadOp;
use crate::request::{Entry, Op, entry, open};
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};
use std::hash::{BuildHasher, Hasher};

/// One step of a random test.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Write(usize, Op),
    Read(usize, ReadOp),
    Open(usize),
    Close(usize),
    DeleteContainer(String),
    DropConn(usize),
    /// Applies all but this number of writes in flight.
    Apply(usize),
    TellPending,
    Tick(i64),
    Reconfig(i64),
}

impl Harness {
    pub(crate) fn step(&mut self, step: &Step) {
        match step {
            Step::Write(conn, op) => self.write(*conn, op),
            Step::Read(conn, read) => self.read(*conn, read),
            Step::Open(conn) => self.open(*conn),
            Step::Close(conn) => self.close(*conn),
            Step::DeleteContainer(path) => self.delete_container(path),
            Step::DropConn(conn) => self.drop_conn(*conn),
            Step::Apply(depth) => self.apply_beyond(*depth),
            Step::TellPending => self.sync_pending(),
            Step::Tick(ms) => self.time += ms,
            Step::Reconfig(number) => self.reconfig(&format!("version={number}")),
        }
    }
}

/// Runs `test` on random values. A failure prints the seed; `OX_SEED` repeats it, `OX_TIMES` multiplies the cases.
pub(crate) fn check<S: Strategy>(cases: u32, strategy: &S, test: impl Fn(S::Value)) {
    let number = |name| std::env::var(name).ok().and_then(|number| number.parse::<u64>().ok());
    let cases = cases * u32::try_from(number("OX_TIMES").unwrap_or(1)).unwrap();
    let seed: u64 = number("OX_SEED").unwrap_or_else(|| std::hash::RandomState::new().build_hasher().finish());
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let config = Config { cases, failure_persistence: None, max_shrink_iters: 20_000, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
    let result = runner.run(strategy, |value| {
        test(value);
        Ok::<(), TestCaseError>(())
    });
    match result {
        Ok(()) => (),
        Err(TestError::Fail(reason, value)) => panic!("OX_SEED={seed}: {reason}\nminimal: {value:?}"),
        Err(TestError::Abort(reason)) => panic!("OX_SEED={seed}: {reason}"),
    }
}

pub(crate) fn setups() -> BoxedStrategy<Setup> {
    let depth = select(vec![0_usize, 0, 1, 3, 10, 50]);
    let flags = (prop::bool::weighted(0.8), any::<bool>(), any::<bool>(), any::<bool>());
    let setup = |(depth, (extended_types, enforce_quota, close_session_txn, has_quota))| Setup {
        depth,
        extended_types,
        enforce_quota,
        close_session_txn,
        has_quota,
    };
    (depth, flags).prop_map(setup).boxed()
}

fn odd_paths() -> BoxedStrategy<String> {
    let odd = vec![
        "/",
        "",
        "a",
        "//a",
        "/a/",
        "/a//b",
        "/./a",
        "/a/..",
        "/a\0",
        "/a\u{1}",
        "/\u{1f600}",
        "/\u{e9}",
        "/missing/a",
    ];
    select(odd).prop_map(str::to_owned).boxed()
}

fn quota_paths() -> BoxedStrategy<String> {
    let paths = vec![
        "/zookeeper/quota/a",
        "/zookeeper/quota/a/a",
        "/zookeeper/quota/a/zookeeper_limits",
        "/zookeeper/quota/a/zookeeper_stats",
        "/zookeeper/quota/a/a/zookeeper_limits",
        "/zookeeper/quota/a/a/zookeeper_stats",
        "/zookeeper/quota/zookeeper_limits",
        "/zookeeper/zookeeper_limits",
        "/zookeeper/config",
    ];
    select(paths).prop_map(str::to_owned).boxed()
}

/// Paths for new nodes.
fn new_paths() -> BoxedStrategy<String> {
    let names = || select(vec!["a", "b", "c", "d", "q-", "zookeeper_limits", "zookeeper_stats"]);
    prop_oneof![
        14 => (0_usize..1000, names()).prop_map(|(at, name)| format!("@{at}/{name}")),
        4 => select(vec!["/a", "/b", "/c", "/a/a", "/a/b"]).prop_map(str::to_owned),
        3 => quota_paths(),
        1 => (0_usize..1000).prop_map(|at| format!("@{at}")),
        1 => odd_paths(),
    ]
    .boxed()
}

/// Paths that probably exist.
fn paths() -> BoxedStrategy<String> {
    prop_oneof![
        14 => (0_usize..1000).prop_map(|at| format!("@{at}")),
        3 => select(vec!["/a", "/b", "/c", "/a/a", "/a/b"]).prop_map(str::to_owned),
        2 => quota_paths(),
        1 => new_paths(),
        1 => odd_paths(),
    ]
    .boxed()
}

fn path() -> BoxedStrategy<Option<String>> {
    prop_oneof![60 => paths().prop_map(Some), 1 => Just(None)].boxed()
}

fn new_path() -> BoxedStrategy<Option<String>> {
    prop_oneof![60 => new_paths().prop_map(Some), 1 => Just(None)].boxed()
}

fn data() -> BoxedStrategy<Option<Vec<u8>>> {
    let quota_texts: Vec<&[u8]> = vec![
        b"count=3,bytes=-1",
        b"count=-1,bytes=-1=;byteHardLimit=20;countHardLimit=3",
        b"countHardLimit=2",
        b"byteHardLimit=8;;",
        b",count=1",
        b"count=",
        b"nonsense",
        b"count==7",
        b"bytes=+5,count=2",
        b"other=4",
    ];
    prop_oneof![
        4 => prop::collection::vec(any::<u8>(), 0..12).prop_map(Some),
        2 => select(quota_texts).prop_map(|text| Some(text.to_vec())),
        1 => Just(Some(vec![])),
        1 => Just(None),
    ]
    .boxed()
}

fn acl_entry() -> BoxedStrategy<Entry> {
    let perms = || select(vec![0, 1, 2, 3, 4, 8, 12, 15, 16, 30, 31, -1]);
    prop_oneof![
        6 => perms().prop_map(|perms| entry(perms, "world", "anyone")),
        4 => perms().prop_map(|perms| entry(perms, "digest", "bob:ikIaKsbtGweaHnb/jKn7OHqbunM=")),
        2 => perms().prop_map(|perms| entry(perms, "auth", "")),
        2 => (perms(), select(KNOWN_IPS.to_vec())).prop_map(|(perms, id)| entry(perms, "ip", id)),
        1 => (perms(), select(vec![
            ("world", "x"), ("digest", "a"), ("digest", "a:b:c"), ("super", ""), ("sasl", "x"), ("ip", "host"), ("", ""),
        ])).prop_map(|(perms, (scheme, id))| entry(perms, scheme, id)),
        1 => (perms(), select(vec![None, Some("auth"), Some("world"), Some("digest"), Some("unknown")]))
            .prop_map(|(perms, scheme)| (perms, scheme.map(str::to_owned), None)),
    ]
    .boxed()
}

fn acl() -> BoxedStrategy<Option<Vec<Entry>>> {
    prop_oneof![
        40 => Just(open()),
        6 => prop::collection::vec(acl_entry(), 1..4).prop_map(Some),
        1 => Just(Some(vec![])),
        1 => Just(None),
    ]
    .boxed()
}

fn version() -> BoxedStrategy<i32> {
    prop_oneof![6 => Just(-1), 4 => Just(-100), 1 => -2..3].boxed()
}

fn single() -> BoxedStrategy<Op> {
    let flags = || prop_oneof![4 => Just(0), 3 => Just(1), 2 => Just(2), 2 => Just(3), 1 => Just(4)];
    let ttl = || prop_oneof![6 => 1_i64..200, 1 => select(vec![0, -1, 1 << 40, (1 << 40) - 1])];
    let kind = prop_oneof![
        10 => (select(vec![1, 1, 15, 19]), flags(), Just(0_i64)),
        2 => (Just(21), 5..7, ttl()),
        1 => (select(vec![1, 15, 19, 21]), -1..9, ttl()),
    ];
    prop_oneof![
        10 => (kind, new_path(), data(), acl()).prop_map(|((code, flags, ttl), path, data, acl)| {
            Op::Create { code, path, data, acl, flags, ttl }
        }),
        6 => (path(), version()).prop_map(|(path, version)| Op::Delete { path, version }),
        6 => (path(), data(), version()).prop_map(|(path, data, version)| Op::SetData { path, data, version }),
    ]
    .boxed()
}

fn element() -> BoxedStrategy<Op> {
    let check = (path(), version()).prop_map(|(path, version)| Op::Check { path, version });
    prop_oneof![10 => single(), 1 => check].boxed()
}

/// A write as a client may send it.
pub(crate) fn op() -> BoxedStrategy<Op> {
    let set_acl = (path(), acl(), version()).prop_map(|(path, acl, version)| Op::SetAcl { path, acl, version });
    let odd = prop_oneof![80 => element(), 1 => Just(Op::SetAcl { path: None, acl: None, version: 0 })];
    prop_oneof![
        20 => single(),
        3 => set_acl,
        6 => prop::collection::vec(odd, 0..5).prop_map(Op::Multi),
        1 => select(vec![1, 2, 5, 7, 15, 19, 21]).prop_map(Op::Garbage),
    ]
    .boxed()
}

fn read() -> BoxedStrategy<ReadOp> {
    let list = || prop::collection::vec(paths(), 0..3);
    let set_watches = (any::<bool>(), 0_i64..20, [list(), list(), list(), list(), list()])
        .prop_map(|(all_five, relative, lists)| ReadOp::SetWatches { all_five, relative, lists });
    prop_oneof![
        4 => (path(), any::<bool>()).prop_map(|(path, watch)| ReadOp::Exists { path, watch }),
        4 => (path(), any::<bool>()).prop_map(|(path, watch)| ReadOp::GetData { path, watch }),
        4 => (path(), any::<bool>(), any::<bool>())
            .prop_map(|(path, watch, with_stat)| ReadOp::GetChildren { path, watch, with_stat }),
        2 => path().prop_map(|path| ReadOp::GetAcl { path }),
        1 => path().prop_map(|path| ReadOp::AllChildrenNumber { path }),
        1 => path().prop_map(|prefix| ReadOp::Ephemerals { prefix }),
        1 => prop::collection::vec((any::<bool>(), path()), 0..4).prop_map(ReadOp::MultiRead),
        5 => (path(), prop_oneof![6 => 0..2, 1 => -1..4]).prop_map(|(path, mode)| ReadOp::AddWatch { path, mode }),
        2 => (path(), 0..7).prop_map(|(path, kind)| ReadOp::CheckWatches { path, kind }),
        2 => (path(), 0..7).prop_map(|(path, kind)| ReadOp::RemoveWatches { path, kind }),
        3 => set_watches,
        1 => path().prop_map(|path| ReadOp::Sync { path }),
        1 => Just(ReadOp::Ping),
    ]
    .boxed()
}

/// Steps, most of them writes.
pub(crate) fn steps(count: usize) -> BoxedStrategy<Vec<Step>> {
    let step = prop_oneof![
        30 => (0..CONNS, op()).prop_map(|(conn, op)| Step::Write(conn, op)),
        15 => (0..CONNS, read()).prop_map(|(conn, read)| Step::Read(conn, read)),
        2 => (0..CONNS).prop_map(Step::Open),
        1 => (0..CONNS).prop_map(Step::Close),
        1 => paths().prop_map(Step::DeleteContainer),
        1 => (0..CONNS).prop_map(Step::DropConn),
        2 => (0_usize..10).prop_map(Step::Apply),
        3 => Just(Step::TellPending),
        3 => (1_i64..100).prop_map(Step::Tick),
        1 => (1_i64..100).prop_map(Step::Reconfig),
    ];
    prop::collection::vec(step, 1..count).boxed()
}
