//! Random requests: every operation, mostly on a few paths that all clients share.

use super::Client;
use super::op_mix::{OpKind, OpMix};
use crate::env::Env;
use crate::server::config::member;
use ox_history::{Create, Op, ReconfigOp, RequestedAcl, requested};
use ox_proto::{Acl, OpCode};
use ox_testkit::Rng;

const TOPS: &[&str] = &["/a", "/b", "/c", "/d"];
const NAMES: &[&str] = &["x", "y", "z", "käse", "..."];
const CONFIG: &str = "/zookeeper/config";
const ODD: &[&str] = &["", "/", "/a/", "//", "/a//x", "/./a", "a", "/a\u{0}b", "/zookeeper", CONFIG];

/// A reconfiguration: a server joins, leaves or changes its role, or the whole configuration is replaced.
pub(super) fn change(env: &mut Env) -> Op {
    let (servers, rng) = (env.plan.servers(), &mut env.rng);
    env.coverage.changes += 1;
    let role = |rng: &mut Rng| *rng.pick(&["participant", "participant", "observer"]);
    let mut change = ReconfigOp { from: if rng.chance(30) { 1 } else { -1 }, ..ReconfigOp::default() };
    let one = rng.index(servers);
    match rng.below(3) {
        0 => change.leaving = Some((one + 1).to_string()),
        1 => change.joining = Some(member(one, role(rng))),
        _ => {
            let others = (0..servers).filter(|other| *other != one);
            let mut lines = vec![member(one, "participant")];
            for other in others {
                if rng.chance(800) {
                    lines.push(member(other, role(rng)));
                }
            }
            change.members = Some(lines.join(","));
        }
    }
    Op::Reconfig(change)
}

/// The choices for the next request.
struct RequestDraw<'a> {
    rng: &'a mut Rng,
    op_mix: OpMix,
    known: Vec<&'a str>,
    tops: &'static [&'static str],
    names: &'static [&'static str],
    large_per_mille: u32,
    odd: &'static [&'static str],
}

fn number(rng: &mut Rng, bound: u64) -> i32 {
    i32::try_from(rng.below(bound)).unwrap_or(0)
}

impl RequestDraw<'_> {
    fn top(&mut self) -> String {
        (*self.rng.pick(self.tops)).to_owned()
    }

    fn below(&mut self, parent: &str) -> String {
        format!("{parent}/{}", self.rng.pick(self.names))
    }

    /// A path that existed when the client last read it, or a random one.
    fn path(&mut self) -> String {
        match self.rng.below(100) {
            0..=39 if !self.known.is_empty() => (*self.rng.pick(&self.known)).to_owned(),
            40..=54 if !self.known.is_empty() => {
                let parent = *self.rng.pick(&self.known);
                self.below(parent)
            }
            _ => self.any_path(),
        }
    }

    fn any_path(&mut self) -> String {
        let rng = self.rng.below(100);
        let top = self.top();
        match rng {
            0..=49 => top,
            50..=84 => self.below(&top),
            85..=93 => {
                let parent = self.below(&top);
                self.below(&parent)
            }
            94..=97 => "/".to_owned(),
            _ => (*self.rng.pick(self.odd)).to_owned(),
        }
    }

    fn data(&mut self) -> Option<Vec<u8>> {
        let rng = &mut *self.rng;
        let size = match rng.below(100) {
            0..=3 => return None,
            4..=9 => 0,
            _ if !rng.chance(self.large_per_mille) => rng.index(40),
            10..=79 => rng.index(1_500),
            _ => rng.index(6_000),
        };
        let byte = u8::try_from(rng.below(256)).unwrap_or(0);
        Some(vec![byte; size])
    }

    fn acl(&mut self) -> RequestedAcl {
        requested(&self.acl_entries())
    }

    fn acl_entries(&mut self) -> Vec<Acl> {
        let open = Acl::new(31, "world", "anyone");
        if !self.rng.chance(self.op_mix.private_per_mille) {
            return vec![open];
        }
        match self.rng.below(20) {
            0..=5 => vec![Acl::new(31, "auth", ""), Acl::new(1, "world", "anyone")],
            6..=10 => vec![Acl::new(31, "digest", "bob:ikIaKsbtGweaHnb/jKn7OHqbunM=")],
            11..=13 => vec![Acl::new(31, "ip", "10.0.0.1"), Acl::new(6, "world", "anyone")],
            14..=15 => vec![Acl::new(1, "world", "anyone"), Acl::new(31, "ip", "10.0.0.0/24")],
            16..=17 => vec![open.clone(), open, Acl::new(7, "digest", "eve:x")],
            18 => vec![Acl::new(31, "nonsense", "x")],
            _ => Vec::new(),
        }
    }

    fn version(&mut self) -> i32 {
        if self.rng.chance(500) { -1 } else { number(self.rng, 4) }
    }

    fn create(&mut self) -> Op {
        let op = if self.rng.chance(self.op_mix.special_per_mille) {
            *self.rng.pick(&[OpCode::CreateContainer, OpCode::CreateTtl])
        } else {
            *self.rng.pick(&[OpCode::Create, OpCode::Create2])
        };
        let ephemeral = i32::from(self.rng.chance(self.op_mix.ephemeral_per_mille));
        let sequential = i32::from(self.rng.chance(400));
        let flags = match op {
            _ if self.rng.chance(30) => number(self.rng, 9) - 1,
            OpCode::CreateTtl => 5 + sequential,
            OpCode::CreateContainer => 4 * number(self.rng, 2),
            _ => ephemeral + 2 * sequential,
        };
        let ttl_ms = if self.rng.chance(900) { 1 + self.rng.skewed(3_000) } else { self.rng.between(-2, 0) };
        Op::Create(Create { op, path: self.path(), data: self.data(), acl: self.acl(), flags, ttl_ms })
    }

    fn write(&mut self) -> Op {
        match self.rng.below(100) {
            0..=14 if !self.known.is_empty() => {
                let parent = *self.rng.pick(&self.known);
                Op::Create(Create::open(&self.below(parent), b"child", 0))
            }
            0..=44 => self.create(),
            45..=59 if !self.known.is_empty() => {
                let known = (*self.rng.pick(&self.known)).to_owned();
                Op::SetData { path: known, data: Some(b"still here".to_vec()), version: -1 }
            }
            45..=69 => Op::Delete { path: self.path(), version: self.version() },
            _ => Op::SetData { path: self.path(), data: self.data(), version: self.version() },
        }
    }

    /// A write that probably succeeds.
    fn careful_write(&mut self) -> Op {
        let known = if self.known.is_empty() { "/" } else { *self.rng.pick(&self.known) }.to_owned();
        match self.rng.below(4) {
            0 => Op::Check { path: known, version: -1 },
            1 => Op::SetData { path: known, data: self.data(), version: -1 },
            _ => Op::Create(Create::open(&format!("{}-", self.top()), b"m", 2 + number(self.rng, 2))),
        }
    }

    fn multi(&mut self) -> Op {
        let mut elements = Vec::new();
        let careful = self.rng.chance(600);
        for _ in 0..self.rng.below(5) {
            elements.push(match self.rng.below(100) {
                _ if careful => self.careful_write(),
                0..=14 => Op::Check { path: self.path(), version: self.version() },
                15..=97 => self.write(),
                98 => Op::GetData { path: self.path(), watch: false },
                _ => Op::SetAcl { path: self.path(), acl: self.acl(), version: -1 },
            });
        }
        Op::Multi(elements)
    }

    fn multi_read(&mut self) -> Op {
        let mut elements = Vec::new();
        for _ in 0..self.rng.below(5) {
            let (path, watch) = (self.path(), self.rng.chance(300));
            elements.push(match self.rng.below(100) {
                0..=59 => Op::GetData { path, watch },
                60..=97 => Op::GetChildren { path, watch },
                _ => Op::Delete { path, version: -1 },
            });
        }
        Op::MultiRead(elements)
    }

    fn read(&mut self) -> Op {
        let (path, watch) = (self.path(), self.rng.chance(self.op_mix.watch_per_mille));
        match self.rng.below(100) {
            0..=69 => self.look(path, watch),
            70..=74 => Op::GetAcl { path },
            75..=79 => Op::GetAllChildrenNumber { path },
            80..=84 => Op::GetEphemerals { prefix: (*self.rng.pick(&["", "/", "/a", "/b/"])).to_owned() },
            85..=89 => Op::Sync { path },
            90..=95 => self.multi_read(),
            96..=97 => Op::WhoAmI,
            _ => Op::Ping,
        }
    }

    fn look(&mut self, path: String, watch: bool) -> Op {
        match self.rng.below(7) {
            0..=2 => Op::GetData { path, watch },
            3..=4 => Op::Exists { path, watch },
            5 => Op::GetChildren { path, watch },
            _ => Op::GetChildren2 { path, watch },
        }
    }

    fn authenticate(&mut self) -> Op {
        let users: [&[u8]; 3] = [b"bob:pw", b"eve:pw", b"bob"];
        match self.rng.below(10) {
            0 => Op::Auth { scheme: (*self.rng.pick(&["ip", "sasl", "super"])).to_owned(), auth: Vec::new() },
            1 => Op::Sasl { token: b"token".to_vec() },
            _ => Op::Auth { scheme: "digest".to_owned(), auth: self.rng.pick(&users).to_vec() },
        }
    }

    /// Quotas are ordinary nodes at special paths.
    fn quota(&mut self) -> Op {
        let root = "/zookeeper/quota/a";
        match self.rng.below(3) {
            0 => Op::Create(Create::open(root, b"", 0)),
            1 => Op::Create(Create::open(&format!("{root}/zookeeper_limits"), b"count=5,bytes=100", 0)),
            _ => Op::Create(Create::open(&format!("{root}/zookeeper_stats"), b"", 0)),
        }
    }

    fn odd(&mut self) -> Op {
        let broken = [OpCode::Create, OpCode::SetData, OpCode::Multi, OpCode::GetData, OpCode::SetWatches];
        match self.rng.below(10) {
            0..=2 => Op::Reconfig(ReconfigOp::default()),
            3..=7 => Op::Broken(*self.rng.pick(&broken)),
            _ => Op::Unknown(*self.rng.pick(&[999, 13, 20, -10])),
        }
    }
}

impl Client {
    /// Draws the next request.
    pub(super) fn draw(&mut self, env: &mut Env) -> Op {
        let (tops, names) = (env.plan.tops.clamp(1, TOPS.len()), env.plan.names.clamp(1, NAMES.len()));
        let is_dynamic = env.plan.is_dynamic();
        let to_revisit = self.to_revisit.pop_front().filter(|_| env.rng.chance(700));
        let to_revisit = to_revisit.filter(|path| !is_dynamic || path != CONFIG);
        let mut draw = RequestDraw {
            rng: &mut env.rng,
            op_mix: self.op_mix,
            known: self.known.iter().map(String::as_str).collect(),
            tops: &TOPS[..tops],
            large_per_mille: env.plan.large_per_mille,
            // The configuration node differs between servers during a reconfiguration.
            odd: if is_dynamic { &ODD[..ODD.len() - 1] } else { ODD },
            names: &NAMES[..names],
        };
        if let Some(path) = to_revisit {
            return draw.look(path, true);
        }
        match self.op_mix.draw_kind(draw.rng) {
            OpKind::Write => draw.write(),
            OpKind::Multi => draw.multi(),
            OpKind::SetAcl => Op::SetAcl { path: draw.path(), acl: draw.acl(), version: draw.version() },
            OpKind::Read => draw.read(),
            OpKind::Watch => {
                let watched = self.watches.any(draw.rng);
                watch_op(&mut draw, watched)
            }
            OpKind::Authenticate => draw.authenticate(),
            OpKind::Quota => draw.quota(),
            OpKind::Odd => draw.odd(),
            OpKind::Close => Op::CloseSession,
        }
    }
}

fn watch_op(draw: &mut RequestDraw<'_>, watched: Option<String>) -> Op {
    match (draw.rng.below(100), watched) {
        (0..=14, Some(path)) => Op::CheckWatches { path, kind: number(draw.rng, 7) },
        (15..=29, Some(path)) => Op::RemoveWatches { path, kind: number(draw.rng, 7) },
        (30..=34, _) => Op::RemoveWatches { path: draw.path(), kind: number(draw.rng, 7) },
        _ => {
            // Most changes happen near the root.
            let path = if draw.rng.chance(300) { "/".to_owned() } else { draw.path() };
            Op::AddWatch { path, mode: if draw.rng.chance(950) { number(draw.rng, 2) } else { 2 } }
        }
    }
}
