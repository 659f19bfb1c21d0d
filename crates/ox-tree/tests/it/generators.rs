//! Random requests, biased towards collisions.

use crate::harness::{CONNS, Harness, Setup};
use crate::request::{Entry, entry, null_entry, open};
use ox_history::{Create, Op, RequestedAcl};
use ox_proto::{OpCode, Zxid};
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};
use std::hash::{BuildHasher, Hasher};

/// One step of a random test.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Write(usize, Op),
    Read(usize, Op),
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
        2 => (perms(), select(vec!["10.0.0.1", "10.0.0.0/24", "99.0.0.0/8"])).prop_map(|(perms, id)| entry(perms, "ip", id)),
        1 => (perms(), select(vec![
            ("world", "x"), ("digest", "a"), ("digest", "a:b:c"), ("super", ""), ("sasl", "x"), ("ip", "host"), ("", ""),
        ])).prop_map(|(perms, (scheme, id))| entry(perms, scheme, id)),
        1 => (perms(), select(vec![None, Some("auth"), Some("world"), Some("digest"), Some("unknown")]))
            .prop_map(|(perms, scheme)| null_entry(perms, scheme, None)),
    ]
    .boxed()
}

fn acl() -> BoxedStrategy<RequestedAcl> {
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
    use OpCode::{Create as Plain, Create2, CreateContainer, CreateTtl};
    let flags = || prop_oneof![4 => Just(0), 3 => Just(1), 2 => Just(2), 2 => Just(3), 1 => Just(4)];
    let ttl = || prop_oneof![6 => 1_i64..200, 1 => select(vec![0, -1, 1 << 40, (1 << 40) - 1])];
    let kind = prop_oneof![
        10 => (select(vec![Plain, Plain, Create2, CreateContainer]), flags(), Just(0_i64)),
        2 => (Just(CreateTtl), 5..7, ttl()),
        1 => (select(vec![Plain, Create2, CreateContainer, CreateTtl]), -1..9, ttl()),
    ];
    let create = (kind, data(), acl()).prop_map(|((op, flags, ttl_ms), data, acl)| {
        Op::Create(Create { op, path: String::new(), data, acl, flags, ttl_ms })
    });
    let delete = version().prop_map(|version| Op::Delete { path: String::new(), version });
    let set = (data(), version()).prop_map(|(data, version)| Op::SetData { path: String::new(), data, version });
    prop_oneof![10 => at(create, new_path()), 6 => at(delete, path()), 6 => at(set, path())].boxed()
}

/// Requests with these paths.
fn at(op: impl Strategy<Value = Op> + 'static, path: BoxedStrategy<Option<String>>) -> BoxedStrategy<Op> {
    (op, path).prop_map(|(op, path)| op.with_path(path.as_deref())).boxed()
}

fn element() -> BoxedStrategy<Op> {
    let check = version().prop_map(|version| Op::Check { path: String::new(), version });
    prop_oneof![10 => single(), 1 => at(check, path())].boxed()
}

/// A write as a client may send it.
pub(crate) fn op() -> BoxedStrategy<Op> {
    let set_acl = (acl(), version()).prop_map(|(acl, version)| Op::SetAcl { path: String::new(), acl, version });
    let null_acl = Op::SetAcl { path: String::new(), acl: None, version: 0 }.with_path(None);
    let odd = prop_oneof![80 => element(), 1 => Just(null_acl)];
    let broken: Vec<Op> = [1, 2, 5, 7, 15, 19, 21].map(|code| Op::Broken(OpCode::try_from(code).unwrap())).into();
    prop_oneof![
        20 => single(),
        3 => at(set_acl, path()),
        6 => prop::collection::vec(odd, 0..5).prop_map(Op::Multi),
        1 => select(broken),
    ]
    .boxed()
}

/// Reads, and changes of watches.
fn read() -> BoxedStrategy<Op> {
    let none = String::new;
    let list = || prop::collection::vec(paths(), 0..3);
    let set_watches = (select(vec![3, 5]), 0_i64..20, [list(), list(), list(), list(), list()]).prop_map(
        |(count, relative, lists)| Op::SetWatches { relative: Zxid(relative), lists: lists[..count].to_vec() },
    );
    let with_watch = any::<bool>().prop_flat_map(move |watch| {
        prop_oneof![
            4 => Just(Op::Exists { path: none(), watch }),
            4 => Just(Op::GetData { path: none(), watch }),
            2 => Just(Op::GetChildren { path: none(), watch }),
            2 => Just(Op::GetChildren2 { path: none(), watch }),
        ]
    });
    let in_multi =
        select(vec![Op::GetData { path: none(), watch: true }, Op::GetChildren { path: none(), watch: true }]);
    let with_path = prop_oneof![
        12 => with_watch,
        2 => Just(Op::GetAcl { path: none() }),
        1 => Just(Op::GetAllChildrenNumber { path: none() }),
        1 => Just(Op::GetEphemerals { prefix: none() }),
        5 => prop_oneof![6 => 0..2, 1 => -1..4].prop_map(move |mode| Op::AddWatch { path: none(), mode }),
        2 => (0..7).prop_map(move |kind| Op::CheckWatches { path: none(), kind }),
        2 => (0..7).prop_map(move |kind| Op::RemoveWatches { path: none(), kind }),
        1 => Just(Op::Sync { path: none() }),
    ];
    prop_oneof![
        26 => at(with_path, path()),
        1 => prop::collection::vec(at(in_multi, path()), 0..4).prop_map(Op::MultiRead),
        3 => set_watches,
        1 => Just(Op::Ping),
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
