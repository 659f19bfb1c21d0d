//! What comes to a client's mind: every operation, mostly on a few paths that others use too.

use super::Client;
use crate::dice::Dice;
use crate::env::Env;
use ox_history::{Create, Op};
use ox_proto::{Acl, OpCode};

const TOPS: &[&str] = &["/a", "/b", "/c", "/d"];
const NAMES: &[&str] = &["x", "y", "z", "käse", "..."];
const ODD: &[&str] = &["", "/", "/a/", "//", "/a//x", "/./a", "a", "/a\u{0}b", "/zookeeper", "/zookeeper/config"];

/// What a client chooses paths from.
struct Mind<'a> {
    dice: &'a mut Dice,
    known: Vec<&'a str>,
}

impl Mind<'_> {
    /// A path that was there when the client last looked, or any other.
    fn path(&mut self) -> String {
        match self.dice.below(100) {
            0..=39 if !self.known.is_empty() => (*self.dice.pick(&self.known)).to_owned(),
            40..=54 if !self.known.is_empty() => format!("{}/{}", self.dice.pick(&self.known), self.dice.pick(NAMES)),
            _ => any_path(self.dice),
        }
    }
}

fn any_path(dice: &mut Dice) -> String {
    match dice.below(100) {
        0..=49 => (*dice.pick(TOPS)).to_owned(),
        50..=84 => format!("{}/{}", dice.pick(TOPS), dice.pick(NAMES)),
        85..=93 => format!("{}/{}/{}", dice.pick(TOPS), dice.pick(NAMES), dice.pick(NAMES)),
        94..=96 => "/".to_owned(),
        _ => (*dice.pick(ODD)).to_owned(),
    }
}

fn data(dice: &mut Dice) -> Option<Vec<u8>> {
    let size = match dice.below(100) {
        0..=3 => return None,
        4..=9 => 0,
        10..=89 => dice.index(40),
        90..=97 => dice.index(1_500),
        _ => dice.index(6_000),
    };
    let byte = u8::try_from(dice.below(256)).unwrap_or(0);
    Some(vec![byte; size])
}

fn acl(dice: &mut Dice) -> Vec<Acl> {
    let open = Acl::new(31, "world", "anyone");
    match dice.below(100) {
        0..=84 => vec![open],
        85..=88 => vec![Acl::new(31, "auth", ""), Acl::new(1, "world", "anyone")],
        89..=91 => vec![Acl::new(31, "digest", "bob:ikIaKsbtGweaHnb/jKn7OHqbunM=")],
        92..=93 => vec![Acl::new(31, "ip", "10.0.0.1"), Acl::new(1, "ip", "10.0.0.0/24")],
        94..=95 => vec![Acl::new(1, "world", "anyone")],
        96..=97 => vec![open.clone(), open, Acl::new(7, "digest", "eve:x")],
        98 => vec![Acl::new(31, "nonsense", "x")],
        _ => Vec::new(),
    }
}

fn version(dice: &mut Dice) -> i32 {
    if dice.chance(500) { -1 } else { i32::try_from(dice.below(4)).unwrap_or(0) }
}

fn create(mind: &mut Mind<'_>) -> Op {
    let op = match mind.dice.below(100) {
        0..=49 => OpCode::Create,
        50..=79 => OpCode::Create2,
        80..=89 => OpCode::CreateContainer,
        _ => OpCode::CreateTtl,
    };
    let flags = match (op, mind.dice.below(100)) {
        (OpCode::CreateTtl, 0..=79) => 5 + i32::try_from(mind.dice.below(2)).unwrap_or(0),
        (_, 0..=94) => i32::try_from(mind.dice.below(4)).unwrap_or(0),
        _ => i32::try_from(mind.dice.below(9)).unwrap_or(0) - 1,
    };
    let ttl_ms = if mind.dice.chance(900) { mind.dice.between(1, 3_000) } else { mind.dice.between(-2, 0) };
    Op::Create(Create { op, path: mind.path(), data: data(mind.dice), acl: acl(mind.dice), flags, ttl_ms })
}

fn write(mind: &mut Mind<'_>) -> Op {
    match mind.dice.below(100) {
        0..=44 => create(mind),
        45..=64 => Op::Delete { path: mind.path(), version: version(mind.dice) },
        _ => Op::SetData { path: mind.path(), data: data(mind.dice), version: version(mind.dice) },
    }
}

fn multi(mind: &mut Mind<'_>) -> Op {
    let mut elements = Vec::new();
    for _ in 0..mind.dice.below(5) {
        elements.push(match mind.dice.below(100) {
            0..=14 => Op::Check { path: mind.path(), version: version(mind.dice) },
            15..=97 => write(mind),
            98 => Op::GetData { path: mind.path(), watch: false },
            _ => Op::SetAcl { path: mind.path(), acl: acl(mind.dice), version: -1 },
        });
    }
    Op::Multi(elements)
}

fn multi_read(mind: &mut Mind<'_>) -> Op {
    let mut elements = Vec::new();
    for _ in 0..mind.dice.below(5) {
        let (path, watch) = (mind.path(), mind.dice.chance(300));
        elements.push(match mind.dice.below(100) {
            0..=59 => Op::GetData { path, watch },
            60..=97 => Op::GetChildren { path, watch },
            _ => Op::Delete { path, version: -1 },
        });
    }
    Op::MultiRead(elements)
}

fn read(mind: &mut Mind<'_>) -> Op {
    let (path, watch) = (mind.path(), mind.dice.chance(500));
    match mind.dice.below(100) {
        0..=24 => Op::GetData { path, watch },
        25..=44 => Op::Exists { path, watch },
        45..=54 => Op::GetChildren { path, watch },
        55..=69 => Op::GetChildren2 { path, watch },
        70..=74 => Op::GetAcl { path },
        75..=79 => Op::GetAllChildrenNumber { path },
        80..=84 => Op::GetEphemerals { prefix: (*mind.dice.pick(&["", "/", "/a", "/b/"])).to_owned() },
        85..=89 => Op::Sync { path },
        90..=95 => multi_read(mind),
        96..=97 => Op::WhoAmI,
        _ => Op::Ping,
    }
}

fn authenticate(dice: &mut Dice) -> Op {
    let users: [&[u8]; 3] = [b"bob:pw", b"eve:pw", b"bob"];
    match dice.below(10) {
        0 => Op::Auth { scheme: (*dice.pick(&["ip", "sasl", "super"])).to_owned(), auth: Vec::new() },
        1 => Op::Sasl { token: b"token".to_vec() },
        _ => Op::Auth { scheme: "digest".to_owned(), auth: dice.pick(&users).to_vec() },
    }
}

/// Quotas are ordinary nodes at special places.
fn quota(dice: &mut Dice) -> Op {
    let root = "/zookeeper/quota/a";
    match dice.below(3) {
        0 => Op::Create(Create::open(root, b"", 0)),
        1 => Op::Create(Create::open(&format!("{root}/zookeeper_limits"), b"count=5,bytes=100", 0)),
        _ => Op::Create(Create::open(&format!("{root}/zookeeper_stats"), b"", 0)),
    }
}

impl Client {
    /// The next request.
    pub(super) fn draw(&self, env: &mut Env) -> Op {
        let mind = &mut Mind { dice: &mut env.dice, known: self.known.iter().map(String::as_str).collect() };
        match mind.dice.below(1000) {
            0..=389 => write(mind),
            390..=469 => multi(mind),
            470..=489 => Op::SetAcl { path: mind.path(), acl: acl(mind.dice), version: version(mind.dice) },
            490..=849 => read(mind),
            850..=949 => self.watch_op(mind),
            950..=969 => authenticate(mind.dice),
            970..=974 => Op::Reconfig,
            975..=984 => {
                let broken = [OpCode::Create, OpCode::SetData, OpCode::Multi, OpCode::GetData, OpCode::SetWatches];
                Op::Broken(*mind.dice.pick(&broken))
            }
            985..=987 => Op::Unknown(*mind.dice.pick(&[999, 13, 20, -10])),
            988..=994 => Op::CloseSession,
            _ => quota(mind.dice),
        }
    }

    fn watch_op(&self, mind: &mut Mind<'_>) -> Op {
        let path = match self.watches.any(mind.dice) {
            Some(path) if mind.dice.chance(500) => path,
            _ => mind.path(),
        };
        let dice = &mut *mind.dice;
        let number = |dice: &mut Dice, bound| i32::try_from(dice.below(bound)).unwrap_or(0);
        match dice.below(100) {
            0..=59 => Op::AddWatch { path, mode: if dice.chance(950) { number(dice, 2) } else { 2 } },
            60..=74 => Op::CheckWatches { path, kind: number(dice, 7) },
            _ => Op::RemoveWatches { path, kind: number(dice, 7) },
        }
    }
}
