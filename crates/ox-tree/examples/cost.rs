//! The cost of tree operations: nanoseconds, allocations, and memory per node.
//!
//! `cargo run --release -p ox-tree --example cost [nodes [steps [name]]]`. Each write is prepared, decoded and applied,
//! and its reply is encoded; "busy" keeps a thousand writes in flight. "Near" uses a thousand nodes, "far" all of them.

#![expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use ox_proto::acl::RawAcls;
use ox_proto::jute::Jute;
use ox_proto::multi::{MultiHeader, MultiOp};
use ox_proto::request::{CreateRequest, PathVersion, PathWatch, SetDataRequest};
use ox_proto::txn::{DIGEST_VERSION, Record, TxnDigest, TxnHeader};
use ox_proto::{OpCode, SessionId, Zxid};
use ox_tree::auth::Identities;
use ox_tree::ops::{self, Prepared};
use ox_tree::read::{ReadRequest, Requester, put_reply};
use ox_tree::watch::{EventSink, FiredEvent, WatcherId};
use ox_tree::{PendingChanges, PendingView, State, TreeOptions, WriteStamp, put_write_reply};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use std::alloc::System;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const SESSION: SessionId = SessionId(1);
const PARENTS: usize = 1000;
const DATA: [u8; 100] = [b'x'; 100];

/// No operation of this benchmark registers a watch.
struct NoEvents;

impl EventSink for NoEvents {
    fn event(&mut self, _: &[WatcherId], _: &FiredEvent<'_>) {}
}

/// A server without sockets and disk. A prepared write is applied after `depth` further writes.
struct Bench {
    state: State,
    pending: PendingChanges,
    ids: Identities,
    zxid: i64,
    in_flight: VecDeque<Vec<u8>>,
    spare: Vec<Vec<u8>>,
    depth: usize,
    body: Vec<u8>,
    reply: Vec<u8>,
}

impl Bench {
    fn new() -> Self {
        Self {
            state: State::new(TreeOptions { hash_seed: 42, ..TreeOptions::default() }),
            pending: PendingChanges::default(),
            ids: Identities::of_address([127, 0, 0, 1].into()),
            zxid: 0,
            in_flight: VecDeque::new(),
            spare: Vec::new(),
            depth: 0,
            body: Vec::new(),
            reply: Vec::new(),
        }
    }

    fn write<'a>(&mut self, op: OpCode, request: &impl Jute<'a>) {
        self.body.clear();
        request.put(&mut self.body);
        self.prepare(op);
    }

    fn prepare(&mut self, op: OpCode) {
        self.zxid += 1;
        let stamp = WriteStamp { zxid: Zxid(self.zxid), time_ms: self.zxid, session: SESSION };
        let mut record = self.spare.pop().unwrap_or_default();
        record.clear();
        let header = |kind| TxnHeader { session: SESSION, cxid: 1, zxid: Zxid(self.zxid), time_ms: self.zxid, kind };
        header(0).put(&mut record);
        let mut view = PendingView::new(&self.state, &mut self.pending, &self.ids, stamp);
        let prepared = ops::prepare(&mut view, op, &self.body, &mut record);
        TxnDigest { version: DIGEST_VERSION, tree_digest: view.digest() }.put(&mut record);
        let Prepared::Txn(kind) = prepared else { panic!("refused") };
        assert_ne!(kind, OpCode::Error, "{op:?}");
        record[28..32].copy_from_slice(&kind.code().to_be_bytes());
        self.in_flight.push_back(record);
        while self.depth < self.in_flight.len() {
            self.apply();
        }
    }

    fn apply(&mut self) {
        let Some(bytes) = self.in_flight.pop_front() else { return };
        let record = Record::decode(&bytes).expect("just encoded");
        let outcome = self.state.apply(&record, self.pending.applied(record.header.zxid), &mut NoEvents);
        assert!(!outcome.digest_differs);
        self.reply.clear();
        put_write_reply(&mut self.reply, &record, &outcome.applied);
        self.spare.push(bytes);
    }

    fn set_depth(&mut self, depth: usize) {
        self.depth = depth;
        while depth < self.in_flight.len() {
            self.apply();
        }
    }

    fn create(&mut self, path: &str) {
        let request = CreateRequest { path: Some(path.into()), data: Some(&DATA), acl: RawAcls::OPEN, flags: 0 };
        self.write(OpCode::Create, &request);
    }

    fn delete(&mut self, path: &str) {
        self.write(OpCode::Delete, &PathVersion { path: Some(path.into()), version: -1 });
    }

    fn read(&mut self, op: OpCode, path: &str) {
        self.body.clear();
        PathWatch { path: Some(path.into()), watch: false }.put(&mut self.body);
        self.reply.clear();
        let requester = Requester { watcher: WatcherId::new(0), session: SESSION, ids: &self.ids };
        let _ = put_reply(&self.state, requester, ReadRequest { xid: 1, op, body: &self.body }, &mut self.reply);
    }
}

/// Steps per clock reading: few enough that some batches are not interrupted.
const BATCH: usize = 200;

/// Time per step of the fastest batch, and allocations per step over all batches.
struct Cost {
    nanos: f64,
    allocations: f64,
}

fn time(steps: usize, mut step: impl FnMut(usize)) -> Cost {
    let region = Region::new(ALLOCATOR);
    let mut quickest = Duration::MAX;
    for batch in 0..steps / BATCH {
        let start = Instant::now();
        (batch * BATCH..(batch + 1) * BATCH).for_each(&mut step);
        quickest = quickest.min(start.elapsed());
    }
    let change = region.change();
    let allocations = (change.allocations + change.reallocations) as f64 / steps as f64;
    Cost { nanos: quickest.as_nanos() as f64 / BATCH as f64, allocations }
}

fn print(name: &str, cost: &Cost) {
    println!("{name:<24} {:>8.0} ns {:>8.2} allocations", cost.nanos, cost.allocations);
}

/// Whether the third argument, if given, is a prefix of the name.
fn is_wanted(name: &str) -> bool {
    std::env::args().nth(3).is_none_or(|wanted| name.starts_with(&wanted))
}

fn read(name: &str, bench: &mut Bench, op: OpCode, steps: usize, paths: &[&str]) {
    if !is_wanted(name) {
        return;
    }
    let mut step = |at: usize| bench.read(op, paths[at % paths.len()]);
    (0..BATCH).for_each(&mut step);
    print(name, &time(steps, step));
}

/// Measures writes with no and with a thousand others in flight.
fn write(name: &str, bench: &mut Bench, steps: usize, mut step: impl FnMut(&mut Bench, usize)) {
    for (depth, how) in [(0, "alone"), (1000, "busy")].into_iter().filter(|_| is_wanted(name)) {
        bench.set_depth(depth);
        (0..2000).for_each(|at| step(bench, at));
        print(&format!("{name}, {how}"), &time(steps, |at| step(bench, at)));
        bench.set_depth(0);
    }
}

fn path(at: usize) -> String {
    format!("/bench/parent-{:04}/node-{:07}", at % PARENTS, at)
}

fn resident_bytes() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    let pages: usize = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok()).expect("resident pages");
    pages * 4096
}

fn fill(bench: &mut Bench, nodes: usize) {
    bench.create("/bench");
    for at in 0..PARENTS {
        bench.create(&format!("/bench/parent-{at:04}"));
    }
    for at in 0..nodes {
        bench.create(&path(at));
    }
}

fn set<'a>(path: &'a str, data: &'a [u8]) -> SetDataRequest<'a> {
    SetDataRequest { path: Some(path.into()), data: Some(data), version: -1 }
}

fn main() {
    let nodes: usize = std::env::args().nth(1).and_then(|count| count.parse().ok()).unwrap_or(1_000_000);
    let steps: usize = std::env::args().nth(2).and_then(|count| count.parse().ok()).unwrap_or(400_000);
    let before = resident_bytes();
    let mut bench = Bench::new();
    fill(&mut bench, nodes);
    println!("{nodes} nodes of 100 B under {PARENTS} parents: {} B each", (resident_bytes() - before) / nodes);

    let paths: Vec<String> = (0..nodes).map(path).collect();
    let near: Vec<&str> = (0..1000).map(|at| paths[at * 31 % nodes].as_str()).collect();
    let far: Vec<&str> = (0..nodes).map(|at| paths[at.wrapping_mul(7_654_321) % nodes].as_str()).collect();
    for (place, chosen) in [("near", &near), ("far", &far)] {
        read(&format!("get {place}"), &mut bench, OpCode::GetData, steps, chosen);
        read(&format!("exists {place}"), &mut bench, OpCode::Exists, steps, chosen);
        write(&format!("set {place}"), &mut bench, steps, |bench, at| {
            bench.write(OpCode::SetData, &set(chosen[at % chosen.len()], &DATA[..90 + at % 10]));
        });
    }
    let creates = if is_wanted("create") { steps } else { 0 };
    let new: Vec<String> = (0..creates).map(|at| format!("/bench/parent-{:04}/new-{at:07}", at % PARENTS)).collect();
    for (depth, how) in [(0, "alone"), (1000, "busy")].into_iter().filter(|_| is_wanted("create")) {
        bench.set_depth(depth);
        print(&format!("create, {how}"), &time(steps, |at| bench.create(&new[at])));
        bench.set_depth(depth);
        print(&format!("delete, {how}"), &time(steps, |at| bench.delete(&new[at])));
        bench.set_depth(0);
    }
    let parents: Vec<String> = (0..100).map(|at| format!("/bench/parent-{at:04}")).collect();
    let parents: Vec<&str> = parents.iter().map(String::as_str).collect();
    read("children (1000)", &mut bench, OpCode::GetChildren, steps / 10, &parents);
    write("multi of ten sets", &mut bench, steps / 10, |bench, at| {
        bench.body.clear();
        for element in 0..10 {
            MultiOp::SetData(set(near[(at * 10 + element) % 1000], &DATA)).put(&mut bench.body);
        }
        MultiHeader::END.put(&mut bench.body);
        bench.prepare(OpCode::Multi);
    });
    freeze(&mut bench, &near);
}

/// The cost of a frozen view for writers: creating it, and the first change of each chunk.
fn freeze(bench: &mut Bench, near: &[&str]) {
    let start = Instant::now();
    let frozen = bench.state.freeze();
    println!("freeze of {} nodes in {:.1?}", frozen.node_count(), start.elapsed());
    print("set near, just frozen", &time(1000, |at| bench.write(OpCode::SetData, &set(near[at], &DATA))));
}
